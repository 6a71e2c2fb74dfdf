#include "verify/stepper.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/shape.h"
#include "bundle/check_ports.h"
#include "package/package.h"
#include "predict/taps.h"

namespace anemone {
namespace {

bool is_memory(const Role& role) { return is_cache(role.kind) || role.kind == Role::Kind::recurrent; }

const TensorInfo& tensor_info(const std::vector<TensorInfo>& all, const std::string& name) {
  for (const TensorInfo& info : all)
    if (info.name == name) return info;
  throw errorf("bundle.json names '{}', which the package does not have", name);
}

// What the host keeps has room for what the function gives.
void expect_size(const Port& port, const Array& array, bool fits) {
  if (!fits)
    throw errorf("the output '{}' does not fit what the host keeps", port.name)
        .found(shape_text(array.shape()));
}

// Numbers between -1 and 1 that look like none.
float noise(int64_t i) {
  auto n = static_cast<uint32_t>(i) * 2654435761u;
  n ^= n >> 15;
  n *= 2246822519u;
  return static_cast<float>(n >> 8) / 8388608.0f - 1.0f;
}

}  // namespace

std::string_view padding_name(Padding padding) {
  switch (padding) {
    case Padding::zeros: return "zeros";
    case Padding::repeat: return "the last token again";
    case Padding::noise: return "noise";
  }
  return "";
}

std::span<float> Caches::row(const LayerCache& layer, std::vector<float>& side, int64_t head,
                             int64_t position) const {
  return std::span(side).subspan(static_cast<size_t>((head * context + position) * layer.width),
                                 static_cast<size_t>(layer.width));
}
std::span<const float> Caches::row(const LayerCache& layer, const std::vector<float>& side, int64_t head,
                                   int64_t position) const {
  return std::span(side).subspan(static_cast<size_t>((head * context + position) * layer.width),
                                 static_cast<size_t>(layer.width));
}

// What a port of this role holds of the layer.
std::span<float> LayerCache::memory(const Role& role) {
  if (role.kind == Role::Kind::keys) return k;
  if (role.kind == Role::Kind::values) return v;
  const auto slot = slots.find(role.index);
  ANEMONE_CHECK(slot != slots.end());
  const auto next = std::next(slot);
  const size_t end = next == slots.end() ? recurrent.size() : next->second;
  return std::span(recurrent).subspan(slot->second, end - slot->second);
}
std::span<const float> LayerCache::memory(const Role& role) const {
  return const_cast<LayerCache*>(this)->memory(role);
}

Stepper::Stepper(std::shared_ptr<const Bundle> bundle, const StepperOptions& options)
    : bundle_(std::move(bundle)), options_(options) {
  const Stage* first = nullptr;
  int64_t last = 0;
  for (const Stage& stage : info().stages) {
    if (!stage.has_layers()) continue;
    if (!first) first = &stage;
    last = stage.last_layer;
  }
  if (!first) throw errorf("has no layers").at(path().string());
  first_layer_ = first->first_layer;
  layers_ = last - first_layer_;
  for (const StageFunction& f : first->functions)
    shapes_.push_back({f.name, f.least_tokens, f.most_tokens, f.context});
  std::stable_sort(shapes_.begin(), shapes_.end(), [](const CallShape& a, const CallShape& b) {
    return a.context != b.context ? a.context < b.context : a.most_tokens < b.most_tokens;
  });
}

const CallShape& Stepper::shape_for(int64_t positions) const {
  for (const CallShape& shape : shapes_)
    if (shape.positions() >= positions) return shape;
  throw errorf("{} tokens do not fit the bundle", positions)
      .at(path().string())
      .expected(fmt::format("at most {}", shapes_.back().positions()))
      .hint("give a shorter text, or fewer steps");
}

// The shapes of states, or of inputs that the host keeps, tell what each layer remembers.
Caches Stepper::empty_caches(const CallShape& shape) const {
  Caches out;
  out.context = shape.context;
  out.layers.resize(static_cast<size_t>(layers_));
  out.states.resize(info().stages.size());
  for (size_t s = 0; s < info().stages.size(); ++s) {
    if (!info().stages[s].has_layers()) continue;
    const StageFunction& f = bundle_->function(s, shape.most_tokens, shape.context);
    const Signature& signature = predictor(s, f.name).signature();
    const auto note = [&](const Port& port, const std::vector<TensorInfo>& all) {
      if (!is_memory(port.role)) return;
      const std::vector<int64_t>& dims = tensor_info(all, port.name).shape;
      for (size_t i = 0; i < port.role.layers.size(); ++i) {
        LayerCache& layer = out.layers.at(static_cast<size_t>(port.role.layers[i] - first_layer_));
        int64_t size = 1;
        for (size_t d = 1; d < dims.size(); ++d) size *= dims[d];
        if (is_cache(port.role.kind)) {
          layer.kv_heads = dims.at(1);
          layer.width = dims.at(3);
          (port.role.kind == Role::Kind::keys ? layer.k : layer.v).assign(static_cast<size_t>(size), 0.0f);
        } else {
          layer.slots[port.role.index] = static_cast<size_t>(size);
        }
      }
    };
    for (const Port& port : f.interface.states) note(port, signature.states);
    for (const Port& port : f.interface.inputs) note(port, signature.inputs);
  }
  for (LayerCache& layer : out.layers) {
    size_t end = 0;
    for (auto& [slot, size] : layer.slots) end += std::exchange(size, end);
    layer.recurrent.assign(end, 0.0f);
  }
  return out;
}

const Predictor& Stepper::predictor(size_t stage, const std::string& function) const {
  auto& slot = predictors_[{stage, function}];
  if (!slot) {
    std::vector<std::string> taps;
    for (const auto& [tap, name] : taps_of(stage, function).used) taps.push_back(tap.value);
    slot =
        open_tapped(bundle_->backend(), open_package(path() / info().stages[stage].package), function, taps);
  }
  return *slot;
}

Array Stepper::embedded(const Pass& pass) const {
  const int64_t hidden = info().hidden;
  Array x(DType::fp32, {1, hidden, pass.width, 1});
  std::vector<float> row(static_cast<size_t>(hidden));
  double squares = 0;  // of the last token: noise is as large
  for (int64_t t = 0; t < pass.width; ++t) {
    if (t >= pass.tokens && pass.padding == Padding::zeros) break;
    if (!pass.noisy(t)) {
      const int64_t token = pass.token(t);
      bundle_->embedding().read(
          {.id = pass.ids[static_cast<size_t>(token)], .position = pass.position + token}, row);
      squares = 0;
      for (const float v : row) squares += static_cast<double>(v) * static_cast<double>(v);
    }
    const auto size = static_cast<float>(2 * std::sqrt(squares / static_cast<double>(hidden)));
    for (int64_t c = 0; c < hidden; ++c)
      x.values<float>()[static_cast<size_t>(c * pass.width + t)] =
          pass.noisy(t) ? size * noise(c * pass.width + t) : row[static_cast<size_t>(c)];
  }
  return x;
}

Array Stepper::mask_for(const Reach& reach, const Pass& pass) const {
  if (!reach.causal()) {
    const bool band = reach.kind == Reach::Kind::band;
    const int64_t rows = band ? pass.width : 1;
    Array mask(DType::fp32, {1, 1, rows, pass.width});
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t j = 0; j < pass.width; ++j)
        mask.values<float>()[static_cast<size_t>(t * pass.width + j)] =
            j >= pass.tokens || (band && std::abs(j - std::min(t, pass.tokens - 1)) > reach.size) ? kMaskedOut
                                                                                                  : 0.0f;
    return mask;
  }
  const int64_t context = pass.shape.context;
  Array mask(DType::fp32, {1, 1, pass.width, context});
  for (int64_t t = 0; t < pass.width; ++t)
    for (int64_t j = 0; j < context; ++j) {
      const int64_t at = pass.position + std::min(t, pass.tokens - 1);
      bool hidden = j > at || (reach.kind == Reach::Kind::window && j <= at - reach.size);
      if (pass.noisy(t)) hidden = j > 0 && noise(t * context + j) > 0;
      mask.values<float>()[static_cast<size_t>(t * context + j)] = hidden ? kMaskedOut : 0.0f;
    }
  return mask;
}

