// `anemone classify`: classes of texts, or of each of their tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/encoding.h"
#include "cli/format.h"
#include "cli/source.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Args {
  std::string bundle;
  EncodingFlags flags;
};

// By class, as the bundle says: probabilities, or the values of a regression.
std::vector<double> scores_of(std::span<const float> logits, ClassScores way) {
  std::vector<double> out(logits.begin(), logits.end());
  if (way == ClassScores::sigmoid)
    for (double& v : out) v = 1 / (1 + std::exp(-v));
  if (way != ClassScores::softmax) return out;
  const double most = *std::max_element(out.begin(), out.end());
  double sum = 0;
  for (double& v : out) sum += v = std::exp(v - most);
  for (double& v : out) v /= sum;
  return out;
}

struct Scores {
  std::vector<double> all;
  size_t best = 0;
};

Scores score(std::span<const float> logits, const BundleInfo& info) {
  Scores out{scores_of(logits, info.scores)};
  out.best = static_cast<size_t>(std::max_element(out.all.begin(), out.all.end()) - out.all.begin());
  return out;
}

double rounded(double p) { return std::round(p * 1e6) / 1e6; }

// Values have no best one.
void add_scores(const Scores& scores, const BundleInfo& info, Json& out) {
  if (info.scores != ClassScores::plain) {
    out["label"] = info.labels.at(scores.best);
    out["probability"] = rounded(scores.all[scores.best]);
  }
  for (size_t i = 0; i < scores.all.size(); ++i) out["scores"][info.labels.at(i)] = rounded(scores.all[i]);
}

// "joy          0.9876", or every value of a regression.
std::string scores_line(const Scores& scores, const BundleInfo& info) {
  if (info.scores != ClassScores::plain)
    return fmt::format("{:<12} {:.4f}", info.labels.at(scores.best), scores.all[scores.best]);
  std::string out;
  for (size_t i = 0; i < scores.all.size(); ++i)
    out += fmt::format("{}{:<12} {:.4f}", i ? "  " : "", info.labels.at(i), scores.all[i]);
  return out;
}

std::string token_text(const EncodingInput& input, int32_t id) {
  if (!input.tokenizer) return fmt::format("{}", id);
  const std::string text = input.tokenizer->decode(std::span(&id, 1));
  return text.empty() ? std::string(input.tokenizer->piece(id)) : text;
}

// The ids that were computed: a cut leaves the last ones.
std::vector<int32_t> ids_seen(const EncodingInput& input, size_t text, const EncodedText& e) {
  std::vector<int32_t> ids = input.ids[text];
  const auto keep =
      static_cast<ptrdiff_t>(std::min<int64_t>(static_cast<int64_t>(input.keep_last), e.tokens));
  ids.erase(ids.end() - keep - static_cast<ptrdiff_t>(e.cut), ids.end() - keep);
  return ids;
}

void print_tokens(const EncodingInput& input, size_t text, const EncodedText& e, const BundleInfo& info,
                  bool json) {
  const std::vector<int32_t> ids = ids_seen(input, text, e);
  const size_t classes = e.classes.size() / ids.size();
  Json tokens = Json::array();
  for (size_t t = 0; t < ids.size(); ++t) {
    const Scores scores = score(std::span(e.classes).subspan(t * classes, classes), info);
    const std::string word = token_text(input, ids[t]);
    if (json) {
      tokens.push_back({{"id", ids[t]}, {"token", word}});
      add_scores(scores, info, tokens.back());
    } else if (!input.tokenizer || !input.tokenizer->is_special(ids[t])) {
      fmt::print("{:<20} {}\n", one_line(word, 20), scores_line(scores, info));
    }
  }
  if (!json) return;
  Json out;
  if (!input.texts.empty()) out["text"] = input.texts[text];
  out["tokens"] = std::move(tokens);
  fmt::print("{}\n", json_text(out));
}

void print_text(const EncodingInput& input, size_t text, const EncodedText& e, const BundleInfo& info,
                bool json) {
  const Scores scores = score(e.classes, info);
  if (!json) {
    fmt::print("{}  {}\n", scores_line(scores, info),
               input.texts.empty() ? counted(e.tokens, "token") : one_line(input.texts[text], 70));
    return;
  }
  Json out;
  if (!input.texts.empty()) out["text"] = input.texts[text];
  add_scores(scores, info, out);
  fmt::print("{}\n", json_text(out));
}

int run_classify(const Args& args, const Common& common) {
  const BundleInfo info = BundleInfo::read(args.bundle);
  expect_kind(info, args.bundle, {BundleKind::classify});
  const EncodingInput input = args.flags.read(args.bundle);
  std::vector<EncodedText> all(input.ids.size());
  encode_all(args.flags, input, args.bundle, {}, common, [&](size_t i, EncodedText e) {
    e.hidden.clear();
    all[i] = std::move(e);
  });
  for (size_t i = 0; i < all.size(); ++i) {
    if (i && !common.json && !info.pooling) fmt::print("\n");
    (info.pooling ? print_text : print_tokens)(input, i, all[i], info, common.json);
  }
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone classify sentiment \"What a fine day.\" \"I want my money back.\"\n"
    "  anemone classify ner --lines letters.txt --json";

}  // namespace

extern const Command kClassify{
    "classify", "Classify texts, or each of their tokens", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("BUNDLE", args->bundle, "what convert wrote, of a model with a classification head")
          .takes(kBundle);
      args->flags.declare(o);
      return [args](const Common& common) { return run_classify(*args, common); };
    }};

}  // namespace anemone::cli
