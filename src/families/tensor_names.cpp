#include "families/tensor_names.h"

#include "base/error.h"

namespace anemone {

TensorNames::TensorNames(const Checkpoint& checkpoint, const NameParts& parts)
    : prefix_(parts.prefixes.front()) {
  for (const char* prefix : parts.prefixes)
    if (checkpoint.find(std::string(prefix) + parts.embedding + ".weight")) {
      prefix_ = prefix;
      break;
    }
  const std::string layer = parts.layer;
  const size_t number = layer.find("{}");
  ANEMONE_CHECK(number != std::string::npos);
  before_number_ = prefix_ + layer.substr(0, number);
  after_number_ = layer.substr(number + 2);
}

std::string TensorNames::operator()(size_t layer, const char* part) const {
  return before_number_ + std::to_string(layer) + after_number_ + part;
}

}  // namespace anemone
