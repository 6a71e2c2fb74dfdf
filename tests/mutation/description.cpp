// What a package says of itself against what its program is: Core ML refuses such packages.
#include <algorithm>

#include "base/error.h"
#include "mil/opset.h"
#include "mutation/mutation.h"

namespace anemone::mutation {
namespace {

// The description of a function, wherever the package keeps it.
Interface& interface_of(Package& package, size_t function) {
  return package.description.functions.empty() ? package.description.main
                                               : package.description.functions.at(function);
}

using Features = std::vector<Feature> Interface::*;

class Sites {
 public:
  explicit Sites(const Subject& subject) : subject_(subject) {}

  std::vector<Mutation> find() {
    for (const auto& [name, package] : subject_.packages) {
      package_ = name;
      const size_t count = std::max<size_t>(1, package->description.functions.size());
      for (size_t f = 0; f < count; ++f) {
        const Interface& interface = package->description.functions.empty()
                                         ? package->description.main
                                         : package->description.functions[f];
        features(f, interface, &Interface::inputs, "input");
        features(f, interface, &Interface::outputs, "output");
        features(f, interface, &Interface::states, "state");
      }
      int needed = 0;
      for (const auto& f : package->program.functions)
        needed = std::max(needed, opset_info(f->opset).spec_version);
      add("specification too old", "", [needed](Package& p) { p.spec_version = needed - 1; });
      if (package->description.functions.size() > 1)
        add("a function is not described", package->description.functions.back().name,
            [](Package& p) { p.description.functions.pop_back(); });
    }
    return std::move(out_);
  }

 private:
  void features(size_t function, const Interface& interface, Features side, const std::string& what) {
    for (size_t i = 0; i < (interface.*side).size(); ++i) {
      const Feature& feature = (interface.*side)[i];
      const std::string where = fmt::format("{} {}", interface.name, feature.name);
      const auto change = [&](const std::string& kind,
                              const std::function<void(std::vector<Feature>&)>& edit) {
        add(
            what + " " + kind, where, [=](Package& p) { edit(interface_of(p, function).*side); },
            feature.name);
      };
      const auto shape = [&](size_t axis, int64_t by) {
        change("of another shape", [=](std::vector<Feature>& all) {
          ArrayFeature& array = all.at(i).type.array;
          if (axis >= array.shape.size()) throw NotApplicable{"no such axis"};
          array.shape[axis] += by;
          if (!array.range.empty()) throw NotApplicable{"a range"};
        });
      };
      for (size_t axis = 1; axis < feature.type.array.shape.size(); ++axis) shape(axis, 1);
      change("of another type", [=](std::vector<Feature>& all) {
        ArrayFeature& array = all.at(i).type.array;
        array.data_type =
            array_dtype_code(array_dtype(array.data_type) == DType::fp16 ? DType::fp32 : DType::fp16);
      });
      change("not described",
             [=](std::vector<Feature>& all) { all.erase(all.begin() + static_cast<ptrdiff_t>(i)); });
      change("of another name", [=](std::vector<Feature>& all) { all.at(i).name += "_1"; });
    }
  }

  void add(const std::string& kind, const std::string& where, const std::function<void(Package&)>& edit,
           const std::string& feature = "") {
    Mutation m;
    m.group = "description";
    m.kind = kind;
    m.place = fmt::format("{} {}", package_, where);
    m.expected = {{package_, feature.empty() ? where : feature}, 6};
    m.counts = Counts::what_loads;
    m.apply = [package = package_, edit](Workspace& w) { w.edit_package(package, edit); };
    out_.push_back(std::move(m));
  }

  const Subject& subject_;
  std::string package_;
  std::vector<Mutation> out_;
};

}  // namespace

std::vector<Mutation> description_sites(const Subject& subject, Rng&) { return Sites(subject).find(); }

}  // namespace anemone::mutation
