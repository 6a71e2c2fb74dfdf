// What every backend needs: inputs by name, checks against what a function expects, and the way of a view's
// elements into 4-byte ones.
//     const TensorInfo& info = find_input(signature, "x");
//     check_shape("input", info, view.shape);
//     take_elements("input", info, view, memory);
#pragma once

#include <span>
#include <string>
#include <vector>

#include "anemone/error.h"
#include "anemone/predictor.h"
#include "mil/program.h"
#include "mil/type.h"

namespace anemone {

// "x: tensor fp16 [1, 64, 1..4, 1]; mask: …", for messages.
std::string describe_inputs(const Signature& signature);
std::string describe(const TensorInfo& info);

// Error, with what the function expects, when there is no such input.
const TensorInfo& find_input(const Signature& signature, const std::string& name);
// "the input 'x' is missing", with what the function expects.
Error missing_input(const Signature& signature, const std::string& name);
// The shape is a scalar's: [] or, as Core ML gives it, [1].
bool is_scalar(const TensorInfo& info);

// `what`, here and below: "input" or "state", for messages. Error unless the shape is allowed; [1] is for a
// scalar.
void check_shape(const char* what, const TensorInfo& info, const std::vector<int64_t>& shape);
// The elements as 4-byte ones, dense: floats for floating types, int32 for the others. Error where a value
// does not fit the declared type.
void take_elements(const char* what, const TensorInfo& info, const TensorView& view, void* out);
// The same check for values that are int32 already.
void check_elements(const char* what, const TensorInfo& info, std::span<const int32_t> values);

// 4-byte elements of `type` as they lie there: fp32 for floating types, int32 for the others. A scalar comes
// as [1], as from Core ML.
TensorView view_elements(const Type& type, void* data);

// The classes of a classify operation, in the order of its probabilities; numbers as text.
std::vector<std::string> class_names(const Operation& classify);

}  // namespace anemone
