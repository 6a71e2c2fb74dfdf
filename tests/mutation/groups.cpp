#include "mutation/mutation.h"

namespace anemone::mutation {

std::span<const Group> all_groups() {
  static constexpr Group kGroups[] = {
      {"weights", weight_sites},     {"tables", table_sites},    {"constants", constant_sites},
      {"wiring", wiring_sites},      {"ops", op_sites},          {"masks", mask_sites},
      {"rope", rope_sites},          {"states", state_sites},    {"every layer", every_layer_sites},
      {"functions", function_sites}, {"padding", padding_sites}, {"info", info_sites},
      {"text", text_sites},          {"files", file_sites},      {"description", description_sites},
  };
  return kGroups;
}

}  // namespace anemone::mutation
