#include <doctest/doctest.h>

#include "base/error.h"
#include "package/package.h"
#include "support/data.h"

using namespace anemone;

TEST_CASE("every package of the corpus can be read, with types that fit its constants") {
  for (const auto& path : data_packages()) {
    CAPTURE(path.string());
    Package package;
    REQUIRE_NOTHROW(package = read_package(path));
    CHECK(package.missing_weights.empty());
    CHECK(!package.program.functions.empty());
    for (const auto& function : package.program.functions) {
      CHECK(opset_info(function->opset).spec_version == package.spec_version);
      const Interface& interface = package.description.interface(function->name);
      CHECK(interface.inputs.size() + interface.states.size() == function->inputs.size());
      REQUIRE(interface.outputs.size() == function->body.outputs.size());
      for (size_t i = 0; i < interface.outputs.size(); ++i)
        CHECK(interface.outputs[i].name == function->body.outputs[i]->name);
      for (const auto& input : function->inputs) CHECK(interface.find(input->name) != nullptr);
      for_each_op(std::as_const(function->body), [](const Operation& op) {
        for (const auto& [name, constant] : op.attributes) CHECK_NOTHROW(constant.check_size());
      });
    }
  }
}
