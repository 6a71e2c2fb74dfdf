#include "mil/passes/layout.h"

#include <algorithm>
#include <numeric>

namespace anemone {
namespace {

// The axes that are more than 1 wide, in the order of a layout.
std::vector<int> wide_order(const std::vector<int64_t>& dims, const Layout& layout) {
  std::vector<int> out;
  for (const int axis : layout)
    if (axis != kUnit && dims[static_cast<size_t>(axis)] != 1) out.push_back(axis);
  return out;
}

struct Group {
  std::vector<int> from, to;  // axes wider than 1 whose products are equal
};

// Pairs up the axes of two shapes with the same elements, in the smallest groups.
std::vector<Group> groups_of(const std::vector<int64_t>& dims, const std::vector<int64_t>& wanted) {
  std::vector<Group> out;
  size_t i = 0, j = 0;
  while (true) {
    while (i < dims.size() && dims[i] == 1) ++i;
    while (j < wanted.size() && wanted[j] == 1) ++j;
    if (i == dims.size() || j == wanted.size()) break;
    Group group{{static_cast<int>(i)}, {static_cast<int>(j)}};
    int64_t left = dims[i++], right = wanted[j++];
    while (left != right) {
      if (left < right && i < dims.size()) {
        if (dims[i] != 1) group.from.push_back(static_cast<int>(i));
        left *= dims[i++];
      } else if (right < left && j < wanted.size()) {
        if (wanted[j] != 1) group.to.push_back(static_cast<int>(j));
        right *= wanted[j++];
      } else {
        return {};
      }
    }
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace

Layout plain_layout(int rank) {
  Layout out(static_cast<size_t>(rank));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

std::vector<int64_t> stored_shape(const std::vector<int64_t>& dims, const Layout& layout) {
  std::vector<int64_t> out;
  for (const int axis : layout) out.push_back(axis == kUnit ? 1 : dims[static_cast<size_t>(axis)]);
  return out;
}

int place_of(const Layout& layout, int axis) {
  const auto it = std::find(layout.begin(), layout.end(), axis);
  return it == layout.end() ? -1 : static_cast<int>(it - layout.begin());
}

bool same_elements(const std::vector<int64_t>& dims, const Layout& a, const Layout& b) {
  return wide_order(dims, a) == wide_order(dims, b);
}

Layout without_units(const Layout& layout) {
  Layout out;
  for (const int axis : layout)
    if (axis != kUnit) out.push_back(axis);
  return out;
}

std::optional<std::vector<int64_t>> permutation(const Layout& from, const Layout& to) {
  if (from.size() != to.size()) return std::nullopt;
  std::vector<bool> used(from.size());
  std::vector<int64_t> perm;
  for (const int axis : to) {
    size_t at = 0;
    while (at < from.size() && (used[at] || from[at] != axis)) ++at;
    if (at == from.size()) return std::nullopt;
    used[at] = true;
    perm.push_back(static_cast<int64_t>(at));
  }
  return perm;
}

Layout transposed_layout(const Layout& layout, const std::vector<int64_t>& perm) {
  Layout out;
  for (const int axis : layout) {
    const auto at = std::find(perm.begin(), perm.end(), axis);
    out.push_back(axis == kUnit ? kUnit : static_cast<int>(at - perm.begin()));
  }
  return out;
}

std::optional<Layout> reshaped_layout(const Layout& layout, const std::vector<int64_t>& dims,
                                      const std::vector<int64_t>& wanted) {
  const std::vector<Group> groups = groups_of(dims, wanted);
  const std::vector<int> order = wide_order(dims, layout);
  Layout out;
  for (size_t at = 0; at < order.size();) {
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.from[0] == order[at]; });
    if (group == groups.end() || at + group->from.size() > order.size() ||
        !std::equal(group->from.begin(), group->from.end(), order.begin() + static_cast<std::ptrdiff_t>(at)))
      return std::nullopt;
    out.insert(out.end(), group->to.begin(), group->to.end());
    at += group->from.size();
  }
  // Axes of size 1: the first one in front, the others behind the axis before them.
  for (size_t axis = 0; axis < wanted.size(); ++axis) {
    if (wanted[axis] != 1) continue;
    const int before = axis == 0 ? -1 : place_of(out, static_cast<int>(axis) - 1);
    out.insert(out.begin() + before + 1, static_cast<int>(axis));
  }
  return out.size() == wanted.size() ? std::optional(out) : std::nullopt;
}

}  // namespace anemone
