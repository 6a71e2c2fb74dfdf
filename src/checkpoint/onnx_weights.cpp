#include "checkpoint/onnx_weights.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

Error refused(const OnnxModel& model, const OnnxNode& node, std::string why) {
  return Error(std::move(why)).at(fmt::format("{}: {}", model.path(), node.place()));
}

bool is_float(OnnxType type) { return onnx_type_info(type).floating && onnx_type_decodes(type); }

std::string described(const OnnxTensor& t) {
  return fmt::format("'{}' {} {}", printable(t.name()), t.type_name(), shape_text(t.dims()));
}

int64_t blocks_of(int64_t count, int64_t block) { return (count + block - 1) / block; }

}  // namespace

OnnxWeights::OnnxWeights(const OnnxModel& model) : model_(model), graph_(model.graph()) {
  add_initializers();
  for (const OnnxNode& node : graph_.nodes) {
    if (node.op == "DequantizeLinear")
      add_dequantized(node);
    else if (node.op == "MatMulNBits" && node.domain == kMicrosoft)
      add_matmul_nbits(node);
    else if (node.op == "GatherBlockQuantized" && node.domain == kMicrosoft)
      add_gather_blocks(node);
    else if (node.op == "MatMulInteger" && node.domain.empty())
      add_matmul_integer(node);
    else if (node.op == "QMoE" && node.domain == kMicrosoft)
      add_experts(node);
  }
}

void OnnxWeights::add_initializers() {
  const auto add_plain = [&](std::string_view name, const OnnxTensor& t) {
    if (!is_float(t.type()) || t.elements() == 0) return;
    if (!by_value_.emplace(std::string(name), std::string(name)).second) return;
    tensors_.emplace_back(std::string(name), t.dims(), std::make_shared<OnnxPlainSource>(t));
  };
  for (const OnnxTensor& t : graph_.initializers) add_plain(t.name(), t);
  for (const OnnxNode& node : graph_.nodes)
    if (node.op == "Constant" && !node.outputs.empty())
      if (const OnnxTensor* t = node.tensor("value"); t && t->elements() > 1) add_plain(node.outputs[0], *t);
}

const OnnxTensor* OnnxWeights::stored(std::string_view value) const {
  for (int hops = 0; hops < 8; ++hops) {
    if (const OnnxTensor* t = graph_.initializer(value)) return t;
    const OnnxNode* node = graph_.producer(value);
    if (!node) return nullptr;
    if (node->op == "Constant") return node->tensor("value");
    if (node->op != "Reshape" && node->op != "Identity" && node->op != "Squeeze" && node->op != "Unsqueeze")
      return nullptr;
    value = node->input(0);
  }
  return nullptr;
}

const OnnxTensor& OnnxWeights::needed(const OnnxNode& node, size_t input, const char* what) const {
  const OnnxTensor* t = node.input(input).empty() ? nullptr : stored(node.input(input));
  if (!t)
    throw refused(model_, node, fmt::format("the {} are not constant", what))
        .found(node.input(input).empty() ? "no such input"
                                         : fmt::format("the value '{}'", printable(node.input(input))))
        .expected("an initializer");
  return *t;
}

std::string OnnxWeights::add(std::string name, std::vector<int64_t> shape, OnnxCodes codes) {
  const auto id = [](int64_t n) { return reinterpret_cast<const void*>(static_cast<intptr_t>(n)); };
  const std::vector<const void*> key = {codes.codes.bytes().data(),
                                        codes.scales.bytes().data(),
                                        codes.zeros ? codes.zeros->bytes().data() : nullptr,
                                        id(codes.bits),
                                        id(codes.block),
                                        id(codes.count),
                                        id(codes.inner),
                                        id(static_cast<int64_t>(codes.default_zero)),
                                        id(codes.is_signed),
                                        id(static_cast<int64_t>(codes.groups.size()))};
  if (const auto at = by_bytes_.find(key); at != by_bytes_.end()) return at->second;
  const auto taken = [&](const std::string& text) {
    const auto plain = by_value_.find(text);
    return codes_.contains(text) || (plain != by_value_.end() && plain->second == text);
  };
  const std::string base = name;
  for (int i = 1; taken(name); ++i) name = i == 1 ? base + "#codes" : fmt::format("{}#codes{}", base, i);
  by_bytes_.emplace(key, name);
  auto source = std::make_shared<const OnnxCodesSource>(std::move(codes));
  codes_.emplace(name, source);
  tensors_.emplace_back(name, std::move(shape), std::move(source));
  return name;
}

