// Opset: the generations of MIL, by the OS release that brought them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anemone {

enum class Opset : uint8_t { ios15, ios16, ios17, ios18, ios26 };

struct OpsetInfo {
  Opset opset;
  std::string_view file_name;  // in model.mlmodel: "CoreML8"
  std::string_view text_name;  // in MIL text: "ios18"
  int spec_version;            // Model.specificationVersion that goes with it
  std::string_view systems;    // "iOS 18, macOS 15"
};

const OpsetInfo& opset_info(Opset opset);
// By any of the two names; empty for a name that is not an opset.
std::optional<Opset> opset_from_name(std::string_view name);

}  // namespace anemone
