#include "families/hparams.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return fmt::format("{}", value.get<double>());  // JSON has no name for it
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

const Json* find_json(const Json& object, const std::string& key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// JSON has one kind of number, and some files write 4096.0; GGUF has several kinds.
constexpr ByNaming<bool> kWholeFloats{true, false};
constexpr ByNaming<bool> kHasDefaults{true, false};
// How a key is named in messages.
constexpr ByNaming<const char*> kNamed{"'{}' of config.json", "'{}'"};
// Where the model's numbers are one level deeper.
constexpr Key kTextPart{"text_config", ""};

Naming naming_of(const Checkpoint& checkpoint) {
  if (const auto naming = checkpoint.naming()) return *naming;
  throw errorf("the {} has no keys that describe its model", checkpoint.format_name())
      .at(checkpoint.path().string())
      .hint("no model family recognizes this checkpoint");
}

std::optional<int64_t> to_integer(const Json& value, Naming naming) {
  if (value.is_number_integer()) {
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
    return value.get<int64_t>();
  }
  if (value.is_number_float() && kWholeFloats[naming]) {
    const double number = value.get<double>();
    if (std::abs(number) < 0x1p53 && number == std::floor(number)) return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

std::optional<double> to_number(const Json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

std::optional<bool> to_flag(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value == 0 || value == 1) return value == 1;
  return std::nullopt;
}

std::optional<std::string> to_text(const Json& value) {
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

constexpr const char* kInteger = "a whole number";
constexpr const char* kNumber = "a finite number";

Error wrong_json(const char* key, const Json& value, const char* wanted, const std::string& file) {
  return errorf("'{}' has a value of the wrong kind", key).at(file).found(shown(value)).expected(wanted);
}

}  // namespace

std::optional<double> find_json_number(const Json& object, const char* key, const std::string& file) {
  const Json* value = find_json(object, key);
  if (!value) return std::nullopt;
  const std::optional<double> number = to_number(*value);
  if (!number) throw wrong_json(key, *value, kNumber, file);
  return number;
}

std::vector<double> json_numbers(const Json& object, const char* key, const std::string& file) {
  const Json* value = find_json(object, key);
  if (!value) return {};
  if (!value->is_array()) throw wrong_json(key, *value, "a list of numbers", file);
  std::vector<double> out;
  for (const Json& element : *value) {
    const std::optional<double> number = to_number(element);
    if (!number) throw wrong_json(key, element, kNumber, file);
    out.push_back(*number);
  }
  return out;
}

Hparams::Hparams(const Checkpoint& checkpoint)
    : checkpoint_(checkpoint),
      naming_(naming_of(checkpoint)),
      prefix_(ByNaming<std::string>("", checkpoint.architecture() + ".")[naming_]) {
  if (!spells(kTextPart)) return;
  if (const std::optional<Json> text = checkpoint.value(kTextPart[naming_]); text && text->is_object())
    text_ = std::make_shared<const Json>(*text);
}

std::string Hparams::spelled(const Key& key) const {
  const std::string_view written = key[naming_];
  const bool whole = written.empty() || written.starts_with("tokenizer.");
  return (whole ? "" : prefix_) + std::string(written);
}

std::string Hparams::named(const Key& key) const {
  return fmt::format(fmt::runtime(kNamed[naming_]), printable(spelled(key)));
}

bool Hparams::has_defaults() const { return kHasDefaults[naming_]; }

Error Hparams::missing(const Key& key) const {
  return errorf("{} is missing", named(key)).at(file()).hint("the model cannot be described without it");
}

Error Hparams::wrong_kind(const std::string& named, std::string found, const char* wanted) const {
  return errorf("{} has a value of the wrong kind", named)
      .at(file())
      .found(std::move(found))
      .expected(wanted);
}

std::optional<Json> Hparams::find(const std::string& key) const {
  if (key.empty()) return std::nullopt;
  if (text_) {
    const Json* value = find_json(*text_, key);
    return value ? std::optional<Json>(*value) : std::nullopt;
  }
  std::optional<Json> value = checkpoint_.value(key);
  if (value && value->is_null()) value.reset();
  return value;
}

bool Hparams::says(const Key& key) const {
  const std::string name = spelled(key);
  if (name.empty()) return false;
  return text_ ? text_->contains(name) : checkpoint_.value(name).has_value();
}

std::optional<uint64_t> Hparams::list_size(const Key& key) const {
  const std::string name = spelled(key);
  if (name.empty()) return std::nullopt;
  if (!text_) return checkpoint_.list_size(name);
  const Json* value = find_json(*text_, name);
  return value && value->is_array() ? std::optional<uint64_t>(value->size()) : std::nullopt;
}

int64_t Hparams::as_integer(const std::string& named, const Json& value) const {
  const std::optional<int64_t> integer = to_integer(value, naming_);
  if (!integer) throw wrong_kind(named, shown(value), kInteger);
  return *integer;
}

void Hparams::expect_in_range(const Key& key, int64_t value, int64_t least, int64_t most) const {
  if (value < least || value > most)
    throw errorf("{} is out of range", named(key))
        .at(file())
        .found(std::to_string(value))
        .expected(fmt::format("{} to {}", least, most));
}

std::optional<int64_t> Hparams::find_integer(const Key& key, int64_t least, int64_t most) const {
  const std::optional<Json> value = find(spelled(key));
  if (!value) return std::nullopt;
  const std::string name = named(key);
  if (value->is_array() && value->empty()) throw wrong_kind(name, "an empty list", kInteger);
  const int64_t first = as_integer(name, value->is_array() ? value->front() : *value);
  if (value->is_array())
    for (size_t i = 1; i < value->size(); ++i)
      if (const int64_t other = as_integer(name, (*value)[i]); other != first)
        throw errorf("{} differs from layer to layer, which is not supported", name)
            .at(file())
            .found(fmt::format("{} in layer 0, {} in layer {}", first, other, i));
  expect_in_range(key, first, least, most);
  return first;
}

std::optional<double> Hparams::find_number(const Key& key) const {
  const std::optional<Json> value = find(spelled(key));
  if (!value) return std::nullopt;
  const std::optional<double> number = to_number(*value);
  if (!number) throw wrong_kind(named(key), shown(*value), kNumber);
  return number;
}

std::optional<bool> Hparams::find_flag(const Key& key) const {
  const std::optional<Json> value = find(spelled(key));
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw wrong_kind(named(key), shown(*value), "true or false");
  return value->get<bool>();
}

std::optional<std::string> Hparams::find_text(const Key& key) const {
  const std::optional<Json> value = find(spelled(key));
  if (!value) return std::nullopt;
  if (!value->is_string()) throw wrong_kind(named(key), shown(*value), "a text");
  return value->get<std::string>();
}

std::optional<Json> Hparams::find_object(const Key& key) const {
  std::optional<Json> value = find(spelled(key));
  if (value && !value->is_object()) throw wrong_kind(named(key), shown(*value), "an object {…}");
  return value;
}

int64_t Hparams::integer(const Key& key, int64_t least, int64_t most) const {
  const std::optional<int64_t> value = find_integer(key, least, most);
  if (!value) throw missing(key);
  return *value;
}

double Hparams::number(const Key& key) const {
  const std::optional<double> value = find_number(key);
  if (!value) throw missing(key);
  return *value;
}

int64_t Hparams::integer_or(const Key& key, int64_t otherwise, int64_t least, int64_t most) const {
  const std::optional<int64_t> value = find_integer(key, least, most);
  if (!value && !(has_defaults() && otherwise != 0)) throw missing(key);
  return value.value_or(otherwise);
}

double Hparams::number_or(const Key& key, double otherwise) const {
  const std::optional<double> value = find_number(key);
  if (!value && !(has_defaults() && otherwise != 0)) throw missing(key);
  return value.value_or(otherwise);
}

template <class T, class Convert>
std::optional<std::vector<T>> Hparams::find_list(const Key& key, std::optional<size_t> layers,
                                                 bool one_for_all, const char* wanted,
                                                 const Convert& convert) const {
  const std::optional<Json> value = find(spelled(key));
  if (!value) return std::nullopt;
  const std::string name = named(key);
  if (!value->is_array()) {
    const std::optional<T> one = one_for_all ? convert(*value) : std::nullopt;
    if (!one) throw wrong_kind(name, shown(*value), wanted);
    return std::vector<T>(layers.value_or(1), *one);
  }
  if (layers && value->size() != *layers)
    throw errorf("{} has another number of layers than the model", name)
        .at(file())
        .found(std::to_string(value->size()))
        .expected(fmt::format("{} ({})", *layers, named(keys::kLayers)));
  std::vector<T> out;
  for (const Json& element : *value) {
    const std::optional<T> converted = convert(element);
    if (!converted) throw wrong_kind(name, fmt::format("{} in place {}", shown(element), out.size()), wanted);
    out.push_back(*converted);
  }
  return out;
}

std::optional<std::vector<int64_t>> Hparams::find_layer_integers(const Key& key, size_t layers, int64_t least,
                                                                 int64_t most) const {
  const auto convert = [&](const Json& value) { return to_integer(value, naming_); };
  const auto list = find_list<int64_t>(key, layers, true, "a list of whole numbers", convert);
  for (const int64_t value : list.value_or(std::vector<int64_t>())) expect_in_range(key, value, least, most);
  return list;
}

std::optional<std::vector<bool>> Hparams::find_layer_flags(const Key& key, size_t layers) const {
  return find_list<bool>(key, layers, false, "a list of true and false, or 1 and 0", to_flag);
}

std::optional<std::vector<std::string>> Hparams::find_layer_texts(const Key& key, size_t layers) const {
  return find_list<std::string>(key, layers, false, "a list of texts", to_text);
}

std::optional<std::vector<int64_t>> Hparams::find_integers(const Key& key, int64_t least,
                                                           int64_t most) const {
  const auto convert = [&](const Json& value) { return to_integer(value, naming_); };
  const auto list = find_list<int64_t>(key, std::nullopt, false, "a list of whole numbers", convert);
  for (const int64_t value : list.value_or(std::vector<int64_t>())) expect_in_range(key, value, least, most);
  return list;
}

std::vector<int64_t> Hparams::find_token_ids(const Key& key, int64_t vocab) const {
  const std::string name = spelled(key);
  std::optional<Json> value = find(name);
  if (!value && text_ && !name.empty()) {  // it may stand beside the text part
    value = checkpoint_.value(name);
    if (value && value->is_null()) value.reset();
  }
  std::vector<int64_t> ids;
  if (value && value->is_array())
    for (const Json& id : *value) ids.push_back(as_integer(named(key), id));
  else if (value)
    ids.push_back(as_integer(named(key), *value));
  for (const int64_t id : ids)
    if (id < 0 || id >= vocab)
      throw errorf("{} is not a token of the vocabulary", named(key))
          .at(file())
          .found(std::to_string(id))
          .expected(fmt::format("0 to {}", vocab - 1));
  return ids;
}

}  // namespace anemone
