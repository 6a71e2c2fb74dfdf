#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "mil/builder.h"
#include "placement/oracle_programs.h"
#include "placement/placed_function.h"
#include "placement/product.h"
#include "placement/rates.h"
#include "placement/weight_form.h"
#include "support/data.h"

using namespace anemone;
using namespace anemone::placement;

namespace {

// Costs by hand: what the engine and the CPU take, in ms; below zero: refused.
std::vector<OpCost> costs(std::initializer_list<std::pair<double, double>> ops) {
  std::vector<OpCost> out;
  for (const auto& [ane, cpu] : ops) {
    OpCost c;
    if (ane >= 0) c[Processor::ane] = {true, ane, "", ""};
    c[Processor::classic_cpu] = c[Processor::bnns] = {true, cpu, "", ""};
    out.push_back(std::move(c));
  }
  return out;
}

std::string devices(const std::vector<OpCost>& c, const PathRule& rule = {}) {
  std::string out;
  for (const Processor p : cheapest_path(c, rule)) out += device_text(device_of(p))[0];
  return out;
}

}  // namespace

TEST_CASE("a stretch on the engine must save a quarter of a millisecond wherever it lies") {
  CHECK(devices(costs({{0.1, 0.34}})) == "C");
  CHECK(devices(costs({{0.1, 0.36}})) == "A");
  CHECK(devices(costs({{-1, 0.1}, {0.1, 0.36}, {-1, 0.1}})) == "CAC");
  CHECK(devices(costs({{-1, 0.1}, {0.1, 0.34}, {-1, 0.1}})) == "CCC");
  // Two stretches, each worth it, around what the engine refuses.
  CHECK(devices(costs({{0.1, 0.5}, {-1, 0.1}, {0.1, 0.5}})) == "ACA");
  // A tie stays on the engine: the last costs the same on both sides.
  CHECK(devices(costs({{0.1, 0.5}, {0.01, 0.01}})) == "AA");
  CHECK(cheapest_path({}).empty());
}

TEST_CASE("a path can be asked for what it would rather not do") {
  const auto c = costs({{0.1, 0.2}, {-1, 0.1}});
  CHECK(devices(c) == "CC");
  CHECK(devices(c, {.op = {}, .on_ane = true, .some_ane = true}) == "AC");
  CHECK(devices(c, {.op = 0, .on_ane = true}) == "AC");
  CHECK(devices(c, {.op = 1, .on_ane = true}) == "");
  CHECK(path_cost(c, cheapest_path(c)) == doctest::Approx(0.3));
  CHECK(path_cost(c, cheapest_path(c, {.op = {}, .on_ane = true, .some_ane = true})) ==
        doctest::Approx(0.45));
}

TEST_CASE("shapes that nobody probed are estimated by the published formulas") {
  struct Case {
    OracleRow row;
    double ane, classic;  // ms, by hand
  };
  const auto row = [](const char* op, const char* inputs, const char* weight, const char* params,
                      const char* out) {
    return OracleRow{{"op", op},         {"dtype", "fp16"},  {"inputs", inputs},
                     {"weight", weight}, {"params", params}, {"out", out}};
  };
  constexpr double kAneGib = 68 * 1073741824.0, kCpuGib = 56.66666412353516 * 1073741824.0;
  const Case cases[] = {
      // 2 per element at 50e9.
      {row("relu", "1,32,16,16", "-", "-", "1,32,16,16"), 16384 / 50e6, 16384 / 50e6},
      // 2 per element of both operands.
      {row("add", "1,72,30,30;1,72,30,30", "-", "-", "1,72,30,30"), 259200 / 35.98052978515625e6,
       259200 / 18.363636016845703e6},
      // In and out, two bytes each.
      {row("exp", "4,128,64,64", "-", "-", "4,128,64,64"), 8388608 / kAneGib * 1e3, 8388608 / kCpuGib * 1e3},
      // 3 x 512 x 512 x 2 bytes on the engine, 2 x 512^3 flops on the CPU.
      {row("matmul", "512,512;512,512", "-", "tx=0;ty=0", "512,512"), 1572864 / kAneGib * 1e3,
       268435456 / 656e6},
      // 2 x 65536 x 256 x 9 flops, 209 a byte: the fast leaf.
      {row("conv", "1,256,16,16", "256,256,3,3", "pad=same;s=1,1;d=1,1;g=1", "1,256,16,16"),
       301989888 / 16151.6767578125e6, 301989888 / 655.9559936523438e6},
      // One token: 1 flop a byte, the slow leaf.
      {row("conv", "1,512,1,1", "512,512,1,1", "pad=valid;s=1,1;d=1,1;g=1", "1,512,1,1"),
       524288 / 471.180908203125e6, 524288 / 23.54788589477539e6},
      // The input's width counts twice; a large weight with 64 outputs.
      {row("linear", "1,8,2048", "64,2048", "bias", "1,8,64"), 67108928 / 5290.789551e6,
       67108928 / 145.849075e6},
  };
  for (const Case& c : cases) {
    CAPTURE(c.row.at("op"));
    const auto function = build_row(c.row);
    const OpCost cost = estimate(last_op(*function), *find_target("m4").chip);
    CHECK(cost[Processor::ane].ms == doctest::Approx(c.ane).epsilon(1e-9));
    CHECK(cost[Processor::classic_cpu].ms == doctest::Approx(c.classic).epsilon(1e-9));
  }
}

