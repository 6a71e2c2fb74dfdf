// The CPU engine as a Predictor.
#pragma once

#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "package/package.h"
#include "predict/predictor.h"

namespace anemone {

// `pool` may be shared by predictors that never run at once (the shards of a bundle); empty: one of its own.
std::unique_ptr<Predictor> make_cpu_predictor(std::shared_ptr<const Package> package,
                                              const std::string& function, const PredictOptions& options,
                                              std::shared_ptr<ThreadPool> pool = nullptr);

}  // namespace anemone
