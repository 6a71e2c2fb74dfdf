// Fields: reads the fields of a request by name and type. A field that is null is absent; a wrong one is an ApiError
// that names it.
//     Fields fields(body);
//     double t = fields.number("temperature", 0, 100).value_or(0.8);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api_error.h"

namespace anemone::serve {

class Fields {
 public:
  // Error for a body that is no object. The body must outlive this.
  explicit Fields(const Json& body);

  const Json* find(const char* name) const;  // null: absent
  std::optional<double> number(const char* name, double least, double most) const;
  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most) const;
  std::optional<bool> flag(const char* name) const;
  std::optional<std::string> text(const char* name) const;
  // One text or a list of them.
  std::vector<std::string> texts(const char* name) const;
  // Present and asking for something.
  void refuse(const char* name, const std::string& why) const;

 private:
  const Json& body_;
};

// The JSON of a request's body. ApiError says where it is wrong. Nesting is bounded, and so is the number of members.
Json parse_body(const std::string& text);
// The same bounds for JSON inside of a text, such as the arguments of a call; nothing where it is not valid.
std::optional<Json> parse_inner(std::string_view text);

}  // namespace anemone::serve
