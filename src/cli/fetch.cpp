// `anemone fetch`: downloads a model, and says where it is.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/paths.h"
#include "base/staged.h"
#include "cli/command.h"
#include "cli/download.h"
#include "cli/format.h"
#include "cli/source.h"
#include "hub/download.h"

namespace anemone::cli {
namespace {

namespace fs = std::filesystem;

struct Args {
  std::string name, output;
  DownloadFlags download;
};

// The files themselves, not links into the cache: all of them or none. The path in the new place.
fs::path copied(const hub::Resolved& model, const fs::path& output) {
  uint64_t bytes = 0;
  for (const auto& file : model.files) bytes += file.bytes;
  hub::expect_room(fs::absolute(output).parent_path(), bytes, output.string());
  StagedOutput staged(output, false);
  for (const auto& file : model.files) {
    staged.make_folder(fs::path(file.name).parent_path());
    std::error_code why;
    fs::copy_file(model.folder / file.name, staged.path() / file.name, why);
    if (why) throw errorf("cannot be written: {}", why.message()).at((output / file.name).string());
  }
  staged.commit();
  const fs::path inside = model.path.lexically_relative(model.folder);
  return inside == "." ? output : output / inside;
}

void expect_new(const std::string& output) {
  std::error_code ignored;
  if (!output.empty() && fs::exists(fs::symlink_status(output, ignored)))
    throw Error("is there already").at(output).hint("remove it, or give another name");
}

int run_fetch(const Args& args, const Common& common) {
  expect_new(args.output);
  hub::Resolved model = args.download.resolve(args.name, hub::Need::everything, common);
  if (model.folder.empty()) {
    expect_path(args.name);
    if (!args.output.empty()) throw Error("is a path: nothing has to be downloaded").at(args.name);
  }
  if (!args.output.empty()) model.path = copied(model, args.output);
  if (!common.json) {
    fmt::print("{}\n", model.path.string());
    return 0;
  }
  nlohmann::ordered_json out = {{"path", model.path.string()}, {"files", nlohmann::ordered_json::array()}};
  if (!model.repository.empty()) {
    out["repository"] = model.repository;
    out["commit"] = model.commit;
  }
  for (const auto& file : model.files)
    out["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"downloaded", file.downloaded}});
  fmt::print("{}\n", json_text(out, 2));
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone fetch Qwen/Qwen3-0.6B\n"
    "  anemone fetch HuggingFaceTB/SmolLM2-135M-Instruct --revision main --output smol-source";

}  // namespace

extern const Command kFetch{
    "fetch", "Download a model of the hub, and say where it is", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional(
          "NAME", args->name,
          "OWNER/REPO, OWNER/REPO@REVISION, OWNER/REPO/FILE.gguf, or https://HOST/FILE.gguf; a path that "
          "exists is given back");
      o.text("-o,--output", "FOLDER", args->output, "also put the files there, apart from the shared cache")
          .writes();
      args->download.declare_always(o);
      return [args](const Common& common) { return run_fetch(*args, common); };
    }};

}  // namespace anemone::cli
