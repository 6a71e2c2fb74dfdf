#include "verify/stepper.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "engine/cpu_backend.h"
#include "package/package.h"

namespace anemone {
namespace {

constexpr float kMaskedOut = -10000.0f;
constexpr int64_t kIndexBase = 128;  // an argmax index comes as high * 128 + low

bool has_layers(const Stage& stage) { return stage.last_layer > stage.first_layer; }
bool has_head(const Stage& stage) { return !stage.pieces.empty(); }

// What a state or an input of the cache holds: k_cache_3_c256 → 'k', layer 3; k_cache → 'k', all of a stage.
struct CacheName {
  char side = 0;
  int64_t layer = -1;
};

std::optional<CacheName> cache_name(std::string_view name) {
  if (!name.starts_with("k_cache") && !name.starts_with("v_cache")) return std::nullopt;
  CacheName out{name[0], -1};
  name.remove_prefix(std::strlen("k_cache"));
  if (name.size() > 1 && name[0] == '_' && name[1] >= '0' && name[1] <= '9') {
    out.layer = 0;
    for (size_t i = 1; i < name.size() && name[i] >= '0' && name[i] <= '9' && i < 8; ++i)
      out.layer = out.layer * 10 + (name[i] - '0');
  }
  return out;
}

}  // namespace

std::span<float> Caches::row(std::vector<float>& side, int64_t head, int64_t position) const {
  return std::span(side).subspan(static_cast<size_t>((head * context + position) * width),
                                 static_cast<size_t>(width));
}
std::span<const float> Caches::row(const std::vector<float>& side, int64_t head, int64_t position) const {
  return std::span(side).subspan(static_cast<size_t>((head * context + position) * width),
                                 static_cast<size_t>(width));
}

Stepper::Stepper(const std::filesystem::path& path, const StepperOptions& options)
    : options_(options),
      backend_(cpu_backend({.arithmetic = options.arithmetic, .threads = options.threads})) {
  PredictOptions predict;
  predict.arithmetic = options.arithmetic;
  predict.threads = 1;
  bundle_ = Bundle::open(path, predict);
  const BundleInfo& info = bundle_->info();
  const Stage* first = nullptr;
  int64_t last = 0;
  for (const Stage& stage : info.stages) {
    packages_.push_back(open_package(path / stage.package));
    if (!has_layers(stage)) continue;
    if (!first) first = &stage;
    last = stage.last_layer;
  }
  if (!first) throw errorf("has no layers").at(path.string());
  first_layer_ = first->first_layer;
  layers_ = last - first_layer_;
  for (const StageFunction& f : first->functions)
    forms_.push_back({f.name, f.least_tokens, f.most_tokens, f.context});
  std::stable_sort(forms_.begin(), forms_.end(), [](const Form& a, const Form& b) {
    return a.context != b.context ? a.context < b.context : a.most_tokens < b.most_tokens;
  });
}

const Form& Stepper::form_for(int64_t positions) const {
  for (const Form& form : forms_)
    if (form.context >= positions) return form;
  throw errorf("{} tokens do not fit the bundle's context", positions)
      .at(path().string())
      .expected(fmt::format("at most {}", forms_.back().context))
      .hint("give a shorter text, or fewer steps");
}

Caches Stepper::empty_caches(const Form& form) const {
  Caches out;
  out.kv_heads = info().kv_heads;
  out.context = form.context;
  out.width = info().cache_width;
  out.layers.resize(static_cast<size_t>(layers_));
  for (LayerCache& layer : out.layers) {
    layer.k.resize(static_cast<size_t>(out.kv_heads * out.context * out.width));
    layer.v.resize(layer.k.size());
  }
  out.states.resize(info().stages.size());
  return out;
}

// The values whose names the lowering gives (lower/decoder.cpp), where this function has them.
std::vector<Stepper::Tap> Stepper::taps_of(size_t index, const std::string& function) const {
  std::vector<Tap> out;
  const Stage& stage = info().stages[index];
  const Function* f = packages_[index]->program.find_function(function);
  if (!f) return out;
  // A value that nothing uses says nothing about the result.
  std::set<const Value*> used(f->body.outputs.begin(), f->body.outputs.end());
  for_each_op(f->body, [&](const Operation& op) {
    for (const Input& in : op.inputs)
      for (const Binding& b : in.bindings) used.insert(b.value);
  });
  std::map<std::string, size_t> order;
  for (size_t i = 0; i < f->body.ops.size(); ++i)
    for (const auto& value : f->body.ops[i]->outputs)
      if (used.contains(value.get())) order.emplace(value->name, i);
  const auto add = [&](const std::string& value, const std::string& golden, double scale = 1) {
    if (order.contains(value)) out.push_back({value, golden, scale});
  };
  if (has_head(stage) && info().argmax)
    for (size_t piece = 0; piece < stage.pieces.size(); ++piece)
      add(fmt::format("logits_{}", piece), fmt::format("logits_{}", piece));
  if (!options_.taps) return out;
  const double stream = info().residual_scale;
  for (int64_t i = stage.first_layer; i < stage.last_layer; ++i) {
    const std::string at = fmt::format("l{}_", i);
    const auto golden = [&](const char* name) { return fmt::format("{}_{}", name, i - first_layer_); };
    for (const char* side : {"q", "k"}) {  // the last of norm and rotation
      const std::string norm = at + side + "_norm", rope = at + side + "_rope";
      const bool norm_last = order.contains(norm) && (!order.contains(rope) || order[norm] > order[rope]);
      add(norm_last ? norm : rope, golden(side));
    }
    add(at + "v_heads", golden("v"));
    add(at + "gate", golden("gate"));
    add(at + "up", golden("up"));
    add(at + "gated", golden("gated"));
    add(at + "o", golden("attn_out"), stream);
    add(at + "attn_out", golden("attn_residual"), stream);
    add(at + "down", golden("mlp_out"), stream);
    add(at + "mlp_out", golden("layer_out"), stream);
  }
  if (!has_layers(stage)) return out;
  const int64_t last = stage.last_layer - 1 - first_layer_;
  if (last == layers_ - 1)
    add("y", "final_norm");
  else if (!order.contains(fmt::format("l{}_mlp_out", stage.last_layer - 1)))  // names of another tool
    add("y", fmt::format("layer_out_{}", last), stream);
  return out;
}

const Predictor& Stepper::predictor(size_t stage, const std::string& function) const {
  auto& slot = predictors_[{stage, function}];
  if (!slot) {
    std::vector<std::string> taps;
    for (const Tap& tap : taps_of(stage, function)) taps.push_back(tap.value);
    slot = backend_->open(packages_[stage], function, taps);
  }
  return *slot;
}

// Masks, rotations, and where the new rows go.
Stepper::Arrays Stepper::common_inputs(const Call& call) const {
  const int64_t width = call.width, context = call.form.context;
  Arrays out;
  for (const MaskInfo& m : info().masks) {
    Array mask(DType::fp32, {1, 1, width, context});
    for (int64_t t = 0; t < width; ++t)
      for (int64_t j = 0; j < context; ++j) {
        const int64_t at = call.position + std::min(t, call.tokens - 1);
        const bool hidden = j > at || (m.window > 0 && j <= at - m.window);
        mask.values<float>()[static_cast<size_t>(t * context + j)] = hidden ? kMaskedOut : 0.0f;
      }
    out.emplace(m.name, std::move(mask));
  }
  const int64_t positions = options_.positions ? options_.positions : forms_.back().context;
  for (const RopeTable& r : info().ropes) {
    const bool far = !r.long_frequencies.empty() && positions > r.original_context;
    const std::vector<double>& f = far ? r.long_frequencies : r.frequencies;
    const auto pairs = static_cast<int64_t>(f.size());
    Array cos(DType::fp32, {1, 1, width, pairs}), sin(DType::fp32, {1, 1, width, pairs});
    for (int64_t i = 0; i < width * pairs; ++i) {
      const double angle = static_cast<double>(call.position + i / pairs) * f[static_cast<size_t>(i % pairs)];
      cos.values<float>()[static_cast<size_t>(i)] = static_cast<float>(std::cos(angle) * r.attention_factor);
      sin.values<float>()[static_cast<size_t>(i)] = static_cast<float>(std::sin(angle) * r.attention_factor);
    }
    out.emplace(r.cos, std::move(cos));
    out.emplace(r.sin, std::move(sin));
  }
  Array write(DType::fp32, {1, 1, context, width});
  for (int64_t t = 0; t < call.tokens; ++t)
    write.values<float>()[static_cast<size_t>((call.position + t) * width + t)] = 1;
  out.emplace("write", std::move(write));
  out.emplace("position", Array::from<int32_t>({1}, {static_cast<int32_t>(call.position)}));
  return out;
}

Array Stepper::embedded(const Call& call) const {
  const int64_t hidden = info().hidden;
  Array x(DType::fp32, {1, hidden, call.width, 1});
  std::vector<float> row(static_cast<size_t>(hidden));
  for (int64_t t = 0; t < call.tokens; ++t) {
    bundle_->embed(call.ids[static_cast<size_t>(t)], row.data());
    for (int64_t c = 0; c < hidden; ++c)
      x.values<float>()[static_cast<size_t>(c * call.width + t)] = row[static_cast<size_t>(c)];
  }
  return x;
}

void Stepper::set_states(size_t index, const std::string& function, Caches& caches) const {
  const Stage& stage = info().stages[index];
  auto& state = caches.states[index];
  if (!state) state = predictor(index, function).make_state();
  for (const std::string& name : state->names()) {
    const std::optional<CacheName> cache = cache_name(name);
    if (!cache) continue;
    const int64_t first = cache->layer >= 0 ? cache->layer : stage.first_layer,
                  last = cache->layer >= 0 ? cache->layer + 1 : stage.last_layer;
    Array array(DType::fp32, {last - first, caches.kv_heads, caches.context, caches.width});
    auto to = array.values<float>().begin();
    for (int64_t i = first; i < last; ++i) {
      const LayerCache& layer = caches.layers.at(static_cast<size_t>(i - first_layer_));
      to = std::copy_n((cache->side == 'k' ? layer.k : layer.v).begin(), layer.k.size(), to);
    }
    state->set(name, array);
  }
}

void Stepper::get_states(size_t index, Caches& caches) const {
  const Stage& stage = info().stages[index];
  for (const std::string& name : caches.states[index]->names()) {
    const std::optional<CacheName> cache = cache_name(name);
    if (!cache) continue;
    const int64_t first = cache->layer >= 0 ? cache->layer : stage.first_layer,
                  last = cache->layer >= 0 ? cache->layer + 1 : stage.last_layer;
    const Array array = caches.states[index]->get(name);
    auto from = array.values<float>().begin();
    for (int64_t i = first; i < last; ++i) {
      LayerCache& layer = caches.layers.at(static_cast<size_t>(i - first_layer_));
      std::copy_n(from, layer.k.size(), (cache->side == 'k' ? layer.k : layer.v).begin());
      from += static_cast<ptrdiff_t>(layer.k.size());
    }
  }
}

void Stepper::run_layers(size_t index, const Call& call, const Arrays& common, Array& x, Caches& caches,
                         Prediction& last, StepResult& out) const {
  const Predictor& p = predictor(index, call.form.function);
  Arrays inputs;
  for (const TensorInfo& input : p.signature().inputs) {
    if (input.name == "x") inputs.insert_or_assign("x", x);
    if (const auto it = common.find(input.name); it != common.end()) inputs.insert(*it);
    const std::optional<CacheName> cache = cache_name(input.name);
    if (!cache || cache->layer < 0) continue;
    const LayerCache& layer = caches.layers.at(static_cast<size_t>(cache->layer - first_layer_));
    const std::vector<float>& side = cache->side == 'k' ? layer.k : layer.v;
    Array array(DType::fp32, {1, caches.kv_heads, caches.context, caches.width});
    std::copy(side.begin(), side.end(), array.values<float>().begin());
    inputs.insert_or_assign(input.name, std::move(array));
  }
  const bool stateful = !p.signature().states.empty();
  if (stateful && (caches.changed || !caches.states[index])) set_states(index, call.form.function, caches);
  last = p.predict(inputs, caches.states[index].get());
  if (stateful) get_states(index, caches);
  if (last.fault && !out.fault) out.fault = last.fault;
  // kv io: the new rows come as outputs, and the host puts them in place.
  for (int64_t i = info().stages[index].first_layer; i < info().stages[index].last_layer; ++i)
    for (const char side : {'k', 'v'}) {
      const auto it = last.outputs.find(fmt::format("{}_new_{}", side, i));
      if (it == last.outputs.end()) continue;
      LayerCache& layer = caches.layers[static_cast<size_t>(i - first_layer_)];
      const int64_t dim = it->second.shape()[3];
      for (int64_t h = 0; h < caches.kv_heads; ++h)
        for (int64_t t = 0; t < call.tokens; ++t) {
          const std::span<float> row = caches.row(side == 'k' ? layer.k : layer.v, h, call.position + t);
          std::fill(row.begin(), row.end(), 0.0f);
          std::copy_n(it->second.values<float>().begin() + (h * call.width + t) * dim, dim, row.begin());
        }
    }
  take_inner(call, index, last, out);
  if (const auto y = last.outputs.find("y"); y != last.outputs.end()) x = y->second;
}

// Tapped values as [tokens, width], padding left out.
void Stepper::take_inner(const Call& call, size_t index, const Prediction& result, StepResult& out) const {
  if (!options_.taps) return;
  for (const Tap& tap : taps_of(index, call.form.function)) {
    const Array& array = result.at(tap.value);
    const std::vector<int64_t>& shape = array.shape();
    if (shape.size() != 4 || shape[0] != 1 || shape[2] != call.width || tap.golden.starts_with("logits"))
      continue;
    const int64_t outer = shape[1], inner = shape[3];
    std::vector<float> values(static_cast<size_t>(call.tokens * outer * inner));
    double largest = 0;
    for (int64_t a = 0; a < outer; ++a)
      for (int64_t t = 0; t < call.tokens; ++t)
        for (int64_t b = 0; b < inner; ++b) {
          const float v = array.values<float>()[static_cast<size_t>((a * call.width + t) * inner + b)];
          largest = std::isfinite(v) ? std::max(largest, std::abs(static_cast<double>(v))) : INFINITY;
          values[static_cast<size_t>((t * outer + a) * inner + b)] =
              static_cast<float>(static_cast<double>(v) / tap.scale);
        }
    out.magnitude[tap.golden] = largest;
    out.inner[tap.golden] = std::move(values);
  }
}

void Stepper::take_piece(const Call& call, const HeadPiece& piece, const Prediction& result, int64_t number,
                         StepResult& out) const {
  const auto tapped = result.outputs.find(fmt::format("logits_{}", number));
  const Array* logits =
      info().argmax ? (tapped == result.outputs.end() ? nullptr : &tapped->second) : &result.at(piece.logits);
  if (!logits) {
    out.logits.clear();
    return;
  }
  if (out.logits.empty()) return;
  for (int64_t t = 0; t < call.tokens; ++t)
    for (int64_t r = 0; r < piece.rows; ++r)
      out.logits[static_cast<size_t>(t * info().vocab + piece.first_row + r)] =
          logits->values<float>()[static_cast<size_t>(r * call.width + t)];
}

void Stepper::run_head(const Call& call, const Array& y, const Prediction& last, StepResult& out) const {
  out.logits.resize(static_cast<size_t>(call.tokens * info().vocab));
  std::vector<float> best_value(static_cast<size_t>(call.tokens), -INFINITY);
  if (info().argmax) out.best.assign(static_cast<size_t>(call.tokens), -1);
  for (size_t s = 0; s < info().stages.size(); ++s) {
    const Stage& stage = info().stages[s];
    if (!has_head(stage)) continue;
    Prediction own;
    if (!has_layers(stage)) {
      const auto it =
          std::find_if(stage.functions.begin(), stage.functions.end(), [&](const StageFunction& f) {
            return f.least_tokens <= call.width && call.width <= f.most_tokens;
          });
      if (it == stage.functions.end())
        throw errorf("'{}' has no function for {} tokens", stage.package, call.width).at(path().string());
      own = predictor(s, it->name).predict({{"y", y}});
      if (own.fault && !out.fault) out.fault = own.fault;
    }
    const Prediction& result = has_layers(stage) ? last : own;
    for (size_t i = 0; i < stage.pieces.size(); ++i) {
      const HeadPiece& piece = stage.pieces[i];
      take_piece(call, piece, result, static_cast<int64_t>(i), out);
      if (!info().argmax) continue;
      for (int64_t t = 0; t < call.tokens; ++t) {
        const auto at = [&](const std::string& name) {
          return result.at(name).values<float>()[static_cast<size_t>(t)];
        };
        float& best = best_value[static_cast<size_t>(t)];
        if (out.best[static_cast<size_t>(t)] >= 0 && !(at(piece.best) > best)) continue;
        best = at(piece.best);
        const float high = at(piece.high), low = at(piece.low);
        const bool sane = high >= 0 && high < 1e6f && low >= 0 && low < 1e6f;
        out.best[static_cast<size_t>(t)] =
            sane ? piece.first_row + static_cast<int64_t>(high) * kIndexBase + static_cast<int64_t>(low) : -1;
      }
    }
  }
}

StepResult Stepper::step(const Form& form, std::span<const int32_t> ids, int64_t position,
                         Caches& caches) const {
  const auto tokens = static_cast<int64_t>(ids.size());
  const int64_t width = std::max(tokens, form.least_tokens);
  ANEMONE_CHECK(tokens > 0 && width <= form.most_tokens && caches.context == form.context);
  if (position < 0 || position + tokens > form.context)
    throw errorf("the context of {} tokens is full", form.context).at(path().string());
  const Call call{form, ids, position, tokens, width};
  StepResult out;
  Array x = embedded(call);
  if (options_.taps) {
    std::vector<float>& rows = out.inner["embed_out"];
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t c = 0; c < info().hidden; ++c)
        rows.push_back(
            static_cast<float>(static_cast<double>(x.values<float>()[static_cast<size_t>(c * width + t)]) /
                               info().residual_scale));
  }
  const Arrays common = common_inputs(call);
  Prediction last;
  for (size_t s = 0; s < info().stages.size(); ++s)
    if (has_layers(info().stages[s])) run_layers(s, call, common, x, caches, last, out);
  caches.changed = false;
  run_head(call, x, last, out);
  return out;
}

}  // namespace anemone
