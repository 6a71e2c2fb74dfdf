// What nobody probed is unknown: the table of evidence, and what a prediction makes of it.
#include "placement/evidence.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "check/rule.h"
#include "mil/builder.h"
#include "mil/op.h"
#include "placement/oracle_programs.h"
#include "placement/placed_function.h"
#include "support/data.h"

using namespace anemone;
using namespace anemone::placement;

namespace {

const Chip& m4() { return *find_target("m4").chip; }

// Convolutions that pay for the engine, with other operations between them.
struct Chain {
  Program program;
  Function& f = add_function(program, "main", Opset::ios18);
  Builder b{f};
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, 256, 32, 32}));

  void conv() {
    const Constant w = Constant::numbers(std::vector<float>(256 * 256 * 9), DType::fp16, {256, 256, 3, 3});
    x = b.op("conv", {{"x", x}, {"weight", w}, {"pad_type", Constant::text("same")}});
  }
  void prelu() {  // in no oracle
    const Constant slopes = Constant::numbers(std::vector<float>(256, 0.5f), DType::fp16, {256});
    x = b.op("prelu", {{"x", x}, {"alpha", slopes}});
  }
  PlacedFunction placed() {
    b.output(x);
    return place_function(f, m4());
  }
};

}  // namespace

TEST_CASE("every kind of operation has one row of evidence") {
  const auto table = all_evidence();
  CHECK(std::is_sorted(table.begin(), table.end(),
                       [](const OpEvidence& a, const OpEvidence& b) { return a.op < b.op; }));
  std::set<std::string_view> rows;
  for (const OpEvidence& row : table) {
    CAPTURE(row.op);
    CHECK(rows.insert(row.op).second);
    const bool data = row.op == "const" || row.op.starts_with("constexpr_");
    CHECK((row.evidence == Evidence::data) == data);
    CHECK((row.evidence == Evidence::stated) == !row.source.empty());
    if (row.refused.empty()) continue;
    CHECK(row.evidence != Evidence::none);  // nobody refuses what nobody saw
    const Rule* rule = find_rule(row.refused);
    REQUIRE(rule);
    CHECK(rule->by_placement);
  }
  for (const Op* op : all_ops()) CHECK_MESSAGE(rows.contains(op->name), op->name);
  CHECK(evidence_of("conv").evidence == Evidence::read);
  CHECK(evidence_of("an_op_of_tomorrow").evidence == Evidence::none);
  CHECK(evidence_of("").evidence == Evidence::none);
}

TEST_CASE("placement oracle: every kind of operation that the given tables show was read") {
  const auto folder = data_folder("ane_oracle");
  if (!folder) return;
  for (const char* name : {"ops.tsv", "program_ops.tsv"})
    for (const OracleRow& row : read_table(*folder / name)) {
      CAPTURE(row.at("op"));
      CHECK(evidence_of(row.at("op")).evidence == Evidence::read);
    }
}

TEST_CASE("kinds that the tables and the sources do not show are not probed") {
  for (const char* op : {"reverse", "reverse_sequence", "resample", "crop", "prelu", "cond"}) {
    CAPTURE(op);
    CHECK(evidence_of(op).evidence == Evidence::none);
  }
}

TEST_CASE("an operation that nobody probed is unknown and is counted apart") {
  Chain chain;
  for (int i = 0; i < 2; ++i) chain.conv();
  chain.prelu();
  for (int i = 0; i < 2; ++i) chain.conv();
  const PlacedFunction placed = chain.placed();
  REQUIRE(placed.ops.size() == 5);
  CHECK(placed.ops[2].device() == Device::unknown);
  CHECK(device_text(placed.ops[2].device()) == "unknown (not probed)");
  CHECK_FALSE(placed.ops[2].on_ane());
  CHECK(placed.ops[2].cost.extrapolated == "nobody has probed this kind of operation");
  CHECK(placed.ane_ops == 4);
  CHECK(placed.cpu_ops == 0);
  CHECK(placed.unknown_ops == 1);
  CHECK(placed.unknown_ms > 0);
  CHECK(placed.ane_share() == 1);  // of what is known
  REQUIRE(placed.segments.size() == 1);
  CHECK(placed.segments[0].unknown == 1);
  // Each pair of convolutions pays for a segment of its own: 2 x 1.2 GFLOP at 656 Gflop/s is 3.7 ms on the CPU.
  CHECK(if_refused(placed, &PlacedOp::unknown).ane_ops == 4);
}

TEST_CASE("a kind that is in no table is unknown, unless its types are refused anyway") {
  Chain chain;
  chain.conv();
  chain.x->producer->type = "conv_of_tomorrow";
  const PlacedFunction placed = chain.placed();
  REQUIRE(placed.ops.size() == 1);
  CHECK(placed.ops[0].unknown());
  CHECK(placed.ane_ops + placed.cpu_ops == 0);
  CHECK(placed.ane_share() == 0);
  CHECK(if_refused(placed, &PlacedOp::unknown).ane_ops == 0);
  chain.x->type = Type::tensor(DType::int32, {1, 256, 32, 32});
  CHECK(place_function(chain.f, m4()).ops[0].device() == Device::cpu);
}

TEST_CASE("an argmax is refused for its int32; other indices were not probed") {
  Chain chain;
  chain.x = chain.b.op("reduce_argmax", {{"x", chain.x},
                                         {"axis", Constant::integer(1)},
                                         {"keep_dims", Constant::boolean(true)},
                                         {"output_dtype", Constant::text("uint16")}});
  CHECK(chain.placed().ops[0].unknown());
  chain.x->type = Type::tensor(DType::int32, {1, 1, 32, 32});
  const PlacedFunction placed = place_function(chain.f, m4());
  CHECK(placed.ops[0].device() == Device::cpu);
  CHECK(placed.ops[0].cost[Processor::ane].rule == "O05");
}