Array Stepper::pool_for(const Pass& pass) const {
  Array pool(DType::fp32, {1, 1, pass.width, 1});
  const bool first = info().pooling == Pooling::first;
  for (int64_t t = 0; t < (first ? 1 : pass.tokens); ++t)
    pool.values<float>()[static_cast<size_t>(t)] = first ? 1.0f : 1.0f / static_cast<float>(pass.tokens);
  return pool;
}

Array Stepper::rotation(const RopeTable& rope, bool cosine, const Pass& pass) const {
  const int64_t positions = options_.positions ? options_.positions : shapes_.back().positions();
  const bool far = !rope.long_frequencies.empty() && positions > rope.original_context;
  const std::vector<double>& f = far ? rope.long_frequencies : rope.frequencies;
  const auto pairs = static_cast<int64_t>(f.size());
  Array out(DType::fp32, {1, 1, pass.width, pairs});
  for (int64_t i = 0; i < pass.width * pairs; ++i) {
    const int64_t at = pass.position + pass.token(i / pairs);
    const double angle = static_cast<double>(at) * f[static_cast<size_t>(i % pairs)];
    out.values<float>()[static_cast<size_t>(i)] =
        pass.noisy(i / pairs)
            ? noise(i)
            : static_cast<float>((cosine ? std::cos(angle) : std::sin(angle)) * rope.attention_factor);
  }
  return out;
}

