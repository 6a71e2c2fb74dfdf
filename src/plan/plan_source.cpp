#include <filesystem>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "families/family.h"
#include "plan/known_models.h"
#include "plan/planner.h"
#include "text/tokenizer_export.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

uint64_t tokenizer_bytes(const Checkpoint& c) {
  uint64_t total = 0;
  for (const TokenizerFile& file : c.tokenizer().files) total += file.bytes;
  try {
    for (const TokenizerFile& file : exported_tokenizer(c)) total += file.bytes;
  } catch (const Error&) {  // a bundle goes without, and convert says why
  }
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
    throw errorf("is not a file, a folder or a known model")
        .at(text)
        .expected("a checkpoint, a config.json, or one of: " + names);
  }
  const bool folder = fs::is_directory(path, ignored);
  if (folder ? fs::exists(path / "config.json", ignored) && !Checkpoint::recognises(path)
             : path.filename() == "config.json")
    return {describe(Checkpoint::open_config(path)), "config.json", 0, 0};
  const Checkpoint c = Checkpoint::open(path);
  return {describe(c), std::string(c.format_name()), c.stored_bytes(), tokenizer_bytes(c)};
}

}  // namespace anemone
