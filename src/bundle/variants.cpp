// A bundle that has several ways to be run: one of them alone.
#include <algorithm>

#include "base/error.h"
#include "bundle/bundle_info.h"

namespace anemone {

const Variant* BundleInfo::find_variant(std::string_view wanted) const {
  const auto it = std::ranges::find(variants, wanted, &Variant::name);
  return it == variants.end() ? nullptr : &*it;
}

BundleInfo BundleInfo::chosen(std::string_view variant) const {
  BundleInfo out = *this;
  if (variants.empty() && variant.empty()) return out;
  const Variant* found = variant.empty() ? &variants.front() : find_variant(variant);
  if (!found) {
    std::string names;
    for (const Variant& v : variants) names += (names.empty() ? "" : ", ") + v.name;
    throw errorf("the bundle has no variant '{}'", variant)
        .expected(names.empty() ? "none: it has one way to run" : names);
  }
  out.variants = {*found};
  if (!found->kv_write.empty()) out.kv_write = found->kv_write;
  for (Stage& stage : out.stages) {
    std::erase_if(stage.functions, [&](const StageFunction& f) {
      return !f.variants.empty() && std::ranges::count(f.variants, found->name) == 0;
    });
    for (StageFunction& f : stage.functions) f.variants.clear();
  }
  std::erase_if(out.stages, [](const Stage& stage) { return stage.functions.empty(); });
  return out;
}

}  // namespace anemone
