#include "runtime/expert_choice.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

using namespace anemone;

namespace {

// The choices of the only token, with their shares, as text.
std::string chosen(const ExpertRule& rule, const std::vector<float>& logits) {
  const ExpertChoice c = choose_experts(rule, logits, 1);
  std::string out;
  for (size_t i = 0; i < c.uses.size(); ++i)
    for (const ExpertUse& use : c.uses[i]) out += fmt::format("{}:{:.4f} ", i, use.share);
  return out;
}

}  // namespace

// By hand: exp(0), exp(1), exp(2), exp(3) are 1, 2.7183, 7.3891, 20.0855; together 31.1929.
TEST_CASE("experts are chosen by their logits, and count of all or of the chosen ones") {
  const std::vector<float> logits = {1, 3, 0, 2};
  ExpertRule rule{.experts = 4, .used = 2, .share = Experts::Share::of_all};
  CHECK(chosen(rule, logits) == "1:0.6439 3:0.2369 ");
  rule.share = Experts::Share::of_chosen;  // 20.0855 / 27.4746
  CHECK(chosen(rule, logits) == "1:0.7311 3:0.2689 ");
  rule.used = 4;
  CHECK(chosen(rule, logits) == "0:0.0871 1:0.6439 2:0.0321 3:0.2369 ");
}

TEST_CASE("of equal logits the first expert is taken") {
  CHECK(chosen({.experts = 3, .used = 1}, {2, 2, 2}) == "0:0.3333 ");
  CHECK(chosen({.experts = 3, .used = 2}, {0, 2, 2}) == "1:0.4683 2:0.4683 ");
}

// The bias is added to the share, not to the logit, and changes the choice alone.
TEST_CASE("a bias changes what is chosen, and not by how much it counts") {
  ExpertRule rule{.experts = 3, .used = 1, .skip = Experts::Skip::zero, .choice_bias = {0, 0, 0, 0.5}};
  const std::vector<float> logits = {1, 3, 0, 2};
  CHECK(chosen(rule, logits) == "3:0.2369 ");
  rule.choice_bias[3] = 0.4;  // 0.6369 against 0.6439
  CHECK(chosen(rule, logits) == "1:0.6439 ");
}

TEST_CASE("every token chooses for itself, and an expert knows its tokens in order") {
  const ExpertChoice c = choose_experts({.experts = 2, .used = 1}, std::vector<float>{0, 1, 1, 0, 0, 1}, 3);
  REQUIRE(c.of(1).size() == 2);
  CHECK(c.of(1)[0].token == 0);
  CHECK(c.of(1)[1].token == 2);
  REQUIRE(c.of(0).size() == 1);
  CHECK(c.of(0)[0].token == 1);
}

TEST_CASE("logits that are no numbers end in shares that are none") {
  const ExpertChoice c = choose_experts({.experts = 3, .used = 2}, std::vector<float>{NAN, 1, 0}, 1);
  REQUIRE(c.of(1).size() == 1);
  CHECK(std::isnan(c.of(1)[0].share));
}
