#include "measure/trial.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "bundle/bundle_info.h"
#include "bundle/files.h"
#include "runtime/session.h"

namespace anemone {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCalls = 7, kIgnored = 2;  // timed; and before them, to warm up
constexpr int64_t kPrompt = 8, kTokens = 16;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Flexible dimensions become the least that is allowed.
InputShapes least_shapes(const Signature& signature) {
  InputShapes out;
  for (const TensorInfo& input : signature.inputs) {
    if (std::ranges::count(input.shape, -1) == 0) continue;
    std::vector<int64_t> shape = input.enumerated.empty() ? input.shape : input.enumerated.front();
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] < 0) shape[i] = i < input.range.size() ? std::max<int64_t>(input.range[i].first, 1) : 1;
    out.emplace(input.name, std::move(shape));
  }
  return out;
}

double call_ms(const Predictor& predictor) {
  const Signature& signature = predictor.signature();
  const auto call = predictor.make_call(least_shapes(signature));
  for (const TensorInfo& input : signature.inputs) call->input(input.name);
  const auto state = signature.states.empty() ? nullptr : predictor.make_state();
  std::vector<double> times;
  for (int i = 0; i < kIgnored + kCalls; ++i) {
    const auto begin = Clock::now();
    call->run(state.get());
    if (i >= kIgnored) times.push_back(ms_since(begin));
  }
  return median(std::move(times));
}

// What a variant makes of the same tokens: logits, or the best tokens where the bundle gives no more.
struct Answer {
  std::vector<std::vector<float>> logits;
  std::vector<int64_t> best;
};

Answer answer_of(const std::shared_ptr<const Bundle>& bundle, VariantTrial& out) {
  Session session(bundle);
  const int64_t vocab = bundle->info().vocab, room = session.capacity();
  const auto id = [&](int64_t i) { return static_cast<int32_t>((i * 7919 + 11) % vocab); };
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < std::min(kPrompt, std::max<int64_t>(1, room / 2)); ++i) prompt.push_back(id(i));
  session.forward_best(prompt);
  Answer answer;
  std::vector<double> times;
  for (int64_t i = 0; i < kTokens && session.position() < room; ++i) {
    const int32_t next = id(static_cast<int64_t>(prompt.size()) + i);
    const auto begin = Clock::now();
    if (bundle->info().argmax)
      answer.best.push_back(session.forward_best({&next, 1}));
    else
      answer.logits.push_back(session.forward({&next, 1}, true));
    if (i >= kIgnored) times.push_back(ms_since(begin));
  }
  out.token_ms = median(std::move(times));
  return answer;
}

double difference(const Answer& a, const Answer& b) {
  double out = 0;
  for (size_t i = 0; i < std::min(a.logits.size(), b.logits.size()); ++i) {
    double largest = 0, apart = 0;
    for (size_t j = 0; j < a.logits[i].size(); ++j) {
      const double x = static_cast<double>(a.logits[i][j]), y = static_cast<double>(b.logits[i][j]);
      largest = std::max(largest, std::abs(x));
      apart = std::isfinite(x) && std::isfinite(y) ? std::max(apart, std::abs(x - y)) : INFINITY;
    }
    out = std::max(out, largest > 0 ? apart / largest : apart);
  }
  return a.best == b.best ? out : INFINITY;
}

void try_functions(const std::filesystem::path& path, const BundleInfo& info, const Backend& backend,
                   const std::function<void(const std::string&)>& progress, Trial& out) {
  for (const Stage& stage : info.stages) {
    const auto package = open_package(find_inside(path, stage.package));
    for (const StageFunction& f : stage.functions) {
      FunctionTrial one{.package = stage.package, .name = f.name};
      if (progress) progress(fmt::format("{}, {}", stage.package, f.name));
      try {
        const auto begin = Clock::now();
        const auto predictor = backend.open(package, f.name);
        one.load_s = ms_since(begin) / 1000;
        one.call_ms = call_ms(*predictor);
      } catch (const Error& e) {
        if (f.variants.empty()) throw;
        one.problem = e.what();
      }
      out.functions.push_back(std::move(one));
    }
  }
}

void try_variants(const std::filesystem::path& path, const BundleInfo& info,
                  const std::shared_ptr<const Backend>& backend,
                  const std::function<void(const std::string&)>& progress, Trial& out) {
  std::vector<Answer> answers;
  const VariantTrial* first = nullptr;
  out.variants.reserve(info.variants.size());
  for (const Variant& v : info.variants) {
    VariantTrial& one = out.variants.emplace_back(VariantTrial{.name = v.name});
    if (progress) progress(fmt::format("variant {}", v.name));
    answers.emplace_back();
    try {
      answers.back() = answer_of(Bundle::open(path, backend, {}, v.name), one);
    } catch (const Error& e) {
      one.problem = e.what();
      continue;
    }
    if (!first) first = &one;
    one.difference = difference(answers[static_cast<size_t>(first - out.variants.data())], answers.back());
    one.equal = one.difference <= backend->close_call();
  }
  if (!first) throw Error(out.variants.front().problem);
  const VariantTrial* best = first;
  for (const VariantTrial& one : out.variants)
    if (one.problem.empty() && one.equal &&
        one.token_ms < best->token_ms * (best == first ? 1 - kTrialMargin : 1.0))
      best = &one;
  out.best = best->name;
}

}  // namespace

Remembered Trial::remembered() const {
  Remembered out{.variant = best, .functions = {}};
  for (const FunctionTrial& f : functions)
    if (f.problem.empty()) out.functions.push_back({f.package, f.name, f.call_ms});
  return out;
}

Trial try_bundle(const std::filesystem::path& path, const std::shared_ptr<const Backend>& backend,
                 const std::function<void(const std::string& what)>& progress) {
  const BundleInfo info = BundleInfo::read(path);
  Trial out;
  try_functions(path, info, *backend, progress, out);
  if (!info.variants.empty()) try_variants(path, info, backend, progress, out);
  return out;
}

}  // namespace anemone
