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

// Working memory that a predictor of this engine holds: arenas of its calls, which all sessions share. 0 for
// other predictors, and before the first call.
uint64_t arena_bytes(const Predictor& predictor);
// Memory of a state that this engine made.
uint64_t state_bytes(const State& state);

}  // namespace anemone
