// The values inside a model: programs and the reference know the same ones, by the same names.
#include <doctest/doctest.h>

#include <set>

#include "convert/convert.h"
#include "reference/reference.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

using Names = std::set<std::pair<std::string, int64_t>>;

Names names_in_reference(const Reference& reference) {
  Names out;
  ReferenceOptions options;
  options.tap = [&](std::string_view name, int64_t layer, std::span<const float>) {
    // A state is no value inside; what the first layer reads comes from outside of the program.
    if (name != "recurrent" && name != "embed_out") out.emplace(name, layer);
  };
  const std::vector<int32_t> ids = {1, 2};
  ReferenceSession(reference, options).step(ids, LogitRows::none);
  return out;
}

Names names_in_programs(const BundleInfo& info) {
  Names out;
  for (const Stage& stage : info.stages)
    for (const Tap& tap : stage.taps) {
      if (tap.name == "embed_out" || tap.name == "logits") continue;
      out.emplace(tap.name, tap.layer);
    }
  return out;
}

}  // namespace

TEST_CASE("programs and the reference know the same values by the same names, in every family") {
  const TempFolder folder;
  for (const GoldenModel& model : golden_models()) {
    auto checkpoint = std::make_shared<Checkpoint>(Checkpoint::open(model.checkpoint));
    if (!model.variant.empty() || !is_decoder(*checkpoint)) continue;
    CAPTURE(model.name());
    const BundleInfo info = convert(model.checkpoint, folder / "b",
                                    {.context = {16}, .precision = Precision::fp16, .overwrite = true})
                                .info;
    const Reference reference(checkpoint, describe(*checkpoint), 1);
    CHECK(names_in_programs(info) == names_in_reference(reference));
    std::set<std::string> values;
    for (const Stage& stage : info.stages)
      for (const Tap& tap : stage.taps) values.insert(tap.value);
    for (const Stage& stage : info.stages)
      for (const Tap& tap : stage.taps)
        if (tap.layer >= 0) CHECK(values.contains(fmt::format("{}_{}", tap.name, tap.layer)));
  }
}
