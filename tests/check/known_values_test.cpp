#include "check/known_values.h"

#include <doctest/doctest.h>

#include "anemone/package.h"
#include "package/package.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;

TEST_CASE("operations of a bundle belong to the layer that bundle.json says") {
  MadeModel made(small_decoder(4, 1));  // layer 0 is a convolution
  for (const lower::KvKind kv : {lower::KvKind::state, lower::KvKind::packed, lower::KvKind::io}) {
    CAPTURE(static_cast<int>(kv));
    const auto path = made.write({.context = {16}, .kv = kv});
    const BundleInfo info = BundleInfo::read(path);
    const std::string name = info.stages.at(0).package;
    const auto package = open_package(path / name);
    // Under names that tell nothing: bundle.json alone must do.
    Program program = package->program.clone();
    BundleInfo renamed = info;
    int number = 0;
    std::map<std::string, std::string> names;
    for (const auto& op : program.functions[0]->body.ops) {
      op->attributes.erase("name");
      for (const auto& value : op->outputs) {
        const std::string fresh = "v" + std::to_string(number++);
        names[value->name] = fresh;
        value->name = fresh;
      }
    }
    for (Tap& tap : renamed.stages[0].taps)
      if (names.contains(tap.value)) tap.value = names.at(tap.value);
    const KnownValues values(renamed, name, program);
    std::map<int, int> counts;
    for (const auto& [before, after] : names) {
      CAPTURE(before);
      const int layer = values.layer_of(after);
      ++counts[layer];
      if (const int told = layer_in_name(before); told >= 0) CHECK(layer == told);
    }
    for (int layer = 0; layer < 4; ++layer) CHECK(counts[layer] > 10);
    CHECK(values.layer_of(names.at("kept")) == -1);  // of all layers
    CHECK(values.layer_of(names.at("y")) == -1);     // behind them
  }
}
