// A real model: SmolLM2-135M-Instruct, from the place that ANEMONE_SMOLLM2 names or tools/fetch_smollm2.sh made,
// against goldens that transformers computed from its dequantised weights.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/npy.h"
#include "convert/convert.h"
#include "corpus/corpus.h"
#include "engine/cpu_backend.h"
#include "runtime/session.h"
#include "support/data.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"
#include "text/tokenizer.h"
#include "verify/perplexity.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// Between the best logits: another arithmetic may rightly choose the other token.
constexpr double kNarrow = 0.1;

// The folder of goldens and the model, where both are there.
struct Given {
  fs::path golden, checkpoint;
};

std::optional<Given> given() {
  const auto golden = data_folder("models/smollm2-135m-golden/golden");
  if (!golden) return std::nullopt;
  const auto checkpoint = smollm2_file();
  if (!checkpoint) return std::nullopt;
  return Given{*golden, *checkpoint};
}

size_t best(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

struct Likeness {
  double cosine = 1;  // the smallest
  size_t equal = 0, positions = 0;
};

// Every prompt of the folder with logits of its last token, and argmax at all positions where they are given.
Likeness compare(const std::shared_ptr<const Bundle>& bundle, const fs::path& golden) {
  Likeness out;
  for (const fs::path& file : files_ending(golden, "logits_last.npy")) {
    const std::string name = file.filename().string(), set = name.substr(0, name.find("logits_last.npy"));
    const std::vector<int32_t> ids = read_ids(golden / (set + "input_ids.npy"));
    const std::vector<float> last = read_npy(file).to_float(), got = Session(bundle).forward(ids);
    const size_t vocab = last.size();
    REQUIRE(got.size() == ids.size() * vocab);
    const auto row = [&](size_t t) { return std::span(got).subspan(t * vocab, vocab); };
    out.cosine = std::min(out.cosine, cosine(row(ids.size() - 1), last));
    std::vector<int32_t> expected(ids.size(), -1);
    expected.back() = static_cast<int32_t>(best(last));
    if (fs::exists(golden / (set + "argmax_all.npy"))) expected = read_ids(golden / (set + "argmax_all.npy"));
    for (size_t t = 0; t < ids.size(); ++t) {
      if (expected[t] < 0) continue;
      ++out.positions;
      out.equal += best(row(t)) == static_cast<size_t>(expected[t]);
    }
  }
  return out;
}

std::string text(const Likeness& s) {
  return fmt::format("cosine {:.6f}, {} of {} best tokens equal", s.cosine, s.equal, s.positions);
}

// The tokens that the bundle chooses after a prompt, as many as expected.
std::string greedy_difference(const std::shared_ptr<const Bundle>& bundle, const std::vector<int32_t>& prompt,
                              std::span<const int32_t> expected) {
  Session session(bundle);
  int32_t token = static_cast<int32_t>(session.forward_best(prompt));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (token != expected[i]) return fmt::format("token {} is {}, expected {}", i, token, expected[i]);
    if (i + 1 < expected.size()) token = static_cast<int32_t>(session.forward_best(std::span(&token, 1)));
  }
  return "";
}

// Greedy text in `fast` arithmetic is that of fp32 up to a near tie of it: twice what one logit was seen to change by.
std::string fast_difference(const std::shared_ptr<const Bundle>& exact,
                            const std::shared_ptr<const Bundle>& fast, std::span<const int32_t> prompt) {
  constexpr float kTie = 0.5f;
  constexpr int kTokens = 24;
  Session a(exact), b(fast);
  std::vector<int32_t> next(prompt.begin(), prompt.end());
  for (int i = 0; i < kTokens; ++i) {
    const std::vector<float> x = a.forward(next, true), y = b.forward(next, true);
    if (best(x) != best(y))
      return x[best(x)] - x[best(y)] <= kTie ? ""
                                             : fmt::format("token {} is {}, in fp32 {} by {:.2f}", i, best(y),
                                                           best(x), x[best(x)] - x[best(y)]);
    next = {static_cast<int32_t>(best(x))};
  }
  return "";
}

}  // namespace

