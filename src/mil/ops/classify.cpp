// classify: the last operation of a classifier.
// At run time its outputs are plain elements, which the predictor turns into a label and a dictionary with
// the help of the constant `classes`:
//   the label       one int32: the index of the best class in `classes`; the declared type (string or int64)
//   stays the dictionary  the probabilities in the order of `classes`; its type has the shape [number of
//   classes]
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "mil/op.h"

namespace anemone::ops {
namespace {

// The number of classes, as the constant holds them.
int64_t class_count(const OpCall& c) {
  const Constant* classes = c.constant("classes");
  if (!classes) throw errorf("'classes' must be a constant");
  if (const auto* items = std::get_if<Constant::Items>(&classes->data))
    return static_cast<int64_t>(items->size());
  if (const auto* names = std::get_if<Constant::Strings>(&classes->data))
    return static_cast<int64_t>(names->size());
  return static_cast<int64_t>(classes->bytes().size() / sizeof(int64_t));
}

Types infer(const OpCall& c) {
  const Type& probabilities = c.type("probabilities");
  const Type& label = c.type("classes").items[0];
  if (!label.is_tensor() || (label.dtype != DType::string && label.dtype != DType::int64))
    throw errorf("'classes' must be a list of strings or int64 numbers").found(c.type("classes").text());
  const int64_t count = class_count(c);
  if (count < 1) throw errorf("'classes' is empty");
  if (probabilities.fixed() && probabilities.size() != count)
    throw errorf("there must be one probability for each class")
        .found(fmt::format("{} for {} classes", probabilities.text(), count));
  Type dict;
  dict.kind = Type::Kind::dict;
  dict.items = {Type::tensor(label.dtype), Type::tensor(DType::fp64)};
  dict.shape = {count};
  return {Type::tensor(label.dtype), dict};
}

void run(const OpCall& c) {
  const float* p = c.floats("probabilities");
  const int64_t count = c.out_type(1).size();
  if (c.type("probabilities").size() != count) throw errorf("there must be one probability for each class");
  c.out_ints(0)[0] = static_cast<int32_t>(std::max_element(p, p + count) - p);
  std::memcpy(c.out(1), p, static_cast<size_t>(count) * 4);
}

const Op kOps[] = {
    {"classify",
     {{Opset::ios15, {{"probabilities", kFloat}, {"classes", kAnyDType, 0, kList | kConst}}}},
     "the label of the most probable class, and the probability of each class",
     infer,
     run},
};

}  // namespace

std::span<const Op> ops_classify() { return kOps; }

}  // namespace anemone::ops
