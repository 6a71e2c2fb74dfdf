#include "redact/report_page.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/words.h"
#include "page/page.h"
#include "text/unicode.h"

namespace anemone {

extern const std::string_view kRedactBody;  // page.html, embedded by CMake

namespace redact {
namespace {

constexpr uint64_t kMostBytes = 4'000'000;  // of texts on one page

std::string as_utf8(std::string_view raw, Encoding encoding) {
  std::vector<SourceChar> chars;
  CharReader reader(encoding);
  reader.feed(raw, chars);
  reader.finish(chars);
  std::string out;
  for (const SourceChar& c : chars) append_utf8(out, c.code);
  return out;
}

}  // namespace

ReportPage::File* ReportPage::file(const std::string& name) {
  if (bytes_ > kMostBytes) {
    cut_ = true;
    return nullptr;
  }
  if (files_.empty() || files_.back().name != name) files_.push_back({name, {}});
  return &files_.back();
}

void ReportPage::pass(const std::string& name, Encoding encoding, std::string_view raw) {
  File* const f = file(name);
  if (!f) return;
  std::string text = as_utf8(raw, encoding);
  bytes_ += text.size();
  if (!f->pieces.empty() && f->pieces.back().kind < 0)
    f->pieces.back().text += text;
  else
    f->pieces.push_back({std::move(text), "", -1, 0});
}

void ReportPage::find(const std::string& name, const Finding& finding) {
  File* const f = file(name);
  if (!f) return;
  bytes_ += finding.text.size() + 64;
  f->pieces.push_back({head_.show ? std::string(finding.text) : "", std::string(finding.replacement),
                       finding.kind, finding.score});
}

void ReportPage::write(const std::filesystem::path& path, const Report& report) const {
  nlohmann::ordered_json data = {{"model", head_.model},   {"limits", head_.limits},
                                 {"policy", head_.policy}, {"replace", head_.replace},
                                 {"shown", head_.show},    {"cut", cut_}};
  data["kinds"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < kinds_.size(); ++i)
    data["kinds"].push_back({{"name", kinds_[i]}, {"count", report.counts()[i]}});
  data["files"] = nlohmann::ordered_json::array();
  for (const File& f : files_) {
    auto pieces = nlohmann::ordered_json::array();
    for (const Piece& p : f.pieces) {
      if (p.kind < 0)
        pieces.push_back(p.text);
      else
        pieces.push_back(
            {p.kind, std::round(static_cast<double>(p.score) * 1000) / 1000, p.replacement, p.text});
    }
    data["files"].push_back(
        {{"name", f.name == "-" ? "standard input" : f.name}, {"pieces", std::move(pieces)}});
  }
  const std::string what =
      fmt::format("{} found in {}", counted(static_cast<int64_t>(report.total()), "span"),
                  counted(static_cast<int64_t>(report.files()), "file"));
  write_page(path, page_text({"anemone redact", "redact", what}, with_data(kRedactBody, json_text(data))));
}

}  // namespace redact
}  // namespace anemone
