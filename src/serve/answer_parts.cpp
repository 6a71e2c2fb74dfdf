#include "serve/answer_parts.h"

#include <algorithm>
#include <cctype>

#include "base/json_text.h"
#include "serve/fields.h"

namespace anemone::serve {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";
constexpr std::string_view kPython = "<|python_tag|>", kMistral = "[TOOL_CALLS]";
constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kStart = "<|start|>",
                           kEnd = "<|end|>";

// How many characters at the end of a text may be the start of a mark.
size_t undecided(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n)
    if (mark.starts_with(text.substr(text.size() - n))) return n;
  return 0;
}

std::string_view without_spaces(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

ToolForm tool_form(std::string_view chat_template) {
  const auto has = [&](std::string_view what) { return chat_template.find(what) != chat_template.npos; };
  if (has(kChannel)) return ToolForm::harmony;
  if (has(kMistral)) return ToolForm::mistral;
  if (has(kCall)) return ToolForm::hermes;
  if (has(kPython) || has("<|start_header_id|>")) return ToolForm::llama;
  return ToolForm::generic;
}

AnswerParts::AnswerParts(PartsOptions options) : options_(options) {
  if (options_.form == ToolForm::harmony) mode_ = Mode::header;
  if (options_.reasoning && options_.thinking && mode_ == Mode::content) mode_ = Mode::reasoning;
}

std::vector<Part> AnswerParts::feed(std::string_view text) {
  held_ += text;
  std::vector<Part> out;
  run(false, out);
  return out;
}

std::vector<Part> AnswerParts::finish() {
  std::vector<Part> out;
  run(true, out);
  return out;
}

void AnswerParts::run(bool all, std::vector<Part>& out) {
  for (bool more = true; more && !held_.empty();) {
    switch (mode_) {
      case Mode::content: more = in_content(all, out); break;
      case Mode::reasoning: more = in_reasoning(all, out); break;
      case Mode::call: more = in_call(all, out); break;
      case Mode::header: more = in_header(all); break;
    }
  }
}

void AnswerParts::give(Part::Kind kind, std::string text, std::vector<Part>& out) {
  if (after_thought_ && kind == Part::Kind::content) {
    text.erase(0, std::min(text.find_first_not_of(" \r\n\t"), text.size()));
    after_thought_ = text.empty();
  }
  if (text.empty()) return;
  if (kind == Part::Kind::content && !without_spaces(text).empty()) started_ = true;
  if (!out.empty() && out.back().kind == kind && kind != Part::Kind::call)
    out.back().text += text;
  else
    out.push_back({kind, std::move(text), ""});
}

// Up to the next mark that opens something else.
bool AnswerParts::in_content(bool all, std::vector<Part>& out) {
  const std::string_view first = without_spaces(held_);
  const bool whole_calls =
      options_.tools && (options_.form == ToolForm::generic || options_.form == ToolForm::llama);
  if (whole_calls && !started_ && (first.starts_with('{') || first.starts_with('['))) {
    mode_ = Mode::call;
    return true;
  }
  if (whole_calls && !started_ && first.empty() && !all) return false;
  std::vector<std::string_view> marks;
  if (options_.reasoning && !started_) marks.push_back(kThink);
  if (options_.tools && options_.form == ToolForm::hermes) marks.push_back(kCall);
  if (options_.tools && options_.form == ToolForm::llama) marks.push_back(kPython);
  if (options_.tools && options_.form == ToolForm::mistral) marks.push_back(kMistral);
  if (options_.form == ToolForm::harmony) marks.insert(marks.end(), {kChannel, kStart, kEnd});
  size_t at = std::string::npos, hold = 0;
  std::string_view found;
  for (const std::string_view mark : marks) {
    const size_t place = held_.find(mark);
    const bool counts = mark != kThink || without_spaces(std::string_view(held_).substr(0, place)).empty();
    if (place < at && counts) {
      at = place;
      found = mark;
    }
    hold = std::max(hold, undecided(held_, mark));
  }
  if (found.empty()) {
    size_t end = held_.size() - (all ? 0 : hold);
    // Spaces before a call belong to it.
    while (options_.tools && !all && end > 0 && std::isspace(static_cast<unsigned char>(held_[end - 1])))
      --end;
    std::string text = held_.substr(0, end);
    held_.erase(0, end);
    give(Part::Kind::content, std::move(text), out);
    return false;
  }
  std::string before = held_.substr(0, at);
  if (found == kThink && without_spaces(before).empty()) before.clear();
  if (found == kCall || found == kMistral || found == kPython)
    before.erase(std::min(before.find_last_not_of(" \r\n\t") + 1, before.size()));
  held_.erase(0, at + found.size());
  give(Part::Kind::content, std::move(before), out);
  mode_ = found == kThink ? Mode::reasoning : options_.form == ToolForm::harmony ? Mode::header : Mode::call;
  return true;
}

bool AnswerParts::in_reasoning(bool all, std::vector<Part>& out) {
  const bool harmony = options_.form == ToolForm::harmony;
  const std::string_view mark = harmony ? kEnd : kThinkEnd;
  const size_t at = held_.find(mark);
  size_t end = at != std::string::npos ? at : held_.size() - (all ? 0 : undecided(held_, mark));
  // Spaces before the mark belong to it.
  while (at == std::string::npos && !all && end > 0 &&
         std::isspace(static_cast<unsigned char>(held_[end - 1])))
    --end;
  std::string text = held_.substr(0, end);
  held_.erase(0, at != std::string::npos ? at + mark.size() : end);
  if (at != std::string::npos) {
    text.erase(std::min(text.find_last_not_of(" \r\n\t") + 1, text.size()));
    mode_ = harmony ? Mode::header : Mode::content;
    after_thought_ = true;
  }
  give(Part::Kind::reasoning, std::move(text), out);
  return at != std::string::npos;
}

bool AnswerParts::in_call(bool all, std::vector<Part>& out) {
  const bool hermes = options_.form == ToolForm::hermes;
  const size_t at = hermes ? held_.find(kCallEnd) : std::string::npos;
  if (at == std::string::npos && !all) return false;
  const std::string text = held_.substr(0, at);
  if (!give_calls(text, out)) give(Part::Kind::content, (hermes ? std::string(kCall) : "") + text, out);
  held_.erase(0, at == std::string::npos ? held_.size() : at + kCallEnd.size());
  mode_ = Mode::content;
  after_thought_ = true;
  return true;
}

// harmony: "assistant<|channel|>final<|message|>", or any part of it; then what the channel is for.
bool AnswerParts::in_header(bool all) {
  const size_t at = held_.find(kMessage);
  if (at == std::string::npos) {
    // An answer without any mark is an ordinary text.
    const bool plain =
        held_.find("<|") == std::string::npos && !held_.starts_with('<') && !held_.starts_with("assistant");
    if (all || (plain && held_.size() > 16)) {
      mode_ = Mode::content;
      return true;
    }
    return false;
  }
  const std::string header = held_.substr(0, at);
  held_.erase(0, at + kMessage.size());
  const size_t to = header.find("to=functions.");
  if (to != std::string::npos) {
    tool_ = header.substr(to + 13);
    tool_.erase(std::min(tool_.find_first_of(" <"), tool_.size()));
    mode_ = Mode::call;
  } else {
    mode_ = header.find("analysis") != std::string::npos ? Mode::reasoning : Mode::content;
  }
  return true;
}

bool AnswerParts::give_calls(std::string_view text, std::vector<Part>& out) {
  const std::optional<Json> given = parse_inner(without_spaces(text));
  if (!given) return false;
  const Json& json = *given;
  if (options_.form == ToolForm::harmony) {
    out.push_back({Part::Kind::call, json_text(json), tool_});
    return true;
  }
  std::vector<Part> calls;
  const Json list = json.is_object() && json.contains("tool_calls") ? json["tool_calls"]
                    : json.is_array()                               ? json
                                                                    : Json::array({json});
  if (!list.is_array()) return false;
  for (const Json& item : list) {
    const Json call = item.is_object() && item.contains("function") && item["function"].is_object()
                          ? item["function"]
                          : item;
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return false;
    Json arguments = call.contains("arguments")    ? call["arguments"]
                     : call.contains("parameters") ? call["parameters"]
                                                   : Json::object();
    if (arguments.is_string()) arguments = parse_inner(arguments.get<std::string>()).value_or(Json());
    if (!arguments.is_object()) return false;
    calls.push_back({Part::Kind::call, json_text(arguments), call["name"].get<std::string>()});
  }
  out.insert(out.end(), calls.begin(), calls.end());
  return !calls.empty();
}

}  // namespace anemone::serve
