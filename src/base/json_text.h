// json_text: JSON as text. Names come from files and prompts from people, so bytes that are no UTF-8 are replaced, and
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

}  // namespace anemone
