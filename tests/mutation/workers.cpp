#include "mutation/workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"

namespace anemone::mutation {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPatience = 20;   // a job that waits for something may take so many times its limit
constexpr int kHarnessFailed = 4;  // the status of a child that cannot go on

// What a child sends for each job: its number and length first. A job's start is a message without an answer.
struct Header {
  uint64_t job = 0;
  uint64_t bytes = 0;
  uint32_t done = 0;
  uint32_t phase = 0;
};

void write_all(int fd, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(3);  // nobody listens any more
    at += n;
    bytes -= static_cast<size_t>(n);
  }
}

// Of the processor, by a process that is still there.
double cpu_seconds(pid_t pid) {
  clockid_t clock;
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::string unread;
  bool busy = false;
  bool late = false;  // we ended it
  size_t job = 0;
  int tries = 0;  // of that job, before
  char phase = 0;
  Clock::time_point since;
  double cpu_before = 0;  // seconds that the child had used by then
};

class Pool {
 public:
  Pool(size_t count, double limit, std::filesystem::path folder, const DoJob& run, const TakeAnswer& take,
       const TryAgain& again)
      : count_(count), limit_(limit), folder_(std::move(folder)), run_(run), take_(take), again_(again) {
    void* memory = ::mmap(nullptr, sizeof *next_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw errorf("no memory to share with child processes: {}", std::strerror(errno));
    next_ = new (memory) std::atomic<uint64_t>(0);
  }
  ~Pool() { ::munmap(next_, sizeof *next_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void run(int workers) {
    children_.resize(static_cast<size_t>(workers));
    for (Child& child : children_) start(child);
    for (;;) {
      std::vector<pollfd> fds;
      for (const Child& child : children_)
        if (child.fd >= 0) fds.push_back({child.fd, POLLIN, 0});
      if (fds.empty()) return;
      ::poll(fds.data(), fds.size(), 200);
      for (const pollfd& ready : fds)
        for (Child& child : children_)
          if (child.fd == ready.fd && ready.revents) receive(child);
      for (Child& child : children_)
        if (child.fd >= 0 && child.busy && (used(child) > limit_ || waited(child) > kPatience * limit_)) {
          ::kill(child.pid, SIGKILL);
          child.late = true;
        }
    }
  }

 private:
  // Seconds of the processor that the job took: a busy machine makes no job late.
  static double used(const Child& child) { return cpu_seconds(child.pid) - child.cpu_before; }
  static double waited(const Child& child) {
    return std::chrono::duration<double>(Clock::now() - child.since).count();
  }

  // `retry`: the job to try again before others.
  void start(Child& child, std::optional<uint64_t> retry = {}) {
    int ends[2];
    if (::pipe(ends) != 0) throw errorf("no pipe: {}", std::strerror(errno));
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid < 0) throw errorf("no child process: {}", std::strerror(errno));
    if (pid == 0) {
      ::close(ends[0]);
      const JobPlace place{folder_ / ("worker_" + std::to_string(::getpid())), 0, {}};
      if (retry) work(ends[1], *retry, 1, place);
      for (uint64_t job = next_->fetch_add(1); job < count_; job = next_->fetch_add(1))
        work(ends[1], job, 0, place);
      std::error_code ignored;
      std::filesystem::remove_all(place.folder, ignored);
      ::_exit(0);
    }
    ::close(ends[1]);
    child = {};
    child.pid = pid;
    child.fd = ends[0];
  }

  void work(int fd, uint64_t job, int tries, JobPlace place) {
    const auto say = [&](char phase) {
      const Header header{job, 0, 0, static_cast<uint32_t>(phase)};
      write_all(fd, &header, sizeof header);
    };
    say(0);
    place.tries = tries;
    place.say = say;
    std::string answer;
    try {
      answer = run_(static_cast<size_t>(job), place);
    } catch (const std::exception& e) {
      // The harness itself failed: end with a status of its own, and the reason on stderr.
      fmt::print(stderr, "job {}: {}\n", job, e.what());
      ::_exit(kHarnessFailed);
    }
    const Header end{job, answer.size(), 1, 0};
    write_all(fd, &end, sizeof end);
    write_all(fd, answer.data(), answer.size());
  }

  void receive(Child& child) {
    char buffer[65536];
    const ssize_t n = ::read(child.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) return ended(child);
    child.unread.append(buffer, static_cast<size_t>(n));
    Header header;
    while (child.unread.size() >= sizeof header) {
      std::memcpy(&header, child.unread.data(), sizeof header);
      if (child.unread.size() < sizeof header + header.bytes) return;
      if (child.job != header.job) child.tries = 0;
      child.job = static_cast<size_t>(header.job);
      child.phase = static_cast<char>(header.phase);
      child.busy = header.done == 0;
      child.since = Clock::now();
      child.cpu_before = cpu_seconds(child.pid);
      if (header.done) take_(child.job, child.unread.substr(sizeof header, header.bytes), "");
      child.unread.erase(0, sizeof header + header.bytes);
    }
  }

  void ended(Child& child) {
    ::close(child.fd);
    child.fd = -1;
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    std::error_code ignored;
    std::filesystem::remove_all(folder_ / ("worker_" + std::to_string(child.pid)), ignored);
    if (!child.busy) return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kHarnessFailed)
      throw errorf("the harness itself failed; see above");
    const uint64_t job = child.job;
    if (child.tries == 0 && again_ && again_(child.phase)) {
      start(child, job);
      child.job = static_cast<size_t>(job);
      child.tries = 1;
      return;
    }
    const std::string why = child.late            ? fmt::format("did not end within {} s", limit_)
                            : WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                                                  : fmt::format("ended with status {}", WEXITSTATUS(status));
    take_(child.job, "", why);
    start(child);
  }

  size_t count_;
  double limit_;
  std::filesystem::path folder_;
  const DoJob& run_;
  const TakeAnswer& take_;
  const TryAgain& again_;
  std::atomic<uint64_t>* next_ = nullptr;
  std::vector<Child> children_;
};

}  // namespace

void run_jobs(size_t count, int workers, double limit_seconds, const std::filesystem::path& folder,
              const DoJob& run, const TakeAnswer& take, const TryAgain& again) {
  if (count == 0) return;
  Pool(count, limit_seconds, folder, run, take, again).run(workers);
}

}  // namespace anemone::mutation