TEST_CASE("a chain goes to the engine when it has grown enough, and never back") {
  for (const char* middle : {"tanh", "softmax", "layer_norm", "cumsum"}) {
    CAPTURE(middle);
    size_t before = 0;
    for (int64_t channels = 8; channels <= 1024; channels *= 2) {
      CAPTURE(channels);
      const std::string shape = fmt::format("1,{},32,32", channels);
      const OracleRow conv = {{"op", "conv"},
                              {"dtype", "fp16"},
                              {"inputs", shape},
                              {"weight", fmt::format("{0},{0},3,3", channels)},
                              {"params", "pad=same;s=1,1;d=1,1;g=1"},
                              {"out", shape}};
      OracleRow other = conv;
      other["op"] = middle;
      other["weight"] = other["params"] = "-";
      std::vector<OpCost> chain;
      for (const OracleRow& row : {conv, conv, other, conv, conv})
        chain.push_back(estimate(last_op(*build_row(row)), *find_target("m4").chip));
      const std::vector<Processor> path = cheapest_path(chain);
      const auto on_engine = static_cast<size_t>(std::count(path.begin(), path.end(), Processor::ane));
      CHECK(on_engine >= before);
      before = on_engine;
    }
    CHECK(before == (std::string(middle) == "cumsum" ? 4 : 5));  // the engine has no cumsum
  }
}

TEST_CASE("the rates of every platform are those that its log printed") {
  const auto folder = data_folder("ane_oracle");
  if (!folder) return;
  for (const OracleRow& row : read_table(*folder / "platforms.tsv")) {
    CAPTURE(row.at("platform"));
    CAPTURE(row.at("backend"));
    const Rates& r = rates_for(row.at("platform"));
    const std::string& processor = row.at("backend");
    const auto rate = [&](const Rate& leaf) {
      return processor == "ane" ? leaf.ane : processor == "bnns" ? leaf.classic / kBnnsTime : leaf.classic;
    };
    const auto same = [&](const char* column, double ours) {
      if (const auto truth = number_of(row.at(column)))
        CHECK_MESSAGE(ours == doctest::Approx(*truth).epsilon(1e-6), column);
    };
    same("conv3x3_64_32x32", rate(r.conv[2].rate));
    same("conv1x1_64_32x32", rate(r.conv[1].rate));
    CHECK(r.matmul_tree == (row.at("matmul_from_tree") == "yes"));
    same("matmul_rate_or_peak", rate(r.matmul_tree ? r.matmul : r.peak));
    same("default_bw_gib", processor == "ane" ? r.ane_gib : processor == "bnns" ? r.bnns_gib : r.classic_gib);
    same("add", rate(r.add.rate));
  }
}

TEST_CASE("unknown sizes are filled in and carried through the function") {
  Program program;
  Function& f = add_function(program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, 64, Dim::unknown(), 1}));
  Builder b(f);
  Value* y = b.op("relu", {{"x", x}}, "y");
  b.output(b.op("reshape", {{"x", y}, {"shape", Constant::ints({1, -1})}}, "flat"));
  const Chip& chip = *find_target("m4").chip;
  CHECK(!place_function(f, chip).ops[0].cost.extrapolated.empty());
  fix_shapes(f, {{"x", {1, 64, 32, 1}}});
  CHECK(f.body.outputs[0]->type.text() == "tensor<fp16, [1, 2048]>");
  const PlacedFunction placed = place_function(f, chip);
  CHECK(placed.ops.size() == 2);
  CHECK(placed.ops[0].cost[Processor::ane].ms == doctest::Approx(2 * 2048 / 50e9 * 1e3));
  CHECK(placed.find("flat") == &placed.ops[1]);
  // Nothing there pays for a segment: 0.25 ms less what it would save.
  const double saved = placed.ops[1].cost.cpu_ms() - placed.ops[1].cost[Processor::ane].ms;
  CHECK(missing_savings(placed).value() == doctest::Approx(0.25 - saved));
  CHECK(price_of_moving(placed, 1).value() == doctest::Approx(0.25 - saved));
}

TEST_CASE("blocks along the inputs are told from blocks along the outputs") {
  WeightForm form;
  form.parts = {64, 1, 1, 1};
  CHECK_FALSE(form.split_along_inputs(0));
  CHECK(form.split_along_inputs(1));
  form.parts = {1, 8};
  CHECK(form.split_along_inputs(0));
  CHECK_FALSE(form.split_along_inputs(1));  // matmul's y is [inputs, outputs]
  form.parts = {};
  CHECK(form.whole());
  Program program;
  Function& f = add_function(program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {8, 64}));
  Builder b(f);
  const Constant no = Constant::boolean(false), yes = Constant::boolean(true);
  const Constant w = Constant::numbers(std::vector<float>(64 * 64), DType::fp16, {64, 64});
  const auto axis = [&](const Constant& turned) {
    Value* y = b.op("matmul", {{"x", x}, {"y", w}, {"transpose_x", no}, {"transpose_y", turned}});
    return output_axis(*y->producer, *y->producer->value("y"));
  };
  CHECK(axis(no) == 1);
  CHECK(axis(yes) == 0);
}
