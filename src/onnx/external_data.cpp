#include "onnx/external_data.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"
#include "onnx/model.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles =
    1 << 12;  // every shard of the largest models has one; a hostile file could name millions

bool inside(const fs::path& folder, const fs::path& file) {
  const auto [at, unused] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return at == folder.end();
}

Error leaves_folder(std::string_view location, std::string_view why) {
  return errorf("the location '{}' of external data {}", onnx_printable(location), why)
      .expected("a file in the folder of the model")
      .hint("put the data beside the model and save it again with that location");
}

}  // namespace

fs::path ExternalData::resolve(std::string_view location) const {
  if (location.empty()) throw Error("external data has no location");
  if (location.find('\0') != std::string_view::npos) throw leaves_folder(location, "has a zero byte");
  const fs::path relative(location);
  if (relative.is_absolute() || location[0] == '/' || location[0] == '\\')
    throw leaves_folder(location, "is absolute");
  for (const fs::path& part : relative)
    if (part == "..") throw leaves_folder(location, "leaves the folder");
  const fs::path path = folder_ / relative;
  std::error_code why;
  const fs::path real = fs::canonical(path, why);
  if (why) return path;  // not there: opening it says so
  const fs::path home = fs::canonical(folder_.empty() ? fs::path(".") : folder_, why);
  if (inside(home, real)) return path;
  if (fs::is_symlink(fs::symlink_status(model_, why)))
    if (fs::canonical(model_, why).parent_path() == real.parent_path()) return path;
  throw leaves_folder(location, "is a link that leaves the folder");
}

std::optional<OnnxTensor::Place> ExternalData::open(const ExternalPlace& place) {
  auto it = open_.find(place.location);
  if (it == open_.end()) {
    if (open_.size() >= kMaxFiles) throw errorf("the model has data in more than {} files", kMaxFiles);
    const fs::path path = resolve(place.location);
    std::error_code why;
    std::shared_ptr<const MappedFile> file;
    if (fs::exists(path, why)) {
      file = MappedFile::open(path);
      files_.push_back(path);
    } else {
      missing_.push_back(onnx_printable(place.location));
    }
    it = open_.emplace(std::string(place.location), std::move(file)).first;
  }
  if (!it->second) return std::nullopt;
  const MappedFile& file = *it->second;
  const uint64_t length = place.length ? *place.length : file.size() - std::min(place.offset, file.size());
  return OnnxTensor::Place{it->second, nullptr, file.slice(place.offset, length, "external data")};
}

}  // namespace anemone
