#include "hub/resolve.h"

#include "base/error.h"
#include "hub/repository.h"

namespace anemone::hub {

namespace fs = std::filesystem;

bool is_remote_name(const std::string& text, const Settings& settings) {
  std::error_code ignored;
  return !fs::exists(fs::symlink_status(text, ignored)) && parse_name(text, settings.endpoint).has_value();
}

Resolved resolve(const std::string& name, const ResolveOptions& options) {
  if (!is_remote_name(name, options.settings)) {
    if (!options.revision.empty())
      throw Error("--revision is for models of a hub, and this is a path").at(name);
    Resolved out;
    out.path = name;
    return out;
  }
  ModelName model = *parse_name(name, options.settings.endpoint);
  if (auto* url = std::get_if<FileUrl>(&model)) {
    if (!options.revision.empty())
      throw Error("--revision is for models of a hub, and this is a file of another host").at(name);
    return resolve_url(*url, options);
  }
  auto& repo = std::get<RepoName>(model);
  if (!options.revision.empty()) {
    if (!repo.revision.empty() && repo.revision != options.revision)
      throw errorf("the name says revision '{}', and --revision says '{}'", repo.revision, options.revision)
          .at(name);
    expect_inner_path(options.revision, "--revision");
    repo.revision = options.revision;
  }
  return resolve_repository(repo, options);
}

fs::path resolve_model(const std::string& name, const ResolveOptions& options) {
  return resolve(name, options).path;
}

}  // namespace anemone::hub
