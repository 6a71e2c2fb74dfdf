// Description: what a package says about itself: inputs, outputs and states by function, and metadata.
//     for (const Feature& f : package.description.interface("main").inputs) fmt::print("{}\n", f.name);
// Messages of the file (ModelDescription, FunctionDescription, FeatureDescription, FeatureType, Metadata) one
// to one. `extra` holds fields of the file that we do not know, for writing back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "anemone/array.h"
#include "mil/program.h"

namespace anemone {

// Sizes from `lower` to `upper`, both included; -1: no upper bound.
struct SizeRange {
  uint64_t lower = 0;
  int64_t upper = 0;

  bool operator==(const SizeRange&) const = default;
};

struct ArrayFeature {
  std::vector<int64_t> shape;  // the fixed or default one; empty for outputs that depend on flexible inputs
  int64_t data_type = 0;       // the file's code; see array_dtype()
  std::vector<std::vector<int64_t>> enumerated;  // default first; at most one of these two
  std::vector<SizeRange> range;                  // one per dimension
  std::variant<std::monostate, int32_t, float, double> default_value;  // of an optional input

  bool operator==(const ArrayFeature&) const = default;
};

struct ImageFeature {
  int64_t width = 0, height = 0;
  int64_t color_space = 0;                              // 10 grayscale, 20 RGB, 30 BGR, 40 grayscale fp16
  std::vector<std::pair<int64_t, int64_t>> enumerated;  // width, height
  std::optional<std::pair<SizeRange, SizeRange>> range;

  bool operator==(const ImageFeature&) const = default;
};

struct FeatureType {
  enum class Kind : uint8_t { none, int64, float64, string, image, array, dictionary, sequence, state };

  Kind kind = Kind::none;
  bool optional = false;
  ArrayFeature array;               // array and state
  ImageFeature image;               // image
  Kind item = Kind::none;           // dictionary: of the keys; sequence: of the elements (int64 or string)
  std::optional<SizeRange> length;  // sequence
  // The message as it was, when it holds fields that we do not know. Written back while it still says the
  // same.
  std::string original;

  // Equal, but for `original`.
  bool operator==(const FeatureType& other) const;
  std::string text() const;  // "array fp16 [1, 64, 1, 1]"
};

struct Feature {
  std::string name;
  std::string description;
  FeatureType type;
  std::string extra;

  bool operator==(const Feature&) const = default;
};

// Inputs, outputs and states of one function.
struct Interface {
  std::string name;  // of the function; empty for a package with one unnamed interface
  std::vector<Feature> inputs, outputs, states;
  std::string predicted_feature, predicted_probabilities;  // classifiers
  std::string extra;

  const Feature* find(std::string_view feature) const;
  bool operator==(const Interface&) const = default;
};

struct Metadata {
  std::string description, version, author, license;
  std::map<std::string, std::string> user;
  std::string extra;

  bool operator==(const Metadata&) const = default;
};

struct Description {
  Interface main;                    // of a package with one function; empty where `functions` is not
  std::vector<Interface> functions;  // of a multifunction package
  std::string default_function;
  std::vector<Feature> training_inputs;
  std::optional<Metadata> metadata;

  // The interface of a function: by name, or the only one. Throws Error where there is none.
  const Interface& interface(std::string_view function) const;
  bool operator==(const Description&) const = default;
};

// The element type behind a data type code of a description (FLOAT16 → fp16), or none; and back, or 0.
DType array_dtype(int64_t code);
int64_t array_dtype_code(DType dtype);

Description decode_description(std::string_view bytes);
std::string encode_description(const Description& description);
FeatureType decode_feature_type(std::string_view bytes);
std::string encode_feature(const Feature& feature);

// The description that a program's types imply: fixed shapes, and no shape where a size is unknown.
Description description_of(const Program& program);

}  // namespace anemone
