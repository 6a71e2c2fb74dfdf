// DocHost: a host as docs/bundle.md describes it. It reads bundle.json and the files by itself, makes every input
// by the page's table of roles, and uses nothing of bundle/ and runtime/.
//     DocHost host(folder);
//     host.call(ids, 0, {.width = 4, .context = 16});
//     host.outputs("logits");                                    // of the last call, in the order of the stages
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "anemone/predictor.h"
#include "convert/doc_pass.h"
#include "support/temp_folder.h"

namespace anemone::test {

struct DocCall {
  int64_t width = 1, context = 0;  // which functions: T and S
  DocPadding padding = DocPadding::zeros;
  std::string pooling = "mean";
};

class DocHost {
 public:
  using Json = nlohmann::json;

  // `variant`: empty, or the one to run, where the bundle has some.
  explicit DocHost(const std::filesystem::path& bundle, const std::string& variant = "")
      : folder_(bundle), info_(Json::parse(slurp(bundle / "bundle.json"))) {
    if (!variant.empty()) choose(variant);
    for (const auto& [name, table] : info_["embedding"].items())
      if (table.is_object()) tables_[name] = slurp(bundle / table["file"].get<std::string>());
  }

  const Json& info() const { return info_; }
  // What went in and came out of the last call: of all stages, by name, and by role.
  const std::map<std::string, Array>& inputs() const { return inputs_; }
  std::vector<Array> outputs(const std::string& role) const {
    std::vector<Array> out;
    for (const auto& [of, array] : outputs_)
      if (of == role) out.push_back(array);
    return out;
  }

  void call(std::span<const int32_t> ids, int64_t position, const DocCall& how) {
    ids_ = ids;
    position_ = position;
    how_ = how;
    inputs_.clear();
    outputs_.clear();
    stream_ = {};
    for (size_t s = 0; s < info_["stages"].size(); ++s) run_stage(s);
  }

  // Everything that is remembered, into functions of another length: rows 0 … rows-1 of every head, states by role.
  void move_to(int64_t context, int64_t width, int64_t rows) {
    for (auto& [s, state] : states_) {
      const Json& stage = info_["stages"][s];
      const Json& to = function(stage, width, context);
      auto next = open(stage, to)->make_state();
      for (const Json& port : to["states"]) {
        const Array old = state->get(same_role(function(stage, width, how_.context)["states"], port)["name"]);
        Array fresh = next->get(port["name"]);
        if (port["role"] == "recurrent") {
          next->set(port["name"], old);
          continue;
        }
        const int64_t heads = old.shape()[0] * old.shape()[1], wide = old.shape()[3];
        for (int64_t h = 0; h < heads; ++h)
          std::copy_n(old.values<float>().begin() + h * old.shape()[2] * wide, rows * wide,
                      fresh.values<float>().begin() + h * fresh.shape()[2] * wide);
        next->set(port["name"], fresh);
      }
      state = std::move(next);
    }
  }

 private:
  // Functions that do not name the variant are ignored, and stages that have none left.
  void choose(const std::string& variant) {
    Json stages = Json::array();
    for (Json stage : info_["stages"]) {
      Json kept = Json::array();
      for (const Json& f : stage["functions"])
        if (!f.contains("variants") || std::ranges::count(f["variants"], Json(variant)) > 0)
          kept.push_back(f);
      stage["functions"] = kept;
      if (!kept.empty()) stages.push_back(std::move(stage));
    }
    info_["stages"] = std::move(stages);
  }

  int64_t count() const { return static_cast<int64_t>(ids_.size()); }

  static const Json& function(const Json& stage, int64_t width, int64_t context) {
    for (const Json& f : stage["functions"])
      if (f["tokens"][0] <= width && width <= f["tokens"][1] && f.value("context", context) == context)
        return f;
    throw Error("no function fits").at(stage["package"].get<std::string>());
  }

  static const Json& same_role(const Json& ports, const Json& as) {
    for (const Json& port : ports)
      if (port["role"] == as["role"] && port.value("layers", Json()) == as.value("layers", Json()) &&
          port.value("slot", 0) == as.value("slot", 0))
        return port;
    throw Error("no state has this role").found(as["role"].get<std::string>());
  }

  std::unique_ptr<Predictor> open(const Json& stage, const Json& f) const {
    return make_predictor(open_package(folder_ / stage["package"].get<std::string>()), f["name"]);
  }

  void run_stage(size_t s) {
    const Json& stage = info_["stages"][s];
    const Json& f = function(stage, how_.width, how_.context);
    const auto predictor = open(stage, f);
    std::map<std::string, Array> in;
    for (const Json& port : f["inputs"])
      for (const TensorInfo& tensor : predictor->signature().inputs)
        if (port["name"].get<std::string>() == tensor.name)
          in.emplace(tensor.name, input(s, port, tensor.shape));
    if (!states_.contains(s) && f.contains("states")) states_[s] = predictor->make_state();
    const Prediction result = predictor->predict(in, f.contains("states") ? states_[s].get() : nullptr);
    inputs_.insert(in.begin(), in.end());
    for (const Json& port : f["outputs"]) {
      const std::string role = port["role"];
      outputs_.emplace_back(role, result.at(port["name"]));
      if (role == "stream") stream_ = result.at(port["name"]);
      if (role == "carried") carried_ = result.at(port["name"]);
      if (role.starts_with("new_"))
        keep(kept_.at(key(s, role.substr(4), port)), role, result.at(port["name"]));
    }
  }

  static std::string key(size_t stage, const std::string& role, const Json& port) {
    return std::to_string(stage) + role + port["layers"].dump() + std::to_string(port.value("slot", 0));
  }

  void keep(Array& cache, const std::string& role, const Array& rows) const {
    if (role == "new_recurrent") {
      cache = rows;
      return;
    }
    const int64_t heads = rows.shape()[1], dim = rows.shape()[3], context = cache.shape()[2],
                  wide = cache.shape()[3];
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < count(); ++t)
        std::copy_n(rows.values<float>().begin() + (h * how_.width + t) * dim, dim,
                    cache.values<float>().begin() + (h * context + position_ + t) * wide);
  }

  Array input(size_t stage, const Json& port, const std::vector<int64_t>& shape) {
    const std::string role = port["role"];
    if (role == "stream" && !stream_.shape().empty()) return stream_;
    if (role == "carried") return carried_;
    if (role == "keys" || role == "values" || role == "recurrent")
      return kept_.try_emplace(key(stage, role, port), DType::fp32, shape).first->second;
    return DocPass{info_, tables_, ids_, position_, how_.width, how_.padding, how_.pooling}.make(port, shape);
  }

  std::filesystem::path folder_;
  Json info_;
  std::map<std::string, std::string> tables_;
  std::map<size_t, std::unique_ptr<State>> states_;
  std::map<std::string, Array> kept_, inputs_;
  std::vector<std::pair<std::string, Array>> outputs_;
  Array stream_, carried_;
  std::span<const int32_t> ids_;
  int64_t position_ = 0;
  DocCall how_;
};

}  // namespace anemone::test
