#include "compress/recipe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_problem.h"

namespace anemone {
namespace {

using Json = nlohmann::json;

void known_keys(const Json& j, const std::set<std::string>& keys, const std::string& where) {
  if (!j.is_object()) throw errorf("{} is not an object", where).found(j.dump().substr(0, 60));
  for (const auto& [key, value] : j.items())
    if (!keys.contains(key)) {
      std::string all;
      for (const std::string& k : keys) all += (all.empty() ? "" : ", ") + k;
      throw errorf("{} has the unknown key '{}'", where, key).expected(all);
    }
}

template <class T>
T number(const Json& j, const std::string& where) {
  if (!j.is_number()) throw errorf("{} is not a number", where).found(j.dump().substr(0, 60));
  if constexpr (std::is_integral_v<T>)
    if (!j.is_number_integer()) throw errorf("{} is not a whole number", where).found(j.dump());
  return j.get<T>();
}

bool flag(const Json& j, const std::string& where) {
  if (!j.is_boolean()) throw errorf("{} is not true or false", where).found(j.dump().substr(0, 60));
  return j.get<bool>();
}

std::string text(const Json& j, const std::string& where) {
  if (!j.is_string()) throw errorf("{} is not a text", where).found(j.dump().substr(0, 60));
  return j.get<std::string>();
}

std::vector<std::string> texts(const Json& j, const std::string& where) {
  std::vector<std::string> out;
  if (j.is_string()) return {j.get<std::string>()};
  if (!j.is_array()) throw errorf("{} is not a list of texts", where).found(j.dump().substr(0, 60));
  for (const Json& item : j) out.push_back(text(item, where));
  return out;
}

PaletteForm palette_from(const Json& j, const std::string& where) {
  PaletteForm p;
  if (j.is_number()) {
    p.bits = number<int>(j, where);
    return p;
  }
  known_keys(j, {"bits", "mode", "group", "vector", "channel_scale", "int8_lut", "fast", "lut"}, where);
  if (j.contains("bits")) p.bits = number<int>(j["bits"], where + ".bits");
  if (j.contains("group")) p.group = number<int64_t>(j["group"], where + ".group");
  if (j.contains("vector")) p.vector = number<int64_t>(j["vector"], where + ".vector");
  if (j.contains("channel_scale")) p.channel_scale = flag(j["channel_scale"], where + ".channel_scale");
  if (j.contains("int8_lut")) p.int8_table = flag(j["int8_lut"], where + ".int8_lut");
  if (j.contains("fast")) p.fast = flag(j["fast"], where + ".fast");
  if (j.contains("mode")) {
    const std::string mode = text(j["mode"], where + ".mode");
    if (mode != "kmeans" && mode != "uniform" && mode != "unique")
      throw errorf("{}.mode is unknown", where).found(mode).expected("kmeans, uniform or unique");
    p.mode = mode == "kmeans"    ? PaletteForm::Mode::kmeans
             : mode == "uniform" ? PaletteForm::Mode::uniform
                                 : PaletteForm::Mode::unique;
  }
  if (j.contains("lut")) {
    p.mode = PaletteForm::Mode::given;
    if (!j["lut"].is_array()) throw errorf("{}.lut is not a list of numbers", where);
    for (const Json& v : j["lut"]) p.table.push_back(number<float>(v, where + ".lut"));
  }
  return p;
}

IntegerForm integers_from(const Json& j, const std::string& where) {
  IntegerForm q;
  const auto type = [&](const std::string& name) {
    q.dtype = dtype_from_name(name);
    if (q.dtype == DType::none)
      throw errorf("{} names no type", where).found(name).expected("int8, uint8, int4 or uint4");
  };
  if (j.is_string()) {
    type(j.get<std::string>());
    return q;
  }
  known_keys(j, {"type", "per", "block", "symmetric"}, where);
  if (j.contains("type")) type(text(j["type"], where + ".type"));
  if (j.contains("block")) {
    q.per = IntegerForm::Per::block;
    q.block = number<int64_t>(j["block"], where + ".block");
  }
  if (j.contains("per")) {
    const std::string per = text(j["per"], where + ".per");
    if (per != "tensor" && per != "channel" && per != "block")
      throw errorf("{}.per is unknown", where).found(per).expected("tensor, channel or block");
    if (per != "block" && q.block)
      throw errorf("{} has a block and is per {}", where, per).hint("leave one out");
    q.per = per == "tensor"    ? IntegerForm::Per::tensor
            : per == "channel" ? IntegerForm::Per::channel
                               : IntegerForm::Per::block;
  }
  if (j.contains("symmetric")) q.symmetric = flag(j["symmetric"], where + ".symmetric");
  return q;
}

PruneForm prune_from(const Json& j, const std::string& where) {
  PruneForm p;
  if (j.is_number()) {
    p.sparsity = number<double>(j, where);
    return p;
  }
  known_keys(j, {"sparsity", "threshold", "n", "m"}, where);
  if (j.contains("sparsity")) p.sparsity = number<double>(j["sparsity"], where + ".sparsity");
  if (j.contains("threshold")) p.threshold = number<double>(j["threshold"], where + ".threshold");
  if (j.contains("n")) p.n = number<int64_t>(j["n"], where + ".n");
  if (j.contains("m")) p.m = number<int64_t>(j["m"], where + ".m");
  return p;
}

RecipeRule rule_from(const Json& j, const std::string& where) {
  known_keys(j, {"match", "op", "min_size", "palettize", "quantize", "prune", "keep", "decompress"}, where);
  RecipeRule r;
  if (j.contains("match")) r.match = text(j["match"], where + ".match");
  if (j.contains("op")) r.op = text(j["op"], where + ".op");
  if (j.contains("min_size")) r.min_size = number<int64_t>(j["min_size"], where + ".min_size");
  if (j.contains("palettize")) r.form.palette = palette_from(j["palettize"], where + ".palettize");
  if (j.contains("quantize")) r.form.integers = integers_from(j["quantize"], where + ".quantize");
  if (j.contains("prune")) r.form.prune = prune_from(j["prune"], where + ".prune");
  if (j.contains("keep")) r.form.keep = flag(j["keep"], where + ".keep");
  if (j.contains("decompress")) r.form.dense = flag(j["decompress"], where + ".decompress");
  return r;
}

bool named(std::string_view pattern, std::string_view package, const Weight& weight) {
  if (pattern.starts_with("op:"))
    return std::any_of(weight.kinds.begin(), weight.kinds.end(),
                       [&](const std::string& kind) { return matches(pattern.substr(3), kind); });
  if (pattern.find('/') != std::string_view::npos)
    return matches(pattern, fmt::format("{}/{}", package, weight.name));
  return matches(pattern, weight.name);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, back = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      back = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++back;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

const StorageForm& Recipe::form_of(std::string_view package, const Weight& weight) const {
  static const StorageForm kept = [] {
    StorageForm f;
    f.keep = true;
    return f;
  }();
  const auto any = [&](const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& p) { return named(p, package, weight); });
  };
  // A router in few bits picks other experts; and a whole expert hangs on the share of a shared one.
  if (named("l*_router*", package, weight) || named("l*_shared_share*", package, weight)) return kept;
  if (any(skip) || (!only.empty() && !any(only)) || weight.type.size() < min_size) return kept;
  for (const RecipeRule& r : rules) {
    if (!named(r.match, package, weight) || weight.type.size() < r.min_size) continue;
    if (!r.op.empty() && !named("op:" + r.op, package, weight)) continue;
    return r.form;
  }
  return kept;
}

std::string Recipe::text() const {
  std::set<std::string> forms;
  for (const RecipeRule& r : rules)
    if (!r.form.keep) forms.insert(r.form.text());
  return forms.empty() ? "kept" : forms.size() == 1 ? *forms.begin() : "mixed";
}

PatternUse::PatternUse(const Recipe& recipe) {
  for (const std::string& text : recipe.only) patterns_.push_back({text, true});
  for (const std::string& text : recipe.skip) patterns_.push_back({text, false});
}

void PatternUse::see(std::string_view package, const Weight& weight) {
  if (patterns_.empty()) return;
  names_.push_back(fmt::format("{}/{}", package, weight.name));
  for (Pattern& pattern : patterns_) pattern.used = pattern.used || named(pattern.text, package, weight);
}

void PatternUse::check() const {
  constexpr size_t kShown = 8;
  for (const Pattern& pattern : patterns_) {
    if (!pattern.only || pattern.used) continue;
    std::string known;
    for (size_t i = 0; i < std::min(kShown, names_.size()); ++i) known += (i ? ", " : "") + names_[i];
    if (names_.size() > kShown) known += fmt::format(" and {} more", names_.size() - kShown);
    throw errorf("--only '{}' names no weight", pattern.text)
        .expected(known.empty() ? "nothing: there are no weights" : known)
        .hint("anemone inspect PACKAGE --weights lists them all");
  }
}

std::vector<std::string> PatternUse::idle_skips() const {
  std::vector<std::string> out;
  for (const Pattern& pattern : patterns_)
    if (!pattern.only && !pattern.used) out.push_back(pattern.text);
  return out;
}

namespace {

Recipe recipe_from(std::string_view json) {
  Json j;
  try {
    j = Json::parse(json);
  } catch (const Json::exception& e) {
    throw json_error(e, json, "the recipe cannot be read as JSON");
  }
  known_keys(j, {"min_size", "skip", "only", "rules"}, "the recipe");
  Recipe r;
  if (j.contains("min_size")) r.min_size = number<int64_t>(j["min_size"], "min_size");
  if (j.contains("skip")) r.skip = texts(j["skip"], "skip");
  if (j.contains("only")) r.only = texts(j["only"], "only");
  if (!j.contains("rules") || !j["rules"].is_array() || j["rules"].empty())
    throw errorf("the recipe has no rules").expected("\"rules\": [{\"palettize\": 4}]");
  for (size_t i = 0; i < j["rules"].size(); ++i)
    r.rules.push_back(rule_from(j["rules"][i], fmt::format("rules[{}]", i)));
  check_recipe(r);
  return r;
}

}  // namespace

Recipe parse_recipe(std::string_view json, const std::string& name) {
  try {
    return recipe_from(json);
  } catch (Error& e) {
    if (e.where().empty() && !name.empty()) e.within(name);
    throw;
  }
}

void check_recipe(const Recipe& recipe) {
  for (size_t i = 0; i < recipe.rules.size(); ++i) {
    try {
      check_form(recipe.rules[i].form);
    } catch (Error& e) {
      if (recipe.rules.size() > 1) e.within(fmt::format("rules[{}]", i));
      throw;
    }
  }
}

}  // namespace anemone
