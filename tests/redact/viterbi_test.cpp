#include "redact/viterbi.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/npy.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::redact;

namespace {

std::vector<std::string> labels_of(int kinds) {
  std::vector<std::string> out = {"O"};
  for (int k = 0; k < kinds; ++k)
    for (const char* tag : {"B-", "I-", "E-", "S-"})
      out.push_back(tag + std::string("kind") + std::to_string(k));
  return out;
}

std::vector<float> random_scores(size_t tokens, size_t labels, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> out(tokens * labels);
  for (float& v : out) v = normal(random);
  return out;
}

// Every sequence of labels, tried: what Viterbi must find.
std::vector<int> best_by_trying(const LabelScheme& s, const std::vector<float>& scores, double stay) {
  const size_t labels = s.size(), tokens = scores.size() / labels;
  std::vector<int> path(tokens), best;
  double most = -1e30;
  const auto walk = [&](auto& self, size_t t, double sum) -> void {
    if (t == tokens) {
      if (s.may_finish(static_cast<size_t>(path.back())) && sum > most) {
        most = sum;
        best = path;
      }
      return;
    }
    for (size_t label = 0; label < labels; ++label) {
      if (t == 0 ? !s.may_start(label) : !s.may_follow(static_cast<size_t>(path[t - 1]), label)) continue;
      path[t] = static_cast<int>(label);
      const double bias = t > 0 && label == 0 && path[t - 1] != 1 && path[t - 1] != 2 ? stay : 0;
      self(self, t + 1, sum + bias + static_cast<double>(scores[t * labels + label]));
    }
  };
  walk(walk, 0, 0);
  return best;
}

std::vector<int> all_at_once(const Transitions& transitions, std::span<const float> scores) {
  Viterbi v(transitions);
  v.add(scores);
  return v.finish();
}

}  // namespace

TEST_CASE("viterbi finds the best of all legal sequences") {
  const LabelScheme scheme(labels_of(1));
  for (const Policy policy : {Policy::strict, Policy::balanced, Policy::quiet}) {
    const TransitionBiases biases = biases_of(policy);
    const Transitions transitions(scheme, biases);
    for (int seed = 0; seed < 20; ++seed) {
      const std::vector<float> scores = random_scores(6, scheme.size(), seed);
      CHECK(all_at_once(transitions, scores) == best_by_trying(scheme, scores, biases.background_stay));
    }
  }
}

TEST_CASE("viterbi in pieces of any size gives the labels of one pass") {
  const LabelScheme scheme(labels_of(8));
  const Transitions transitions(scheme, {});
  const size_t tokens = 1000;
  const std::vector<float> scores = random_scores(tokens, scheme.size(), 7);
  const std::vector<int> whole = all_at_once(transitions, scores);
  for (const size_t piece : {1, 3, 64, 999}) {
    Viterbi v(transitions);
    std::vector<int> labels;
    for (size_t at = 0; at < tokens; at += piece) {
      const size_t n = std::min(piece, tokens - at);
      v.add(std::span(scores).subspan(at * scheme.size(), n * scheme.size()));
      const std::vector<int> more = v.decided();
      labels.insert(labels.end(), more.begin(), more.end());
    }
    CHECK(labels.size() + 100 > tokens);  // little is held back
    const std::vector<int> rest = v.finish();
    labels.insert(labels.end(), rest.begin(), rest.end());
    CHECK(labels == whole);
  }
}

TEST_CASE("viterbi equals the published decoder on logits of a tiny privacy filter") {
  for (const auto& root : data_folders("models")) {
    const auto golden = root / "privacy-filter-tiny/golden";
    if (!std::filesystem::exists(golden / "viterbi_ids_zero_bias.npy")) continue;
    const Array logits = read_npy(golden / "logits.npy");
    std::vector<float> scores = logits.to_float();
    const LabelScheme scheme(labels_of(8));
    REQUIRE(scores.size() % scheme.size() == 0);
    for (size_t t = 0; t < scores.size(); t += scheme.size()) {
      double sum = 0;
      for (size_t i = 0; i < scheme.size(); ++i) sum += std::exp(static_cast<double>(scores[t + i]));
      for (size_t i = 0; i < scheme.size(); ++i) scores[t + i] -= static_cast<float>(std::log(sum));
    }
    std::vector<int> wanted;
    for (const float id : read_npy(golden / "viterbi_ids_zero_bias.npy").to_float())
      wanted.push_back(static_cast<int>(id));
    CHECK(all_at_once(Transitions(scheme, {}), scores) == wanted);
  }
}

TEST_CASE("labels: schemes with and without ends, and what is refused") {
  const LabelScheme open({"O", "B-PER", "I-PER", "B-LOC", "I-LOC"});
  CHECK(open.open_ended());
  CHECK(open.may_follow(2, 0));
  CHECK(open.may_follow(1, 3));
  CHECK_FALSE(open.may_follow(3, 2));
  CHECK(open.may_finish(1));
  const LabelScheme closed(labels_of(2));
  CHECK_FALSE(closed.may_follow(1, 0));
  CHECK(closed.may_follow(3, 5));
  CHECK_FALSE(closed.may_finish(2));
  CHECK(error_of([] { LabelScheme({"joy", "anger"}); }).find("'joy'") != std::string::npos);
  CHECK(short_name("private_person") == "PERSON");
  CHECK(short_name("account_number") == "ACCOUNT");
}
