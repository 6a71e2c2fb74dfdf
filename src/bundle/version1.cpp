#include "bundle/version1.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "anemone/package.h"
#include "base/error.h"
#include "bundle/files.h"
#include "package/package.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Role::Kind;

constexpr int64_t kMostLayers = 1 << 16;

// "k_cache_12_c512" → "k_cache_12": without the length of its tier.
std::string without_tier(const std::string& name) {
  const size_t at = name.rfind("_c");
  const bool tier = at != std::string::npos && at + 2 < name.size() &&
                    name.find_first_not_of("0123456789", at + 2) == std::string::npos;
  return tier ? name.substr(0, at) : name;
}

// The number behind `prefix`, or nothing.
std::optional<int64_t> number_behind(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() == prefix.size() || name.size() > prefix.size() + 6)
    return std::nullopt;
  const std::string digits = name.substr(prefix.size());
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoll(digits);
}

class Version1 {
 public:
  Version1(const Json& json, const std::filesystem::path& folder) : j_(json), folder_(folder) {}

  BundleInfo read() {
    read_common(j_, b_);
    read_embedding();
    for (const Json& r : j_.at("ropes")) read_rope(r);
    for (const Json& m : j_.at("masks")) {
      const int64_t window = m.at("window");
      masks_[m.at("name")] = b_.masks.size();
      b_.masks.push_back({window ? Reach::Kind::window : Reach::Kind::causal, window});
    }
    for (const Json& s : j_.at("stages"))
      if (s.contains("layers")) last_layer_ = std::max(last_layer_, s.at("layers").at(1).get<int64_t>());
    for (const Json& s : j_.at("stages")) b_.stages.push_back(read_stage(s));
    return std::move(b_);
  }

 private:
  void read_embedding() {
    const Json& e = j_.at("embedding");
    b_.tokens = {e.contains("parts") ? "" : e.at("file").get<std::string>(), e.at("dtype"),
                 e.value("scales", ""), b_.vocab};
    b_.embedding_scale = e.at("scale");
    if (e.contains("parts"))
      for (const Json& part : e.at("parts"))
        b_.embedding_parts.push_back({part.at("file"), part.at("offset"), part.value("scales", uint64_t{0}),
                                      part.at("first_row"), part.at("rows")});
  }

  void read_rope(const Json& j) {
    const size_t index = b_.ropes.size();
    ropes_[j.at("cos")] = {Kind::cos, index};
    ropes_[j.at("sin")] = {Kind::sin, index};
    RopeTable r;
    r.attention_factor = j.at("attention_factor");
    r.frequencies = j.at("frequencies").get<std::vector<double>>();
    if (j.contains("long_frequencies")) {
      r.long_frequencies = j.at("long_frequencies").get<std::vector<double>>();
      r.original_context = j.at("original_context");
    }
    b_.ropes.push_back(std::move(r));
  }

  // Keys or values of one layer, or of all layers of a packed stage.
  std::optional<Role> cache_role(const std::string& full, const Stage& stage) const {
    const std::string name = without_tier(full);
    for (const auto& [prefix, kind] :
         {std::pair{"k_cache", Kind::keys}, std::pair{"v_cache", Kind::values}}) {
      Role role{.kind = kind};
      if (name == prefix) {
        for (int64_t i = stage.first_layer; i < stage.last_layer; ++i) role.layers.push_back(i);
        return role;
      }
      if (const auto layer = number_behind(name, std::string(prefix) + "_")) {
        role.layers = {*layer};
        return role;
      }
    }
    return std::nullopt;
  }

  Role input_role(const std::string& name, const Stage& stage) const {
    if (name == "x" || name == "y") return {.kind = Kind::stream};
    if (name == "write") return {.kind = Kind::write};
    if (name == "position") return {.kind = Kind::position};
    if (const auto rope = ropes_.find(name); rope != ropes_.end())
      return {.kind = rope->second.first, .index = rope->second.second};
    if (const auto mask = masks_.find(name); mask != masks_.end())
      return {.kind = Kind::mask, .index = mask->second};
    if (const auto role = cache_role(name, stage)) return *role;
    throw errorf("the input '{}' of '{}' has no meaning in a bundle of version 1", name, stage.package);
  }

