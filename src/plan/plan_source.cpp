#include <filesystem>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "families/family.h"
#include "plan/known_models.h"
#include "plan/planner.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

bool has_weights(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".safetensors" || extension == ".gguf") return true;
  }
  return false;
}

// What convert copies, or writes from a GGUF file's own values.
uint64_t tokenizer_bytes(const Checkpoint& c) {
  uint64_t total = 0;
  if (c.format() == CheckpointFormat::gguf) {
    for (const GgufValue& v : c.gguf().values())
      if (v.key.starts_with("tokenizer.")) total += v.bytes.size() + v.key.size() + 24;
    return total;
  }
  std::error_code why;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model",
                           "generation_config.json", "special_tokens_map.json", "chat_template.jinja"})
    if (const uint64_t size = fs::file_size(c.folder() / name, why); !why) total += size;
  return total;
}

}  // namespace

PlanSource open_plan_source(const std::string& text) {
  const fs::path path = text;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    if (const KnownModel* known = find_known_model(text)) return {describe(*known), "known model", 0, 0};
    std::string names;
    for (const KnownModel& known : known_models())
      names += (names.empty() ? "" : ", ") + std::string(known.id);
    throw errorf("is neither a file or folder nor a known model")
        .at(text)
        .expected("a checkpoint, a config.json, or one of: " + names);
  }
  const bool folder = fs::is_directory(path, ignored);
  if (folder ? fs::exists(path / "config.json", ignored) && !has_weights(path)
             : path.filename() == "config.json")
    return {describe(Checkpoint::open_config(path)), "config.json", 0, 0};
  const Checkpoint c = Checkpoint::open(path);
  return {describe(c), std::string(c.format_name()), c.stored_bytes(), tokenizer_bytes(c)};
}

}  // namespace anemone
