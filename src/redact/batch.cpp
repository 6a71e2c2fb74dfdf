#include "redact/batch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/words.h"

namespace anemone::redact {
namespace {

constexpr size_t kBlock = 1 << 18;  // bytes that are read at once

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number > STDERR_FILENO) ::close(number);
  }
};

std::string shown(const std::string& path) { return path == "-" ? "standard input" : path; }

}  // namespace

// A file that is being read, or whose results are waited for.
struct Batch::Running {
  BatchItem item;
  std::unique_ptr<ReportFile> output;  // none: standard output, or nowhere
  std::unique_ptr<Stream> stream;
  bool reported = false;
};

Batch::Batch(Redactor& redactor, BatchOptions options, Report& report)
    : redactor_(redactor), options_(std::move(options)), report_(report) {}

Batch::~Batch() = default;

std::unique_ptr<Stream> Batch::open(Running& running) {
  const auto write = [this, &running](std::string_view bytes) {
    if (running.output)
      running.output->write(bytes);
    else if (running.item.output == "-")
      options_.print(bytes);
  };
  const auto found = [this, &running](const Finding& finding) {
    report_.add(finding);
    if (options_.found) options_.found(running.item.input, finding);
  };
  if (options_.records)
    return std::make_unique<Records>(redactor_, RecordSettings{options_.text_field, write, found});
  DocumentSettings settings{options_.format.value_or(format_of(running.item.input)), options_.encoding,
                            options_.walker, write, found};
  if (options_.passed)
    settings.passed = [this, &running](std::string_view raw) {
      options_.passed(running.item.input, static_cast<Document&>(*running.stream).encoding(), raw);
    };
  return std::make_unique<Document>(redactor_, std::move(settings));
}

void Batch::add(const BatchItem& item) {
  Descriptor in;
  in.number = item.input == "-" ? STDIN_FILENO : ::open(item.input.c_str(), O_RDONLY | O_CLOEXEC);
  if (in.number < 0) throw errorf("cannot be opened: {}", std::strerror(errno)).at(item.input);
  running_.push_back(std::make_unique<Running>());
  Running& running = *running_.back();
  running.item = item;
  if (!item.output.empty() && item.output != "-") {
    const std::filesystem::path folder = std::filesystem::path(item.output).parent_path();
    std::error_code problem;
    if (!folder.empty()) std::filesystem::create_directories(folder, problem);
    if (problem) throw errorf("cannot be made: {}", problem.message()).at(folder.string());
    running.output = std::make_unique<ReportFile>(item.output);
  }
  running.stream = open(running);
  read(running, in.number);
}

void Batch::read(Running& running, int descriptor) {
  std::string block(kBlock, '\0');
  while (true) {
    pollfd waits{descriptor, POLLIN, 0};
    if (::poll(&waits, 1, 0) == 0) {
      // Nothing comes for now: what was read should not wait.
      running.stream->pause();
      while (advance(true)) {
      }
      if (options_.flush) options_.flush();
    }
    const ssize_t size = ::read(descriptor, block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw errorf("cannot be read: {}", std::strerror(errno)).at(shown(running.item.input));
    if (size == 0) break;
    // In small pieces, so that results are taken in between.
    for (std::string_view rest(block.data(), static_cast<size_t>(size)); !rest.empty();) {
      const std::string_view piece = rest.substr(0, 1 << 14);
      running.stream->feed(piece);
      rest.remove_prefix(piece.size());
      bytes_ += piece.size();
      while (advance(redactor_.busy())) {
      }
    }
    if (options_.progress) options_.progress(bytes_);
  }
  running.stream->finish();
  while (advance(redactor_.busy())) {
  }
}

bool Batch::advance(bool wait) {
  if (running_.empty()) return false;
  Running& running = *running_.front();
  if (!running.reported) report_.begin_file(shown(running.item.input));
  running.reported = true;
  try {
    if (running.stream->step(wait)) return true;
  } catch (Error& e) {
    e.within(shown(running.item.input));
    throw;
  }
  if (!running.stream->done()) return false;
  close(running);
  running_.pop_front();
  return true;
}

void Batch::close(Running& running) {
  FileFacts facts = running.stream->facts();
  if (running.item.input == "-") options_.walker.fields.expect_met();  // others were looked at before
  facts.output = running.output ? running.item.output : "";
  if (running.output) running.output->commit();
  const std::string name = shown(running.item.input);
  for (const std::string& note : facts.notes) notes_.push_back(name + ": " + note);
  if (facts.malformed)
    notes_.push_back(fmt::format(
        "{}: {} no valid {}; they stay as they are", name,
        facts.malformed == 1 ? "1 byte is" : fmt::format("{} bytes are", facts.malformed), facts.encoding));
  bad_records_ += facts.bad_records;
  report_.end_file(facts);
}

void Batch::finish() {
  while (!running_.empty()) advance(true);
}

}  // namespace anemone::redact
