#include "measure/trial.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "bundle/bundle_info.h"
#include "bundle/files.h"
#include "measure/samples.h"
#include "runtime/session.h"

namespace anemone {
namespace {

constexpr int kCalls = 7, kIgnored = 2;  // timed; and before them, to warm up
constexpr int64_t kPrompt = 8, kTokens = 16;

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
    const auto begin = MeasureClock::now();
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

// Feeds the session; the milliseconds of a token.
double feed(Session& session, Answer& answer) {
  const BundleInfo& info = session.bundle()->info();
  const int64_t room = session.capacity(), prompt = std::min(kPrompt, std::max<int64_t>(1, room / 2));
  const std::vector<int32_t> ids = some_ids(prompt + kTokens, info.vocab);
  session.forward_best(std::span(ids).first(static_cast<size_t>(prompt)));
  std::vector<double> times;
  for (int64_t i = prompt; i < prompt + kTokens && session.position() < room; ++i) {
    const int32_t next = ids[static_cast<size_t>(i)];
    const auto begin = MeasureClock::now();
    if (info.argmax)
      answer.best.push_back(session.forward_best({&next, 1}));
    else
      answer.logits.push_back(session.forward({&next, 1}, true));
    times.push_back(ms_since(begin));
  }
  if (times.empty()) throw errorf("a context of {} has no room to time a token", room);
  if (times.size() > kIgnored) times.erase(times.begin(), times.begin() + kIgnored);
  return median(std::move(times));
}

// The function of the longest context that takes the fewest tokens.
const StageFunction& far_function(const Bundle& bundle) {
  const StageFunction* out = nullptr;
  for (const StageFunction& f : bundle.functions())
    if (f.context == bundle.tiers().back() && (!out || f.least_tokens < out->least_tokens)) out = &f;
  if (!out) throw errorf("no function has the longest context").at(bundle.path().string());
  return *out;
}

// As a text begins; and in the longest context, where a cache costs most: that one decides.
Answer answer_of(const std::shared_ptr<const Bundle>& bundle, VariantTrial& out) {
  Answer answer;
  Session session(bundle);
  out.token_ms = feed(session, answer);
  if (bundle->tiers().size() > 1) {
    Session far(bundle, {.function = far_function(*bundle).name});
    out.token_ms = feed(far, answer);
  }
  for (const std::vector<float>& row : answer.logits)
    if (!std::ranges::all_of(row, [](float value) { return std::isfinite(value); }))
      throw errorf("it gives values that are no numbers");
  return answer;
}

double difference(const Answer& a, const Answer& b) {
  double out = 0;
  size_t apart = 0;
  for (size_t i = 0; i < std::min(a.best.size(), b.best.size()); ++i) apart += a.best[i] != b.best[i];
  if (!a.best.empty()) out = static_cast<double>(apart) / static_cast<double>(a.best.size());
  for (size_t i = 0; i < std::min(a.logits.size(), b.logits.size()); ++i) {
    double largest = 0, most = 0;
    for (size_t j = 0; j < a.logits[i].size(); ++j) {
      const double x = static_cast<double>(a.logits[i][j]), y = static_cast<double>(b.logits[i][j]);
      largest = std::max(largest, std::abs(x));
      most = std::max(most, std::abs(x - y));
    }
    out = std::max(out, largest > 0 ? most / largest : most);
  }
  return out;
}

void try_functions(const std::filesystem::path& path, const BundleInfo& info, const Backend& backend,
                   const std::function<void(const std::string&)>& progress, Trial& out) {
  for (const Stage& stage : info.stages) {
    const auto package = open_package(find_inside(path, stage.package));
    for (const StageFunction& f : stage.functions) {
      FunctionTrial one{.package = stage.package, .name = f.name};
      if (progress) progress(fmt::format("{}, {}", stage.package, f.name));
      try {
        const auto begin = MeasureClock::now();
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
    VariantTrial& one = out.variants.emplace_back(VariantTrial{.name = v.name, .choices = info.argmax});
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
    one.equal = one.difference <= (info.argmax ? kTrialTies : backend->close_call());
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
