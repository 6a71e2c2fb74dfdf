#include "base/staged.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/paths.h"
#include "base/signals.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

struct Registry {
  std::mutex mutex;
  std::set<fs::path> staged;
  int next = 0;
  bool stopped = false;
};

// Never destroyed: a signal may come while the process ends.
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

// Who takes SIGINT instead of the thread that waits for signals.
std::atomic<bool> interrupts_left = false;
std::atomic<void (*)()> before_exit = nullptr;
std::atomic<void (*)()> instead_of_exit = nullptr;
std::atomic<pthread_t> interrupts_owner = {};
// SIGPIPE reaches the thread that writes, not the one that waits for signals; it passes it on as SIGTERM.
std::atomic<bool> pipe_broken = false;

// Fails with EEXIST when the target is there.
int rename_new(const fs::path& from, const fs::path& to) {
#if defined(__linux__) && defined(RENAME_NOREPLACE)
  const int status = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  if (status == 0 || (errno != EINVAL && errno != ENOSYS)) return status;
#elif defined(__APPLE__)
  const int status = ::renamex_np(from.c_str(), to.c_str(), RENAME_EXCL);
  if (status == 0 || errno != ENOTSUP) return status;
#endif
  if (fs::exists(fs::symlink_status(to))) {
    errno = EEXIST;
    return -1;
  }
  return ::rename(from.c_str(), to.c_str());
}

// Exchanges the two in one step where the file system can.
bool rename_swap(const fs::path& from, const fs::path& to) {
#if defined(__linux__) && defined(RENAME_EXCHANGE)
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0;
#elif defined(__APPLE__)
  return ::renamex_np(from.c_str(), to.c_str(), RENAME_SWAP) == 0;
#else
  return false;
#endif
}

}  // namespace

StagedOutput::StagedOutput(const fs::path& target, bool overwrite) : overwrite_(overwrite) {
  if (target.empty()) throw Error("the output has no name");
  // Absolute: the working folder may change before the end. "a/b/" is "a/b".
  target_ = fs::absolute(target).lexically_normal();
  if (!target_.has_filename()) target_ = target_.parent_path();
  const fs::path folder = target_.parent_path();
  std::error_code why;
  if (!fs::is_directory(folder, why))
    throw Error("cannot be written: its folder does not exist").at(target.string());
  if (!overwrite && fs::exists(fs::symlink_status(target_, why)))
    throw Error("already exists").at(target.string()).hint("remove it, or overwrite it with --overwrite");
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  staging_ = folder / fmt::format(".{}.partial-{}-{}", target_.filename().string(), ::getpid(), all.next++);
  fs::remove_all(staging_, why);  // of a process of the same number that was killed
  all.staged.insert(staging_);
}

StagedOutput::~StagedOutput() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::error_code ignored;
  if (all.staged.erase(staging_) && !committed_) fs::remove_all(staging_, ignored);
}

void StagedOutput::make_folder(const fs::path& inside) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (all.stopped) throw Error("was interrupted").at(target_.string());
  std::error_code why;
  fs::create_directories(staging_ / inside, why);
  if (why) throw errorf("cannot be written: {}", why.message()).at(target_.string());
}

void StagedOutput::commit() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (all.stopped) throw Error("was interrupted").at(target_.string());
  const auto fail = [&](int why) {
    return errorf("cannot be moved to its final place: {}", std::strerror(why)).at(target_.string());
  };
  std::error_code ignored;
  if (rename_new(staging_, target_) != 0) {
    const int why = errno;
    if (why == EEXIST && !overwrite_)
      throw Error("already exists").at(target_.string()).hint("remove it, or overwrite it with --overwrite");
    if (why != EEXIST && why != ENOTEMPTY) throw fail(why);
    if (rename_swap(staging_, target_)) {
      fs::remove_all(staging_, ignored);  // the old one
    } else {
      fs::path old = staging_;
      old += ".old";
      if (::rename(target_.c_str(), old.c_str()) != 0) throw fail(errno);
      if (::rename(staging_.c_str(), target_.c_str()) != 0) {
        const int why_new = errno;
        ::rename(old.c_str(), target_.c_str());
        throw fail(why_new);
      }
      fs::remove_all(old, ignored);
    }
  }
  committed_ = true;
}

void check_output(const fs::path& source, const fs::path& target, bool overwrite,
                  std::initializer_list<std::string_view> marks) {
  std::error_code ignored;
  if (target.empty()) throw Error("the output has no name").hint("give one with -o");
  expect_apart(source, target);
  const fs::path place = fs::weakly_canonical(target, ignored);
  if (!overwrite || !fs::exists(place, ignored)) return;
  if (fs::is_directory(place, ignored) && fs::is_empty(place, ignored)) return;
  std::string missing;
  for (const std::string_view mark : marks) {
    if (fs::exists(place / mark, ignored)) return;
    missing += fmt::format("{}{}", missing.empty() ? "" : " or ", mark);
  }
  throw Error("already exists, and is not an output of this kind")
      .at(target.string())
      .found("no " + missing + " in it")
      .hint("remove it, or give another name");
}

void check_file_output(const fs::path& target) {
  std::error_code ignored;
  const fs::file_status there = fs::status(target, ignored);
  if (!fs::exists(there) || fs::is_regular_file(there)) return;
  throw errorf("cannot be written: {} has this name", fs::is_directory(there) ? "a folder" : "a device")
      .at(target.string())
      .hint("give the name of a file");
}

void remove_staged_outputs() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.stopped = true;
  for (const fs::path& path : all.staged) {
    // Other threads may still be adding files: until the folder is gone.
    std::error_code why;
    for (int attempt = 0; attempt < 100 && fs::exists(path, why); ++attempt) fs::remove_all(path, why);
  }
  all.staged.clear();
}

void remove_staged_outputs_on_signals() {
  std::signal(SIGXFSZ,
              SIG_IGN);  // a limit on file sizes becomes an error of the write, and is cleaned up after
  struct sigaction on_pipe {};
  on_pipe.sa_handler = [](int) {
    pipe_broken = true;
    ::kill(::getpid(), SIGTERM);
  };
  sigemptyset(&on_pipe.sa_mask);
  ::sigaction(SIGPIPE, &on_pipe, nullptr);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    while (true) {
      if (sigwait(&signals, &signal) != 0) return;
      if (void (*const own)() = instead_of_exit.exchange(nullptr); own && !pipe_broken) {
        own();
        continue;
      }
      if (signal != SIGINT || !interrupts_left) break;
      pthread_kill(interrupts_owner, SIGINT);  // it may come here although that thread does not block it
    }
    remove_staged_outputs();
    if (void (*const last)() = before_exit) last();
    ::_exit(128 + (pipe_broken ? SIGPIPE : signal));
  }).detach();
}

void call_before_signal_exit(void (*function)()) { before_exit = function; }

void call_instead_of_signal_exit(void (*function)()) { instead_of_exit = function; }

void leave_interrupts_to_this_thread() {
  interrupts_owner = pthread_self();
  interrupts_left = true;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace anemone