// x [..., n, ...] with a scale for all; by axis: scales [n]; by block: scales with the axis divided by the block.
void OnnxWeights::add_dequantized(const OnnxNode& node) {
  const OnnxTensor* x = stored(node.input(0));
  const OnnxNode* gather = x ? nullptr : graph_.producer(node.input(0));
  if (gather && gather->op == "Gather") x = stored(gather->input(0));  // a table whose rows are dequantized
  if (!x || x->elements() == 0) return;                                // of activations
  OnnxCodes c{.codes = *x, .scales = needed(node, 1, "scales of a constant")};
  const OnnxTypeInfo& type = onnx_type_info(x->type());
  c.bits = type.bits;
  c.is_signed = type.is_signed;
  c.floating = type.floating;
  const auto rank = static_cast<int64_t>(x->dims().size());
  int64_t axis = node.integer("axis", 1);
  if (axis < 0) axis += rank;
  const int64_t block = node.integer("block_size", 0);
  c.one_scale = c.scales.elements() == 1;
  if (!c.one_scale && (axis < 0 || axis >= rank))
    throw refused(model_, node, "the axis of the scales does not exist").found(described(*x));
  c.count = c.one_scale ? x->elements() : x->dims()[static_cast<size_t>(axis)];
  for (int64_t d = 0; d < rank && !c.one_scale; ++d) {
    const int64_t size = x->dims()[static_cast<size_t>(d)];
    if (d < axis) c.outer *= size;
    if (d > axis) c.inner *= size;
  }
  c.stored_count = c.count;
  c.block = c.one_scale ? c.count : std::max<int64_t>(1, block);
  c.blocks = blocks_of(c.count, c.block);
  c.scale_by_column = !c.one_scale && block == 0;
  const int64_t scales = c.one_scale ? 1 : c.scale_by_column ? c.count : c.outer * c.blocks * c.inner;
  if (c.scales.elements() != scales)
    throw refused(model_, node, "the scales do not fit the numbers")
        .found(fmt::format("{} for {}", described(c.scales), described(*x)))
        .expected(fmt::format("{} scales", scales));
  if (!node.input(2).empty()) {
    c.zeros = needed(node, 2, "zero points of a constant");
    if (c.zeros->elements() != scales)
      throw refused(model_, node, "the zero points do not fit the scales").found(described(*c.zeros));
  }
  const bool one_scale = c.one_scale;
  if (gather && !one_scale) return;  // scales would belong to rows that are not known here
  const std::string tensor = add(std::string(node.output(0)), x->dims(), std::move(c));
  if (gather) {
    own_[&node] = {tensor, false};
    return;
  }
  by_value_.emplace(std::string(node.output(0)), tensor);
}

void OnnxWeights::add_nbits_zeros(const OnnxNode& node, OnnxCodes& c) const {
  if (!node.input(3).empty()) {
    c.zeros = needed(node, 3, "zero points of MatMulNBits");
    c.packed_zeros = !is_float(c.zeros->type());
    c.products = !c.packed_zeros;
    c.zero_row_bytes = (c.blocks * c.bits + 7) / 8;
    const int64_t wanted = c.packed_zeros ? c.outer * c.zero_row_bytes : c.outer * c.blocks;
    if (!c.packed_zeros && c.bits == 8)
      throw refused(model_, node, "zero points as numbers with 8-bit codes: onnxruntime refuses them too");
    if ((c.packed_zeros ? static_cast<int64_t>(c.zeros->bytes().size()) : c.zeros->elements()) != wanted)
      throw refused(model_, node, "the zero points do not fit the scales").found(described(*c.zeros));
  }
}

void OnnxWeights::add_nbits_groups(const OnnxNode& node, OnnxCodes& c) const {
  if (!node.input(4).empty()) {
    const OnnxTensor& groups = needed(node, 4, "group indices of MatMulNBits");
    if (c.zeros)
      throw refused(model_, node,
                    "group indices (g_idx) together with zero points: onnxruntime ignores the zero points "
                    "then, so what the weights mean is not certain")
          .hint("export it without zero points, or without act-order");
    if (c.bits == 8)
      throw refused(model_, node, "group indices (g_idx) with 8-bit codes: onnxruntime refuses them too");
    if (c.bits == 2)
      throw refused(model_, node,
                    "group indices (g_idx) with 2-bit codes: onnxruntime reads them as codes of 4 bits");
    c.products = true;
    if (groups.elements() < c.count)
      throw refused(model_, node, "there are too few group indices").found(described(groups));
    for (const int64_t g : groups.ints()) {
      if (g < 0 || g >= c.blocks)
        throw refused(model_, node, "a group index has no scale").found(std::to_string(g));
      c.groups.push_back(static_cast<int32_t>(g));
    }
  }
}

