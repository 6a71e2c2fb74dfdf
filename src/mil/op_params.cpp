#include "mil/op_params.h"

namespace anemone {

std::string dtypes_text(DTypes types) {
  std::string out;
  for (int i = 1; i <= static_cast<int>(DType::uint64); ++i)
    if (types & (DTypes{1} << i))
      out += (out.empty() ? "" : ", ") + std::string(dtype_name(static_cast<DType>(i)));
  return out;
}

}  // namespace anemone
