// Of a bundle that picks tokens by itself: each row of the vocabulary in turn is made the best, and the packages must
// say so. The logits are put in by hand: what computes them is looked at elsewhere.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "predict/taps.h"
#include "verify/climber.h"

namespace anemone {
namespace {

// More rows than these are looked at with --deep alone: a call for each.
constexpr int64_t kMostRows = 1024;

// The rows to look at in a piece of so many: all, or those where tables begin and end, and some between.
std::vector<int64_t> rows_to_try(int64_t rows, bool all) {
  std::vector<int64_t> out;
  if (all || rows <= kMostRows) {
    for (int64_t r = 0; r < rows; ++r) out.push_back(r);
    return out;
  }
  std::set<int64_t> some;
  for (int64_t r = 0; r < rows; r += kIndexBase) some.insert({r, std::max<int64_t>(0, r - 1)});
  some.insert(rows - 1);
  for (uint64_t i = 0; static_cast<int64_t>(some.size()) < kMostRows; ++i)
    some.insert(static_cast<int64_t>(i * 2654435761u % static_cast<uint64_t>(rows)));
  out.assign(some.begin(), some.end());
  return out;
}

// One piece of the vocabulary of one function: its logits, and the ports of its choice.
struct Piece {
  std::string logits;
  const Port *best = nullptr, *high = nullptr, *low = nullptr;

  int64_t rows() const { return best->role.last - best->role.first; }
};

std::vector<Piece> pieces_of(const Stage& stage, const StageFunction& f) {
  std::vector<Piece> out;
  for (const Port& port : f.interface.outputs) {
    if (port.role.kind != Role::Kind::best) continue;
    const auto index = static_cast<int64_t>(out.size());
    const auto tap = std::ranges::find_if(
        stage.taps, [&](const Tap& t) { return t.name == "logits" && t.layer == index; });
    if (tap == stage.taps.end()) return {};
    out.push_back({tap->value, &port, find_port(f.interface.outputs, port.role.as(Role::Kind::best_high)),
                   find_port(f.interface.outputs, port.role.as(Role::Kind::best_low))});
  }
  return out;
}

std::string function_problem(const Climber& c, size_t index, const StageFunction& f) {
  const std::vector<Piece> pieces = pieces_of(c.bundle->info().stages[index], f);
  if (pieces.empty()) return "";
  std::vector<std::string> values, outputs;
  for (const Piece& p : pieces) {
    values.push_back(p.logits);
    for (const Port* port : {p.best, p.high, p.low}) outputs.push_back(port->name);
  }
  const auto cut = from_values(c.bundle->package(index), f.name, values, outputs);
  const auto predictor = c.bundle->backend().open(cut, f.name);
  const int64_t width = f.most_tokens;
  std::vector<std::vector<int64_t>> rows;
  size_t calls = 0;
  for (const Piece& p : pieces) {
    rows.push_back(rows_to_try(p.rows(), c.options.deep));
    calls =
        std::max(calls, (rows.back().size() + static_cast<size_t>(width) - 1) / static_cast<size_t>(width));
  }
  const auto row_of = [&](size_t piece, size_t call, int64_t column) {
    const std::vector<int64_t>& all = rows[piece];
    return all[std::min(all.size() - 1, call * static_cast<size_t>(width) + static_cast<size_t>(column))];
  };
  for (size_t call = 0; call < calls; ++call) {
    std::map<std::string, Array> inputs;
    for (size_t i = 0; i < pieces.size(); ++i) {
      Array logits(DType::fp32, {1, pieces[i].rows(), width, 1});
      std::ranges::fill(logits.values<float>(), -2.0f);
      for (int64_t t = 0; t < width; ++t) {
        const int64_t row = row_of(i, call, t);
        logits.values<float>()[static_cast<size_t>(row * width + t)] = 3.0f;
        // Of equal ones the first counts: one with a smaller low part, and one with the same, stand behind it.
        for (const int64_t later : {row / kIndexBase * kIndexBase + kIndexBase, row + kIndexBase})
          if (later < pieces[i].rows()) logits.values<float>()[static_cast<size_t>(later * width + t)] = 3.0f;
      }
      inputs.emplace(pieces[i].logits, std::move(logits));
    }
    const Prediction result = predictor->predict(inputs);
    for (size_t i = 0; i < pieces.size(); ++i)
      for (int64_t t = 0; t < width; ++t) {
        const auto at = [&](const Port& port) {
          return static_cast<double>(result.at(port.name).values<float>()[static_cast<size_t>(t)]);
        };
        const Piece& p = pieces[i];
        const double got = at(*p.high) * static_cast<double>(kIndexBase) + at(*p.low);
        const int64_t row = row_of(i, call, t), first = p.best->role.first;
        if (got == static_cast<double>(row) && at(*p.best) == 3) continue;
        return fmt::format("where token {} is the first of the best, the function '{}' picks {} ('{}', '{}')",
                           first + row, f.name, static_cast<double>(first) + got, p.high->name, p.low->name);
      }
  }
  return "";
}

}  // namespace

std::string choice_problem(const Climber& c) {
  c.say("every row as the best");
  const std::vector<Stage>& stages = c.bundle->info().stages;
  for (size_t s = 0; s < stages.size(); ++s)
    for (const StageFunction& f : stages[s].functions)
      if (f.find_output(Role::Kind::best))
        if (const std::string problem = function_problem(c, s, f); !problem.empty())
          return fmt::format("{} in {}", problem, stages[s].package);
  return "";
}

}  // namespace anemone
