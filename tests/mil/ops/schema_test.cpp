#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "mil/op.h"

using namespace anemone;

TEST_CASE("all ops have a name of their own and are found by it") {
  const auto ops = all_ops();
  REQUIRE(!ops.empty());
  CHECK(std::is_sorted(ops.begin(), ops.end(), [](const Op* a, const Op* b) { return a->name < b->name; }));
  for (size_t i = 0; i < ops.size(); ++i) {
    CAPTURE(std::string(ops[i]->name));
    CHECK(!ops[i]->name.empty());
    if (i) CHECK(ops[i - 1]->name != ops[i]->name);
    CHECK(find_op(ops[i]->name) == ops[i]);
    CHECK(!ops[i]->doc.empty());
    CHECK((ops[i]->infer != nullptr));
  }
  CHECK(find_op("no_such_op") == nullptr);
  CHECK(find_op("") == nullptr);
}

TEST_CASE("versions ascend, and each holds until the next") {
  for (const Op* op : all_ops()) {
    CAPTURE(std::string(op->name));
    REQUIRE(!op->versions.empty());
    for (size_t i = 0; i < op->versions.size(); ++i) {
      if (i) CHECK(op->versions[i - 1].since < op->versions[i].since);
      CHECK(op->version(op->versions[i].since) == &op->versions[i]);
    }
    CHECK(op->version(Opset::ios26) == &op->versions.back());
    if (op->versions.front().since > Opset::ios15) CHECK(op->version(Opset::ios15) == nullptr);
  }
}

TEST_CASE("parameters have names of their own and flags that make sense together") {
  for (const Op* op : all_ops())
    for (const OpVersion& version : op->versions) {
      std::set<std::string_view> names;
      for (const Param& p : version.params) {
        CAPTURE(std::string(op->name));
        CAPTURE(std::string(p.name));
        CHECK(!p.name.empty());
        CHECK(names.insert(p.name).second);
        CHECK(p.types != 0);
        const bool has_default = !std::holds_alternative<std::monostate>(p.fallback);
        if (has_default) CHECK((p.flags & kOptional));  // a required parameter has no default
        const int kinds = ((p.flags & kList) != 0) + ((p.flags & kState) != 0) + ((p.flags & kAnyKind) != 0);
        CHECK(kinds <= 1);
        if (p.flags & kState) CHECK(!(p.flags & kConst));
        if (p.flags & kStored) CHECK(kinds == 0);
        // A text is read when the program is compiled.
        if (p.types == kString) CHECK((p.flags & kConst));
        // The default has the type of the parameter.
        if (std::holds_alternative<const char*>(p.fallback)) CHECK((p.types & kString));
        if (std::holds_alternative<bool>(p.fallback)) CHECK((p.types & kBool));
        if (std::holds_alternative<double>(p.fallback)) CHECK((p.types & kFloat));
      }
    }
}

TEST_CASE("what has neither kernel nor store is what the engine does itself") {
  const std::set<std::string_view> engine{"cond", "const", "read_state", "while_loop", "write_state"};
  for (const Op* op : all_ops()) {
    CAPTURE(std::string(op->name));
    CHECK((!op->run && !op->store) == engine.contains(op->name));
    if (op->store) CHECK(op->name.starts_with("constexpr_"));
    if (op->random) CHECK(op->name.starts_with("random_"));
  }
}
