#include "text/jinja/builtins.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace anemone::jinja {
namespace {

using FilterTable = std::unordered_map<std::string_view, Filter>;

FilterTable make_filter_table() {
  FilterTable table;
  for (const auto& group : {text_filters(), sequence_filters(), value_filters()}) {
    for (const Named<Filter>& f : group) table.emplace(f.name, f.function);
  }
  return table;
}

}  // namespace

Filter find_filter(std::string_view name) {
  static const FilterTable table = make_filter_table();
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

Params::Params(const Args& args, std::string_view function, std::initializer_list<std::string_view> names,
               size_t required)
    : function_(function), values_(names.size(), nullptr) {
  if (args.positional.size() > names.size()) {
    throw errorf("{}() takes at most {} arguments, not {}", function, names.size(), args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto* const it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) throw errorf("{}() has no argument '{}'", function, name);
    const auto i = static_cast<size_t>(it - names.begin());
    if (values_[i]) throw errorf("{}() got its argument '{}' twice", function, name);
    values_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i]) throw errorf("{}() needs an argument '{}'", function, *(names.begin() + i));
  }
}

int64_t Params::integer(size_t i, int64_t fallback) const {
  if (!has(i)) return fallback;
  refuse_undefined(*values_[i]);
  if (!values_[i]->is_integral()) {
    throw errorf("{}() needs an integer as its argument {}, not {}", function_, i + 1,
                 values_[i]->type_name());
  }
  return values_[i]->as_int();
}

const std::string& Params::string(size_t i) const {
  refuse_undefined(*values_[i]);
  if (!values_[i]->is_string()) {
    throw errorf("{}() needs a string as its argument {}, not {}", function_, i + 1, values_[i]->type_name());
  }
  return values_[i]->text();
}

std::string soft_text(Runtime& rt, const Value& v) { return rt.text(v); }

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

void charge_search(Runtime& rt, std::string_view text, std::string_view needle) {
  if (needle.size() > text.size()) return;
  rt.step((text.size() - needle.size() + 1) * (needle.size() + 1) / 64);
}

}  // namespace anemone::jinja
