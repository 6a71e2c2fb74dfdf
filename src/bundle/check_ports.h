// Checks that the packages of a bundle match bundle.json: so nothing is read or written outside a port.
//     PortCheck check(info);
//     for (const Stage& stage : info.stages) check.stage(stage, signatures(package));
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "anemone/package.h"
#include "bundle/bundle_info.h"

namespace anemone {

class PortCheck {
 public:
  explicit PortCheck(const BundleInfo& info) : info_(info) {}

  // Every port exists with the size that its role requires, and the package has no others. A state of a layer has one
  // size in all functions. Error that names function and port.
  void stage(const Stage& stage, const std::vector<Signature>& package);

 private:
  using Memory = std::tuple<Role::Kind, int64_t, size_t>;  // kind, layer, slot

  void side(const StageFunction& f, const std::vector<TensorInfo>& declared, const std::vector<Port>& ports,
            const char* what);
  void remember(const Port& port, std::vector<int64_t> shape);

  const BundleInfo& info_;
  std::map<Memory, std::vector<int64_t>> memories_;  // of one layer, without the rows of a cache
};

// Error unless an output of a call of `width` columns has the size that bundle.json says. The code that
// keeps a cache on the host checks new_keys and its like.
void check_output(const std::vector<int64_t>& shape, const Port& port, const BundleInfo& info, int64_t width);

}  // namespace anemone
