// KnownValues: what bundle.json says of the values inside one package of a bundle.
//     const KnownValues values(info, "layers_00.mlpackage");
//     values.find("mlp_out_3")->scale;      // how much larger it stands in the program than in the model
//     values.layer_of("l3_scores");         // 3
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "bundle/bundle_info.h"

namespace anemone {

class KnownValues {
 public:
  // Of a package alone: no value is known.
  KnownValues() = default;
  KnownValues(const BundleInfo& info, std::string_view package);

  // Empty for a value that bundle.json does not list.
  const Tap* find(std::string_view value) const;
  // The layer of an operation: as bundle.json says, or else as the operation's name tells; -1 when neither does.
  int layer_of(std::string_view op) const;

 private:
  std::map<std::string, Tap, std::less<>> taps_;
};

// The layer that the name of an operation tells: "l12_q_rows", "layers.12.mlp", "k_12_old"; -1 when it tells none.
int layer_in_name(std::string_view name);

}  // namespace anemone
