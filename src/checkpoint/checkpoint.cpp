#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/file_format.h"
#include "checkpoint/hugging_face.h"

namespace anemone {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Checkpoint Checkpoint::open(const fs::path& path) {
  return Checkpoint(choose_format(path, all_file_formats()).open(path));
}

bool Checkpoint::recognises(const fs::path& path) {
  std::error_code ignored;
  const auto formats = all_file_formats();
  return fs::exists(path, ignored) && std::any_of(formats.begin(), formats.end(), [&](const FileFormat* f) {
           return f->claim(path) != Claim::none;
         });
}

Checkpoint Checkpoint::open_config(const fs::path& path) { return Checkpoint(open_config_only(path)); }

Checkpoint Checkpoint::from_config(Json config, std::string name) {
  return Checkpoint(anemone::config_only(std::move(config), std::move(name)));
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const std::string& name : {reader_->facts().architecture, reader_->facts().model_type})
    if (!name.empty()) names.push_back(name);
  return names;
}

std::optional<Json> Checkpoint::value(std::string_view key) const { return reader_->value(key); }

std::optional<Json> Checkpoint::companion(const std::string& file) const { return reader_->companion(file); }

const TensorReader& Checkpoint::tensor(std::string_view name) const {
  const TensorReader* found = find(name);
  if (!found)
    throw errorf("there is no tensor '{}'", printable(name))
        .at(path().string())
        .found(fmt::format("{} others", tensors().size()))
        .hint("is this really the kind of model that the file names?");
  return *found;
}

uint64_t Checkpoint::stored_bytes() const {
  uint64_t total = 0;
  for (const TensorReader& tensor : tensors()) total += tensor.stored_bytes();
  return total;
}

}  // namespace anemone