void OnnxWeights::add_matmul_nbits(const OnnxNode& node) {
  const int64_t k = node.integer("K", 0), n = node.integer("N", 0), block = node.integer("block_size", 0);
  const int64_t bits = node.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    throw refused(model_, node, "MatMulNBits has codes of a width that is not supported")
        .found(fmt::format("{} bits", bits))
        .expected("2, 4 or 8");
  if (node.integer("weight_prepacked", 0) != 0)
    throw refused(model_, node, "the weights are packed for one kind of GPU")
        .hint("use a bundle for the CPU");
  if (k < 1 || n < 1 || block < 1 || k > (int64_t{1} << 31) || n > (int64_t{1} << 31) ||
      block > (int64_t{1} << 31))
    throw refused(model_, node, "K, N and block_size must be positive")
        .found(fmt::format("K {}, N {}, block_size {}", k, n, block));
  const OnnxTensor& b = needed(node, 1, "codes of MatMulNBits");
  OnnxCodes c{.codes = b, .scales = needed(node, 2, "scales of MatMulNBits")};
  c.bits = static_cast<int>(bits);
  c.outer = n;
  c.count = k;
  c.block = block;
  c.blocks = blocks_of(k, block);
  c.stored_count = c.blocks * block;
  c.default_zero = static_cast<float>(1 << (bits - 1));
  const int64_t bytes = n * (c.stored_count * bits / 8);
  if (c.stored_count * bits % 8 != 0 || static_cast<int64_t>(b.bytes().size()) != bytes)
    throw refused(model_, node, "the codes do not fit K, N, bits and block_size")
        .found(described(b))
        .expected(fmt::format("{} bytes: {} rows of {} blocks of {} {}-bit codes", bytes, n, c.blocks, block,
                              bits));
  if (!is_float(c.scales.type()) || c.scales.elements() != n * c.blocks)
    throw refused(model_, node, "the scales do not fit the codes")
        .found(described(c.scales))
        .expected(fmt::format("{} numbers", n * c.blocks));
  add_nbits_zeros(node, c);
  add_nbits_groups(node, c);
  own_[&node] = {add(std::string(b.name()), {n, k}, std::move(c)), false};
}

// uint8 data: codes packed along the last axis, zero points too, and 2^(bits-1) stands for zero; else one code an
// element, and 0 stands for zero.
void OnnxWeights::add_gather_blocks(const OnnxNode& node) {
  const OnnxTensor& data = needed(node, 0, "codes of GatherBlockQuantized");
  OnnxCodes c{.codes = data, .scales = needed(node, 2, "scales of GatherBlockQuantized")};
  const bool packed = data.type() == OnnxType::uint8;
  const OnnxTypeInfo& type = onnx_type_info(data.type());
  c.bits = packed ? static_cast<int>(node.integer("bits", 4)) : type.bits;
  c.is_signed = type.is_signed;
  if (c.bits != 2 && c.bits != 4 && c.bits != 8)
    throw refused(model_, node, "GatherBlockQuantized has codes of a width that is not supported")
        .found(fmt::format("{} bits", c.bits));
  // The shape that the node sees, which a Reshape of the head's codes may have given it.
  int64_t rows = 0, width = 0;
  std::vector<int64_t> dims = data.dims();
  if (const OnnxNode* reshape = graph_.producer(node.input(0)); reshape && reshape->op == "Reshape")
    if (const OnnxTensor* shape = stored(reshape->input(1))) dims = shape->ints();
  if (dims.size() == 3) dims = {dims[0], dims[1] * dims[2]};
  if (dims.size() == 2) rows = dims[0], width = dims[1];
  if (width == -1 && rows > 0) width = data.elements() / rows;
  if (rows == -1 && width > 0) rows = data.elements() / width;
  if (rows < 1 || width < 1 || rows * width != data.elements())
    throw refused(model_, node, "the codes of GatherBlockQuantized are no matrix").found(described(data));
  if (packed) width *= 8 / c.bits;
  const int64_t axis = (node.integer("quantize_axis", 1) + 2) % 2, block = node.integer("block_size", 128);
  if (node.integer("gather_axis", 0) != 0 || (packed && axis != 1))
    throw refused(model_, node,
                  "GatherBlockQuantized takes columns, or scales along the rows of packed codes")
        .expected("gather_axis 0");
  if (block < 1) throw refused(model_, node, "block_size must be positive").found(std::to_string(block));
  c.outer = axis == 1 ? rows : 1;
  c.count = c.stored_count = axis == 1 ? width : rows;
  c.inner = axis == 1 ? 1 : width;
  c.block = block;
  c.blocks = blocks_of(c.count, block);
  c.default_zero = packed ? static_cast<float>(1 << (c.bits - 1)) : 0;
  const int64_t scales = c.outer * c.blocks * c.inner;
  if (c.scales.elements() != scales)
    throw refused(model_, node, "the scales do not fit the codes")
        .found(fmt::format("{} for {}", described(c.scales), described(data)))
        .expected(fmt::format("{} scales", scales));
  if (!node.input(3).empty()) {
    c.zeros = needed(node, 3, "zero points of GatherBlockQuantized");
    c.packed_zeros = packed;
    c.zero_row_bytes = (c.blocks * c.bits + 7) / 8;
    if (packed ? static_cast<int64_t>(c.zeros->bytes().size()) != rows * c.zero_row_bytes
               : c.zeros->elements() != scales)
      throw refused(model_, node, "the zero points do not fit the scales").found(described(*c.zeros));
  }
  own_[&node] = {add(std::string(data.name()), {rows, width}, std::move(c)), false};
}

