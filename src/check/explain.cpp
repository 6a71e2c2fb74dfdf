#include <algorithm>

#include "base/error.h"
#include "check/report.h"
#include "check/wrap.h"

namespace anemone {
namespace {

using placement::PlacedFunction;
using placement::PlacedOp;
using placement::Processor;

std::string offers(const PlacedOp& op) {
  std::string out;
  for (const auto& [processor, name] :
       {std::pair(Processor::ane, "ANE"), std::pair(Processor::bnns, "CPU, BNNS"),
        std::pair(Processor::classic_cpu, "CPU, classic")}) {
    const placement::Offer& offer = op.cost[processor];
    const bool chosen = processor == op.chosen && !op.unknown();
    const std::string lead = fmt::format("  {:<14}", name);
    out += offer.supported ? fmt::format("{}{:.6f} ms{}\n", lead, offer.ms, chosen ? "   chosen" : "")
                           : wrap(lead, fmt::format("refused, {}: {}", offer.rule, offer.why), 100);
  }
  return out;
}

std::string neighbours(const PlacedFunction& placed, size_t i) {
  const auto one = [&](size_t at) {
    const PlacedOp& op = placed.ops[at];
    return fmt::format("{} '{}'{} {}", op.op->type, op.op->name(), op.unknown() ? "," : " on the",
                       device_text(op.device()));
  };
  std::string out;
  if (i > 0) out += "before it " + one(i - 1);
  if (i + 1 < placed.ops.size()) out += (out.empty() ? "" : ", ") + ("behind it " + one(i + 1));
  return out.empty() ? "none" : out;
}

std::string advice(const PlacedFunction& placed, size_t i) {
  const PlacedOp& op = placed.ops[i];
  const placement::Offer& ane = op.cost[Processor::ane];
  if (!ane.supported) {
    const Rule* rule = find_rule(ane.rule);
    return fmt::format("The engine refuses it ({}). {}", ane.rule, rule ? rule->fix : "");
  }
  if (op.unknown())
    return "It is not probed: no table or source that anemone has shows where Core ML puts this kind of "
           "operation. The path is computed as if the engine took it at the estimate above.";
  const auto price = placement::price_of_moving(placed, i);
  if (!price) return "The other device refuses it: nothing moves it.";
  const std::string cost = *price < 1e-6 ? std::string("the same (a tie; on a tie it stays on the engine)")
                                         : fmt::format("{:.4f} ms more", *price);
  if (op.on_ane())
    return fmt::format(
        "On the CPU instead, the function would cost {}. It leaves when the work around it shrinks below "
        "what two switches cost (0.25 ms), or an operation beside it is refused.",
        cost);
  return fmt::format(
      "On the engine instead, the function would cost {}. It moves there when its stretch saves that "
      "much more: larger work in one piece, or no refused operation between.",
      cost);
}

std::string one_op(const PackageReport& p, const FunctionReport& f, size_t i) {
  const PlacedOp& op = f.placed.ops[i];
  const auto layer = f.layers.find(op.op->name());
  const placement::Segment& segment = f.placed.segments[static_cast<size_t>(op.segment)];
  std::string out =
      fmt::format("{} '{}'{}, in {}, {}\n", op.op->type, op.op->name(),
                  layer != f.layers.end() ? fmt::format(" of layer {}", layer->second) : "", p.name, f.name);
  if (!op.op->outputs.empty()) out += fmt::format("  gives         {}\n", op.op->outputs[0]->type.text());
  if (op.unknown()) out += fmt::format("  device        {}\n", device_text(op.device()));
  out += offers(op);
  out += wrap("  estimate      ", op.cost.formula, 100);
  if (!op.cost.extrapolated.empty()) out += wrap("  extrapolated  ", op.cost.extrapolated, 100);
  out += fmt::format("  segment       {} of {}, {} operations on the {}{}, {:.4f} ms\n", op.segment + 1,
                     f.placed.segments.size(), segment.last - segment.first, segment.ane ? "ANE" : "CPU",
                     segment.unknown ? fmt::format(" ({} unknown)", segment.unknown) : "", segment.ms);
  out += wrap("  neighbours    ", neighbours(f.placed, i), 100);
  if (const auto truth = f.truth.find(op.op->name()); truth != f.truth.end())
    out += fmt::format("  Core ML       {}\n", truth->second);
  return out + wrap("  what moves it ", advice(f.placed, i), 100);
}

}  // namespace

std::string explain_op(const CheckReport& report, const std::string& name) {
  std::string out, like;
  int shown = 0;
  for (const PackageReport& p : report.packages)
    for (const FunctionReport& f : p.functions) {
      const PlacedOp* found = f.placed.find(name);
      if (found)
        out += (out.empty() ? "" : "\n") + one_op(p, f, static_cast<size_t>(found - f.placed.ops.data()));
      for (const PlacedOp& op : f.placed.ops)
        if (shown < 5 && op.op->name().find(name) != std::string::npos) {
          like += (like.empty() ? "" : ", ") + op.op->name();
          ++shown;
        }
    }
  if (out.empty())
    throw errorf("there is no operation of that name")
        .found("'" + name + "'")
        .hint(like.empty() ? "anemone inspect --ops lists them" : "there are " + like);
  return out;
}

}  // namespace anemone
