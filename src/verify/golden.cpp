#include "verify/golden.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/npy.h"
#include "base/staged.h"
#include "verify/figures.h"
#include "verify/stepper.h"

namespace anemone {
namespace {

constexpr const char* kIdNames[] = {"input_ids", "ids", "tokens"};
constexpr const char* kInner[] = {"embed_out", "final_norm"};
constexpr const char* kInnerOfLayer[] = {"layer_out", "attn_out", "mlp_out", "q", "k", "v", "recurrent"};
constexpr const char* kInnerOfBlock[] = {"attn_residual", "gate",       "up",         "gated",       "router",
                                         "shares",        "chosen_out", "shared_out", "shared_share"};

// "layer_out_3" as layer_out of layer 3; a name without a number behind it is of no layer.
InnerName parse_name(const std::string& text) {
  constexpr size_t kMostDigits = 6;
  const size_t line = text.rfind('_');
  if (line == std::string::npos || line + 1 == text.size() || text.size() - line - 1 > kMostDigits ||
      text.find_first_not_of("0123456789", line + 1) != std::string::npos)
    return {text};
  return {text.substr(0, line), std::stoll(text.substr(line + 1))};
}

std::vector<int32_t> ids_of(const Array& array, const std::string& name) {
  std::vector<int32_t> out;
  for (const int64_t id : array.to_int()) {
    if (id < 0 || id > INT32_MAX)
      throw errorf("'{}' holds what is no token id", name).found(fmt::format("{}", id));
    out.push_back(static_cast<int32_t>(id));
  }
  return out;
}

// [1, R, …] or [R, …] as rows of one width.
Golden::Rows rows_of(const Array& array, const std::string& name) {
  std::vector<int64_t> shape = array.shape();
  if (shape.size() >= 3 && shape[0] == 1) shape.erase(shape.begin());
  if (shape.size() < 2) throw errorf("'{}' has too few axes", name).expected("[tokens, values]");
  Golden::Rows out;
  out.rows = shape[0];
  out.width = out.rows > 0 ? array.size() / out.rows : 0;
  if (out.rows < 1 || out.width < 1) throw errorf("'{}' is empty", name);
  out.values = array.to_float();
  return out;
}

// Whether goldens hold this value.
bool is_inner(const InnerName& name, bool blocks = false) {
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name.name) != std::end(names);
  };
  if (name.layer < 0) return among(kInner);
  return among(kInnerOfLayer) || (blocks && among(kInnerOfBlock));
}

// transformers counts the embedding as the first, and gives the last after the final norm.
void take_hidden_states(const std::map<std::string, Array>& arrays, Golden& g) {
  int64_t last = -1;
  const auto number_of = [](const std::string& text) {
    const InnerName name = parse_name(text);
    return name.name == "hidden_states" ? name.layer : -1;
  };
  for (const auto& [name, array] : arrays) last = std::max(last, number_of(name));
  for (const auto& [name, array] : arrays) {
    const int64_t i = number_of(name);
    if (i < 0 || (i == last && i > 0)) continue;
    g.inner.try_emplace(i == 0 ? InnerName{"embed_out"} : InnerName{"layer_out", i - 1},
                        rows_of(array, name));
  }
}

void take_logits(const std::map<std::string, Array>& arrays, Golden& g) {
  if (const auto it = arrays.find("logits"); it != arrays.end()) {
    g.logits = rows_of(it->second, "logits");
    if (g.logits.rows < g.prompt)
      throw errorf("'logits' has fewer rows than the prompt has tokens")
          .found(fmt::format("{}", g.logits.rows))
          .expected(fmt::format("{}", g.prompt));
  } else if (const auto last = arrays.find("logits_last"); last != arrays.end()) {
    g.logits.values = last->second.to_float();
    g.logits.rows = 1;
    g.logits.width = static_cast<int64_t>(g.logits.values.size());
    g.logits.first = g.prompt - 1;
  } else {
    throw errorf("there is no array 'logits'").expected("input_ids and logits, as docs/verify.md says");
  }
  g.vocab = g.logits.width;
}

