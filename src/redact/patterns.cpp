#include "redact/patterns.h"

#include <algorithm>

#include "base/error.h"

namespace anemone::redact {
namespace {

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto fine = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), fine);
}

bool matches(const Regex& regex, std::string_view text) {
  bool found = false;
  regex.for_each_match(text, [&](size_t, size_t) { found = true; });
  return found;
}

}  // namespace

void Patterns::add(const std::string& pattern, std::vector<std::string>& kinds) {
  std::string name = "match", expression = pattern;
  if (const size_t equals = pattern.find('=');
      equals != std::string::npos && is_name(pattern.substr(0, equals))) {
    name = pattern.substr(0, equals);
    expression = pattern.substr(equals + 1);
  }
  Regex regex(expression);
  if (matches(regex, ""))
    throw errorf("--also matches the empty text, so it would match everywhere").found(pattern);
  auto at = std::find(kinds.begin(), kinds.end(), name);
  if (at == kinds.end()) at = kinds.insert(kinds.end(), name);
  also_.push_back({std::move(regex), static_cast<int>(at - kinds.begin())});
}

void Patterns::keep(const std::string& pattern) { keep_.emplace_back(pattern); }

void Patterns::find(std::string_view text, uint64_t begin, std::vector<Span>& spans) const {
  std::vector<Span> found;
  for (const Also& also : also_) {
    std::vector<Span> here;
    also.regex.for_each_match(text, [&](size_t from, size_t to) {
      if (to > from) here.push_back({begin + from, begin + to, also.kind, 1});
    });
    found = overlaid(found, here);  // the first expression wins
  }
  spans.insert(spans.end(), found.begin(), found.end());
}

bool Patterns::keeps(std::string_view span) const {
  return std::any_of(keep_.begin(), keep_.end(), [&](const Regex& regex) { return matches(regex, span); });
}

}  // namespace anemone::redact
