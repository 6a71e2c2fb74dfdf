// The files of the checkpoint that comes with anemone, as they lie in models/privacy-small/checkpoint.
//     for (const ShippedFile& file : shipped_files()) write(file.name, file.bytes);
#pragma once

#include <array>
#include <string_view>

namespace anemone::redact {

struct ShippedFile {
  const char* name;
  std::string_view bytes;
};

std::array<ShippedFile, 4> shipped_files();

}  // namespace anemone::redact
