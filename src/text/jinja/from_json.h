// JSON → Value, keeping the order of keys.
//     Value messages = jinja::from_json(request["messages"]);
//     Value tools = jinja::parse_json(R"([{"type": "function"}])");
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "text/jinja/value.h"

namespace anemone::jinja {

Value from_json(const nlohmann::ordered_json& j);
Value parse_json(std::string_view text);

}  // namespace anemone::jinja
