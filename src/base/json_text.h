// json_text: JSON as text. Names come from files and prompts from people, so bytes that are not UTF-8 are replaced, and
// nothing is thrown.
//     print(json_text(report, 2));
#pragma once

#include <string>

namespace anemone {

// indent -1: in one line.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// In one line, with a space behind every comma and colon.
template <class Json>
std::string json_line(const Json& json) {
  if (!json.is_structured()) return json_text(json);
  std::string out = json.is_object() ? "{" : "[";
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (it != json.begin()) out += ", ";
    if (json.is_object()) out += json_text(Json(it.key())) + ": ";
    out += json_line(*it);
  }
  return out + (json.is_object() ? "}" : "]");
}

// Indented by one space a level; what fits into one line of `width` columns is one line, and a list of numbers
// fills its lines.
template <class Json>
std::string json_lines(const Json& json, size_t width = 120, size_t depth = 0, size_t used = 0) {
  std::string line = json_line(json);
  if (!json.is_structured() || json.empty() || depth + used + line.size() < width) return line;
  const std::string indent(depth + 1, ' ');
  std::string out = json.is_object() ? "{" : "[";
  size_t column = width;
  for (auto it = json.begin(); it != json.end(); ++it) {
    std::string item;
    if (json.is_object()) item = json_text(Json(it.key())) + ": ";
    item += json_lines(*it, width, depth + 1, item.size());
    if (it != json.begin()) out += ",";
    if (it->is_number() && json.is_array() && column + item.size() + 2 < width) {
      out += " " + item;
      column += item.size() + 2;
    } else {
      out += "\n" + indent + item;
      column = indent.size() + item.size();
    }
  }
  return out + "\n" + std::string(depth, ' ') + (json.is_object() ? "}" : "]");
}

}  // namespace anemone
