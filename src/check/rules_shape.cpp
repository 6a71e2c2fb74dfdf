// S: shapes and layout.
#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "base/words.h"
#include "check/rule.h"
#include "placement/product.h"

namespace anemone {
namespace {

using placement::OpView;
using placement::Tensor;

constexpr int64_t kWidth = 32;  // fp16 elements in 64 bytes

void layouts(const FunctionSubject& s, Findings& out) {
  const Operation *tall = nullptr, *wide = nullptr;
  for (const auto& op : s.placed.ops) {
    if (op.op->type != "conv") continue;
    const OpView view(*op.op);
    const Tensor* x = view.find("x");
    if (!x || x->rank() != 4) continue;
    if (x->dims[2] > 1 && x->dims[3] == 1) tall = op.op;
    if (x->dims[2] == 1 && x->dims[3] > 1) wide = op.op;
  }
  if (tall && wide)
    out.add(Level::hint, *wide,
            fmt::format("tokens lie on the last axis here and on the third in '{}'", tall->name()));
}

void narrow_io(const FunctionSubject& s, Findings& out) {
  std::string names;
  int64_t least = kWidth;
  const auto look = [&](const Value& value) {
    if (!value.type.is_tensor() || value.type.rank() < 3 || !value.type.shape.back().known()) return;
    const int64_t last = value.type.shape.back().size();
    if (last >= kWidth || last < 1) return;
    names += (names.empty() ? "" : ", ") + value.name;
    least = std::min(least, last);
  };
  for (const auto& input : s.function.inputs) look(*input);
  for (const Value* output : s.function.body.outputs) look(*output);
  if (!names.empty())
    out.add(Level::hint,
            fmt::format("{}: last axis of {} at the narrowest, so up to {} times the memory at the "
                        "model's edge",
                        names, least, kWidth / least));
}

void state_width(const FunctionSubject& s, Findings& out) {
  for (const auto& input : s.function.inputs) {
    if (input->type.kind != Type::Kind::state || input->type.shape.empty()) continue;
    const Dim last = input->type.shape.back();
    if (last.known() && last.size() % kWidth != 0)
      out.add(Level::error,
              fmt::format("the state '{}' is {} wide: {}", input->name, last.size(), input->type.text()));
  }
}

void flexible(const FunctionSubject& s, Findings& out) {
  if (s.flexible) out.add(Level::warning, "inputs have several shapes; the sizes here are the default ones");
}

void batches(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops) {
    if (!placement::is_product(*op.op)) continue;
    const OpView view(*op.op);
    const auto projection = placement::projection_of(view);
    const Tensor* x = projection                          ? projection->x
                      : placement::is_convolution(*op.op) ? view.find("x")
                                                          : nullptr;
    if (!x || x->constant || x->rank() < 3 || x->dims[0] < 2) continue;
    out.add(Level::warning, *op.op,
            fmt::format("the batch is {}: {}", x->dims[0], shape_text(to_shape(x->dims))));
  }
}

// Missing dimensions in front count as 1, and adding those copies nothing.
bool is_copied(std::vector<int64_t> dims, const std::vector<int64_t>& result) {
  if (dims.size() < result.size()) dims.insert(dims.begin(), result.size() - dims.size(), 1);
  return dims != result;
}

void copies(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops) {
    const OpView view(*op.op);
    if (op.op->type == "tile") {
      const Tensor* x = view.find("x");
      if (x && !x->constant) out.add(Level::warning, *op.op, "tiles a value that is known only at run time");
      continue;
    }
    const Tensor *x = view.find("x"), *y = view.find("y");
    if (!x || !y || x->constant || y->constant || view.results().empty() || op.op->type == "matmul") continue;
    const auto& result = view.results()[0].dims;
    if (is_copied(x->dims, result) && is_copied(y->dims, result))
      out.add(Level::warning, *op.op,
              fmt::format("both operands are copied to fit: {} and {}", shape_text(to_shape(x->dims)),
                          shape_text(to_shape(y->dims))));
  }
}

bool is_reshape(const std::string& type) {
  for (const char* name : {"reshape", "expand_dims", "squeeze", "flatten2d", "reshape_like"})
    if (type == name) return true;
  return false;
}