// DynamicQuantizeLinear → MatMulInteger → Cast → Mul by (scale of x * scale of the weight).
void OnnxWeights::add_matmul_integer(const OnnxNode& node) {
  const OnnxTensor* b = stored(node.input(1));
  if (!b || b->dims().size() != 2) return;
  const auto only_reader = [&](std::string_view value) -> const OnnxNode* {
    const auto readers = graph_.consumers(value);
    return readers.size() == 1 ? readers[0] : nullptr;
  };
  const OnnxNode* cast = only_reader(node.output(0));
  const OnnxNode* product = cast && cast->op == "Cast" ? only_reader(cast->output(0)) : nullptr;
  if (!product || product->op != "Mul") return;
  const OnnxNode* quantize = graph_.producer(node.input(0));
  if (!quantize || quantize->op != "DynamicQuantizeLinear") return;
  const std::string_view both = product->input(product->input(0) == cast->output(0) ? 1 : 0);
  const OnnxNode* scale = graph_.producer(both);
  if (!scale || scale->op != "Mul") return;
  const bool first = scale->input(0) == quantize->output(1);
  if (!first && scale->input(1) != quantize->output(1)) return;
  const OnnxTensor* own = stored(scale->input(first ? 1 : 0));
  if (!own || !is_float(own->type())) return;
  OnnxCodes c{.codes = *b, .scales = *own};
  c.bits = 8;
  c.is_signed = onnx_type_info(b->type()).is_signed;
  c.outer = b->dims()[0];
  c.count = c.stored_count = b->dims()[1];
  c.one_scale = own->elements() == 1;
  c.scale_by_column = !c.one_scale;
  c.blocks = c.count;
  if (!c.one_scale && own->elements() != c.count)
    throw refused(model_, *product, "the scales do not fit the numbers").found(described(*own));
  if (!node.input(3).empty()) {
    c.zeros = needed(node, 3, "zero points of MatMulInteger");
    if (c.zeros->elements() == 1) c.default_zero = c.zeros->floats()[0], c.zeros.reset();
    if (c.zeros && c.zeros->elements() != c.count)
      throw refused(model_, node, "the zero points do not fit the numbers").found(described(*c.zeros));
  }
  if (c.one_scale && c.zeros) throw refused(model_, node, "one scale with a zero point for each column");
  own_[product] = {add(std::string(b->name()), b->dims(), std::move(c)), true};
}

