#include <sys/statvfs.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/staged.h"
#include "base/thread_pool.h"
#include "package/manifest.h"
#include "package/mil_codec.h"
#include "package/package.h"
#include "package/weight_layout.h"
#include "package/weight_places.h"
#include "package/weight_writer.h"
#include "package/wire.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

// Protobuf readers take no message above 2 GiB.
constexpr uint64_t kMaxModelBytes = 0x7fffffff;

int version_of(const Package& package) {
  int version = package.spec_version;
  if (version == 0)
    for (const auto& function : package.program.functions)
      version = std::max(version, opset_info(function->opset).spec_version);
  return version;
}

std::string encode_model(const Package& package, const WeightLayout& layout) {
  wire::Message out;
  out.integer(1, version_of(package));
  out.data(2, encode_description(package.description));
  out.data(502,
           encode_program(package.program, [&](const Constant& constant) { return layout.place(constant); }));
  out.raw(package.extra);
  if (out.bytes().size() > kMaxModelBytes)
    throw Error("the program is too large for readers of protobuf")
        .found(fmt::format("{} bytes", out.bytes().size()));
  return std::move(out).bytes();
}

void check_space(const fs::path& folder, uint64_t need) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return;  // unknown: the write itself reports it
  const uint64_t have = uint64_t{info.f_bavail} * info.f_frsize;
  if (have < need)
    throw Error("there is not enough disk space")
        .at(folder.string())
        .found(fmt::format("{} MB free", have >> 20))
        .expected(fmt::format("{} MB", (need >> 20) + 1));
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw Error("cannot be written").at(path.string());
}

// A UUID made from the content, so that the same package has the same identifiers.
std::string identifier(std::string_view content, uint64_t seed) {
  XXH128_hash_t hash = XXH3_128bits_withSeed(content.data(), content.size(), seed);
  hash.high64 = (hash.high64 & ~uint64_t{0xf000}) | 0x8000;              // version 8: our own scheme
  hash.low64 = (hash.low64 & ~(uint64_t{3} << 62)) | uint64_t{2} << 62;  // the usual variant
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", hash.high64 >> 32, hash.high64 >> 16 & 0xffff,
                     hash.high64 & 0xffff, hash.low64 >> 48, hash.low64 & 0xffffffffffff);
}

Manifest make_manifest(const Package& package, std::string_view model) {
  Manifest out;
  const std::string author(kManifestAuthor);
  out.root_identifier = identifier(model, 1);
  out.items[out.root_identifier] = {author, "CoreML Model Specification", "model.mlmodel",
                                    "com.apple.CoreML/model.mlmodel"};
  out.items[identifier(model, 2)] = {author, "CoreML Model Weights", "weights", "com.apple.CoreML/weights"};
  uint64_t seed = 3;
  for (const PackageItem& item : package.items)
    out.items[identifier(model, seed++)] = {item.author, item.description, item.name, item.path};
  return out;
}

void copy_items(const Package& package, StagedOutput& staged) {
  for (const PackageItem& item : package.items) {
    const fs::path to = fs::path("Data") / item.path;
    staged.make_folder(to.parent_path());
    std::error_code why;
    fs::copy(item.source, staged.path() / to, fs::copy_options::recursive | fs::copy_options::skip_symlinks,
             why);
    if (why)
      throw errorf("the item '{}' cannot be copied: {}", item.path, why.message()).at(item.source.string());
  }
}

}  // namespace

WriteReport write_package(const Package& package, const fs::path& path, const WriteOptions& options) {
  const fs::path named = path.has_filename() ? path : path.parent_path();
  if (named.extension() != ".mlpackage")
    throw Error("is not a name for a package").at(path.string()).expected("a name that ends in .mlpackage");
  if (package.partial) throw errorf("only one function of '{}' was read", package.path.string());
  std::optional<ThreadPool> own;
  ThreadPool& pool = options.pool ? *options.pool : own.emplace();
  StagedOutput staged(named, options.overwrite);

  const WeightLayout layout = lay_out_weights(package.program, version_of(package), pool);
  const std::string model = encode_model(package, layout);
  check_space(staged.target().parent_path(), layout.file_bytes + model.size() + 65536);

  const fs::path folder = staged.path() / "Data" / kManifestAuthor;
  staged.make_folder(fs::path(kWeightFile).parent_path());
  // Also when it holds no blob: an empty folder would not survive git.
  write_weights(layout, staged.path() / kWeightFile, pool);
  copy_items(package, staged);
  write_file(folder / "model.mlmodel", model);
  write_file(staged.path() / "Manifest.json", manifest_text(make_manifest(package, model)));
  staged.commit();
  return {layout.file_bytes, layout.blobs.size(), layout.shared, weight_places(package.program, layout)};
}

}  // namespace anemone
