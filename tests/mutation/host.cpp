#include "mutation/host.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/cpu_backend.h"
#include "mutation/host_experts.h"

namespace anemone::mutation {
namespace {

using Kind = Role::Kind;

std::string key_of(size_t stage, Kind kind, const Role& role) {
  std::string out = fmt::format("{} {}", stage, role_name(kind));
  for (const int64_t layer : role.layers) out += fmt::format(" {}", layer);
  return out;
}

bool is_memory(Kind kind) { return kind == Kind::keys || kind == Kind::values || kind == Kind::recurrent; }

const TensorInfo& tensor_of(const std::vector<TensorInfo>& all, const std::string& name) {
  for (const TensorInfo& info : all)
    if (info.name == name) return info;
  throw errorf("the package has no '{}'", name);
}

// Rows of a cache are filled up with zeros behind the head's own numbers.
void fill_seeded(Array& array, int64_t head_dim, Rng& rng) {
  const int64_t width = array.shape().back();
  for (int64_t i = 0; i < array.size(); ++i)
    array.values<float>()[static_cast<size_t>(i)] = i % width < head_dim ? 0.5f * rng.even() : 0.0f;
}

// Columns of a [1, rows, T, 1] array.
std::vector<float> column(const Array& array, int64_t t) {
  const int64_t rows = array.shape().at(1), width = array.shape().at(2);
  if (array.size() != rows * width || t >= width) throw errorf("a result has no column {}", t);
  std::vector<float> out(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r)
    out[static_cast<size_t>(r)] = array.values<float>()[static_cast<size_t>(r * width + t)];
  return out;
}

}  // namespace

struct HostText::Pass {
  const HostCall& how;
  std::span<const int32_t> ids;
  int64_t position;

  int64_t count() const { return static_cast<int64_t>(ids.size()); }
  int64_t last() const { return count() - 1; }
};

Host::Host(const std::filesystem::path& path, Arithmetic arithmetic, bool inner_logits) {
  const auto backend = cpu_backend({.arithmetic = arithmetic, .threads = 1});
  BundleWatch watch;
  if (inner_logits) {
    const BundleInfo info = BundleInfo::read(path);
    watch.taps = [info](size_t stage, const std::string&) {
      std::vector<std::string> out;
      for (const Tap& tap : info.stages.at(stage).taps)
        if (tap.name == "logits") out.push_back(tap.value);
      return out;
    };
  }
  bundle_ = Bundle::open(path, backend, std::move(watch));
}

const StageFunction& HostText::function(size_t stage, int64_t width) const {
  return host_.bundle().function(stage, width, options_.context);
}

State& HostText::state_of(size_t stage, const StageFunction& f) {
  auto& state = states_[stage];
  if (!state) state = host_.bundle().predictor(stage, f.name).make_state();
  return *state;
}

void HostText::seed(uint64_t seed, int64_t width) {
  for (size_t s = 0; s < info().stages.size(); ++s) {
    if (info().stages[s].kind == StageKind::experts) continue;
    const StageFunction& f = function(s, width);
    const Signature& signature = host_.bundle().predictor(s, f.name).signature();
    const auto fill = [&](const Port& port, const std::vector<TensorInfo>& all) {
      Array array(DType::fp32, tensor_of(all, port.name).shape);
      Rng rng(seed, key_of(s, port.role.kind, port.role));
      fill_seeded(array, port.role.kind == Kind::recurrent ? array.shape().back() : info().head_dim, rng);
      return array;
    };
    for (const Port& port : f.interface.states) state_of(s, f).set(port.name, fill(port, signature.states));
    for (const Port& port : f.interface.inputs)
      if (is_memory(port.role.kind))
        kept_[key_of(s, port.role.kind, port.role)] = fill(port, signature.inputs);
  }
}

Array HostText::stream_for(const Pass& pass) const {
  const int64_t hidden = info().hidden, width = pass.how.width;
  Array x(DType::fp32, {1, hidden, width, 1});
  std::vector<float> row(static_cast<size_t>(hidden));
  float usual = 0;
  for (int64_t t = 0; t < width; ++t) {
    const int64_t at = std::min(t, pass.last());
    if (t <= pass.last() || pass.how.padding == Padding::repeated) {
      const bool second = pass.how.pair && at >= pass.count() / 2;
      host_.bundle().embedding().read(
          {.id = pass.ids[static_cast<size_t>(at)], .position = pass.position + at, .type = second ? 1 : 0},
          row);
      for (const float v : row) usual = std::max(usual, std::abs(v));
    } else {
      for (int64_t c = 0; c < hidden; ++c)
        row[static_cast<size_t>(c)] =
            pass.how.padding == Padding::zeros
                ? 0
                : usual * static_cast<float>(std::sin(static_cast<double>(c * 7 + t)));
    }
    for (int64_t c = 0; c < hidden; ++c)
      x.values<float>()[static_cast<size_t>(c * width + t)] = row[static_cast<size_t>(c)];
  }
  return x;
}

Array HostText::rotation_for(const RopeTable& rope, bool cosine, const Pass& pass) const {
  const bool far = !rope.long_frequencies.empty() && options_.positions > rope.original_context;
  const std::vector<double>& f = far ? rope.long_frequencies : rope.frequencies;
  const auto pairs = static_cast<int64_t>(f.size());
  Array out(DType::fp32, {1, 1, pass.how.width, pairs});
  for (int64_t t = 0; t < pass.how.width; ++t)
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t at = pass.how.padding == Padding::repeated ? std::min(t, pass.last()) : t;
      const double angle = static_cast<double>(pass.position + at) * f[static_cast<size_t>(i)];
      const bool rubbish = t > pass.last() && pass.how.padding == Padding::rubbish;
      out.values<float>()[static_cast<size_t>(t * pairs + i)] =
          rubbish ? 0.25f
                  : static_cast<float>((cosine ? std::cos(angle) : std::sin(angle)) * rope.attention_factor);
    }
  return out;
}

