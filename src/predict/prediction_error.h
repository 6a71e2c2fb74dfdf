// PredictionError: a device refused or broke off a prediction. Nothing was wrong with what it was given, and the same
// may work when it is asked again.
//     throw PredictionError(errorf("a prediction failed").found(words_of_core_ml));
#pragma once

#include <utility>

#include "anemone/error.h"

namespace anemone {

class PredictionError : public Error {
 public:
  explicit PredictionError(Error what) : Error(std::move(what)) {}
};

}  // namespace anemone
