#include "bundle/check_experts.h"

#include <doctest/doctest.h>

#include <functional>

#include "anemone/error.h"

using namespace anemone;

namespace {

using Kind = Role::Kind;

StageFunction layers_function(int64_t choices, bool behind) {
  StageFunction f{.name = "main", .context = 8};
  f.interface.inputs = {{"x", {.kind = Kind::stream}}};
  if (behind) f.interface.inputs.push_back({"mixed", {.kind = Kind::mixed}});
  f.interface.outputs = {{"y", {.kind = Kind::stream}}};
  if (choices) {
    f.interface.outputs.push_back({"router", {.kind = Kind::router, .first = 0, .last = choices}});
    f.interface.outputs.push_back({"normed", {.kind = Kind::normed}});
  }
  return f;
}

StageFunction expert_function(int64_t first, int64_t last, int64_t tokens) {
  StageFunction f{.name = "e" + std::to_string(first) + "_" + std::to_string(tokens),
                  .least_tokens = tokens,
                  .most_tokens = tokens};
  f.interface.inputs = {{"x", {.kind = Kind::normed}},
                        {"shares", {.kind = Kind::shares, .first = first, .last = last}}};
  f.interface.outputs = {{"y", {.kind = Kind::mixed}}};
  return f;
}

// A layer of four experts, cut at its router.
BundleInfo one_layer() {
  BundleInfo b;
  Stage route{.kind = StageKind::route, .package = "layers_00", .functions = {layers_function(4, false)}};
  route.last_layer = 1;
  route.rule = ExpertRule{.experts = 4, .used = 2};
  Stage experts{.kind = StageKind::experts, .package = "experts_00", .first_layer = 0, .last_layer = 1};
  for (const int64_t e : {0, 2})
    for (const int64_t tokens : {1, 8}) experts.functions.push_back(expert_function(e, e + 2, tokens));
  Stage sum{.kind = StageKind::sum, .package = "layers_01", .functions = {layers_function(0, true)}};
  sum.last_layer = 1;
  b.stages = {route, experts, sum};
  return b;
}

std::string error_of(const std::function<void(BundleInfo&)>& change) {
  BundleInfo b = one_layer();
  change(b);
  try {
    check_experts(b);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what bundle.json says of experts must be possible") {
  CHECK(error_of([](BundleInfo&) {}).empty());
  const auto fails = [](const std::string& word, const std::function<void(BundleInfo&)>& change) {
    const std::string error = error_of(change);
    CHECK_MESSAGE(error.find(word) != std::string::npos, word, " is not in: ", error);
  };
  fails("'rule' is missing", [](BundleInfo& b) { b.stages[0].rule.reset(); });
  fails("'rule.used' is 5", [](BundleInfo& b) { b.stages[0].rule->used = 5; });
  fails("'rule.used' is 0", [](BundleInfo& b) { b.stages[0].rule->used = 0; });
  fails("'rule.choice_bias' has 3 numbers", [](BundleInfo& b) { b.stages[0].rule->choice_bias = {0, 0, 0}; });
  fails("gives logits of choices 0 to 4",
        [](BundleInfo& b) { b.stages[0].rule->skip = Experts::Skip::zero; });
  fails("there is no route before it", [](BundleInfo& b) { b.stages.erase(b.stages.begin()); });
  fails("hold 2 experts", [](BundleInfo& b) { b.stages[1].functions.resize(2); });
  fails("the same number of tokens",
        [](BundleInfo& b) { b.stages[1].functions[2] = expert_function(0, 2, 1); });
  fails("one number of tokens", [](BundleInfo& b) { b.stages[1].functions[0].most_tokens = 2; });
  fails("experts of layers 1 to 2", [](BundleInfo& b) {
    b.stages[1].first_layer = 1;
    b.stages[1].last_layer = 2;
  });
  fails("does not begin with the sum",
        [](BundleInfo& b) { b.stages[2].functions = {layers_function(0, false)}; });
  fails("the kind 'run' adds no experts", [](BundleInfo& b) { b.stages[2].kind = StageKind::run; });
  fails("nothing adds the experts", [](BundleInfo& b) { b.stages.pop_back(); });
  fails("no output has the role 'normed'",
        [](BundleInfo& b) { b.stages[0].functions = {layers_function(0, false)}; });
}
