// KnownValues: what bundle.json says of the values inside one package of a bundle.
//     const KnownValues values(info, "layers_00.mlpackage", package.program);
//     values.find("mlp_out_3")->scale;      // how much larger it stands in the program than in the model
//     values.layer_of("l3_scores");         // 3
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "bundle/bundle_info.h"
#include "mil/program.h"

namespace anemone {

class KnownValues {
 public:
  // Of a package alone: no value is known.
  KnownValues() = default;
  KnownValues(const BundleInfo& info, std::string_view package, const Program& program);

  // Empty for a value that bundle.json does not list.
  const Tap* find(std::string_view value) const;
  // The layer of an operation; -1 when it has none. Bundles say it: an operation belongs to the layer whose result,
  // "layer_out", comes next, unless several layers use what it gives. Of packages alone, its name may tell.
  int layer_of(std::string_view op) const;

 private:
  void add_layers(const Function& function);

  std::map<std::string, Tap, std::less<>> taps_;
  std::map<std::string, int, std::less<>> layers_;  // of operations; empty where no tap ends a layer
};

// The layer that the name of an operation tells: "l12_q_rows", "layers.12.mlp", "k_12_old"; -1 when it tells none.
int layer_in_name(std::string_view name);

}  // namespace anemone
