// resolve_model: a model by its name, downloaded where this machine does not have it yet.
//     fs::path model = resolve_model("Qwen/Qwen3-0.6B", {});            // …/models--Qwen--Qwen3-0.6B/snapshots/c1899…
//     fs::path model = resolve_model("demo.gguf", {});                  // demo.gguf: a path that exists wins
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/choice.h"
#include "hub/settings.h"

namespace anemone::hub {

struct Progress {
  std::string file;
  uint64_t done = 0, total = 0;  // bytes of all files, with what was there before
};

struct ResolveOptions {
  Settings settings = Settings::from_environment();
  Need need = Need::everything;
  std::string revision;  // branch, tag or commit; empty: what the name says, or main
  std::function<void(const Progress&)> progress = {};
  Note note = {};
};

struct Resolved {
  struct File {
    std::string name;
    uint64_t bytes = 0;
    bool downloaded = false;  // now; otherwise it was there
  };

  std::filesystem::path path;  // what to open: a folder or a file
  std::string repository;      // empty: not of a hub
  std::string commit;
  std::filesystem::path folder;  // where the files lie
  std::vector<File> files;       // by their paths in it
};

// Whether the text names a model somewhere else: nothing stands at such a path here, and it has the form of a name.
bool is_remote_name(const std::string& text, const Settings& settings);

// Error that says what to do, where the model cannot be had. A path comes back as it is, whether something stands there
// or not.
Resolved resolve(const std::string& name, const ResolveOptions& options);
std::filesystem::path resolve_model(const std::string& name, const ResolveOptions& options);

}  // namespace anemone::hub
