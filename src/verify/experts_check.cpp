// What every expert computes, by itself. A text uses only some of them, and a sum of several does not say whose fault
// it is.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "package/package.h"
#include "predict/taps.h"
#include "verify/climber.h"

namespace anemone {
namespace {

constexpr int64_t kMostAtOnce = 8;  // experts of one token: a wrong one must show in their sum

// A function, or the part of one, that takes what experts see and by how much each counts.
struct ExpertCall {
  size_t layer = 0;               // counted from the bundle's first
  int64_t first = 0, last = 0;    // the choices that its shares stand for
  std::string function, file;     // as bundle.json names them
  std::string seen, shares, sum;  // values
  int64_t width = 1;
  double scale = 1;  // of the sum
  size_t stage = 0;
  bool cut = false;   // a part of a function: it is cut out of it
  std::string wrong;  // why that cannot be
};

// What the shares come from, and the shares.
std::set<const Value*> sources_of(const Value* shares) {
  std::set<const Value*> out;
  std::vector<const Value*> open = {shares};
  while (!open.empty()) {
    const Value* v = open.back();
    open.pop_back();
    if (!out.insert(v).second || !v->producer) continue;
    for (const Input& in : v->producer->inputs)
      for (const Binding& b : in.bindings)
        if (b.value) open.push_back(b.value);
  }
  return out;
}

bool is_stored(const Value* v) {
  return v->producer && (v->producer->type == "const" || v->producer->type.starts_with("constexpr_"));
}

// What the router and the experts both see: the one value beside the shares that the sum is made of. nullptr: there is
// not one alone.
const Value* seen_by_experts(const Value* shares, const Value* sum) {
  const std::set<const Value*> before = sources_of(shares);
  std::set<const Value*> visited, edge;
  std::vector<const Value*> open = {sum};
  while (!open.empty()) {
    const Value* v = open.back();
    open.pop_back();
    if (is_stored(v) || !visited.insert(v).second) continue;
    if (before.contains(v) || !v->producer) {
      edge.insert(v);
      continue;
    }
    for (const Input& in : v->producer->inputs)
      for (const Binding& b : in.bindings)
        if (b.value) open.push_back(b.value);
  }
  return edge.size() == 2 && edge.erase(shares) ? *edge.begin() : nullptr;
}

const Experts& experts_of(const Climber& c, size_t layer) {
  return *find_experts(c.reference->model().layers.at(layer));
}

// Experts that are a part of a function with layers. The lowering gives them just what they see and their shares, so a
// part that needs more is a fault.
void cut_calls(const Climber& c, size_t index, const StageFunction& f, std::vector<ExpertCall>& out) {
  const Stage& stage = c.bundle->info().stages[index];
  const Function* function = c.bundle->package(index).program.find_function(f.name);
  for (const Tap& tap : stage.taps) {
    if (tap.name != "shares" || !function) continue;
    const Experts* experts =
        find_experts(c.reference->model().layers.at(static_cast<size_t>(tap.layer - c.first_layer)));
    if (!experts) continue;
    // With a shared expert, what the chosen ones give has a name of its own.
    const char* name = experts->shared ? "chosen_out" : "mlp_out";
    const auto sum = std::ranges::find_if(
        stage.taps, [&](const Tap& t) { return t.name == name && t.layer == tap.layer; });
    const Value* shares = find_value(*function, tap.value);
    const Value* end = sum == stage.taps.end() ? nullptr : find_value(*function, sum->value);
    if (!shares || !end) continue;
    ExpertCall call;
    call.layer = static_cast<size_t>(tap.layer - c.first_layer);
    call.last = experts->choices();
    call.function = f.name;
    call.file = stage.package;
    call.shares = shares->name;
    call.sum = end->name;
    call.width = f.most_tokens;
    call.scale = sum->scale;
    call.stage = index;
    call.cut = true;
    if (const Value* seen = seen_by_experts(shares, end))
      call.seen = seen->name;
    else
      call.wrong = "its experts take something else than the normed value and their shares";
    out.push_back(std::move(call));
  }
}

std::vector<ExpertCall> calls_of(const Climber& c) {
  std::vector<ExpertCall> out;
  const BundleInfo& info = c.bundle->info();
  for (size_t s = 0; s < info.stages.size(); ++s)
    for (const StageFunction& f : info.stages[s].functions) {
      const Stage& stage = info.stages[s];
      if (stage.kind != StageKind::experts) {
        cut_calls(c, s, f, out);
        continue;
      }
      const auto layer = static_cast<size_t>(stage.first_layer - c.first_layer);
      const Layer& described = c.reference->model().layers.at(layer);
      const ResidualStep& step = described.steps.at(experts_step(described));
      const Role& shares = f.find_input(Role::Kind::shares)->role;
      ExpertCall call{layer,
                      shares.first,
                      shares.last,
                      f.name,
                      stage.package,
                      f.find_input(Role::Kind::normed)->name,
                      f.find_input(Role::Kind::shares)->name,
                      f.find_output(Role::Kind::mixed)->name,
                      f.most_tokens,
                      info.residual_scale * (step.norm_out ? 1 : step.scale),
                      s};
      out.push_back(std::move(call));
    }
  std::ranges::stable_sort(out, {}, &ExpertCall::layer);
  return out;
}

// What a call runs: a package of its own, or a copy of the part of a function.
std::shared_ptr<const Package> package_of(const Climber& c, const ExpertCall& call) {
  const Package& whole = c.bundle->package(call.stage);
  if (!call.cut) return {c.bundle, &whole};
  return from_values(whole, call.function, {call.seen, call.shares}, {call.sum});
}

// Runs one call, token by token, and compares with the reference.
class ExpertProbe {
 public:
  ExpertProbe(const Climber& c, const ExpertCall& call, const Backend& backend, Arithmetic arithmetic)
      : c_(c),
        call_(call),
        how_{.arithmetic = arithmetic, .of_text = false},
        predictor_(backend.open(package_of(c, call), call.function)),
        hidden_(c.bundle->info().hidden),
        count_(call.last - call.first) {}