// Layer `index` of the role's list.
LayerCache& Stepper::layer_of(const Role& role, size_t index, Caches& caches) const {
  return caches.layers.at(static_cast<size_t>(role.layers.at(index) - first_layer_));
}
const LayerCache& Stepper::layer_of(const Role& role, size_t index, const Caches& caches) const {
  return caches.layers.at(static_cast<size_t>(role.layers.at(index) - first_layer_));
}

Array Stepper::input_for(const Role& role, const TensorInfo& tensor, const Pass& pass, const Handed& handed,
                         const Caches& caches) const {
  switch (role.kind) {
    case Role::Kind::stream: return handed.stream;
    case Role::Kind::carried: return handed.carried;
    case Role::Kind::mixed: return handed.mixed;
    case Role::Kind::cos: return rotation(info().ropes.at(role.index), true, pass);
    case Role::Kind::sin: return rotation(info().ropes.at(role.index), false, pass);
    case Role::Kind::mask: return mask_for(info().masks.at(role.index), pass);
    case Role::Kind::pool: return pool_for(pass);
    case Role::Kind::position: return Array::from<int32_t>({1}, {static_cast<int32_t>(pass.position)});
    case Role::Kind::write: {
      Array write(DType::fp32, {1, 1, pass.shape.context, pass.width});
      for (int64_t t = 0; t < pass.tokens; ++t)
        write.values<float>()[static_cast<size_t>((pass.position + t) * pass.width + t)] = 1;
      return write;
    }
    case Role::Kind::advance: {  // row r of the new state is column r + tokens of the old one and the tokens
      const int64_t rows = tensor.shape.at(2), columns = tensor.shape.at(3);
      Array advance(DType::fp32, {1, 1, rows, columns});
      for (int64_t r = 0; r < rows; ++r)
        advance.values<float>()[static_cast<size_t>(r * columns + r + pass.tokens)] = 1;
      return advance;
    }
    case Role::Kind::keys:
    case Role::Kind::values:
    case Role::Kind::recurrent: {
      Array array(DType::fp32, tensor.shape);
      const std::span<const float> from = layer_of(role, 0, caches).memory(role);
      std::copy(from.begin(), from.end(), array.values<float>().begin());
      return array;
    }
    default: throw errorf("there is no input of the role '{}'", role_name(role.kind));
  }
}

void Stepper::set_states(size_t index, const StageFunction& function, Caches& caches) const {
  auto& state = caches.states[index];
  const Predictor& p = predictor(index, function.name);
  if (!state) state = p.make_state();
  for (const Port& port : function.interface.states) {
    Array array(DType::fp32, tensor_info(p.signature().states, port.name).shape);
    auto to = array.values<float>().begin();
    for (size_t i = 0; i < port.role.layers.size(); ++i) {
      const std::span<const float> from = layer_of(port.role, i, std::as_const(caches)).memory(port.role);
      to = std::copy(from.begin(), from.end(), to);
    }
    state->set(port.name, array);
  }
}

void Stepper::get_states(size_t index, const StageFunction& function, Caches& caches, bool recurrent) const {
  for (const Port& port : function.interface.states) {
    if ((port.role.kind == Role::Kind::recurrent) != recurrent) continue;
    const Array array = caches.states[index]->get(port.name);
    auto from = array.values<float>().begin();
    for (size_t i = 0; i < port.role.layers.size(); ++i) {
      const std::span<float> to = layer_of(port.role, i, caches).memory(port.role);
      std::copy_n(from, to.size(), to.begin());
      from += static_cast<ptrdiff_t>(to.size());
    }
  }
}

void Stepper::refresh(Caches& caches) const {
  if (!caches.behind) return;
  for (size_t s = 0; s < info().stages.size(); ++s)
    for (const StageFunction& f : info().stages[s].functions)
      if (caches.states[s] && f.context == caches.context) {
        get_states(s, f, caches, false);
        break;
      }
  caches.behind = false;
}

