#include "mil/opset.h"

namespace anemone {
namespace {

constexpr OpsetInfo kOpsets[] = {
    {Opset::ios15, "CoreML5", "ios15", 6, "iOS 15, macOS 12"},
    {Opset::ios16, "CoreML6", "ios16", 7, "iOS 16, macOS 13"},
    {Opset::ios17, "CoreML7", "ios17", 8, "iOS 17, macOS 14"},
    {Opset::ios18, "CoreML8", "ios18", 9, "iOS 18, macOS 15"},
    {Opset::ios26, "CoreML9", "ios26", 10, "iOS 26, macOS 26"},
};

}  // namespace

const OpsetInfo& opset_info(Opset opset) { return kOpsets[static_cast<int>(opset)]; }

std::optional<Opset> opset_from_name(std::string_view name) {
  for (const OpsetInfo& info : kOpsets)
    if (info.file_name == name || info.text_name == name) return info.opset;
  return std::nullopt;
}

}  // namespace anemone
