// ModelName: how people name a model that is not on this machine.
//
// | name | what it is |
// |---|---|
// | owner/repo | a repository of the hub |
// | owner/repo@revision | the same at a branch, a tag or a commit |
// | owner/repo/path/file.gguf | one file of it; also a folder |
// | hf:owner/repo | the same, where a name could be taken for something else; hf:gpt2 has no owner |
// | https://huggingface.co/owner/repo/resolve/REVISION/file | as copied from the page: also /blob/ and /tree/ |
// | https://host/model.gguf | a file anywhere |
#pragma once

#include <optional>
#include <string>
#include <variant>

namespace anemone::hub {

struct RepoName {
  std::string id;        // "owner/repo"
  std::string revision;  // empty: not said
  std::string path;      // of a file or folder in it; empty: the repository
};

struct FileUrl {
  std::string url;
};

using ModelName = std::variant<RepoName, FileUrl>;

// Nothing for what is no such name: a path, whether something stands there or not. Does not look at the disk, but
// for a folder called like the owner: then "owner/repo" is a path in it. Error for a name that is broken.
std::optional<ModelName> parse_name(const std::string& text, const std::string& endpoint);

// Error unless `path` stays inside the folder that it is joined to: names come from the net. `where` for the message.
void expect_inner_path(const std::string& path, const std::string& where);

// "owner/repo", with @revision and path where they are said.
std::string name_text(const RepoName& name);

}  // namespace anemone::hub
