// What a token takes from the heap.
#include <doctest/doctest.h>

#include <algorithm>

#include "convert/convert.h"
#include "coreml/counted_heap.h"
#include "coreml/double_fixture.h"
#include "runtime/session.h"
#include "support/data.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// A bundle on a Core ML that takes our buffers, for each of several kinds.
template <class Use>
void each_bundle(const Use& use) {
  using lower::KvKind;
  const TempFolder folder;
  const ConvertOptions kinds[] = {
      {.context = {96}, .tokens = {{1, 1}}, .threads = 1},
      {.context = {96}, .tokens = {{1, 1}}, .kv = KvKind::packed, .shard_bytes = 1, .threads = 1},
      {.context = {96}, .tokens = {{1, 1}}, .whole = true, .threads = 1},
  };
  for (ConvertOptions options : kinds) {
    options.overwrite = true;
    convert(source_dir() / "examples/demo_model/demo.gguf", folder / "bundle", options);
    DoubleFixture fixture;
    apple_double::switches().backings = apple_double::Backings::accepted;
    apple_double::switches().used_backings = apple_double::UsedBackings::accepted;
    use(Bundle::open(folder / "bundle", fixture.backend()));
  }
}

}  // namespace

TEST_CASE("a prediction takes nothing from the heap where buffers are taken") {
  each_bundle([](const std::shared_ptr<const Bundle>& bundle) {
    const int32_t id = 7;
    Session session(bundle);
    session.forward_best({&id, 1});
    for (size_t s = 0; s < bundle->info().stages.size(); ++s) {
      const Predictor& predictor = bundle->predictor(s, bundle->info().stages[s].functions.front().name);
      const auto call = predictor.make_call();
      const auto state = predictor.signature().states.empty() ? nullptr : predictor.make_state();
      for (int i = 0; i < 22; ++i) {
        for (const TensorInfo& input : predictor.signature().inputs) call->input(input.name);
        const int64_t blocks = taken_by([&] { call->run(state.get()); });
        if (i > 1) CHECK(blocks == 0);
        call->rest();
      }
    }
  });
}

TEST_CASE("a token of a session takes small lists of the host's from the heap, and no more with time") {
  each_bundle([](const std::shared_ptr<const Bundle>& bundle) {
    const int32_t id = 7;
    Session session(bundle);
    for (int i = 0; i < 2; ++i) session.forward_best({&id, 1});
    std::vector<int64_t> blocks;
    for (int i = 0; i < 20; ++i) blocks.push_back(taken_by([&] { session.forward_best({&id, 1}); }));
    MESSAGE("blocks of the heap per token: " << *std::ranges::max_element(blocks));
    CHECK(*std::ranges::max_element(blocks) <=
          *std::ranges::min_element(blocks) + 1);  // its list of ids grows
  });
}