Array HostText::mask_for(const Reach& reach, const std::vector<int64_t>& shape, const Pass& pass) const {
  const int64_t rows = reach.kind == Reach::Kind::full ? 1 : pass.how.width;
  const int64_t columns = options_.context ? options_.context : pass.how.width;
  Array mask(DType::fp32, {1, 1, shape.at(2) > 0 ? shape.at(2) : rows, columns});
  for (int64_t t = 0; t < mask.shape()[2]; ++t)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t i = pass.position + std::min(t, pass.last());
      bool seen = false;
      switch (reach.kind) {
        case Reach::Kind::causal: seen = j <= i; break;
        case Reach::Kind::window: seen = j <= i && i - j < reach.size; break;
        case Reach::Kind::full: seen = j < pass.count(); break;
        case Reach::Kind::band: seen = j < pass.count() && std::abs(i - j) <= reach.size; break;
      }
      if (reach.causal() && t > pass.last() && pass.how.padding == Padding::rubbish) seen = j == 0;
      mask.values<float>()[static_cast<size_t>(t * columns + j)] = seen ? 0.0f : kMaskedOut;
    }
  return mask;
}

Array HostText::pool_for(const Pass& pass) const {
  Array pool(DType::fp32, {1, 1, pass.how.width, 1});
  const bool first = info().pooling == Pooling::first;
  for (int64_t t = 0; t < (first ? 1 : pass.count()); ++t)
    pool.values<float>()[static_cast<size_t>(t)] = first ? 1.0f : 1.0f / static_cast<float>(pass.count());
  return pool;
}

