#include "hub/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/sha256.h"

namespace anemone::hub {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kProgress = uint64_t{1}
                               << 20;  // so many bytes count as progress, and patience begins anew

// "bytes 5-9/10": where the bytes of a partial answer begin, and the size of the whole where it is said.
struct ContentRange {
  uint64_t first = 0;
  std::optional<uint64_t> whole;
};

std::optional<ContentRange> content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const auto number = [&](uint64_t& out, char stop) {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (problem != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (stop == '\0') return text.empty();
    if (!text.starts_with(stop)) return false;
    text.remove_prefix(1);
    return true;
  };
  ContentRange out;
  uint64_t last = 0, whole = 0;
  if (!number(out.first, '-') || !number(last, '/')) return std::nullopt;
  if (text == "*") return out;
  if (!number(whole, '\0')) return std::nullopt;
  out.whole = whole;
  return out;
}

Error cannot_write(const fs::path& path, int why) {
  return errorf("cannot be written: {}", std::strerror(why)).at(path.string());
}

// The file that grows. It goes on behind what is there, and hashes that too.
class PartialFile : public Sink {
 public:
  PartialFile(const Download& what, bool resume) : what_(what), path_(incomplete(what.whole)) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0) throw cannot_write(path_, errno);
    try {
      if (resume) hash_what_is_there();
      if (!resume || (what.bytes && size_ > *what.bytes)) restart();
    } catch (...) {
      ::close(file_);
      throw;
    }
  }
  ~PartialFile() override { ::close(file_); }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  uint64_t size() const { return size_; }
  std::string sha256() const { return hash_.hex(); }
  // What the file should have; nothing where nobody says it.
  const std::optional<uint64_t>& expected() const { return expected_; }

  // The server's, for the next attempt; weak ones say nothing about bytes.
  std::string validator() const { return etag_.starts_with("W/") ? "" : etag_; }

  void restart() {
    if (::ftruncate(file_, 0) != 0 || ::lseek(file_, 0, SEEK_SET) != 0) throw cannot_write(path_, errno);
    size_ = 0;
    hash_ = {};
  }

  void begin(const Response& head) override {
    expected_ = what_.bytes;
    etag_ = head.header("etag");
    std::optional<uint64_t> said = head.number("content-length");
    if (head.status == 206) {
      const auto range = content_range(head.header("content-range"));
      if (!range || range->first != size_)
        throw Error("the server sends another part of the file than was asked for")
            .at(what_.shown)
            .found(head.header("content-range"))
            .expected(fmt::format("bytes {}-", size_));
      said = range->whole;
    } else if (size_ > 0) {
      restart();  // the range was ignored, or the file is another one by now: all of it comes again
    }
    if (!expected_) expected_ = said;
    if (said && *said != *expected_)
      throw Error("the server's file has another size than the hub says")
          .at(what_.shown)
          .found(fmt::format("{} bytes", *said))
          .expected(fmt::format("{} bytes", *expected_));
    if (expected_) expect_room(path_.parent_path(), *expected_ - size_, what_.shown);
    if (what_.begun) what_.begun(head);
  }

  void write(std::span<const std::byte> bytes) override {
    if (expected_ && size_ + bytes.size() > *expected_)
      throw Error("the server sends more than the file has")
          .at(what_.shown)
          .expected(fmt::format("{} bytes", *expected_));
    hash_.add(bytes);
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw cannot_write(path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
      size_ += static_cast<uint64_t>(n);
    }
    if (what_.progress) what_.progress(size_);
  }

 private:
  void hash_what_is_there() {
    std::array<std::byte, 1 << 16> buffer;
    while (true) {
      const ssize_t n = ::read(file_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw errorf("cannot be read: {}", std::strerror(errno)).at(path_.string());
      if (n == 0) return;
      hash_.add(std::span(buffer).first(static_cast<size_t>(n)));
      size_ += static_cast<uint64_t>(n);
    }
  }

  const Download& what_;
  fs::path path_;
  int file_ = -1;
  uint64_t size_ = 0;
  std::optional<uint64_t> expected_;
  std::string etag_;
  Sha256 hash_;
};

Request request_for(const Download& what, const std::string& validator, PartialFile& file) {
  Request out{.url = what.url, .headers = {}, .sink = &file};
  if (file.size() == 0) return out;
  out.headers.push_back(fmt::format("Range: bytes={}-", file.size()));
  if (!validator.empty()) out.headers.push_back("If-Range: " + validator);
  return out;
}

// One request for what is missing. Broken where that did not bring all of it.
void continue_file(HttpClient& http, const Download& what, const std::string& validator, PartialFile& file,
                   std::optional<double>& asked_s) {
  if (what.bytes && file.size() == *what.bytes && *what.bytes > 0) return;
  const uint64_t from = file.size();
  const Response response = http.attempt(request_for(what, validator, file));
  if (const auto later = busy(response)) {
    asked_s = retry_after(response);
    throw *later;
  }
  if (response.status == 416 && from > 0) {  // what is there does not fit
    file.restart();
    throw Broken("the server does not go on from there");
  }
  if (!response.good()) throw what.refusal(response);
  if (file.expected() && file.size() < *file.expected()) throw Broken("the file ended too early");
}

}  // namespace

fs::path incomplete(const fs::path& whole) {
  fs::path out = whole;
  out += ".incomplete";
  return out;
}

void download(HttpClient& http, const Download& what) {
  std::error_code why;
  fs::create_directories(what.whole.parent_path(), why);
  if (why) throw cannot_write(what.whole.parent_path(), why.value());
  const bool hashed = !what.sha256.empty();
  std::string validator = what.validator;
  bool wrong_before = false;
  Patience patience(http, what.shown);
  while (true) {
    PartialFile file(what, hashed || !validator.empty());
    const uint64_t start = file.size();
    std::optional<double> asked_s;
    try {
      continue_file(http, what, validator, file, asked_s);
    } catch (const Broken& broken) {
      if (file.size() >= start + kProgress) patience.reset();
      if (!hashed) validator = file.validator();
      patience.pause(broken, asked_s);
      continue;
    }
    if (hashed && file.sha256() != what.sha256) {
      const std::string found = file.sha256();
      file.restart();
      if (std::exchange(wrong_before, true) || start == 0)
        throw Error("the file that came is not the one that the hub lists: its SHA-256 differs")
            .at(what.shown)
            .found(found)
            .expected(what.sha256)
            .hint("try again; if it stays so, the hub or something on the way changes files");
      http.note(what.shown + ": what was there before does not fit; downloading it anew");
      continue;
    }
    fs::rename(incomplete(what.whole), what.whole, why);
    if (why) throw errorf("cannot be put in place: {}", why.message()).at(what.whole.string());
    return;
  }
}

void expect_room(const fs::path& folder, uint64_t bytes, const std::string& what) {
  fs::path there = folder;
  std::error_code why;
  while (!fs::exists(there, why) && there.has_relative_path()) there = there.parent_path();
  const fs::space_info space = fs::space(there, why);
  if (why || space.available >= bytes) return;
  throw errorf("the disk is too full for {}", what)
      .at(folder.string())
      .found(fmt::format("{:.1f} GB free", static_cast<double>(space.available) / 1e9))
      .expected(fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9))
      .hint("make room, or name another disk in HF_HOME");
}

std::string plain_etag(const std::string& etag) {
  std::string_view text = etag;
  if (text.starts_with("W/")) text.remove_prefix(2);
  while (text.starts_with('"')) text.remove_prefix(1);
  while (text.ends_with('"')) text.remove_suffix(1);
  return std::string(text);
}

}  // namespace anemone::hub
