// What every Predictor needs: the signature of a function and the way of arrays into and out of the engine's
// elements.
#pragma once

#include <string>
#include <vector>

#include "anemone/predictor.h"
#include "mil/type.h"

namespace anemone {

// "x: tensor fp16 [1, 64, 1..4, 1]; mask: …", for messages.
std::string describe_inputs(const Signature& signature);
std::string describe(const TensorInfo& info);

// Checks an array against the "input" or "state" it is for and converts it to 4-byte elements of `type` (whose
// flexible dimensions are set from the array).
std::vector<uint32_t> take_tensor(const char* what, const TensorInfo& info, const Array& array, Type& type);

// Elements back to an array: fp32 for floating types, int32 for the others. A scalar comes as [1], as from
// Core ML.
Array give_output(const Type& type, const void* data);

}  // namespace anemone