void rewrites(const FunctionSubject& s, Findings& out) {
  int count = 0;
  double bytes = 0;
  for (const auto& op : s.placed.ops) {
    if (op.op->type != "transpose" && !is_reshape(op.op->type)) continue;
    const OpView view(*op.op);
    const Tensor* x = view.find("x");
    if (!x || x->dims.empty() || view.results().empty() || view.results()[0].dims.empty()) continue;
    const std::vector<int64_t> perm = view.integers("perm");
    const bool moved = op.op->type == "transpose"
                           ? !perm.empty() && perm.back() != -1 && perm.back() != x->rank() - 1
                           : x->dims.back() != view.results()[0].dims.back();
    if (!moved) continue;
    ++count;
    bytes += x->bytes() + view.results()[0].bytes();
  }
  if (count > 0)
    out.add(Level::hint, fmt::format("{} the last axis, {} a call",
                                     count == 1 ? "1 reshape or transpose changes"
                                                : fmt::format("{} reshapes and transposes change", count),
                                     size_text(static_cast<uint64_t>(bytes)) + " moved"));
}

// [1, C, S], [1, C, 1, S], [1, C, S, 1] …: one spatial dimension at most is larger than 1.
bool in_one_row(const Tensor& x) {
  return x.rank() >= 3 &&
         std::count_if(x.dims.begin() + 2, x.dims.end(), [](int64_t size) { return size > 1; }) <= 1;
}

void square_prefill(const FunctionSubject& s, Findings& out) {
  if (s.tokens >= 64)
    for (const auto& op : s.placed.ops) {
      if (op.op->type != "conv") continue;
      const OpView view(*op.op);
      const Tensor* x = view.find("x");
      if (!x || !in_one_row(*x)) continue;
      out.add(
          Level::hint,
          fmt::format("{} tokens lie in one row; the MLP's convolutions were faster in a square", s.tokens));
      return;
    }
}

void odd_channels(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops) {
    if (!placement::is_product(*op.op)) continue;
    const OpView view(*op.op);
    const auto projection = placement::projection_of(view);
    if (projection && projection->outputs > 256 && projection->outputs < 288)
      out.add(Level::hint, *op.op, fmt::format("{} output channels, just above 256", projection->outputs));
  }
}

