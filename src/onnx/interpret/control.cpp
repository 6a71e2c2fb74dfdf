// Graphs inside of nodes: branches and loops.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

constexpr int64_t kMostRounds = 1 << 16;

Arrays run_if(const Context& c) {
  const OnnxGraph* branch = c.node.graph(c[0].data.at(0) != 0 ? "then_branch" : "else_branch");
  if (!branch) throw errorf("If needs two branches");
  return run_inner(*branch, c, {});
}

// One slice after the other, along a new axis.
OnnxArray stacked(const Arrays& slices, int64_t axis) {
  const OnnxArray& first = slices.at(0);
  std::vector<int64_t> dims = first.dims;
  axis = at_axis(axis, first.rank() + 1);
  dims.insert(dims.begin() + axis, static_cast<int64_t>(slices.size()));
  OnnxArray y = made(first.type, dims);
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis); d < first.dims.size(); ++d) inner *= first.dims[d];
  auto out = y.data.begin();
  for (int64_t start = 0; start < first.size(); start += inner)
    for (const OnnxArray& slice : slices) {
      if (slice.dims != first.dims) throw errorf("the rounds of a loop give values of different shapes");
      out = std::copy_n(slice.data.begin() + start, inner, out);
    }
  return y;
}

OnnxArray number(OnnxType type, double value) {
  OnnxArray y = made(type, {});
  y.data[0] = value;
  return y;
}

Arrays run_loop(const Context& c) {
  const OnnxGraph* body = c.node.graph("body");
  if (!body || body->inputs.size() < 2) throw errorf("Loop needs a body");
  const double most = c.has(0) ? c[0].data.at(0) : static_cast<double>(kMostRounds) + 1;
  bool go = !c.has(1) || c[1].data.at(0) != 0;
  Arrays state;
  for (size_t k = 2; k < body->inputs.size(); ++k) state.push_back(c[k]);
  if (body->outputs.size() < 1 + state.size()) throw errorf("the body of Loop has too few outputs");
  std::vector<Arrays> scans(body->outputs.size() - 1 - state.size());
  for (int64_t i = 0; go && static_cast<double>(i) < most; ++i) {
    if (i == kMostRounds) throw errorf("the loop has more than {} rounds", kMostRounds);
    Arrays inputs = {number(OnnxType::int64, static_cast<double>(i)), number(OnnxType::boolean, 1)};
    inputs.insert(inputs.end(), state.begin(), state.end());
    Arrays outs = run_inner(*body, c, inputs);
    go = outs[0].data.at(0) != 0;
    for (size_t k = 0; k < state.size(); ++k) state[k] = outs[k + 1];
    for (size_t k = 0; k < scans.size(); ++k) scans[k].push_back(outs[k + 1 + state.size()]);
  }
  for (const Arrays& slices : scans) {
    if (slices.empty()) throw errorf("a loop without rounds has no scan outputs");
    state.push_back(stacked(slices, 0));
  }
  return state;
}

// One entry along an axis, which goes away.
OnnxArray entry(const OnnxArray& x, int64_t axis, int64_t at) {
  std::vector<int64_t> dims = x.dims;
  const auto d = static_cast<size_t>(at_axis(axis, x.rank()));
  const int64_t n = dims[d], inner = strides_of(dims)[d];
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(d));
  if (at < 0 || at >= n) throw errorf("the scanned values have different lengths");
  OnnxArray y = made(x.type, dims);
  for (int64_t k = 0; k < y.size(); ++k)
    y.data[static_cast<size_t>(k)] = x.data[static_cast<size_t>((k / inner * n + at) * inner + k % inner)];
  return y;
}

// Version 8 has sequence_lens first, and a batch dimension; one batch is computed here.
Arrays run_scan(const Context& c) {
  const OnnxGraph* body = c.node.graph("body");
  if (!body) throw errorf("Scan needs a body");
  const bool old = c.node.version < 9;
  const size_t first = old ? 1 : 0;
  const auto scanned = static_cast<size_t>(std::max<int64_t>(0, c.node.integer("num_scan_inputs", 0)));
  if (scanned < 1 || scanned + first > c.in.size()) throw errorf("num_scan_inputs is {}", scanned);
  const size_t carried = c.in.size() - first - scanned;
  if (body->outputs.size() < carried) throw errorf("the body of Scan has too few outputs");
  const size_t results = body->outputs.size() - carried;
  if (old && (c.has(0) || c[first].dims.at(0) != 1))
    throw errorf("Scan of version 8 with batches or lengths");
  const auto list = [&](std::string_view name, size_t count) {
    std::vector<int64_t> values = c.node.integers(name, std::vector<int64_t>(count, 0));
    values.resize(count, 0);
    return values;
  };
  const auto ways = list(old ? "directions" : "scan_input_directions", scanned),
             axes = list("scan_input_axes", scanned), out_ways = list("scan_output_directions", results),
             out_axes = list("scan_output_axes", results);
  Arrays state, sources;
  for (size_t k = first; k < c.in.size(); ++k)
    (k < first + carried ? state : sources).push_back(old ? entry(c[k], 0, 0) : c[k]);
  const int64_t rounds = sources[0].dims.at(static_cast<size_t>(at_axis(axes[0], sources[0].rank())));
  if (rounds > kMostRounds) throw errorf("the loop has more than {} rounds", kMostRounds);
  std::vector<Arrays> slices(results);
  for (int64_t i = 0; i < rounds; ++i) {
    Arrays inputs = state;
    for (size_t k = 0; k < scanned; ++k)
      inputs.push_back(entry(sources[k], axes[k], ways[k] ? rounds - 1 - i : i));
    Arrays outs = run_inner(*body, c, inputs);
    for (size_t k = 0; k < carried; ++k) state[k] = outs[k];
    for (size_t k = 0; k < results; ++k)
      slices[k].insert(out_ways[k] ? slices[k].begin() : slices[k].end(), outs[carried + k]);
  }
  for (size_t k = 0; k < results; ++k) {
    if (slices[k].empty()) throw errorf("a loop without rounds has no scan outputs");
    state.push_back(stacked(slices[k], out_axes[k]));
  }
  for (OnnxArray& each : state)
    if (old) each.dims.insert(each.dims.begin(), 1);
  return state;
}

}  // namespace

void add_control(Table& t) {
  t["If"] = run_if;
  t["Loop"] = run_loop;
  t["Scan"] = run_scan;
}

}  // namespace anemone::interpret