Golden parse(const std::map<std::string, Array>& arrays) {
  Golden g;
  for (const char* name : kIdNames)
    if (const auto it = arrays.find(name); it != arrays.end() && g.ids.empty())
      g.ids = ids_of(it->second, name);
  if (g.ids.empty()) throw errorf("there is no array 'input_ids', or it is empty");
  g.prompt = static_cast<int64_t>(g.ids.size());
  if (const auto it = arrays.find("greedy_ids"); it != arrays.end()) {
    const std::vector<int32_t> more = ids_of(it->second, "greedy_ids");
    g.ids.insert(g.ids.end(), more.begin(), more.end());
  }
  take_logits(arrays, g);
  for (const auto& [text, array] : arrays)
    if (const InnerName name = parse_name(text); is_inner(name)) g.inner.emplace(name, rows_of(array, text));
  take_hidden_states(arrays, g);
  for (const int32_t id : g.ids)
    if (id >= g.vocab)
      throw errorf("a token id is outside the golden's own vocabulary")
          .found(fmt::format("{}", id))
          .expected(fmt::format("0 to {}", g.vocab - 1));
  return g;
}

void append(Golden::Rows& rows, std::span<const float> values, int64_t tokens) {
  rows.values.insert(rows.values.end(), values.begin(), values.end());
  rows.rows += tokens;
  rows.width = static_cast<int64_t>(values.size()) / tokens;
}

// Feeds the prompt and then, `steps` times, the best token; step(ids) gives the logits of all of them.
Golden feed(std::span<const int32_t> prompt, int64_t steps, int64_t vocab,
            const std::function<std::vector<float>(std::span<const int32_t>)>& step, Golden g = {}) {
  g.ids.assign(prompt.begin(), prompt.end());
  g.prompt = static_cast<int64_t>(prompt.size());
  g.vocab = vocab;
  append(g.logits, step(prompt), g.prompt);
  for (int64_t i = 0; i < steps; ++i) {
    const auto next = static_cast<int32_t>(best_of(g.logits.row(g.logits.rows - 1)));
    g.ids.push_back(next);
    append(g.logits, step(std::span(&next, 1)), 1);
  }
  return g;
}

}  // namespace

std::span<const float> Golden::Rows::row(int64_t token) const {
  if (!has(token)) throw errorf("the golden has no row for token {}", token);
  return std::span(values).subspan(static_cast<size_t>((token - first) * width), static_cast<size_t>(width));
}

const Golden::Rows* Golden::find(const std::string& name, int64_t layer) const {
  const auto it = inner.find({name, layer});
  return it == inner.end() ? nullptr : &it->second;
}

Golden Golden::read(const std::filesystem::path& path) {
  try {
    std::map<std::string, Array> arrays;
    for (auto& [name, array] : read_npz(path)) arrays.insert_or_assign(name, std::move(array));
    Golden g = parse(arrays);
    g.origin = path.filename().string();
    return g;
  } catch (Error& e) {
    if (e.where().find(path.string()) == std::string::npos) e.within(path.string());
    throw;
  }
}

void Golden::write(const std::filesystem::path& path) const {
  check_file_output(path);
  StagedOutput staged(path, true);
  NpzWriter out(staged.path());
  const auto numbers = [&](const std::string& name, std::span<const int32_t> values) {
    Array array(DType::int32, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), array.values<int32_t>().begin());
    out.add(name, array);
  };
  const auto rows = [&](const std::string& name, const Rows& r) {
    Array array(DType::fp32, {r.rows, r.width});
    std::copy(r.values.begin(), r.values.end(), array.values<float>().begin());
    out.add(name, array);
  };
  numbers("input_ids", std::span(ids).first(static_cast<size_t>(prompt)));
  if (static_cast<size_t>(prompt) < ids.size())
    numbers("greedy_ids", std::span(ids).subspan(static_cast<size_t>(prompt)));
  rows("logits", logits);
  for (const auto& [name, r] : inner) rows(name.text(), r);
  out.finish();
  staged.commit();
}

