// Models by name: verbs that take a checkpoint take one of the hub as well. Its name becomes the path of what was
// downloaded before the verb sees it.
//     DownloadFlags flags;
//     flags.declare(options);                          // --revision and --offline, where the verb takes a model
//     flags.resolve_names("convert", options, common); // args->model: …/models--Qwen--Qwen3-0.6B/snapshots/c1899…
#pragma once

#include <string>
#include <string_view>

#include "cli/options.h"
#include "hub/resolve.h"

namespace anemone::cli {

struct Common;

struct DownloadFlags {
  std::string revision;
  bool offline = false;

  // The flags, unless the verb takes no checkpoint.
  void declare(Options& o);
  // The same, whatever the verb takes.
  void declare_always(Options& o);
  // Puts paths in the places of names. Error where a verb that takes bundles alone is given a name, and how to convert.
  void resolve_names(std::string_view verb, const Options& options, const Common& common) const;
  // Downloads, with a progress line on a terminal.
  hub::Resolved resolve(const std::string& name, hub::Need need, const Common& common) const;
};

}  // namespace anemone::cli
