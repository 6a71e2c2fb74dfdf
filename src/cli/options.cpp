#include "cli/options.h"

#include <algorithm>
#include <sstream>

namespace anemone::cli {

using Item = Options::Item;
using Kind = Item::Kind;

Item& Item::must() {
  required = true;
  return *this;
}

Item& Item::one_of(std::vector<std::string> allowed) {
  choices = std::move(allowed);
  return *this;
}

Item& Item::also(std::string names) {
  aliases = std::move(names);
  return *this;
}

Item& Item::behind_if(bool (*test)(const std::string& word)) {
  is_value = test;
  return *this;
}

Item& Item::or_alone(std::string text) {
  implied = std::move(text);
  return *this;
}

Item& Item::reads() {
  path = Path::input;
  return *this;
}

Item& Item::streams() {
  stream = true;
  return reads();
}

Item& Item::writes() {
  path = Path::output;
  return *this;
}

Item& Item::takes(unsigned kinds) {
  sources = kinds;
  return reads();
}

std::vector<std::string> Item::flag_names(bool with_aliases) const {
  std::vector<std::string> out;
  std::istringstream names(with_aliases && !aliases.empty() ? name + "," + aliases : name);
  for (std::string part; std::getline(names, part, ',');)
    if (part.starts_with('-')) out.push_back(part);
  return out;
}

std::string Item::main_name() const {
  const std::vector<std::string> names = flag_names(false);
  const auto word =
      std::find_if(names.begin(), names.end(), [](const auto& n) { return n.starts_with("--"); });
  return word != names.end() ? *word : name;
}

std::vector<std::string> Item::values() const {
  switch (kind) {
    case Kind::positional:
    case Kind::text: {
      const std::string& text = *static_cast<const std::string*>(target);
      return text.empty() ? std::vector<std::string>{} : std::vector{text};
    }
    case Kind::positionals:
    case Kind::texts: return *static_cast<const std::vector<std::string>*>(target);
    case Kind::flag:
    case Kind::integer:
    case Kind::real: break;
  }
  return {};
}

Item& Options::add(Kind kind, std::string name, std::string value, std::string help, void* target) {
  Item& item = items_.emplace_back();
  item.kind = kind;
  item.name = std::move(name);
  item.value = std::move(value);
  item.help = std::move(help);
  item.target = target;
  item.group = group_;
  return item;
}

Item& Options::positional(std::string name, std::string& target, std::string help, bool required) {
  Item& item = add(Kind::positional, std::move(name), "", std::move(help), &target);
  item.required = required;
  return item;
}

Item& Options::positionals(std::string name, std::vector<std::string>& target, std::string help,
                           bool required) {
  Item& item = add(Kind::positionals, std::move(name), "", std::move(help), &target);
  item.required = required;
  return item;
}

Item& Options::flag(std::string name, bool& target, std::string help) {
  return add(Kind::flag, std::move(name), "", std::move(help), &target);
}

Item& Options::text(std::string name, std::string value, std::string& target, std::string help) {
  return add(Kind::text, std::move(name), std::move(value), std::move(help), &target);
}

Item& Options::integer(std::string name, std::string value, int64_t& target, std::string help) {
  return add(Kind::integer, std::move(name), std::move(value), std::move(help), &target);
}

Item& Options::real(std::string name, std::string value, double& target, std::string help) {
  return add(Kind::real, std::move(name), std::move(value), std::move(help), &target);
}

Item& Options::texts(std::string name, std::string value, std::vector<std::string>& target,
                     std::string help) {
  return add(Kind::texts, std::move(name), std::move(value), std::move(help), &target);
}

const Item* Options::find_flag(const std::string& name) const {
  for (const Item& item : items_) {
    const std::vector<std::string> names = item.flag_names(true);
    if (std::find(names.begin(), names.end(), name) != names.end()) return &item;
  }
  return nullptr;
}

}  // namespace anemone::cli
