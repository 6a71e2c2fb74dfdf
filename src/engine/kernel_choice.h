// The one place where faster kernels are chosen: for one op by its shapes and how its weight is stored, for
// several together by the pattern that they make. What has no faster form runs its plain kernel.
#pragma once

#include <optional>

#include "engine/plan_edit.h"
#include "kernels/matvec.h"
#include "mil/op.h"

namespace anemone {

void (*choose_kernel(const OpBinding& binding, std::span<const Type> out_types))(const OpCall&);

// What the choice goes by. A weight that matvec reads where it lies; a convolution of one image by a 1x1
// kernel over a stored weight; the single operand of a parameter.
inline constexpr int64_t kMostPositions = 8;  // beyond this, widening a tile and a matrix product win
// In fp32 and in `fast`, a position's results have the same bits in every call of at most so many positions.
inline constexpr int64_t kSameOrderColumns = kMostPositions;
std::optional<WeightKind> weight_kind(const StoredTensor* stored);
bool is_conv1x1(const OpBinding& binding, std::span<const Type> out_types);
const Operand* find_operand(const OpBinding& binding, std::string_view param);

// Looks for every known pattern among the steps of a plan.
void fuse_steps(PlanEdit& edit);

}  // namespace anemone
