// Choosing tokens and ending texts, by hand calculation.
#include "runtime/sampler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "runtime/languages.h"
#include "runtime/ngram.h"
#include "runtime/stop_text.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

using Ids = std::vector<int32_t>;

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, 0.5f, -1.0f, 2.5f};

Ids twelve(const SamplerOptions& options, const Ids& history = {}) {
  Sampler sampler(options);
  Ids out;
  for (int i = 0; i < 12; ++i) out.push_back(sampler.pick(kLogits, history));
  return out;
}

}  // namespace

TEST_CASE("greedy takes the best token, the lower id of equals, and knows the margin") {
  Sampler sampler({});
  CHECK(sampler.pick(kLogits, {}) == 1);
  CHECK(sampler.pick(std::vector<float>{2, 5, 5, 1}, {}) == 1);
  CHECK(sampler.pick(std::vector<float>{-3}, {}) == 0);
  const Sampler::Best best = sampler.best(kLogits, {});
  CHECK(best.id == 1);
  CHECK(best.margin == 0.5f);
  CHECK(best.scale == 3.0f);
  CHECK(sampler.best(std::vector<float>{2, 5, 5, -9}, {}).margin == 0);
  CHECK(sampler.best(std::vector<float>{2, 5, 5, -9}, {}).scale == 9);
}

TEST_CASE("sampling picks what the probabilities and the seed say") {
  // Uniform numbers of SplitMix64 (for seed 1: 0.5666, 0.7458, 0.9710, 0.4444 …) laid along the probabilities
  // of the tokens that are kept, best first; calculated apart, in Python.
  struct Case {
    std::string name;
    SamplerOptions options;
    Ids history, expected;
  };
  const std::vector<Case> cases = {
      // 0.4525, 0.2744, 0.1665, 0.0612, 0.0371, 0.0083
      {"temperature 1", {.temperature = 1}, {}, {5, 2, 3, 1, 1, 2, 2, 5, 1, 2, 1, 5}},
      {"temperature 0.5", {.temperature = 0.5}, {}, {1, 5, 2, 1, 1, 5, 5, 1, 1, 5, 1, 1}},
      {"another seed", {.temperature = 2, .seed = 7}, {}, {5, 1, 3, 2, 5, 1, 5, 5, 1, 5, 1, 4}},
      {"hot", {.temperature = 3, .seed = 42}, {}, {0, 1, 5, 5, 1, 3, 1, 0, 5, 2, 1, 2}},
      {"top-k 2", {.temperature = 1, .top_k = 2}, {}, {1, 5, 5, 1, 1, 5, 5, 1, 1, 5, 1, 1}},
      // 0.4525 < 0.6 <= 0.7269: two are kept
      {"top-p 0.6", {.temperature = 1, .top_p = 0.6}, {}, {1, 5, 5, 1, 1, 5, 5, 1, 1, 5, 1, 1}},
      {"top-p 0.75", {.temperature = 1, .top_p = 0.75}, {}, {5, 5, 2, 1, 1, 5, 2, 5, 1, 5, 1, 5}},
      // exp(-1) = 0.37 stays, exp(-2) = 0.14 goes
      {"min-p 0.3", {.temperature = 1, .min_p = 0.3}, {}, {5, 5, 2, 1, 1, 5, 2, 5, 1, 5, 1, 5}},
      {"all together",
       {.temperature = 1, .top_k = 4, .top_p = 0.9, .min_p = 0.2, .seed = 3},
       {},
       {1, 5, 5, 1, 1, 5, 1, 2, 1, 2, 5, 5}},
      // 3 / 2 = 1.5 and -1 * 2 = -2, each once however often the token stands there
      {"penalty 2",
       {.temperature = 1, .repetition_penalty = 2},
       {1, 4, 1},
       {2, 1, 3, 2, 2, 1, 0, 2, 5, 1, 5, 2}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    CHECK(twelve(c.options, c.history) == c.expected);
  }
}

TEST_CASE("narrow choices leave one token: top-k 1, a small top-p, min-p 1") {
  for (const SamplerOptions& o :
       {SamplerOptions{.temperature = 5, .top_k = 1}, SamplerOptions{.temperature = 1, .top_p = 0.1},
        SamplerOptions{.temperature = 1, .min_p = 1}, SamplerOptions{.temperature = 1e-6}})
    CHECK(twelve(o) == Ids(12, 1));
  CHECK(twelve({.temperature = 1, .top_k = 99}) == twelve({.temperature = 1}));
}

TEST_CASE("the penalty looks at the last tokens only, and works for greedy too") {
  Sampler sampler({.repetition_penalty = 4, .repetition_window = 2});
  CHECK(sampler.pick(kLogits, Ids{1, 3, 3}) == 1);  // 1 is three back
  CHECK(sampler.pick(kLogits, Ids{3, 1, 3}) == 5);  // 3 / 4 < 2.5
  CHECK(sampler.pick(kLogits, Ids{3, 1, 5}) == 2);  // 2.5 / 4 too
  CHECK(sampler.pick(kLogits, Ids{-5, 99}) == 1);   // ids of other vocabularies do nothing
  CHECK(Sampler({.repetition_penalty = 4}).pick(kLogits, Ids{1, 3, 3}) == 5);
}

TEST_CASE("what is no number is never picked, and values that mean nothing are refused") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  CHECK(Sampler({}).pick(std::vector<float>{nan, -inf, 1, nan, 2, -inf}, {}) == 4);
  for (int i = 0; i < 20; ++i) {
    Sampler sampler({.temperature = 2, .seed = static_cast<uint64_t>(i)});
    const int32_t id = sampler.pick(std::vector<float>{nan, -inf, 1, nan, 2, -inf}, {});
    CHECK((id == 2 || id == 4));
  }
  CHECK(error_of([&] { Sampler({}).pick(std::vector<float>{nan, nan}, {}); }).find("no logit") == 0);
  CHECK(error_of([&] { Sampler({.temperature = 1}).pick(std::vector<float>{nan}, {}); }).find("no logit") ==
        0);
  CHECK(error_of([] { Sampler({.temperature = -1}); }).find("temperature") != std::string::npos);
  CHECK(error_of([] { Sampler({.top_p = 0}); }).find("top-p") != std::string::npos);
  CHECK(error_of([] { Sampler({.min_p = 1.5}); }).find("min-p") != std::string::npos);
  CHECK(error_of([] { Sampler({.top_k = -1}); }).find("top-k") != std::string::npos);
  CHECK(error_of([] { Sampler({.repetition_penalty = 0}); }).find("penalty") != std::string::npos);
}