Array HostText::input_for(size_t stage, const Port& port, const TensorInfo& tensor, const Pass& pass,
                          const Array& stream, const Array& carried, const Array& mixed) {
  const Role& role = port.role;
  switch (role.kind) {
    case Kind::stream: return stream;
    case Kind::carried: return carried;
    case Kind::mixed: return mixed;
    case Kind::cos: return rotation_for(info().ropes.at(role.index), true, pass);
    case Kind::sin: return rotation_for(info().ropes.at(role.index), false, pass);
    case Kind::mask: return mask_for(info().masks.at(role.index), tensor.shape, pass);
    case Kind::pool: return pool_for(pass);
    case Kind::position: return Array::from<int32_t>({1}, {static_cast<int32_t>(pass.position)});
    case Kind::write: {
      Array write(DType::fp32, {1, 1, options_.context, pass.how.width});
      for (int64_t t = 0; t < pass.count(); ++t)
        write.values<float>()[static_cast<size_t>((pass.position + t) * pass.how.width + t)] = 1;
      return write;
    }
    case Kind::advance: {
      const int64_t rows = tensor.shape.at(2), columns = rows + pass.how.width;
      Array advance(DType::fp32, {1, 1, rows, columns});
      for (int64_t r = 0; r < rows; ++r)
        advance.values<float>()[static_cast<size_t>(r * columns + r + pass.count())] = 1;
      return advance;
    }
    default:
      return kept_.try_emplace(key_of(stage, role.kind, role), DType::fp32, tensor.shape).first->second;
  }
}

void HostText::keep(size_t stage, const Port& port, const Array& rows, const Pass& pass) {
  const Kind kind = port.role.kind;
  if (kind == Kind::new_recurrent) {
    kept_[key_of(stage, Kind::recurrent, port.role)] = rows;
    return;
  }
  if (kind != Kind::new_keys && kind != Kind::new_values) return;
  Array& cache = kept_.at(key_of(stage, kind == Kind::new_keys ? Kind::keys : Kind::values, port.role));
  const int64_t heads = rows.shape().at(1), dim = rows.shape().at(3), wide = cache.shape().at(3);
  if (cache.shape().at(1) != heads || cache.shape().at(2) != options_.context || dim > wide ||
      rows.shape().at(2) != pass.how.width || pass.position + pass.count() > options_.context)
    throw errorf("'{}' does not fit the cache that it belongs to", port.name);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t t = 0; t < pass.count(); ++t) {
      const auto to = cache.values<float>().begin() + (h * options_.context + pass.position + t) * wide;
      std::fill_n(to, wide, 0.0f);
      std::copy_n(rows.values<float>().begin() + (h * pass.how.width + t) * dim, dim, to);
    }
}

void HostText::take(size_t stage, const StageFunction& f, const Prediction& result, const Pass& pass,
                    Columns& out, std::vector<float>& best) const {
  const auto& ports = f.interface.outputs;
  const auto part = [&](Kind kind, int64_t first, int64_t t) {
    for (const Port& port : ports)
      if (port.role.kind == kind && port.role.first == first) return column(result.at(port.name), t).at(0);
    throw errorf("'{}' does not say where its best token is", f.name);
  };
  size_t piece = 0;
  for (const Port& port : ports) {
    const Kind kind = port.role.kind;
    if (kind != Kind::logits && kind != Kind::best) continue;
    const Array* logits = kind == Kind::logits ? &result.at(port.name) : nullptr;
    for (const Tap& tap : info().stages[stage].taps)
      if (!logits && tap.name == "logits" && tap.layer == static_cast<int64_t>(piece))
        if (const auto it = result.outputs.find(tap.value); it != result.outputs.end()) logits = &it->second;
    ++piece;
    for (int64_t t = 0; t < pass.count(); ++t) {
      const auto at = static_cast<size_t>(t);
      if (logits) {
        const std::vector<float> rows = column(*logits, t);
        std::copy_n(rows.begin(),
                    std::min<size_t>(rows.size(), static_cast<size_t>(port.role.last - port.role.first)),
                    out.logits[at].begin() + port.role.first);
      }
      if (kind != Kind::best) continue;
      const float value = column(result.at(port.name), t).at(0);
      if (out.best[at] >= 0 && !(value > best[at])) continue;
      best[at] = value;
      const float high = part(Kind::best_high, port.role.first, t),
                  low = part(Kind::best_low, port.role.first, t);
      const bool sane = std::abs(high) < 1e6f && std::abs(low) < 1e6f;
      out.best[at] =
          sane ? port.role.first + static_cast<int64_t>(high) * kIndexBase + static_cast<int64_t>(low) : -2;
    }
  }
}