// Weights [experts, out, bytes of in], scales [experts, out, blocks] or [experts, out]; without zero points 2^(bits-1)
// stands for zero. Checked against the CPU kernel of onnxruntime 1.31.
void OnnxWeights::add_experts(const OnnxNode& node) {
  const int64_t bits = node.integer("expert_weight_bits", 4), block = node.integer("block_size", 0);
  if (node.text("quant_type", "int") != "int")
    throw refused(model_, node, "QMoE has weights of a kind that was not checked against onnxruntime")
        .found(fmt::format("quant_type '{}'", printable(node.text("quant_type", "int"))))
        .expected("quant_type 'int': codes of 2, 4 or 8 bits")
        .hint("only GPUs compute this kind; use a bundle for the CPU");
  for (const char* own : {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"})
    if (const int64_t width = node.integer(own, bits); width != bits)
      throw refused(model_, node,
                    "QMoE has codes of several widths, which onnxruntime's CPU kernel does not take")
          .found(fmt::format("{} {}, expert_weight_bits {}", own, width, bits));
  if (bits != 2 && bits != 4 && bits != 8)
    throw refused(model_, node, "QMoE has codes of a width that is not supported")
        .found(fmt::format("{} bits", bits))
        .expected("2, 4 or 8");
  if (node.integer("weights_prepacked", -1) == 1)
    throw refused(model_, node, "the weights of QMoE are packed for one kind of GPU")
        .found("weights_prepacked 1")
        .hint("use a bundle for the CPU");
  if (block < 0 || block > (int64_t{1} << 31))
    throw refused(model_, node, "block_size of QMoE is out of range").found(std::to_string(block));
  add_expert_stack(node, 2, 11, {bits, block});
  add_expert_stack(node, 5, 12, {bits, block});
}

void OnnxWeights::add_expert_stack(const OnnxNode& node, size_t input, size_t zeros, ExpertCodes form) {
  const OnnxTensor& w = needed(node, input, "weights of QMoE");
  if (w.type() != OnnxType::uint8 || w.rank() != 3 || w.elements() == 0)
    throw refused(model_, node, "the weights of QMoE have another form")
        .found(described(w))
        .expected("UINT8 [experts, out, bytes]");
  OnnxCodes c{.codes = w, .scales = needed(node, input + 1, "scales of QMoE")};
  c.bits = static_cast<int>(form.bits);
  c.outer = w.dims()[0] * w.dims()[1];
  c.count = c.stored_count = w.dims()[2] * 8 / form.bits;
  c.block = form.block > 0 ? form.block : c.count;
  c.blocks = blocks_of(c.count, c.block);
  c.default_zero = static_cast<float>(1 << (form.bits - 1));
  if (!is_float(c.scales.type()) || c.scales.elements() != c.outer * c.blocks)
    throw refused(model_, node, "the scales do not fit the codes")
        .found(fmt::format("{} for {}", described(c.scales), described(w)))
        .expected(fmt::format("{} scales", c.outer * c.blocks));
  if (!node.input(zeros).empty()) {
    // With blocks each row of an expert begins a byte; without, all rows of an expert lie together.
    c.zeros = needed(node, zeros, "zero points of QMoE");
    c.packed_zeros = true;
    c.zero_rows = form.block > 0 ? 1 : w.dims()[1];
    c.zero_row_bytes = (c.zero_rows * c.blocks * form.bits + 7) / 8;
    const int64_t bytes = c.outer / c.zero_rows * c.zero_row_bytes;
    if (c.zeros->type() != OnnxType::uint8 || static_cast<int64_t>(c.zeros->bytes().size()) != bytes)
      throw refused(model_, node, "the zero points do not fit the scales")
          .found(described(*c.zeros))
          .expected(fmt::format("{} bytes", bytes));
  }
  std::vector<int64_t> shape = {w.dims()[0], w.dims()[1], c.count};
  stacks_[{&node, input}] = add(std::string(w.name()), std::move(shape), std::move(c));
}

const OnnxMatrix* OnnxWeights::own(const OnnxNode& node) const {
  const auto at = own_.find(&node);
  return at == own_.end() ? nullptr : &at->second;
}

const std::string* OnnxWeights::stack(const OnnxNode& node, size_t input) const {
  const auto at = stacks_.find({&node, input});
  return at == stacks_.end() ? nullptr : &at->second;
}

const OnnxCodes* OnnxWeights::codes(std::string_view tensor) const {
  const auto at = codes_.find(tensor);
  return at == codes_.end() ? nullptr : &at->second->codes();
}

std::optional<OnnxMatrix> OnnxWeights::constant(std::string_view value) const {
  bool transposed = false;
  for (int hops = 0; hops < 8; ++hops) {
    if (const auto at = by_value_.find(value); at != by_value_.end())
      return OnnxMatrix{at->second, transposed};
    const OnnxNode* node = graph_.producer(value);
    if (!node) return std::nullopt;
    if (node->op == "Transpose") {
      const std::vector<int64_t> order = node->integers("perm", {1, 0});
      if (order != std::vector<int64_t>{1, 0}) return std::nullopt;
      transposed = !transposed;
    } else if (node->op == "Cast" || node->op == "CastLike") {
      if (node->op == "Cast" && !is_float(onnx_type_from_code(node->integer("to", 0)))) return std::nullopt;
    } else if (node->op != "Identity") {
      return std::nullopt;
    }
    value = node->input(0);
  }
  return std::nullopt;
}

}  // namespace anemone