TEST_CASE("a stop string is found across pieces, and nothing of it is given out") {
  struct Case {
    std::vector<std::string> stops, pieces;
    std::string given, found;
  };
  const std::vector<Case> cases = {
      {{"\n\n"}, {"end.\n", "\nNext"}, "end.", "\n\n"},
      {{"STOP"}, {"a S", "T", "O", "P b"}, "a ", "STOP"},
      {{"STOP"}, {"a S", "T", "OS", "TOP"}, "a STO", "STOP"},
      {{"STOP"}, {"a S", "TO", "R b"}, "a STOR b", ""},
      {{"aab"}, {"a", "a", "a", "b", "c"}, "a", "aab"},
      {{"xyz"}, {"xy"}, "xy", ""},  // given out at the end
      {{"lo w", "hello"}, {"say hello world"}, "say ", "hello"},
      {{"ab", "abc"}, {"1abc"}, "1", "abc"},
      {{}, {"any", "thing"}, "anything", ""},
      {{"ø"}, {"bl\xc3\xa5", "b\xc3\xb8r"}, "blåb", "ø"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.pieces);
    StopText stop(c.stops);
    std::string given;
    for (const std::string& piece : c.pieces) given += stop.feed(piece);
    given += stop.finish();
    CHECK(given == c.given);
    CHECK(stop.found().value_or("") == c.found);
  }
  StopText stop({"abc"});
  CHECK(stop.feed("xab") == "x");  // as soon as it is certain, no sooner
  CHECK(stop.feed("d") == "abd");
  CHECK_THROWS_AS(StopText({""}), Error);
}

TEST_CASE("drafts come from the latest place that says the same") {
  CHECK(ngram_draft(Ids{1, 2, 3, 9, 1, 2}, 2) == Ids{3, 9});
  CHECK(ngram_draft(Ids{1, 2, 3, 1, 2, 4, 1, 2}, 1) == Ids{4});           // the latest
  CHECK(ngram_draft(Ids{5, 1, 2, 3, 6, 1, 2, 4, 5, 1, 2}, 1) == Ids{3});  // three tokens beat two
  CHECK(ngram_draft(Ids{7, 8, 7, 8}, 5) == Ids{7, 8, 7, 8, 7});           // it goes round
  CHECK(ngram_draft(Ids{1, 2, 3, 4, 3}, 3).empty());                      // one token says too little
  CHECK(ngram_draft(Ids{1, 2, 3}, 3).empty());
  CHECK(ngram_draft(Ids{}, 3).empty());
  CHECK(ngram_draft(Ids{7, 7, 7}, 0).empty());
}

TEST_CASE("a repeated run of tokens is seen when it is whole") {
  CHECK(ends_in_repeat(Ids{1, 2, 3, 9, 1, 2, 3}, 3));
  CHECK_FALSE(ends_in_repeat(Ids{1, 2, 3, 9, 1, 2}, 3));
  CHECK(ends_in_repeat(Ids{4, 4, 4}, 2));
  CHECK_FALSE(ends_in_repeat(Ids{4, 4}, 2));
  CHECK_FALSE(ends_in_repeat(Ids{4, 4, 4}, 0));
  CHECK_FALSE(ends_in_repeat(Ids{}, 2));
}

TEST_CASE("languages are known by code and by name") {
  CHECK(find_language("fr").english == "French");
  CHECK(find_language("FR").code == "fr");
  CHECK(find_language("german").code == "de");
  CHECK(find_language("zh-hant").english == "Traditional Chinese");
  CHECK(find_language("日语").code == "ja");
  const std::string error = error_of([] { find_language("klingon"); });
  CHECK(error.find("'klingon'") != std::string::npos);
  CHECK(error.find("fr, ") != std::string::npos);
  for (const Language& l : languages()) CHECK(&find_language(l.code) == &l);
}
