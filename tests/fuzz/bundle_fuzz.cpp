// bundle.json: any bytes are read or refused, and what is read is written back the same.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "bundle/bundle_info.h"

using namespace anemone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("anemone_fuzz_bundle_" + std::to_string(::getpid()));
  const auto read = [](const char* bytes, size_t count) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / kBundleFile, std::ios::binary).write(bytes, static_cast<std::streamsize>(count));
    return BundleInfo::read(folder);
  };
  BundleInfo info;
  try {
    info = read(reinterpret_cast<const char*>(data), size);
  } catch (const Error&) {
    return 0;
  }
  const std::string text = info.json();
  if (read(text.data(), text.size()).json() != text) std::abort();
  return 0;
}
