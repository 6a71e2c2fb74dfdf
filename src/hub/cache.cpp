#include "hub/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/staged.h"

namespace anemone::hub {
namespace {

namespace fs = std::filesystem;

// "owner/repo" → "models--owner--repo".
std::string folder_name(const std::string& repo_id) {
  std::string out = "models--";
  for (const char c : repo_id) out += c == '/' ? "--" : std::string(1, c);
  return out;
}

void make_folders(const fs::path& folder) {
  std::error_code why;
  fs::create_directories(folder, why);
  if (why)
    throw errorf("the folder cannot be made: {}", why.message())
        .at(folder.string())
        .hint("HF_HOME or HF_HUB_CACHE says where the cache is");
}

std::string first_word_of(const fs::path& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

}  // namespace

RepoCache::RepoCache(const fs::path& hub_cache, const std::string& repo_id)
    : folder_(fs::absolute(hub_cache).lexically_normal() / folder_name(repo_id)),
      locks_(fs::absolute(hub_cache).lexically_normal() / ".locks" / folder_name(repo_id)) {}

bool RepoCache::holds(const std::string& commit, const std::string& file) const {
  std::error_code ignored;
  return fs::is_regular_file(snapshot(commit) / file, ignored);  // follows the link
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const std::string commit = first_word_of(folder_ / "refs" / revision);
  return is_commit(commit) ? std::optional(commit) : std::nullopt;
}

void RepoCache::set_commit(const std::string& revision, const std::string& commit) const {
  if (revision == commit || first_word_of(folder_ / "refs" / revision) == commit) return;
  const fs::path ref = folder_ / "refs" / revision;
  make_folders(ref.parent_path());
  StagedOutput staged(ref, true);
  std::ofstream out(staged.path(), std::ios::binary);
  out << commit;  // without a line break, as huggingface_hub reads it
  out.close();
  if (!out) throw Error("cannot be written").at(ref.string());
  staged.commit();
}

void RepoCache::link(const std::string& commit, const std::string& file, const std::string& hash) const {
  const fs::path pointer = snapshot(commit) / file;
  make_folders(pointer.parent_path());
  std::error_code why;
  fs::remove(pointer, why);  // a link to a blob that is gone
  const fs::path target = blob(hash).lexically_relative(pointer.parent_path());
  fs::create_symlink(target, pointer, why);
  if (!why || (why == std::errc::file_exists && holds(commit, file))) return;
  // A disk without links: the file itself, as huggingface_hub does.
  fs::rename(blob(hash), pointer, why);
  if (why) throw errorf("cannot be put in place: {}", why.message()).at(pointer.string());
}

std::vector<std::string> RepoCache::files(const std::string& commit) const {
  std::vector<std::string> out;
  std::error_code why;
  const fs::path root = snapshot(commit);
  for (auto at = fs::recursive_directory_iterator(root, why);
       !why && at != fs::recursive_directory_iterator(); at.increment(why)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) out.push_back(at->path().lexically_relative(root).generic_string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

FileLock::FileLock(const fs::path& path, const HttpClient& http) {
  make_folders(path.parent_path());
  bool said = false;
  while (true) {
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (file_ < 0) throw errorf("cannot be opened: {}", std::strerror(errno)).at(path.string());
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;  // a disk without locks: renaming keeps files whole
      if (!std::exchange(said, true)) http.note("another program downloads the same file: waiting for it");
      while (::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
      }
    }
    // Whoever had it may have removed the file; then others lock the new one.
    struct stat ours {
    }, there{};
    if (::fstat(file_, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino)
      return;
    ::close(file_);
  }
}

FileLock::~FileLock() { ::close(file_); }

bool is_commit(const std::string& text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string shown_name(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  fs::path file;
  for (fs::path at = whole; at.has_relative_path(); file = at.filename() / file, at = at.parent_path()) {
    const fs::path snapshots = at.parent_path(), repo = snapshots.parent_path();
    constexpr std::string_view kPrefix = "models--";
    std::string id = repo.filename().string();
    if (snapshots.filename() != "snapshots" || !id.starts_with(kPrefix) || !is_commit(at.filename().string()))
      continue;
    id.erase(0, kPrefix.size());
    const size_t dashes = id.find("--");
    if (dashes == id.npos)
      id.insert(0, "hf:");  // without an owner
    else
      id.replace(dashes, 2, "/");
    const std::string commit = at.filename().string();
    if (first_word_of(repo / "refs" / "main") != commit) id += "@" + commit;
    const std::string inside = file.generic_string();
    return inside.empty() ? id : id + "/" + inside.substr(0, inside.find_last_not_of('/') + 1);
  }
  return path.string();
}

}  // namespace anemone::hub