Columns HostText::call(const HostCall& how, std::span<const int32_t> ids, int64_t position) {
  const Pass pass{how, ids, position};
  const bool generates = info().kind == BundleKind::generate;
  Columns out;
  if (generates) out.logits.assign(ids.size(), std::vector<float>(static_cast<size_t>(info().vocab)));
  if (info().argmax) out.best.assign(ids.size(), -1);
  std::vector<float> best(ids.size());
  Array stream = stream_for(pass), carried;
  Routed routed;
  for (size_t s = 0; s < info().stages.size(); ++s) {
    if (info().stages[s].kind == StageKind::experts) {
      add_experts(host_, s, routed);
      continue;
    }
    const StageFunction& f = function(s, how.width);
    const Predictor& predictor = host_.bundle().predictor(s, f.name);
    std::map<std::string, Array> inputs;
    for (const Port& port : f.interface.inputs)
      inputs.emplace(port.name, input_for(s, port, tensor_of(predictor.signature().inputs, port.name), pass,
                                          stream, carried, routed.mixed));
    const bool stateful = !f.interface.states.empty();
    const Prediction result = predictor.predict(inputs, stateful ? &state_of(s, f) : nullptr);
    for (const Port& port : f.interface.outputs) {
      const Kind kind = port.role.kind;
      if (kind == Kind::stream) stream = result.at(port.name);
      if (kind == Kind::carried) carried = result.at(port.name);
      if (kind == Kind::pooled) out.results = {column(result.at(port.name), 0)};
      if (kind == Kind::classes)
        for (int64_t t = 0; t < (info().pooling ? 1 : pass.count()); ++t)
          out.results.push_back(column(result.at(port.name), t));
      keep(s, port, result.at(port.name), pass);
    }
    if (info().stages[s].kind == StageKind::route)
      routed = route(*info().stages[s].rule, result.at(f.find_output(Kind::router)->name),
                     result.at(f.find_output(Kind::normed)->name), pass.count());
    if (generates) take(s, f, result, pass, out, best);
  }
  if (!generates)
    for (int64_t t = 0; t < pass.count(); ++t) out.hidden.push_back(column(stream, t));
  return out;
}

void HostText::move_to(int64_t context, int64_t rows, int64_t width) {
  const int64_t before = std::exchange(options_.context, context);
  const auto moved = [&](const Array& old, const std::vector<int64_t>& shape, Kind kind) {
    if (kind == Kind::recurrent) return old;
    Array fresh(DType::fp32, shape);
    const int64_t heads = shape.at(0) * shape.at(1), wide = shape.at(3);
    if (shape.at(2) != context || old.size() != heads * before * wide)
      throw errorf("a memory of another tier has another shape");
    for (int64_t h = 0; h < heads; ++h)
      std::copy_n(old.values<float>().begin() + h * before * wide, rows * wide,
                  fresh.values<float>().begin() + h * context * wide);
    return fresh;
  };
  for (size_t s = 0; s < info().stages.size(); ++s) {
    if (!info().stages[s].has_layers()) continue;
    const StageFunction& from = host_.bundle().function(s, width, before);
    const StageFunction& to = function(s, width);
    const Signature& signature = host_.bundle().predictor(s, to.name).signature();
    auto next = to.interface.states.empty() ? nullptr : host_.bundle().predictor(s, to.name).make_state();
    for (const Port& port : to.interface.states)
      for (const Port& old : from.interface.states)
        if (old.role == port.role)
          next->set(port.name, moved(state_of(s, from).get(old.name),
                                     tensor_of(signature.states, port.name).shape, port.role.kind));
    if (next) states_[s] = std::move(next);
    for (const Port& port : to.interface.inputs)
      if (const auto it = kept_.find(key_of(s, port.role.kind, port.role)); it != kept_.end())
        it->second = moved(it->second, tensor_of(signature.inputs, port.name).shape, port.role.kind);
  }
}

}  // namespace anemone::mutation