  // Some experts at once, each with a share of its own; what is wrong, or nothing.
  std::string problem() {
    const int64_t tokens = std::max<int64_t>(2, (count_ + kMostAtOnce - 1) / kMostAtOnce);
    for (int64_t begin = 0; begin < tokens; begin += call_.width) {
      const int64_t some = std::min(call_.width, tokens - begin);
      std::vector<std::vector<float>> shares, seen;
      for (int64_t t = begin; t < begin + some; ++t) {
        shares.emplace_back(static_cast<size_t>(count_));
        // All of about the same weight, so that each shows, and none the same, so that a swap does.
        for (int64_t e = t, rank = 1; e < count_; e += tokens, ++rank)
          shares.back()[static_cast<size_t>(e)] = 1 + static_cast<float>(rank) / (2 * kMostAtOnce);
        seen.push_back(token(t));
      }
      const std::vector<std::vector<float>> got = run(seen, shares);
      for (size_t t = 0; t < got.size(); ++t) {
        std::vector<float> expected(static_cast<size_t>(hidden_));
        for (int64_t e = 0; e < count_; ++e)
          if (const float share = shares[t][static_cast<size_t>(e)]; share != 0) {
            const std::vector<float> y = truth(e, seen[t]);
            for (size_t i = 0; i < y.size(); ++i) expected[i] += share * y[i];
          }
        const Figures f = compare(got[t], expected);
        if (const std::string wrong = c_.value_problem(f, how_, false); !wrong.empty())
          return name(seen[t], shares[t], got[t], expected, wrong);
      }
    }
    return "";
  }

 private:
  // Numbers of the size of normed values.
  std::vector<float> token(int64_t number) const {
    std::vector<float> out(static_cast<size_t>(hidden_));
    auto n = static_cast<uint32_t>(17 + 31 * number + call_.first);
    for (float& v : out) {
      n = n * 1664525u + 1013904223u;
      v = static_cast<float>(n >> 16) / 16384.0f - 2.0f;
    }
    return out;
  }

  // What the model's choice gives for a token; the last choice may be to skip.
  std::vector<float> truth(int64_t choice, const std::vector<float>& seen) const {
    const Experts& experts = experts_of(c_, call_.layer);
    if (call_.first + choice < experts.count())
      return c_.reference->expert(call_.layer, static_cast<size_t>(call_.first + choice), seen, 1);
    return experts.skip == Experts::Skip::pass ? seen : std::vector<float>(seen.size());
  }

  // [tokens][hidden] for tokens and their shares; the columns behind them are zero.
  std::vector<std::vector<float>> run(const std::vector<std::vector<float>>& seen,
                                      const std::vector<std::vector<float>>& shares) const {
    const int64_t width = call_.width;
    Array x(DType::fp32, {1, hidden_, width, 1}), s(DType::fp32, {1, count_, width, 1});
    for (size_t t = 0; t < seen.size(); ++t) {
      for (size_t i = 0; i < seen[t].size(); ++i)
        x.values<float>()[i * static_cast<size_t>(width) + t] = seen[t][i];
      for (size_t e = 0; e < shares[t].size(); ++e)
        s.values<float>()[e * static_cast<size_t>(width) + t] = shares[t][e];
    }
    const Prediction result = predictor_->predict({{call_.seen, std::move(x)}, {call_.shares, std::move(s)}});
    const std::span<const float> y = result.at(call_.sum).values<float>();
    std::vector<std::vector<float>> out(seen.size(), std::vector<float>(static_cast<size_t>(hidden_)));
    for (size_t t = 0; t < out.size(); ++t)
      for (size_t i = 0; i < out[t].size(); ++i)
        out[t][i] =
            static_cast<float>(static_cast<double>(y[i * static_cast<size_t>(width) + t]) / call_.scale);
    return out;
  }

  bool same(std::span<const float> a, std::span<const float> b) const {
    return c_.value_problem(compare(a, b), how_, false).empty();
  }

