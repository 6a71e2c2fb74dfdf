// RepoCache: a repository in the cache that huggingface_hub keeps; its tools find what we put there, and we what they
// did. Checked against huggingface_hub 2.4.
//
//     models--owner--repo/refs/main                     the commit that a branch or tag was at
//     models--owner--repo/blobs/HASH                    a file: SHA-256 of large ones, git's hash of small ones
//     models--owner--repo/blobs/HASH.incomplete         the beginning of one; the next download goes on from there
//     models--owner--repo/snapshots/COMMIT/config.json  a link: ../../blobs/HASH
//     .locks/models--owner--repo/HASH.lock              flock(2): one program downloads a blob at a time
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hub/http.h"

namespace anemone::hub {

class RepoCache {
 public:
  RepoCache(const std::filesystem::path& hub_cache, const std::string& repo_id);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(const std::string& hash) const { return folder_ / "blobs" / hash; }
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }
  std::filesystem::path lock_file(const std::string& hash) const { return locks_ / (hash + ".lock"); }
  // Whether the file is there, whole; a link to a blob that was removed is not.
  bool holds(const std::string& commit, const std::string& file) const;

  // The commit of a branch or tag as it was last seen; of a commit itself. Nothing where it never was.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void set_commit(const std::string& revision, const std::string& commit) const;
  // Gives a blob its name in a snapshot.
  void link(const std::string& commit, const std::string& file, const std::string& hash) const;
  // All files of a snapshot, by their paths in it.
  std::vector<std::string> files(const std::string& commit) const;

 private:
  std::filesystem::path folder_, locks_;
};

// Held from construction to destruction; waits, and says so, while another program has it.
class FileLock {
 public:
  FileLock(const std::filesystem::path& path, const HttpClient& http);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_ = -1;
};

// 40 hexadecimal digits.
bool is_commit(const std::string& text);

// "owner/repo" of a path in a snapshot of such a cache, with @COMMIT unless main is there, and the file's path;
// otherwise the path as it is. What people would type for it.
std::string shown_name(const std::filesystem::path& path);

}  // namespace anemone::hub
