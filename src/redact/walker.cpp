#include "redact/walker.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace anemone::redact {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == '.')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) out += "." + parts[i];
  return out;
}

bool fits(const std::string& wanted, std::string_view name) { return wanted == "*" || wanted == name; }

}  // namespace

std::string_view format_name(Format format) {
  switch (format) {
    case Format::text: return "text";
    case Format::csv: return "csv";
    case Format::tsv: return "tsv";
    case Format::json: return "json";
    case Format::jsonl: return "jsonl";
  }
  return "";
}

const std::vector<std::string>& format_names() {
  static const std::vector<std::string> names = {"text", "csv", "tsv", "json", "jsonl"};
  return names;
}

std::optional<Format> find_format(std::string_view name) {
  for (const Format f : {Format::text, Format::csv, Format::tsv, Format::json, Format::jsonl})
    if (format_name(f) == name) return f;
  return std::nullopt;
}

Format format_of(std::string_view path) {
  std::string end(path.substr(path.rfind('.') == std::string_view::npos ? path.size() : path.rfind('.') + 1));
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  if (end == "csv") return Format::csv;
  if (end == "tsv" || end == "tab") return Format::tsv;
  if (end == "json" || end == "geojson" || end == "ipynb") return Format::json;
  if (end == "jsonl" || end == "ndjson") return Format::jsonl;
  return Format::text;
}

FieldFilter::FieldFilter(std::vector<std::string> names) {
  for (const std::string& name : names) fields_.push_back(split(name));
  if (!fields_.empty()) met_ = std::make_shared<Met>(fields_.size());
}

std::vector<std::string> FieldFilter::unmet() const {
  std::vector<std::string> out;
  for (size_t i = 0; asked() && i < fields_.size(); ++i)
    if (!met_->names[i]) out.push_back(joined(fields_[i]));
  return out;
}

void FieldFilter::expect_met() const {
  if (const std::vector<std::string> names = unmet(); !names.empty())
    throw errorf("--fields: no column or key is called '{}'", names.front())
        .hint("names are written as in the file; a column may also be given by its number");
}

bool FieldFilter::any(const std::function<bool(const std::vector<std::string>& field)>& fits) const {
  bool found = false;
  met_->asked = true;
  for (size_t i = 0; i < fields_.size(); ++i)
    if (fits(fields_[i])) found = met_->names[i] = true;
  return found;
}

bool FieldFilter::wants_column(std::string_view name, size_t number) const {
  if (all()) return true;
  const std::string as_number = std::to_string(number);
  return any([&](const std::vector<std::string>& field) {
    const std::string whole = joined(field);
    return fits(whole, name) || whole == as_number;
  });
}

bool FieldFilter::wants_path(std::span<const std::string> path) const {
  if (all()) return true;
  return any([&](const std::vector<std::string>& field) {
    // What lies below a field belongs to it.
    if (field.size() == 1)
      return std::any_of(path.begin(), path.end(),
                         [&](const std::string& key) { return fits(field[0], key); });
    if (field.size() > path.size()) return false;
    return std::equal(field.begin(), field.end(), path.begin(), fits);
  });
}

std::unique_ptr<Walker> make_walker(Format format, const WalkerSettings& settings) {
  switch (format) {
    case Format::text: return make_text_walker(settings);
    case Format::csv: return make_csv_walker(settings, std::nullopt);
    case Format::tsv: return make_csv_walker(settings, U'\t');
    case Format::json: return make_json_walker(settings, false);
    case Format::jsonl: return make_json_walker(settings, true);
  }
  return nullptr;
}

}  // namespace anemone::redact