  // Whose fault it is: each choice alone.
  std::string name(const std::vector<float>& seen, const std::vector<float>& shares,
                   const std::vector<float>& mixed, const std::vector<float>& meant,
                   const std::string& wrong) const {
    const int64_t all = experts_of(c_, call_.layer).choices();
    std::vector<std::vector<float>> expected, got;
    for (int64_t e = -call_.first; e < all - call_.first; ++e) expected.push_back(truth(e, seen));
    for (int64_t e = 0; e < count_; ++e) {
      std::vector<float> one(static_cast<size_t>(count_));
      one[static_cast<size_t>(e)] = 1;
      got.push_back(run({seen}, {one}).front());
    }
    // Which of the model's choices each of them is; itself where it is right, -1: none of them.
    std::vector<int64_t> is(static_cast<size_t>(count_), -1);
    for (int64_t e = 0; e < count_; ++e) {
      const std::vector<float>& mine = got[static_cast<size_t>(e)];
      if (same(mine, expected[static_cast<size_t>(call_.first + e)]))
        is[static_cast<size_t>(e)] = call_.first + e;
      for (int64_t j = 0; j < all && is[static_cast<size_t>(e)] < 0; ++j)
        if (same(mine, expected[static_cast<size_t>(j)])) is[static_cast<size_t>(e)] = j;
    }
    std::string what = sum_text(shares, mixed, meant);
    for (int64_t e = 0; e < count_; ++e) {
      const int64_t me = call_.first + e, other = is[static_cast<size_t>(e)];
      if (other == me) continue;
      const bool back =
          other >= call_.first && other < call_.last && is[static_cast<size_t>(other - call_.first)] == me;
      if (back)
        what = fmt::format("experts {} and {} are swapped", std::min(me, other), std::max(me, other));
      else if (other >= 0)
        what = fmt::format("{} gives what the model's {} does", choice_text(me), choice_text(other));
      else
        what = fmt::format("{} gives something else than the model's{}", choice_text(me),
                           times_text(got[static_cast<size_t>(e)], expected[static_cast<size_t>(me)]));
      break;
    }
    return fmt::format("layer {}: {} in {} arithmetic: {} (function '{}' of {})",
                       c_.first_layer + static_cast<int64_t>(call_.layer), what,
                       arithmetic_name(how_.arithmetic), wrong, call_.function, call_.file);
  }

  // Each is right, and their sum is not.
  std::string sum_text(const std::vector<float>& shares, const std::vector<float>& got,
                       const std::vector<float>& expected) const {
    const float sum = std::accumulate(shares.begin(), shares.end(), 0.0f);
    std::vector<float> scaled(expected);
    for (float& v : scaled) v /= sum;
    if (same(got, scaled))
      return fmt::format("the weights sum to 1, and should to {:.3g}: they are renormalised", sum);
    return fmt::format("{} add up to something else", choices_text(call_.first, call_.last));
  }

  std::string choice_text(int64_t choice) const {
    return choice < experts_of(c_, call_.layer).count() ? fmt::format("expert {}", choice) : "the skip";
  }

  static std::string choices_text(int64_t first, int64_t last) {
    return last - first == 1 ? fmt::format("expert {}", first)
                             : fmt::format("experts {} to {}", first, last - 1);
  }

  // ", 1.25 times as much" where that is all.
  std::string times_text(const std::vector<float>& got, const std::vector<float>& expected) const {
    double dot = 0, squares = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      dot += static_cast<double>(got[i]) * static_cast<double>(expected[i]);
      squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    }
    const double times = squares > 0 ? dot / squares : 0;
    std::vector<float> scaled(expected);
    for (float& v : scaled) v = static_cast<float>(times * static_cast<double>(v));
    return times != 0 && std::isfinite(times) && same(got, scaled)
               ? fmt::format(", {:.3g} times as much", times)
               : "";
  }

  const Climber& c_;
  const ExpertCall& call_;
  Judging how_;
  std::unique_ptr<Predictor> predictor_;
  int64_t hidden_, count_;
};

std::string problem_of(const Climber& c, const ExpertCall& call, const Backend& backend,
                       Arithmetic arithmetic) {
  std::string wrong = call.wrong;
  try {
    if (wrong.empty()) return ExpertProbe(c, call, backend, arithmetic).problem();
  } catch (const Error& e) {
    if (!call.cut) throw;
    wrong = fmt::format("its experts cannot be computed by themselves: {}", e.what());
  }
  return fmt::format("layer {}: {} (function '{}' of {})", c.first_layer + static_cast<int64_t>(call.layer),
                     wrong, call.function, call.file);
}

}  // namespace

Drift experts_problem(const Climber& c, Arithmetic arithmetic) {
  if (!c.reference) return {};
  const bool some = std::ranges::any_of(c.reference->model().layers,
                                        [](const Layer& l) { return find_experts(l) != nullptr; });
  if (!some) return {};
  c.say(fmt::format("every expert, {} arithmetic", arithmetic_name(arithmetic)));
  const auto backend = c.options.backend({.arithmetic = arithmetic, .threads = c.options.threads});
  for (const ExpertCall& call : calls_of(c))
    if (std::string problem = problem_of(c, call, *backend, arithmetic); !problem.empty())
      return {std::move(problem), static_cast<int64_t>(call.layer), "mlp_out"};
  return {};
}

}  // namespace anemone
