#include "mil/op.h"

#include <algorithm>

namespace anemone {

const OpVersion* Op::version(Opset opset) const {
  const OpVersion* best = nullptr;
  for (const OpVersion& v : versions)
    if (v.since <= opset) best = &v;
  return best;
}

const Op* find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto it =
      std::lower_bound(ops.begin(), ops.end(), name, [](const Op* op, auto n) { return op->name < n; });
  return it != ops.end() && (*it)->name == name ? *it : nullptr;
}

}  // namespace anemone