TEST_CASE("corpus_smollm2: fp16 weights give the tokens and logits of transformers") {
  const auto model = given();
  if (!model) return;
  const TempFolder folder;
  Tally tally("smollm2 fp16");
  convert(model->checkpoint, folder / "b",
          {.context = {256}, .tokens = {{1, 1}, {32, 32}}, .precision = Precision::fp16});
  const auto exact = Bundle::open(folder / "b", cpu_backend({}));
  for (const fs::path& file : files_ending(model->golden, "greedy_ids.npy")) {
    const std::string name = file.filename().string(), set = name.substr(0, name.find("greedy_ids.npy"));
    if (set.empty()) continue;  // its first step is a near tie
    tally.add(set + "greedy",
              greedy_difference(exact, read_ids(model->golden / (set + "input_ids.npy")), read_ids(file)));
  }
  const nlohmann::json long_greedy = read_json(model->golden / "long_greedy.json");
  for (const auto& [name, text] : long_greedy.items()) {
    const auto ids = text.at("greedy_ids").get<std::vector<int32_t>>();
    const auto margins = text.at("margins").get<std::vector<double>>();
    const auto narrow =
        std::find_if(margins.begin(), margins.end(), [](double m) { return m < kNarrow; }) - margins.begin();
    const auto certain = std::span(ids).first(std::min(ids.size(), static_cast<size_t>(narrow)));
    tally.add(fmt::format("long greedy '{}', {} tokens", name, certain.size()),
              greedy_difference(exact, text.at("prompt_ids").get<std::vector<int32_t>>(), certain));
  }
  const Likeness half =
      compare(Bundle::open(folder / "b", cpu_backend({.arithmetic = Arithmetic::fp16})), model->golden);
  MESSAGE("fp16 arithmetic: " << text(half));
  tally.add("fp16 arithmetic", half.cosine >= 0.9995 && half.equal == half.positions ? "" : text(half));
}

TEST_CASE("corpus_smollm2: int8 weights stay close to transformers") {
  const auto model = given();
  if (!model) return;
  const TempFolder folder;
  Tally tally("smollm2 int8");
  convert(model->checkpoint, folder / "b", {.context = {256}, .tokens = {{32, 32}}});
  const Likeness s = compare(Bundle::open(folder / "b", cpu_backend({})), model->golden);
  MESSAGE("int8: " << text(s));
  tally.add("int8",
            s.cosine >= 0.998 && static_cast<double>(s.equal) >= 0.95 * static_cast<double>(s.positions)
                ? ""
                : text(s));
}

// Every kind of storage, judged by the same weights in fp32.
TEST_CASE("corpus_smollm2: fast arithmetic costs next to nothing, whatever the weights are stored as") {
  const auto model = given();
  if (!model) return;
  const TempFolder folder;
  Tally tally("smollm2 fast");
  const std::vector<int32_t> ids =
      Tokenizer::load(model->checkpoint)->encode(slurp(source_dir() / "bench" / "texts" / "stories.txt"), {});
  const auto check = [&](const char* name, const char* bundle, double bar) {
    const double exact = perplexity(Bundle::open(folder / bundle, cpu_backend({})), ids, {}).value();
    const auto fast = Bundle::open(folder / bundle, cpu_backend({.arithmetic = Arithmetic::fast}));
    const double change = perplexity(fast, ids, {}).value() / exact - 1;
    MESSAGE(name << ": perplexity " << 100 * change << "%");
    tally.add(name,
              std::abs(change) <= bar ? "" : fmt::format("perplexity changes by {:.2f}%", 100 * change));
  };
  convert(model->checkpoint, folder / "int8", {.context = {512}, .tokens = {{1, 1}, {64, 64}}});
  check("int8", "int8", 0.005);
  const auto check_form = [&](const char* name, const StorageForm& form) {
    convert(model->checkpoint, folder / "form",
            {.context = {512},
             .tokens = {{1, 1}, {64, 64}},
             .recipe = Recipe{.rules = {{.form = form}}},
             .overwrite = true});
    check(name, "form", 0.01);
  };
  check_form("4-bit palettes, groups of 16", {.palette = PaletteForm{.group = 16, .fast = true}});
  check_form("one 6-bit palette", {.palette = PaletteForm{.bits = 6, .fast = true}});
  check_form("int4, blocks of 32",
             {.integers = IntegerForm{.dtype = DType::int4, .per = IntegerForm::Per::block, .block = 32}});
  const nlohmann::json long_greedy = read_json(model->golden / "long_greedy.json");
  const auto exact = Bundle::open(folder / "int8", cpu_backend({})),
             fast = Bundle::open(folder / "int8", cpu_backend({.arithmetic = Arithmetic::fast}));
  for (const auto& [name, text] : long_greedy.items())
    tally.add(fmt::format("greedy '{}'", name),
              fast_difference(exact, fast, text.at("prompt_ids").get<std::vector<int32_t>>()));
}
