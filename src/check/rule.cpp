#include "check/rule.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "check/wrap.h"

namespace anemone {

std::string_view level_name(Level level) {
  return level == Level::error ? "error" : level == Level::warning ? "warning" : "hint";
}

void Findings::begin(const Rule& rule, const PackageSubject* package, std::string function) {
  rule_ = &rule;
  package_ = package;
  function_ = std::move(function);
}

void Findings::add(Level level, std::string message) {
  const bool may_fail = rule_->grade == Grade::A || rule_->grade == Grade::B;
  if (level == Level::error && !may_fail) level = Level::warning;
  all_.push_back({rule_, level, package_ ? package_->name : "", function_, "", "", -1, std::move(message)});
}

void Findings::add(Level level, const Operation& op, std::string message) {
  add(level, std::move(message));
  Finding& f = all_.back();
  f.op = op.name();
  f.op_type = op.type;
  f.layer = package_ ? package_->values.layer_of(f.op) : -1;
}

std::span<const std::span<const Rule>> rule_groups() {
  static const std::array kGroups = {shape_rules(),  type_rules(),      op_rules(),
                                     weight_rules(), state_rules(),     size_rules(),
                                     load_rules(),   placement_rules(), trick_rules()};
  return kGroups;
}

const Rule* find_rule(std::string_view id) {
  const auto same = [&](std::string_view other) {
    return id.size() == other.size() && std::equal(id.begin(), id.end(), other.begin(), [](char a, char b) {
             return std::toupper(static_cast<unsigned char>(a)) == b;
           });
  };
  for (const auto& group : rule_groups())
    for (const Rule& rule : group)
      if (same(rule.id)) return &rule;
  return nullptr;
}

namespace {

std::string_view grade_text(Grade grade) {
  switch (grade) {
    case Grade::A: return "measured by two or more independent sources, or stated by Apple";
    case Grade::B: return "measured carefully by one source, with data";
    case Grade::C: return "one source, a small sample, or inferred: never fails a check";
    case Grade::X: return "sources contradict each other: never fails a check";
  }
  return "";
}

// The keys of `sources`, spelled out; "ct#" and the like are issue numbers and need none.
struct Source {
  std::string_view key, text;
};
constexpr Source kSources[] = {
    {"AB", "videlalvaro/ane-book (chapter, experiment or journal; M4 Max)"},
    {"AM", "videlalvaro/ane-models"},
    {"M6", "751K/Apple-Neural-Engine-Microarchitecture-Study-M6 (section; M4, M6)"},
    {"AF", "sbryngelson/ANEForge, arXiv 2606.17090 (M1, M2 Pro, M5)"},
    {"AP", "apple/coreai-models, skills/model-authoring"},
    {"JR", "john-rocky/CoreML-LLM docs (iPhone 17 Pro, M4)"},
    {"CAD", "cadamcat/llms-on-apple-neural-engine (M5 Pro)"},
    {"AN", "Anemll/Anemll docs"},
    {"SM", "smpanaro/coreml-llm-cli, more-ane-transformers"},
    {"SK", "skyfallsin/apple-neural-engine-field-guide (M3 Max)"},
    {"MAD", "maderix/ANE"},
    {"ct", "apple/coremltools issue or pull request"},
};

bool cites(std::string_view sources, std::string_view key) {
  for (size_t at = sources.find(key); at != std::string_view::npos; at = sources.find(key, at + 1)) {
    const bool starts = at == 0 || !std::isalnum(static_cast<unsigned char>(sources[at - 1]));
    const size_t end = at + key.size();
    const bool ends = end == sources.size() || !std::isalnum(static_cast<unsigned char>(sources[end]));
    if (starts && ends) return true;
  }
  return false;
}

}  // namespace

std::string source_keys(std::string_view sources) {
  std::string keys;
  for (const Source& s : kSources)
    if (cites(sources, s.key)) keys += fmt::format("{}{} = {}", keys.empty() ? "" : "; ", s.key, s.text);
  return keys;
}

std::string explain_rule(const Rule& rule) {
  std::string out = fmt::format("{}  {}\n\n", rule.id, rule.title);
  const auto row = [&](std::string_view name, std::string_view text) {
    if (!text.empty()) out += wrap(fmt::format("  {:<10}", name), text, 100);
  };
  row("evidence", fmt::format("{}: {}", static_cast<char>(rule.grade), grade_text(rule.grade)));
  row("why", rule.why);
  row("cost", rule.cost);
  row("do", rule.fix);
  row("targets", rule.targets);
  row("in check", rule.seen() ? fmt::format("{} at most", level_name(rule.level))
                              : std::string("advice: a program does not show whether it is kept"));
  row("sources", rule.sources);
  row("", source_keys(rule.sources));
  return out;
}

}  // namespace anemone