static Golden capture_drafted(const Reference& reference, std::span<const int32_t> prompt,
                              CaptureOptions options) {
  const std::vector<int32_t> draft = std::exchange(options.draft, {});
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  ids.insert(ids.end(), draft.begin(), draft.end());
  options.positions =
      options.positions ? options.positions : static_cast<int64_t>(prompt.size()) + options.steps;
  const int64_t steps = std::exchange(options.steps, 0);
  Golden g = capture(reference, ids, options);
  size_t right = 0;
  const auto row = static_cast<int64_t>(prompt.size()) - 1;
  while (right < draft.size() && best_of(g.logits.row(row + static_cast<int64_t>(right))) == draft[right])
    ++right;
  if (right < draft.size() || right < static_cast<size_t>(steps)) {
    options.steps = steps - static_cast<int64_t>(right);
    g = capture(reference, std::span(ids).first(prompt.size() + right), options);
  }
  g.prompt = static_cast<int64_t>(prompt.size());
  return g;
}

Golden capture(const Reference& reference, std::span<const int32_t> prompt, const CaptureOptions& options) {
  if (prompt.empty()) throw errorf("there are no tokens");
  expect_next_tokens(reference.model());
  if (!options.draft.empty()) return capture_drafted(reference, prompt, options);
  Golden g;
  ReferenceOptions o;
  o.positions = options.positions ? options.positions : static_cast<int64_t>(prompt.size()) + options.steps;
  int64_t tokens = 0;
  if (options.layers)
    o.tap = [&](std::string_view name, int64_t layer, std::span<const float> values) {
      if (name == "embed_out") tokens = static_cast<int64_t>(values.size()) / reference.model().hidden;
      const InnerName inner{std::string(name), layer};
      if (is_inner(inner, options.blocks)) append(g.inner[inner], values, tokens);
    };
  ReferenceSession session(reference, o);
  Golden out = feed(prompt, options.steps, reference.model().vocab,
                    [&](std::span<const int32_t> ids) { return session.step(ids); });
  out.inner = std::move(g.inner);
  return out;
}

Golden capture(const std::filesystem::path& bundle, std::shared_ptr<const Backend> backend,
               std::span<const int32_t> prompt, const CaptureOptions& options) {
  if (prompt.empty()) throw errorf("there are no tokens");
  const int64_t total = static_cast<int64_t>(prompt.size()) + options.steps;
  const Stepper stepper(Bundle::open(bundle, std::move(backend)),
                        {.positions = options.positions ? options.positions : total, .taps = options.layers});
  const BundleInfo& info = stepper.info();
  expect_kind(info, bundle, {BundleKind::generate});
  if (info.argmax)
    throw errorf("the bundle gives only the best token, not logits: there is no golden to capture")
        .at(bundle.string())
        .hint("convert without --argmax-output");
  const CallShape shape = stepper.shape_for(total);
  // What recurrent layers remember is seen after each call: one token at a time.
  const int64_t most = options.layers && info.recurrent() ? 1 : shape.most_tokens;
  Caches caches = stepper.empty_caches(shape);
  std::map<InnerName, Golden::Rows> inner;
  int64_t position = 0;
  Golden g = feed(prompt, options.steps, info.vocab, [&](std::span<const int32_t> ids) {
    std::vector<float> logits;
    while (!ids.empty()) {
      const int64_t tokens = std::min<int64_t>(static_cast<int64_t>(ids.size()), most);
      const StepResult step = stepper.step(shape, ids.first(static_cast<size_t>(tokens)), position, caches);
      logits.insert(logits.end(), step.logits.begin(), step.logits.end());
      for (const auto& [name, values] : step.inner)
        if (is_inner(name)) append(inner[name], values, tokens);
      position += tokens;
      ids = ids.subspan(static_cast<size_t>(tokens));
    }
    return logits;
  });
  g.inner = std::move(inner);
  return g;
}

}  // namespace anemone