  Role output_role(const std::string& name, const Stage& stage, const Json& pieces) const {
    if (name == "y") return {.kind = Kind::stream};
    if (const auto layer = number_behind(name, "k_new_")) return {.kind = Kind::new_keys, .layers = {*layer}};
    if (const auto layer = number_behind(name, "v_new_"))
      return {.kind = Kind::new_values, .layers = {*layer}};
    for (const Json& p : pieces)
      for (const auto& [key, kind] : {std::pair{"logits", Kind::logits}, std::pair{"best", Kind::best},
                                      std::pair{"high", Kind::best_high}, std::pair{"low", Kind::best_low}})
        if (p.value(key, "") == name) {
          const int64_t first = p.at("first_row");
          return {.kind = kind, .first = first, .last = first + p.at("rows").get<int64_t>()};
        }
    throw errorf("the output '{}' of '{}' has no meaning in a bundle of version 1", name, stage.package);
  }

  Stage read_stage(const Json& j) {
    Stage s;
    s.package = j.at("package");
    if (j.contains("layers")) {
      s.first_layer = j.at("layers").at(0);
      s.last_layer = j.at("layers").at(1);
      if (s.first_layer < 0 || s.last_layer <= s.first_layer || s.last_layer > kMostLayers)
        throw errorf("'{}' has layers {} to {}", s.package, s.first_layer, s.last_layer);
    }
    const Json pieces = j.contains("pieces") ? j.at("pieces") : Json::array();
    const auto package = open_package(find_inside(folder_, s.package));
    const std::vector<Signature> all = signatures(*package);
    for (const Json& f : j.at("functions")) {
      StageFunction function;
      function.name = f.at("name");
      function.least_tokens = f.at("tokens").at(0);
      function.most_tokens = f.at("tokens").at(1);
      function.context = f.value("context", int64_t{0});
      for (const Signature& signature : all) {
        if (signature.function != function.name) continue;
        for (const TensorInfo& in : signature.inputs)
          function.interface.inputs.push_back({in.name, input_role(in.name, s)});
        for (const TensorInfo& state : signature.states)
          function.interface.states.push_back({state.name, input_role(state.name, s)});
        for (const TensorInfo& out : signature.outputs)
          function.interface.outputs.push_back({out.name, output_role(out.name, s, pieces)});
      }
      if (function.interface.outputs.empty())
        throw errorf("there is no function '{}'", function.name).at((folder_ / s.package).string());
      s.functions.push_back(std::move(function));
    }
    if (s.functions.empty()) throw errorf("'{}' has no functions", s.package);
    if (const Function* f = package->program.find_function(s.functions.front().name)) name_taps(*f, s);
    return s;
  }

  // The values inside that its lowering gave names to.
  void name_taps(const Function& f, Stage& s) const {
    std::map<std::string, size_t> order;
    for (size_t i = 0; i < f.body.ops.size(); ++i)
      for (const auto& value : f.body.ops[i]->outputs) order.emplace(value->name, i);
    const auto add = [&](const std::string& value, const char* name, int64_t layer, double scale = 1) {
      if (order.contains(value)) s.taps.push_back({value, name, layer, scale});
    };
    const double stream = b_.residual_scale;
    for (int64_t i = s.first_layer; i < s.last_layer; ++i) {
      const std::string at = fmt::format("l{}_", i);
      for (const char* side : {"q", "k"}) {  // the rotation, and a norm behind it
        const std::string norm = at + side + "_norm", rope = at + side + "_rope";
        const bool norm_last = order.contains(norm) && (!order.contains(rope) || order[norm] > order[rope]);
        add(rope, side, i);
        if (norm_last) add(norm, side, i);
      }
      add(at + "v_heads", "v", i);
      for (const char* name : {"gate", "up", "gated"}) add(at + name, name, i);
      add(at + "o", "attn_out", i, stream);
      add(at + "attn_out", "attn_residual", i, stream);
      add(at + "down", "mlp_out", i, stream);
      add(at + "mlp_out", "layer_out", i, stream);
    }
    if (s.has_layers() && s.last_layer == last_layer_) add("y", "final_norm", -1);
    if (b_.argmax)
      for (int64_t piece = 0; order.contains(fmt::format("logits_{}", piece)); ++piece)
        add(fmt::format("logits_{}", piece), "logits", piece);
  }

  const Json& j_;
  const std::filesystem::path& folder_;
  BundleInfo b_;
  int64_t last_layer_ = 0;
  std::map<std::string, std::pair<Kind, size_t>> ropes_;
  std::map<std::string, size_t> masks_;
};

}  // namespace

BundleInfo read_version1(const Json& json, const std::filesystem::path& folder) {
  return Version1(json, folder).read();
}

}  // namespace anemone
