// Fields: reads JSON by names, so that an error says which field is missing or of another kind.
//     Fields stage(json, "stages[0]");
//     s.package = stage["package"];                     // Error: 'stages[0].package' is missing
//     for (const Fields& f : stage["functions"].items()) …
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"

namespace anemone {

using BundleJson = nlohmann::ordered_json;

class Fields {
 public:
  Fields(const BundleJson& json, std::string path) : json_(&json), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool has(const char* key) const { return json_->is_object() && json_->contains(key); }

  Fields operator[](const char* key) const {
    const std::string path = path_.empty() ? key : path_ + "." + key;
    if (!json_->is_object()) throw wrong("an object");
    if (!json_->contains(key)) throw errorf("the field '{}' is missing", path);
    return {json_->at(key), path};
  }

  template <class T>
  T get() const {
    try {
      return json_->get<T>();
    } catch (const BundleJson::exception&) {
      throw wrong(kind_of<T>());
    }
  }
  template <class T>
  operator T() const {  // NOLINT: a field reads like the value that it holds
    return get<T>();
  }
  template <class T>
  T value(const char* key, T otherwise) const {
    return has(key) ? (*this)[key].template get<T>() : otherwise;
  }

  // The elements of a list.
  std::vector<Fields> items() const {
    if (!json_->is_array()) throw wrong("a list");
    std::vector<Fields> out;
    for (size_t i = 0; i < json_->size(); ++i) out.emplace_back((*json_)[i], fmt::format("{}[{}]", path_, i));
    return out;
  }
  // A list of two whole numbers.
  std::pair<int64_t, int64_t> two() const {
    const auto list = get<std::vector<int64_t>>();
    if (list.size() != 2) throw wrong("a list of two numbers");
    return {list[0], list[1]};
  }

 private:
  template <class T>
  static const char* kind_of() {
    if constexpr (std::is_same_v<T, bool>) return "true or false";
    if constexpr (std::is_arithmetic_v<T>) return "a number";
    if constexpr (std::is_same_v<T, std::string>) return "a text";
    if constexpr (std::is_same_v<T, std::vector<std::string>>) return "a list of texts";
    return "a list of numbers";
  }
  Error wrong(const char* expected) const {
    constexpr size_t kMost = 60;
    std::string found = json_line(*json_);
    if (found.size() > kMost) found = found.substr(0, kMost) + " …";
    return errorf("the field '{}' is of another kind", path_).found(found).expected(expected);
  }

  const BundleJson* json_;
  std::string path_;
};

}  // namespace anemone
