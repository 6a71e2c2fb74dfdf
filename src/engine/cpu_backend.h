// The CPU engine as a Backend.
//     auto backend = cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 4});
#pragma once

#include <memory>

#include "predict/backend.h"

namespace anemone {

// What it opens shares one pool of threads; of predictors that run at once, one has the pool and the others
// run on their own threads alone.
std::shared_ptr<const Backend> cpu_backend(const PredictOptions& options);

}  // namespace anemone
