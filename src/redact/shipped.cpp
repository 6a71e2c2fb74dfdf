#include "redact/shipped.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "convert/convert.h"
#include "redact/shipped_files.h"

namespace anemone::redact {
namespace {

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out)
    throw errorf("cannot be written: the model needs a place for temporary files")
        .at(path.string())
        .hint("free some space, or set TMPDIR to another folder");
}

}  // namespace

ShippedModel::ShippedModel() {
  std::error_code problem;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(problem);
  if (problem) throw errorf("there is no folder for temporary files").hint("set TMPDIR to one");
  const std::string name = fmt::format("anemone-{}-{:08x}", ::getpid(), std::random_device()());
  folder_ = std::make_unique<StagedOutput>(temporary / name, false);
  folder_->make_folder("checkpoint");
  for (const ShippedFile& file : shipped_files()) write_file(checkpoint() / file.name, file.bytes);
}

// Most texts are short, and long ones need room for what a token sees to each side: 6 layers of 64 tokens.
std::vector<int64_t> ShippedModel::lengths() { return {32, 64, 128, 256, 512, 1024, 2048, 4096}; }

std::filesystem::path ShippedModel::bundle(int64_t length) const {
  const std::filesystem::path path = folder_->path() / fmt::format("bundle-{}", length);
  ConvertOptions options;
  options.tokens = {{length, length}};
  options.precision = Precision::fp16;
  options.threads = 1;
  options.overwrite = true;
  convert(checkpoint(), path, options);
  return path;
}

}  // namespace anemone::redact