constexpr Rule kRules[] = {
    {.id = "S01",
     .grade = Grade::A,
     .level = Level::error,
     .title = "A tensor may have rank 5 at most",
     .why = "Rank 6 is rejected: the operation leaves the engine, or compiling fails (\"ANE does not support "
            "blob "
            "with rank: 6\").",
     .cost = "two switches of device, 0.25 ms by Core ML's own count, or the whole shard",
     .fix = "Drop axes of size one and work in four dimensions; keep transpose and matmul chains at rank 4.",
     .sources = "AP; AF; microsoft/onnxruntime#14212",
     .by_placement = true},
    {.id = "S02",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "There should be one layout for the whole package: [1, C, 1, S] or [1, C, T, 1]",
     .why = "The two are not the same: the last axis is the hardware's width (S03). Mixing them means "
            "transposes.",
     .cost = "a rewrite through memory at each border",
     .fix = "Choose one, and check which axis is last.",
     .sources = "AP; AB ch1",
     .in_function = layouts},
    {.id = "S03",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "The last axis of inputs and outputs is padded to 64 bytes",
     .why =
         "The last axis is the width of the hardware. With fewer than 32 fp16 elements it is padded, which "
         "means hidden copies and slow inputs and outputs. Some private interfaces return garbage below 32.",
     .cost = "with a last axis of 1, an input or output takes 32 times the memory (64 times for int8)",
     .fix = "If this matters, put tokens, head size or cache length last, or pad to 32.",
     .sources = "AP; SK (at least 32 for inputs)",
     .in_function = narrow_io},
    {.id = "S04",
     .grade = Grade::B,
     .level = Level::error,
     .title = "The last axis of a state must be a multiple of 32",
     .why = "270 fails on the engine while 256 works; CPU and GPU take both.",
     .cost = "the package does not run on the engine",
     .fix = "Round head_dim or the length up to a multiple of 32 and mask the tail.",
     .sources = "ct#2631",
     .in_function = state_width},
    {.id = "S05",
     .grade = Grade::A,
     .level = Level::error,
     .title = "No dimension may be above 65536",
     .why = "65537 is out of range on every axis: the operation goes to the CPU.",
     .cost = "two switches, and the operation at CPU speed",
     .fix = "Split it: the LM head by rows, a convolution by channels.",
     .sources = "M6 5.2; AF (65536 from A16 on)",
     .by_placement = true},
    {.id = "S06",
     .grade = Grade::A,
     .level = Level::error,
     .title = "On older chips depth, height and width may be 16384 at most",
     .why = "\"Tensor dimensions … are not within supported range\"; batch and channels may be 65536.",
     .cost = "two switches, and the operation at CPU speed",
     .fix = "Split spatial axes at 16384, or put the long axis on the channels.",
     .sources = "FluidInference/FluidAudio#121; AF (16384 through A15); microsoft/onnxruntime#19543",
     .targets = "M1 to M3, A14 to A16: the sources name A15 as the last with this limit and M4 as the first "
                "without; "
                "what lies between is taken as old",
     .by_placement = true},
    {.id = "S07",
     .grade = Grade::B,
     .level = Level::error,
     .title = "The inner dimension of a matmul may be 32768 at most (16384 on older chips)",
     .why = "It must fit the kernel memory of 64 KiB: 32768 passes, 40000 does not. The same holds where the "
            "product is written as linear, einsum or attention.",
     .cost = "two switches, and the operation at CPU speed",
     .fix = "Split the inner dimension and add the parts.",
     .sources = "M6 5.2; AF",
     .by_placement = true},
    {.id = "S08",
     .grade = Grade::A,
     .level = Level::warning,
     .title = "Shapes should be fixed: one program a shape",
     .why = "A symbolic shape goes to the CPU or GPU, or is specialised for each shape at its first use.",
     .cost = "seconds to minutes at the first use of each shape; 112 + 133 s for a 3.8 B model on M4 Max",
     .fix = "Several functions with fixed shapes in one package; a range only where it is small (K09).",
     .sources = "AP (\"fully static\"); AF; ct#1764; ct#2370",
     .in_function = flexible},
    {.id = "S09",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "The batch should be 1",
     .why = "A batch of two or more has overflowed in fp16 and computed wrong dynamic convolutions.",
     .cost = "wrong numbers",
     .fix = "Put tokens on the sequence axis.",
     .sources = "ct#1229; AF",
     .in_function = batches},
    {.id = "S10",
     .grade = Grade::C,
     .level = Level::warning,
     .title = "No broadcast of both operands, no tile of computed tensors",
     .why = "Small graphs fall back to the CPU. One source saw tile make the device unusable until the "
            "process ended.",
     .cost = "not measured",
     .fix = "Expand at build time; broadcast one operand along batch or channels.",
     .sources = "M6 plan data (both operands broadcast: CPU); SK",
     .in_function = copies},
    {.id = "S11",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Reshapes and transposes should leave the last axis alone",
     .why = "A reshape or transpose that changes the last axis rewrites the tensor through memory.",
     .cost = "its bytes, twice",
     .fix = "Keep the last axis the same through a layer; fold permutations into weights.",
     .sources = "AP",
     .in_function = rewrites},
    {.id = "S12",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Convolutions over many tokens are faster as [1, C, 8, 8] than as [1, C, 1, 64]",
     .why = "The engine tiles two spatial axes.",
     .cost = "about half of the MLP's time, a fifth of the model's",
     .fix = "Reshape around the MLP; attention needs the original shape.",
     .sources = "SM",
     .in_function = square_prefill},
    {.id = "S13",
     .grade = Grade::C,
     .level = Level::hint,
     .title = "Output channels just above 256 waste work; powers of two may collide in memory banks",
     .why = "Channels are processed in groups.",
     .cost = "speed only, not measured for language models",
     .fix = "Pad or merge the convolution.",
     .sources = "M6 7.3; JR citing a Zenn post",
     .in_function = odd_channels},
};

}  // namespace

std::span<const Rule> shape_rules() { return kRules; }

}  // namespace anemone
