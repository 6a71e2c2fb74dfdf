// The prediction beside what Core ML did: estimates, refusals and the chosen device of every operation of the
// oracle's programs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "placement/oracle_programs.h"
#include "placement/segment.h"
#include "support/data.h"
#include "target/chips.h"

using namespace anemone;
using namespace anemone::placement;

namespace {

const Chip& m4() { return *find_target("m4").chip; }

// The largest relative error that the study of these formulas states, by class; its figures have one digit, so
// half a unit of that digit is added.
double stated_error(const std::string& op) {
  if (op == "conv") return 8.5e-8;
  if (op == "linear") return 3.5e-7;
  if (op == "add" || op == "sub") return 1.5e-7;
  if (op == "concat" || op == "gather" || op == "mul") return 5.5e-8;
  if (op == "transpose" || op == "matmul" || op == "gelu" || op.ends_with("_pool")) return 4.5e-8;
  if (op == "conv_transpose") return 3.5e-8;
  if (op == "upsample_bilinear") return 1.5e-6;
  return 4.5e-16;  // two roundings of a double
}

bool has_formula(const std::string& op) { return op != "lstm" && op != "gru" && op != "rnn"; }

struct Score {
  int programs = 0, exact = 0, tie = 0, wrong = 0, ops = 0, right = 0;
};

std::vector<OpCost> told_costs(const OracleProgram& program) {
  std::vector<OpCost> costs;
  for (const OracleRow& row : program.rows) {
    OpCost cost;
    for (const auto& [processor, column] :
         {std::pair(Processor::ane, "est_ane_ms"), std::pair(Processor::bnns, "est_bnns_ms"),
          std::pair(Processor::classic_cpu, "est_classic_ms")})
      if (const auto ms = number_of(row.at(column))) cost[processor] = {true, *ms, "", ""};
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::vector<OpCost> fitted_costs(const OracleProgram& program) {
  std::vector<OpCost> costs;
  for (const OracleRow& row : program.rows) costs.push_back(estimate(last_op(*build_row(row)), m4()));
  return costs;
}

// The least cost of the devices that Core ML chose.
double cost_of_truth(std::vector<OpCost> costs, const OracleProgram& program) {
  for (size_t i = 0; i < costs.size(); ++i)
    for (const Processor p : kProcessors)
      if ((p == Processor::ane) != on_ane(program.rows[i])) costs[i][p].supported = false;
  const std::vector<Processor> path = cheapest_path(costs);
  return path.empty() ? INFINITY : path_cost(costs, path);
}

void judge(const OracleProgram& program, const std::vector<OpCost>& costs, Score& score) {
  const std::vector<Processor> path = cheapest_path(costs);
  if (path.size() != program.rows.size()) throw errorf("no processor takes every operation");
  int right = 0;
  for (size_t i = 0; i < path.size(); ++i) right += (path[i] == Processor::ane) == on_ane(program.rows[i]);
  ++score.programs;
  score.ops += static_cast<int>(path.size());
  score.right += right;
  if (right == static_cast<int>(path.size())) {
    ++score.exact;
  } else if (std::abs(cost_of_truth(costs, program) - path_cost(costs, path)) < 1e-7) {
    ++score.tie;
  } else {
    ++score.wrong;
    MESSAGE("wrong beyond a tie: ", program.name);
  }
}

std::string line(const char* what, const Score& s) {
  return fmt::format("{:<18} {:>8} {:>6} {:>5} {:>6}   {}/{} = {:.2f}%", what, s.programs, s.exact, s.tie,
                     s.wrong, s.right, s.ops, s.ops ? 100.0 * s.right / s.ops : 0);
}

struct Worst {
  std::map<std::string, std::pair<int, double>> by_op;  // rows, largest relative error
  int rows = 0, refusals_right = 0;
};

void compare_estimates(const OracleRow& row, Worst& worst) {
  const auto function = build_row(row);
  const OpCost cost = estimate(last_op(*function), m4());
  ++worst.rows;
  const bool offered = row.at("est_ane_ms") != "-";
  CHECK(cost[Processor::ane].supported == offered);
  worst.refusals_right += cost[Processor::ane].supported == offered;
  if (!has_formula(row.at("op"))) return;
  for (const auto& [processor, column] :
       {std::pair(Processor::ane, "est_ane_ms"), std::pair(Processor::bnns, "est_bnns_ms"),
        std::pair(Processor::classic_cpu, "est_classic_ms")}) {
    const auto truth = number_of(row.at(column));
    CHECK(truth.has_value() == cost[processor].supported);
    if (!truth || !cost[processor].supported) continue;
    const double error = std::abs(cost[processor].ms / *truth - 1);
    CHECK_MESSAGE(error <= stated_error(row.at("op")), processor_name(processor), " ", cost[processor].ms,
                  " instead of ", *truth);
    auto& [count, most] = worst.by_op[row.at("op")];
    most = std::max(most, error);
    count += processor == Processor::classic_cpu;
  }
}

// A row or a program that cannot be read is a failure of its own and does not hide the others.
template <typename Action>
void guarded(const std::string& name, const Action& action) {
  try {
    action();
  } catch (const std::exception& e) {
    FAIL_CHECK(name, ": ", std::string(e.what()));
  }
}

std::string text_of(const OracleRow& row, const char* column) {
  const auto it = row.find(column);
  return it == row.end() ? "?" : it->second;
}

}  // namespace

TEST_CASE("placement oracle: estimates and refusals are Core ML's") {
  const auto tables = oracle_tables("ops.tsv");
  if (tables.empty()) {
    MESSAGE("skipped: no ops.tsv below the roots of test data");
    return;
  }
  Worst worst;
  for (const auto& path : tables)
    for (const OracleRow& row : read_table(path)) {
      const std::string name =
          text_of(row, "folder") + "/" + text_of(row, "probe") + " " + text_of(row, "op");
      CAPTURE(name);
      guarded(name, [&] { compare_estimates(row, worst); });
    }
  CHECK(worst.rows > 0);
  std::string table;
  for (const auto& [op, w] : worst.by_op)
    table += fmt::format("  {:<28} {:>4}  {:.1e}\n", op, w.first, w.second);
  MESSAGE("refusals right: ", worst.refusals_right, "/", worst.rows, "; worst relative error by op:\n",
          table);
}

TEST_CASE("placement oracle: the chosen devices are Core ML's") {
  const auto tables = oracle_tables("program_ops.tsv");
  if (tables.empty()) {
    MESSAGE("skipped: no program_ops.tsv below the roots of test data");
    return;
  }
  Score told, fitted;
  for (const auto& path : tables)
    for (const OracleProgram& program : oracle_programs(path)) {
      CAPTURE(program.name);
      guarded(program.name, [&] {
        if (program.estimates_known()) judge(program, told_costs(program), told);
        judge(program, fitted_costs(program), fitted);
      });
    }
  MESSAGE("estimates          programs  exact   tie  wrong   ops right\n", line("Core ML's own", told), "\n",
          line("ours", fitted));
  CHECK(fitted.programs > 0);
  CHECK(told.wrong == 0);
  CHECK(fitted.wrong == 0);
  CHECK(fitted.right >= 0.97 * fitted.ops);
  CHECK(told.right >= 0.97 * told.ops);
}

TEST_CASE("rows of the oracle that cannot be read are named") {
  OracleRow row = {{"op", "relu"},  {"dtype", "fp16"}, {"inputs", "1,64"}, {"weight", "-"},
                   {"params", "-"}, {"out", "1,64"},   {"selected", "ane"}};
  CHECK(last_op(*build_row(row)).type == "relu");
  CHECK(on_ane(row));
  const auto with = [&](const char* column, const char* text) {
    OracleRow other = row;
    other[column] = text;
    return other;
  };
  CHECK_THROWS_WITH_AS(build_row(with("dtype", "fp17")), doctest::Contains("fp17"), Error);
  CHECK_THROWS_WITH_AS(build_row(with("inputs", "1,x,a")), doctest::Contains("1,x,a"), Error);
  CHECK_THROWS_WITH_AS(on_ane(with("selected", "gpu")), doctest::Contains("gpu"), Error);
  CHECK_THROWS_WITH_AS(number_of("0.1 ms"), doctest::Contains("0.1 ms"), Error);
}
