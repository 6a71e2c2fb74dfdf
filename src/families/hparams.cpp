#include "families/hparams.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

const Json* find_json(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

Error wrong_kind(const char* key, const Json& value, const char* wanted, const std::string& file) {
  return errorf("'{}' has a value of the wrong kind", key).at(file).found(shown(value)).expected(wanted);
}

// A whole number; some files write 4096.0.
int64_t as_integer(const char* key, const Json& value, const std::string& file) {
  if (value.is_number_integer()) {
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})
      throw wrong_kind(key, value, "a smaller number", file);
    return value.get<int64_t>();
  }
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::abs(number) < 0x1p53 && number == std::floor(number)) return static_cast<int64_t>(number);
  }
  throw wrong_kind(key, value, "a whole number", file);
}

double as_number(const char* key, const Json& value, const std::string& file) {
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    throw wrong_kind(key, value, "a finite number", file);
  return value.get<double>();
}

}  // namespace

std::optional<double> find_json_number(const Json& object, const char* key, const std::string& file) {
  const Json* value = find_json(object, key);
  if (!value) return std::nullopt;
  return as_number(key, *value, file);
}

std::vector<double> json_numbers(const Json& object, const char* key, const std::string& file) {
  const Json* value = find_json(object, key);
  if (!value) return {};
  if (!value->is_array()) throw wrong_kind(key, *value, "a list of numbers", file);
  std::vector<double> out;
  for (const Json& element : *value) out.push_back(as_number(key, element, file));
  return out;
}

Hparams::Hparams(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

const Json& Hparams::config() const {
  const Json& whole = checkpoint_.config();
  const Json* text = find_json(whole, "text_config");
  return text && text->is_object() ? *text : whole;
}

bool Hparams::has_text_part() const { return !is_gguf() && &config() != &checkpoint_.config(); }

std::string Hparams::gguf_key(const Key& key) const { return checkpoint_.architecture() + "." + key.gguf; }

std::string Hparams::named(const Key& key) const {
  if (is_gguf()) return fmt::format("'{}'", printable(gguf_key(key)));
  return fmt::format("'{}' of config.json", key.config);
}

std::string Hparams::file() const {
  return is_gguf() ? checkpoint_.path().string() : (checkpoint_.folder() / "config.json").string();
}

Error Hparams::missing(const Key& key) const {
  return errorf("{} is missing", named(key)).at(file()).hint("the model cannot be described without it");
}

std::optional<int64_t> Hparams::find_any_integer(const Key& key) const {
  if (!is_gguf()) {
    const Json* value = *key.config ? find_json(config(), key.config) : nullptr;
    if (!value) return std::nullopt;
    return as_integer(key.config, *value, file());
  }
  if (!*key.gguf) return std::nullopt;
  const std::vector<int64_t> values = checkpoint_.gguf().integers(gguf_key(key));
  if (values.empty()) return std::nullopt;
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] != values[0])
      throw errorf("{} differs from layer to layer, which is not supported", named(key))
          .at(file())
          .found(fmt::format("{} in layer 0, {} in layer {}", values[0], values[i], i));
  return values[0];
}

std::optional<int64_t> Hparams::find_integer(const Key& key, int64_t least, int64_t most) const {
  const std::optional<int64_t> value = find_any_integer(key);
  if (value && (*value < least || *value > most))
    throw errorf("{} is out of range", named(key))
        .at(file())
        .found(std::to_string(*value))
        .expected(fmt::format("{} to {}", least, most));
  return value;
}

std::optional<double> Hparams::find_number(const Key& key) const {
  if (!is_gguf()) return *key.config ? find_json_number(config(), key.config, file()) : std::nullopt;
  if (!*key.gguf) return std::nullopt;
  const std::optional<double> value = checkpoint_.gguf().number(gguf_key(key));
  if (value && !std::isfinite(*value)) throw errorf("{} is not finite", named(key)).at(file());
  return value;
}

std::optional<bool> Hparams::find_flag(const Key& key) const {
  if (is_gguf()) return *key.gguf ? checkpoint_.gguf().boolean(gguf_key(key)) : std::nullopt;
  const Json* value = *key.config ? find_json(config(), key.config) : nullptr;
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw wrong_kind(key.config, *value, "true or false", file());
  return value->get<bool>();
}

std::optional<std::string> Hparams::find_text(const Key& key) const {
  if (is_gguf()) {
    if (!*key.gguf) return std::nullopt;
    const auto text = checkpoint_.gguf().string(gguf_key(key));
    return text ? std::optional<std::string>(*text) : std::nullopt;
  }
  const Json* value = *key.config ? find_json(config(), key.config) : nullptr;
  if (!value) return std::nullopt;
  if (!value->is_string()) throw wrong_kind(key.config, *value, "a text", file());
  return value->get<std::string>();
}

bool Hparams::says(const Key& key) const { return config().contains(key.config); }

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

std::vector<int64_t> Hparams::find_token_ids(const Key& key, int64_t vocab) const {
  std::vector<int64_t> ids;
  std::string name;
  if (is_gguf()) {
    name = key.gguf;  // these keys stand for themselves, without the architecture
    if (*key.gguf) ids = checkpoint_.gguf().integers(key.gguf);
  } else {
    name = key.config;
    const Json* value = find_json(config(), key.config);
    if (!value) value = find_json(checkpoint_.config(), key.config);
    if (value && value->is_array())
      for (const Json& id : *value) ids.push_back(as_integer(key.config, id, file()));
    else if (value)
      ids.push_back(as_integer(key.config, *value, file()));
  }
  for (const int64_t id : ids)
    if (id < 0 || id >= vocab)
      throw errorf("'{}' is no token of the vocabulary", name)
          .at(file())
          .found(std::to_string(id))
          .expected(fmt::format("0 to {}", vocab - 1));
  return ids;
}

}  // namespace anemone
