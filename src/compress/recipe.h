// Recipe: which weights get which form: rules, of which the first that matches a weight decides.
//     Recipe r = parse_recipe(MappedFile::open("r.json")->text(), "r.json");
//     const StorageForm& form = r.form_of("layers_00", weight);
//
//     { "min_size": 2048,                       weights of fewer elements are kept
//       "skip": ["*norm*", "op:gather"],        and so are those that match one of these
//       "rules": [
//         {"match": "head_*/*", "quantize": "int8"},
//         {"match": "*_down*", "palettize": {"bits": 6}},
//         {"op": "conv", "palettize": {"bits": 4, "group": 16}, "prune": 0.4},
//         {"keep": true} ] }
//
// A pattern is a weight's name with * and ?; with a slash it is compared with "package/name", and "op:conv"
// names the operations that use the weight.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compress/form.h"
#include "compress/weight.h"

namespace anemone {

// The default: weights of fewer elements are kept, because they are small and lose much.
inline constexpr int64_t kLeastCompressed = 2048;

struct RecipeRule {
  std::string match = "*";
  std::string op;        // empty: any
  int64_t min_size = 0;  // elements
  StorageForm form;
};

struct Recipe {
  std::vector<std::string> skip, only;  // only: empty means all
  int64_t min_size = kLeastCompressed;
  std::vector<RecipeRule> rules;

  // The form of a weight of the package `package` (its name without ".mlpackage").
  const StorageForm& form_of(std::string_view package, const Weight& weight) const;
  // What the rules do, for people: "4-bit palette, groups of 16"; "mixed" where they differ.
  std::string text() const;
};

// Error, naming the rule and the key, for what is not understood; `name` stands before it.
Recipe parse_recipe(std::string_view json, const std::string& name = "");

// Which patterns of a recipe's `skip` and `only` name a weight of one of the packages: one that was typed wrong names
// none.
class PatternUse {
 public:
  explicit PatternUse(const Recipe& recipe);
  void see(std::string_view package, const Weight& weight);
  // Error, with names that there are, for a pattern of `only` that names no weight.
  void check() const;
  // The patterns of `skip` that name none.
  std::vector<std::string> idle_skips() const;

 private:
  struct Pattern {
    std::string text;
    bool only = false, used = false;
  };
  std::vector<Pattern> patterns_;
  std::vector<std::string> names_;  // "layers_00/l0_q_weight"
};

// Checks every rule's form.
void check_recipe(const Recipe& recipe);

// `pattern` with * (any text) and ? (any character).
bool matches(std::string_view pattern, std::string_view text);

}  // namespace anemone
