#include "serve/session_store.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"

namespace anemone::serve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".session";
constexpr size_t kMostJobs = 2;   // sessions that wait for the disk, each with its memory
constexpr size_t kMostNamed = 5;  // damaged files that are named one by one
constexpr size_t kMostFiles = 1 << 16;

struct OnDisk {
  fs::path path;
  fs::file_time_type used;
  uint64_t bytes = 0;
};

std::vector<OnDisk> session_files(const fs::path& folder) {
  std::vector<OnDisk> out;
  std::error_code why;
  for (fs::directory_iterator it(folder, why), end; !why && it != end && out.size() < kMostFiles;
       it.increment(why)) {
    std::error_code gone;
    if (it->path().extension() != kSuffix || !it->is_regular_file(gone) || gone) continue;
    const auto used = it->last_write_time(gone);
    const auto bytes = gone ? 0 : it->file_size(gone);
    if (!gone) out.push_back({it->path(), used, bytes});
  }
  return out;
}

}  // namespace

int64_t shared_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

SessionStore::SessionStore(std::shared_ptr<const Bundle> bundle, SessionStoreOptions options)
    : bundle_(std::move(bundle)), options_(std::move(options)), about_(about_session(*bundle_, 0)) {
  std::error_code why;
  if (fs::create_directories(options_.folder, why))
    fs::permissions(options_.folder, fs::perms::owner_all, why);
  if (!fs::is_directory(options_.folder, why))
    throw errorf("the folder of --cache-dir cannot be made")
        .at(options_.folder.string())
        .found(why.message());
  scan();
  trim();
  writer_ = std::thread([this] { write_loop(); });
}

SessionStore::~SessionStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void SessionStore::say(const std::string& line) const {
  if (options_.say) options_.say(line);
}

void SessionStore::scan() {
  size_t damaged = 0, foreign = 0;
  for (const OnDisk& file : session_files(options_.folder)) {
    try {
      SessionTitle title = read_session_title(file.path);
      SessionAbout about = about_;
      about.positions = title.about.positions;
      if (title.about != about) {
        ++foreign;
        continue;
      }
      files_.push_back({file.path, std::move(title.ids), about.positions, file.bytes});
      bytes_ += file.bytes;
    } catch (const Error& e) {
      if (++damaged <= kMostNamed)
        say(fmt::format("{}: {}; it is not used", file.path.filename().string(), e.message()));
    }
  }
  if (damaged > kMostNamed) say(fmt::format("{} more session files are not used", damaged - kMostNamed));
  if (foreign)
    say(fmt::format("{} session {} of other models or settings: not used", foreign,
                    foreign == 1 ? "file is" : "files are"));
}

std::list<SessionStore::File>::const_iterator SessionStore::best(std::span<const int32_t> prompt, int64_t key,
                                                                 int64_t& common) const {
  auto out = files_.end();
  common = 0;
  for (auto it = files_.begin(); it != files_.end(); ++it)
    if (const int64_t n = it->key == key ? shared_prefix(it->ids, prompt) : 0; n > common) {
      common = n;
      out = it;
    }
  return out;
}

int64_t SessionStore::known(std::span<const int32_t> prompt, int64_t key) const {
  const std::lock_guard lock(mutex_);
  int64_t common = 0;
  best(prompt, key, common);
  return common;
}

std::unique_ptr<Session> SessionStore::load(std::span<const int32_t> prompt, int64_t key) {
  fs::path path;
  {
    const std::lock_guard lock(mutex_);
    int64_t common = 0;
    const auto file = best(prompt, key, common);
    if (file == files_.end()) return nullptr;
    path = file->path;
  }
  SessionAbout about = about_;
  about.positions = key;
  try {
    auto session = std::make_unique<Session>(load_session(path, bundle_, about));
    std::error_code ignored;
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
    ++loaded_;
    return session;
  } catch (const Error& e) {
    // Another server may have made room.
    std::error_code ignored;
    if (fs::exists(path, ignored))
      say(fmt::format("{}: {}; it is not used", path.filename().string(), e.message()));
    const std::lock_guard lock(mutex_);
    forget(path);
    return nullptr;
  }
}

void SessionStore::forget(const fs::path& path) {
  std::erase_if(files_, [&](const File& f) {
    if (f.path != path) return false;
    bytes_ -= f.bytes;
    return true;
  });
}

bool SessionStore::put(std::unique_ptr<Session> session, int64_t key, bool wait) {
  {
    std::unique_lock lock(mutex_);
    if (wait) changed_.wait(lock, [&] { return jobs_.size() < kMostJobs; });
    if (jobs_.size() >= kMostJobs) return false;
    jobs_.push_back({std::move(session), key});
  }
  changed_.notify_all();
  return true;
}

bool SessionStore::busy() const {
  const std::lock_guard lock(mutex_);
  return writing_ || !jobs_.empty();
}

size_t SessionStore::files() const {
  const std::lock_guard lock(mutex_);
  return files_.size();
}

void SessionStore::write_loop() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      writing_ = false;
      changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      writing_ = true;
    }
    changed_.notify_all();
    try {
      write(*job.session, job.key);
      failed_ = false;
    } catch (const std::exception& e) {
      if (!failed_) say(fmt::format("a session could not be saved: {}", e.what()));
      failed_ = true;  // a full disk is said once
    }
  }
}

void SessionStore::write(const Session& session, int64_t key) {
  const std::vector<int32_t>& ids = session.ids();
  SessionAbout about = about_;
  about.positions = key;
  const uint64_t name = XXH3_64bits_withSeed(
      ids.data(), ids.size() * sizeof(int32_t),
      XXH3_64bits(about_.bundle.data(), about_.bundle.size()) ^ static_cast<uint64_t>(key));
  const fs::path path =
      options_.folder / fmt::format("{:016x}-{}-{}{}", name, about_.backend, about_.arithmetic, kSuffix);
  save_session(session, path, about);
  const uint64_t bytes = fs::file_size(path);
  std::vector<fs::path> shorter;  // texts that this one begins with are of no more use
  {
    const std::lock_guard lock(mutex_);
    forget(path);
    for (const File& f : files_)
      if (f.key == key && f.ids.size() <= ids.size() &&
          shared_prefix(f.ids, ids) == static_cast<int64_t>(f.ids.size()))
        shorter.push_back(f.path);
    for (const fs::path& old : shorter) forget(old);
    files_.push_front({path, ids, key, bytes});
    bytes_ += bytes;
  }
  std::error_code ignored;
  for (const fs::path& old : shorter) fs::remove(old, ignored);
  trim();
}

// All session files of the folder count, whoever wrote them.
void SessionStore::trim() {
  std::vector<OnDisk> all = session_files(options_.folder);
  uint64_t sum = 0;
  for (const OnDisk& file : all) sum += file.bytes;
  std::sort(all.begin(), all.end(), [](const OnDisk& a, const OnDisk& b) { return a.used < b.used; });
  for (const OnDisk& file : all) {
    if (sum <= options_.most_bytes) break;
    std::error_code ignored;
    fs::remove(file.path, ignored);
    sum -= file.bytes;
    const std::lock_guard lock(mutex_);
    forget(file.path);
  }
}

}  // namespace anemone::serve
