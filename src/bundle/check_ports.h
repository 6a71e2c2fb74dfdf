// Holds the packages of a bundle to what bundle.json says of them: nothing is read or written beside a port.
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

  // Every port is there with the size that its role asks for, and the package has no others. What a layer remembers
  // has one size in all functions. Error that names function and port.
  void stage(const Stage& stage, const std::vector<Signature>& package);

 private:
  using Memory = std::tuple<Role::Kind, int64_t, size_t>;  // kind, layer, slot

  void side(const StageFunction& f, const std::vector<TensorInfo>& declared, const std::vector<Port>& ports,
            const char* what);
  void remember(const Port& port, std::vector<int64_t> shape);

  const BundleInfo& info_;
  std::map<Memory, std::vector<int64_t>> memories_;  // of one layer, without the rows of a cache
};

// Error unless an output of a call of `width` columns has the size that bundle.json says. Of what the host keeps
// (new_keys …), whoever keeps it looks.
void check_output(const std::vector<int64_t>& shape, const Port& port, const BundleInfo& info, int64_t width);

}  // namespace anemone
