#include "redact/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/json_text.h"

namespace anemone::redact {
namespace {

std::string as_json(std::string_view text) { return json_text(nlohmann::json(std::string(text))); }

}  // namespace

Report::Report(ReportHead head, std::vector<std::string> kinds, Write write)
    : head_(std::move(head)), kinds_(std::move(kinds)), write_(std::move(write)), counts_(kinds_.size()) {
  put(fmt::format("{{\"tool\": {}, \"model\": {},", as_json(head_.tool), as_json(head_.model)));
  if (!head_.limits.empty()) put(fmt::format("\n \"limits\": {},", as_json(head_.limits)));
  put(fmt::format("\n \"policy\": {}, \"replace\": {},\n \"files\": [", as_json(head_.policy),
                  as_json(head_.replace)));
}

void Report::begin_file(const std::string& name) {
  ++files_;
  spans_ = 0;
  file_counts_.assign(kinds_.size(), 0);
  put(fmt::format("{}\n  {{\"file\": {}, \"spans\": [", entries_++ ? "," : "", as_json(name)));
}

void Report::add(const Finding& f) {
  const auto kind = static_cast<size_t>(f.kind);
  ++counts_[kind];
  ++file_counts_[kind];
  if (!write_) return;
  put(fmt::format(
      "{}\n   {{\"line\": {}, \"start\": {}, \"end\": {}, \"start_byte\": {}, \"end_byte\": {}, \"label\": "
      "{}, "
      "\"score\": {:.4f}, \"replacement\": {}",
      spans_++ ? "," : "", f.line, f.range.begin.character, f.range.end.character, f.range.begin.byte,
      f.range.end.byte, as_json(kinds_[kind]), static_cast<double>(f.score), as_json(f.replacement)));
  if (head_.show) put(fmt::format(", \"text\": {}", as_json(f.text)));
  put("}");
}

void Report::end_file(const FileFacts& facts) {
  put(fmt::format("],\n   \"counts\": {}, \"bytes\": {}", counts_json(file_counts_), facts.bytes));
  if (!facts.output.empty()) put(fmt::format(", \"output\": {}", as_json(facts.output)));
  if (!facts.format.empty()) put(fmt::format(", \"format\": {}", as_json(facts.format)));
  if (!facts.encoding.empty())
    put(fmt::format(", \"encoding\": {}, \"characters\": {}, \"malformed\": {}", as_json(facts.encoding),
                    facts.characters, facts.malformed));
  if (facts.records)
    put(fmt::format(", \"records\": {}, \"bad_records\": {}", facts.records, facts.bad_records));
  if (!facts.notes.empty()) {
    std::string notes;
    for (const std::string& note : facts.notes) notes += (notes.empty() ? "" : ", ") + as_json(note);
    put(fmt::format(", \"notes\": [{}]", notes));
  }
  put("}");
}

void Report::skipped(const std::string& name, const std::string& why) {
  put(fmt::format("{}\n  {{\"file\": {}, \"skipped\": {}}}", entries_++ ? "," : "", as_json(name),
                  as_json(why)));
}

void Report::finish() { put(fmt::format("\n ],\n \"counts\": {}}}\n", counts_json(counts_))); }

uint64_t Report::total() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

std::string Report::counts_text() const {
  std::string out;
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (counts_[i]) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", counts_[i], kinds_[i]);
  return out.empty() ? "nothing" : out;
}

std::string Report::counts_json(const std::vector<uint64_t>& counts) const {
  std::string out;
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (counts[i]) out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", as_json(kinds_[i]), counts[i]);
  return "{" + out + "}";
}

bool is_report(const std::filesystem::path& path) {
  constexpr std::string_view start = "{\"tool\": \"anemone ";
  std::string head(start.size(), '\0');
  std::ifstream in(path, std::ios::binary);
  return in.read(head.data(), static_cast<std::streamsize>(head.size())) && head == start;
}

ReportFile::ReportFile(const std::filesystem::path& path) : staged_(path, true) {
  check_file_output(path);
  file_ = std::fopen(staged_.path().c_str(), "wb");
  if (!file_) throw errorf("cannot be written: {}", std::strerror(errno)).at(path.string());
}

ReportFile::~ReportFile() {
  if (file_) std::fclose(file_);
}

void ReportFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size())
    throw errorf("cannot be written: {}", std::strerror(errno)).at(staged_.target().string());
}

void ReportFile::commit() {
  const bool fine = std::fclose(file_) == 0;
  file_ = nullptr;
  if (!fine) throw errorf("cannot be written: {}", std::strerror(errno)).at(staged_.target().string());
  staged_.commit();
}

}  // namespace anemone::redact
