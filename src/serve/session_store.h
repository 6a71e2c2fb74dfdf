// SessionStore: session files in a folder, the part of the prefix cache that survives a restart. A thread of its own
// writes them; the folder keeps to a limit, and the file that was used least lately goes first.
//     SessionStore store(bundle, {.folder = "cache", .most_bytes = 4ull << 30, .say = note});
//     if (store.known(prompt, key) > 100) session = store.load(prompt, key);
//     store.put(std::move(session), key);
// Servers may share a folder. Files of other models are left alone; damaged ones are named, and not used.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/session.h"
#include "runtime/session_file.h"

namespace anemone::serve {

// How many tokens two texts begin with alike.
int64_t shared_prefix(std::span<const int32_t> a, std::span<const int32_t> b);

struct SessionStoreOptions {
  std::filesystem::path folder;                                // empty: no files
  uint64_t most_bytes = 0;                                     // of all session files in it
  std::function<void(const std::string& line)> say = nullptr;  // what the owner of the server should know
};

class SessionStore {
 public:
  // Makes the folder if need be, and reads what the files are about. Error when it cannot be used.
  SessionStore(std::shared_ptr<const Bundle> bundle, SessionStoreOptions options);
  // Writes what is left to be written.
  ~SessionStore();
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // The most tokens of the prompt that a file knows.
  int64_t known(std::span<const int32_t> prompt, int64_t key) const;
  // The session of that file; null when it cannot be read.
  std::unique_ptr<Session> load(std::span<const int32_t> prompt, int64_t key);
  // Hands a session to the writer. False, and it is dropped, when the writer has enough to do and `wait` is false.
  bool put(std::unique_ptr<Session> session, int64_t key, bool wait = false);
  bool busy() const;

  uint64_t bytes() const { return bytes_; }  // of the files of this model
  size_t files() const;
  uint64_t loaded() const { return loaded_; }

 private:
  struct File {
    std::filesystem::path path;
    std::vector<int32_t> ids;
    int64_t key = 0;
    uint64_t bytes = 0;
  };
  struct Job {
    std::unique_ptr<Session> session;
    int64_t key = 0;
  };

  void scan();
  std::list<File>::const_iterator best(std::span<const int32_t> prompt, int64_t key, int64_t& common) const;
  void write_loop();
  void write(const Session& session, int64_t key);
  void forget(const std::filesystem::path& path);
  void trim();
  void say(const std::string& line) const;

  const std::shared_ptr<const Bundle> bundle_;
  const SessionStoreOptions options_;
  const SessionAbout about_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<File> files_;
  std::deque<Job> jobs_;
  bool writing_ = false, stop_ = false, failed_ = false;
  std::atomic<uint64_t> bytes_ = 0, loaded_ = 0;
  std::thread writer_;
};

}  // namespace anemone::serve