// What comes as an output and belongs into the cache that the host keeps.
void Stepper::keep_outputs(const StageFunction& function, const Prediction& result, const Pass& pass,
                           Caches& caches) const {
  for (const Port& port : function.interface.outputs) {
    const bool keys = port.role.kind == Role::Kind::new_keys;
    if (port.role.kind == Role::Kind::new_recurrent) {
      const Role kept = port.role.as(Role::Kind::recurrent);
      const std::span<float> to = layer_of(kept, 0, caches).memory(kept);
      expect_size(port, result.at(port.name), result.at(port.name).values<float>().size() == to.size());
      std::copy_n(result.at(port.name).values<float>().begin(), to.size(), to.begin());
    }
    if (!keys && port.role.kind != Role::Kind::new_values) continue;
    const Array& rows = result.at(port.name);
    LayerCache& layer = layer_of(port.role, 0, caches);
    const std::vector<int64_t>& s = rows.shape();
    expect_size(
        port, rows,
        s.size() == 4 && s[0] == 1 && s[1] == layer.kv_heads && s[2] == pass.width && s[3] <= layer.width);
    const int64_t dim = s[3];
    for (int64_t h = 0; h < layer.kv_heads; ++h)
      for (int64_t t = 0; t < pass.tokens; ++t) {
        const std::span<float> row = caches.row(layer, keys ? layer.k : layer.v, h, pass.position + t);
        std::fill(row.begin(), row.end(), 0.0f);
        std::copy_n(rows.values<float>().begin() + (h * pass.width + t) * dim, dim, row.begin());
      }
  }
}

Prediction Stepper::predict(size_t index, const std::string& function, const Pass& pass, const Arrays& inputs,
                            State* state) const {
  try {
    return predictor(index, function).predict(inputs, state);
  } catch (Error& e) {
    e.within(fmt::format("function '{}' of '{}', position {}", function, info().stages[index].package,
                         pass.position));
    throw;
  }
}

Prediction Stepper::run_stage(size_t index, const Pass& pass, Handed& handed, Caches& caches,
                              StepResult& out) const {
  if (info().stages[index].kind == StageKind::experts) {
    run_experts(index, pass, handed, out);
    return {};
  }
  const StageFunction& f = bundle_->function(index, pass.width, pass.shape.context);
  const Predictor& p = predictor(index, f.name);
  Arrays inputs;
  for (const Port& port : f.interface.inputs)
    inputs.emplace(port.name,
                   input_for(port.role, tensor_info(p.signature().inputs, port.name), pass, handed, caches));
  const bool stateful = !f.interface.states.empty();
  if (stateful && (caches.changed || !caches.states[index])) set_states(index, f, caches);
  Prediction result = predict(index, f.name, pass, inputs, caches.states[index].get());
  if (stateful) {
    get_states(index, f, caches, true);
    caches.behind = true;
  }
  for (const Port& port : f.interface.outputs)
    check_output(result.at(port.name).shape(), port, info(), pass.width);
  if (result.fault && !out.fault) out.fault = result.fault;
  keep_outputs(f, result, pass, caches);
  take_inner(index, f.name, result, pass, out);
  take_memory(f, pass, caches, out);
  if (const Port* y = f.find_output(Role::Kind::stream)) handed.stream = result.at(y->name);
  if (const Port* on = f.find_output(Role::Kind::carried)) handed.carried = result.at(on->name);
  if (info().stages[index].kind == StageKind::route) take_routes(index, f, result, pass, handed, out);
  return result;
}

StepResult Stepper::step(const CallShape& shape, std::span<const int32_t> ids, int64_t position,
                         Caches& caches, Padding padding, int64_t least) const {
  if (caches.changed) caches.behind = false;
  const auto tokens = static_cast<int64_t>(ids.size());
  const int64_t width = std::max({tokens, shape.least_tokens, least});
  ANEMONE_CHECK(tokens > 0 && width <= shape.most_tokens && caches.context == shape.context);
  if (position < 0 || position + tokens > shape.positions())
    throw errorf("the context of {} tokens is full", shape.positions()).at(path().string());
  const Pass pass{shape, ids, position, tokens, width, padding};
  StepResult out;
  Handed handed{.stream = embedded(pass)};
  if (options_.taps) {
    // With a norm of its own behind the tables, the layers' package names what comes out of it.
    std::vector<float>& rows = out.inner[{"embed_out"}];
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t c = 0; c < info().hidden; ++c)
        rows.push_back(static_cast<float>(
            static_cast<double>(handed.stream.values<float>()[static_cast<size_t>(c * width + t)]) /
            info().residual_scale));
  }
  const bool generates = info().kind == BundleKind::generate;
  if (generates) out.logits.resize(static_cast<size_t>(tokens * info().vocab));
  std::vector<float> best_value(static_cast<size_t>(tokens), -INFINITY);
  if (info().argmax) out.best.assign(static_cast<size_t>(tokens), -1);
  for (size_t s = 0; s < info().stages.size(); ++s) {
    const Prediction result = run_stage(s, pass, handed, caches, out);
    if (!info().stages[s].has_head()) continue;
    const StageFunction& f = bundle_->function(s, width, shape.context);
    if (!generates) {
      take_text(f, result, pass, out);
      continue;
    }
    take_logits(f, s, result, pass, out);
    if (info().argmax) take_best(f, result, pass, best_value, out);
  }
  caches.changed = false;
  return out;
}

}  // namespace anemone
