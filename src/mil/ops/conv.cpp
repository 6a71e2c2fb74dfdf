// Convolutions. The output is split in tiles of channels by positions; for a tile, rows of the weight are
// decoded and patches of the input laid out as columns, block by block, and multiplied.
#include <algorithm>

#include "base/error.h"
#include "mil/conv_window.h"
#include "mil/matrix.h"

namespace anemone::ops {
namespace {

constexpr int64_t kChannelTile = 96;     // output channels
constexpr int64_t kPositionTile = 1024;  // output positions
constexpr int64_t kDepth = 384;          // rows of patches laid out at a time

Window window_of(const OpCall& c, const ConvWindow& w) {
  const Type& x = c.type("x");
  return sliding_window(std::span(x.shape).subspan(2), c.text("pad_type"), w.kernel, w.strides, w.dilations,
                        w.pad, false);
}

void check_bias(const OpCall& c, Dim channels) {
  if (!c.has("bias")) return;
  const Type& bias = c.type("bias");
  if (bias.rank() != 1 || (bias.dim(0).known() && channels.known() && bias.dim(0) != channels))
    throw errorf("'bias' must have one value per output channel")
        .found(bias.text())
        .expected(channels.text());
}

Types infer_conv(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& weight = c.type("weight");
  const ConvWindow w = conv_window(c, x.rank() - 2);
  const Dim in = x.dim(1), out = weight.dim(0), part = weight.dim(1);
  if (in.known() && in.size() % w.groups != 0)
    throw errorf("{} input channels cannot be split in {} groups", in.size(), w.groups);
  if (in.known() && part.known() && in.size() / w.groups != part.size())
    throw errorf("'weight' has the wrong number of input channels for {} in {} groups", in.size(), w.groups)
        .found(part.text())
        .expected(fmt::format("{}", in.size() / w.groups));
  if (out.known() && out.size() % w.groups != 0)
    throw errorf("{} output channels cannot be split in {} groups", out.size(), w.groups);
  check_bias(c, out);
  Shape shape = {x.dim(0), out};
  for (const Dim d : window_of(c, w).out) shape.push_back(d);
  return {Type::tensor(x.dtype, shape)};
}

// One tile of the output: channels [m0, m1) of a group at positions [s0, s1) of one image.
struct Tile {
  int64_t m0, m1, s0, s1;
};

struct Scratch {
  GemmScratch gemm;
  std::vector<float> weight, patches;
};

void run_tile(const Patches& patches, const Matrix& weight, const float* image, const Tile& t, float* out,
              Scratch& scratch) {
  const int64_t k = patches.rows(), all = patches.columns();
  const bool whole = patches.plain() && !weight.stored();
  const int64_t depth = whole ? k : kDepth;
  if (k == 0) gemm(t.m1 - t.m0, t.s1 - t.s0, 0, {}, {}, out, all, false, scratch.gemm);
  for (int64_t x = 0; x < k; x += depth) {
    const int64_t end = std::min(k, x + depth);
    const MatrixView rows = weight.block(t.m0, t.m1, x, end, scratch.weight);
    MatrixView columns{image + x * all + t.s0, all, 1};
    if (!patches.plain()) {
      scratch.patches.resize(static_cast<size_t>((end - x) * (t.s1 - t.s0)));
      patches.gather(image, x, end, t.s0, t.s1, scratch.patches.data());
      columns = {scratch.patches.data(), t.s1 - t.s0, 1};
    }
    gemm(t.m1 - t.m0, t.s1 - t.s0, end - x, rows, columns, out, all, x > 0, scratch.gemm);
  }
}

void convolve(const OpCall& c, const Tiles& weight, const float* bias) {
  const std::vector<int64_t> x = c.type("x").dims(), w = c.type("weight").dims(), out = c.out_type().dims();
  if (c.out_type().size() == 0) return;
  const ConvWindow window = conv_window(c, static_cast<int>(x.size()) - 2);
  std::vector<int64_t> part(x.begin() + 1, x.end());
  part[0] /= window.groups;
  const Patches patches(window, part, window_of(c, window).before, std::span(out).subspan(2));
  const int64_t k = patches.rows(), positions = patches.columns(), image_size = c.type("x").size() / x[0];
  const int64_t channels = w[0] / window.groups;
  const int64_t tiles_m = (channels + kChannelTile - 1) / kChannelTile;
  const int64_t tiles_s = (positions + kPositionTile - 1) / kPositionTile;
  const float* data = c.floats("x");
  c.pool().parallel_for(x[0] * window.groups * tiles_m * tiles_s, 1, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t tile_m = unit / tiles_s % tiles_m, group = unit / tiles_s / tiles_m % window.groups;
      const int64_t image = unit / tiles_s / tiles_m / window.groups;
      const Tile t{tile_m * kChannelTile, std::min(channels, (tile_m + 1) * kChannelTile),
                   unit % tiles_s * kPositionTile, std::min(positions, (unit % tiles_s + 1) * kPositionTile)};
      const Matrix rows{weight, group * channels * k, k, 1};
      const int64_t first = group * channels + t.m0;
      float* to = c.out_floats() + (image * w[0] + first) * positions + t.s0;
      run_tile(patches, rows, data + image * image_size + group * (image_size / window.groups), t, to,
               scratch);
      for (int64_t m = 0; bias && m < t.m1 - t.m0; ++m)
        for (int64_t s = 0; s < t.s1 - t.s0; ++s) to[m * positions + s] += bias[first + m];
    }
  });
}

void run_conv(const OpCall& c) { convolve(c, c.tiles("weight"), c.has("bias") ? c.floats("bias") : nullptr); }

// scale * q + bias of bytes, one of each or one per output channel.
class QuantizedWeight : public StoredTensor {
 public:
  QuantizedWeight(const OpCall& c)
      : StoredTensor(Type::tensor(DType::fp32, c.type("weight").shape)),
        bytes_(c.tiles("weight")),
        scale_(c.numbers("quant_scale")),
        bias_(c.numbers("quant_bias")),
        row_(type().dim(0) == Dim(0) ? 1 : type().size() / type().dim(0).size()) {}

  void read(int64_t begin, int64_t end, void* out) const override {
    auto* floats = static_cast<float*>(out);
    std::vector<int32_t> room(bytes_.stored() ? static_cast<size_t>(end - begin) : 0);
    const auto* q = static_cast<const int32_t*>(static_cast<const void*>(bytes_.dense())) + begin;
    if (bytes_.stored()) {
      bytes_.stored()->read(begin, end, room.data());
      q = room.data();
    }
    for (int64_t i = begin; i < end; ++i, ++q) {
      const auto channel = static_cast<size_t>(i / row_);
      const double scale = scale_[scale_.size() == 1 ? 0 : channel],
                   bias = bias_[bias_.size() == 1 ? 0 : channel];
      *floats++ = static_cast<float>(scale * *q + bias);
    }
  }

 private:
  Tiles bytes_;
  std::vector<double> scale_, bias_;
  int64_t row_;
};

Types infer_quantized(const OpCall& c) {
  const Types types = infer_conv(c);
  if (c.text("quantization_type") != "linear")
    throw errorf("conv_quantized of type '{}' is not supported", c.text("quantization_type"))
        .expected("linear")
        .hint("its tables are not documented; constexpr_lut_to_dense with conv says the same");
  if (c.integer("nbits") != 8)
    throw errorf("conv_quantized with {} bits is not supported", c.integer("nbits")).expected("8");
  for (const char* param : {"quant_scale", "quant_bias"}) {
    const Dim count = product(c.type(param).shape, 0, c.type(param).shape.size());
    if (count.known() && count != Dim(1) && count != c.type("weight").dim(0))
      throw errorf("'{}' must have one value, or one per output channel", param).found(c.type(param).text());
  }
  return types;
}

void run_quantized(const OpCall& c) {
  const QuantizedWeight weight(c);
  std::vector<float> bias;
  if (c.has("bias"))
    for (const double v : c.numbers("bias")) bias.push_back(static_cast<float>(v));
  convolve(c, Tiles(&weight, nullptr), bias.empty() ? nullptr : bias.data());
}

// The transposed convolution's padding and output, along each spatial dimension.
Window transposed_window(const OpCall& c, const ConvWindow& w) {
  const Type& x = c.type("x");
  const size_t n = w.kernel.size();
  const std::string_view pad_type = c.text("pad_type");
  const bool same = pad_type == "same" || pad_type == "same_lower";
  if (!same && pad_type != "valid" && pad_type != "custom")
    throw errorf("unknown pad_type '{}'", pad_type).expected("valid, custom or same");
  std::vector<int64_t> asked;
  if (c.has("output_shape")) {
    asked = c.integers("output_shape");
    if (asked.size() != n + 2 && asked.size() != n)
      throw errorf("'output_shape' has {} entries", asked.size()).expected(fmt::format("{}", n + 2));
    asked.erase(asked.begin(), asked.end() - static_cast<int64_t>(n));
  }
  Window out{std::vector<int64_t>(n), std::vector<int64_t>(n), Shape(n, Dim::unknown())};
  for (size_t i = 0; i < n; ++i) {
    const Dim in = x.shape[i + 2];
    out.before[i] = w.pad[2 * i];
    out.after[i] = w.pad[2 * i + 1];
    if (!asked.empty() && asked[i] < 0)
      throw errorf("'output_shape' has a negative entry").found(fmt::format("{}", asked[i]));
    if (!asked.empty()) out.out[i] = asked[i];
    if (!in.known()) {
      if (asked.empty() && same) out.out[i] = in.times(w.strides[i]);
      continue;
    }
    const int64_t full = (in.size() - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    if (asked.empty()) {
      const int64_t size = same ? in.size() * w.strides[i] : full - out.before[i] - out.after[i];
      if (size < 0) throw errorf("the padding is larger than the output of {}", full);
      out.out[i] = size;
    }
    if (same) {  // what a convolution from the output back to the input would pad
      const int64_t total = std::max<int64_t>(0, full - out.out[i].size());
      out.before[i] = pad_type == "same" ? total / 2 : total - total / 2;
    }
  }
  return out;
}

Types infer_transpose(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& weight = c.type("weight");
  const ConvWindow w = conv_window(c, x.rank() - 2);
  if (x.dim(1).known() && weight.dim(0).known() && x.dim(1) != weight.dim(0))
    throw errorf("'weight' has the wrong number of input channels")
        .found(weight.dim(0).text())
        .expected(x.dim(1).text());
  if (x.dim(1).known() && x.dim(1).size() % w.groups != 0)
    throw errorf("{} input channels cannot be split in {} groups", x.dim(1).size(), w.groups);
  const Dim channels = weight.dim(1).times(w.groups);
  check_bias(c, channels);
  Shape shape = {x.dim(0), channels};
  for (const Dim d : transposed_window(c, w).out) shape.push_back(d);
  return {Type::tensor(x.dtype, shape)};
}

// Each output channel: its kernel's rows times the input give what every input position adds; those are then
// summed where they fall.
void run_transpose(const OpCall& c) {
  const std::vector<int64_t> x = c.type("x").dims(), w = c.type("weight").dims(), out = c.out_type().dims();
  if (c.out_type().size() == 0) return;
  const ConvWindow window = conv_window(c, static_cast<int>(x.size()) - 2);
  std::vector<int64_t> one(out.begin() + 1, out.end());
  one[0] = 1;
  const Patches patches(window, one, transposed_window(c, window).before, std::span(x).subspan(2));
  const int64_t taps = patches.rows(), positions = patches.columns(),
                size = c.out_type().size() / out[0] / out[1];
  const int64_t inputs = x[1] / window.groups, channels = w[1];
  const float* bias = c.has("bias") ? c.floats("bias") : nullptr;
  c.pool().parallel_for(out[0] * out[1], 1, [&](int64_t begin, int64_t end) {
    MultiplyScratch scratch;
    std::vector<float> rows(static_cast<size_t>(taps * positions));
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t channel = unit % out[1], group = channel / channels;
      const Matrix kernel{c.tiles("weight"), (group * inputs * channels + channel % channels) * taps, 1,
                          channels * taps};
      const Matrix image{Tiles(nullptr, c.floats("x")), (unit / out[1] * x[1] + group * inputs) * positions,
                         positions, 1};
      multiply_tile(kernel, image, 0, taps, 0, positions, inputs, rows.data(), positions, scratch);
      float* to = c.out_floats() + unit * size;
      std::fill_n(to, size, bias ? bias[channel] : 0.0f);
      patches.scatter_add(rows.data(), 0, taps, to);
    }
  });
}

// The window's parameters after those of the op itself.
std::vector<Param> with_window(std::vector<Param> params) {
  for (const Param& p :
       {Param{"strides", kInt32, 0, kOptional | kConst},
        Param{"pad_type", kString, 0, kOptional | kConst, "valid"},
        Param{"pad", kInt32, 0, kOptional | kConst}, Param{"dilations", kInt32, 0, kOptional | kConst},
        Param{"groups", kInt32, 0, kOptional | kConst, int64_t{1}}})
    params.push_back(p);
  return params;
}

const Param kX{"x", kFloat, 'T'}, kOutputShape{"output_shape", kInt32, 0, kOptional | kConst};

const Op kOps[] = {
    {"conv",
     {{Opset::ios15,
       with_window({kX, {"weight", kFloat, 'T', kStored}, {"bias", kFloat, 'T', kOptional | kConst}})},
      {Opset::ios17, with_window({kX, {"weight", kFloat, 'U', kStored}, {"bias", kFloat, 'U', kOptional}})}},
     "convolution over 1 to 3 spatial dimensions; weight [out, in / groups, kernel …]",
     infer_conv,
     run_conv},
    {"conv_quantized",
     {{Opset::ios15, with_window({kX,
                                  {"weight", only(DType::uint8), 0, kStored},
                                  {"bias", kFloat | only(DType::uint8), 0, kOptional | kConst},
                                  {"quantization_type", kString, 0, kConst},
                                  {"nbits", kInt32, 0, kOptional | kConst, int64_t{8}},
                                  {"quant_scale", kFloat, 'T', kConst},
                                  {"quant_bias", kFloat, 'T', kConst}})}},
     "conv with a weight of bytes: quant_scale * weight + quant_bias",
     infer_quantized,
     run_quantized},
    {"conv_transpose",
     {{Opset::ios15,
       with_window(
           {kX, {"weight", kFloat, 'T', kStored}, {"bias", kFloat, 'T', kOptional | kConst}, kOutputShape})},
      {Opset::ios17,
       with_window({kX, {"weight", kFloat, 'U', kStored}, {"bias", kFloat, 'U', kOptional}, kOutputShape})}},
     "the transposed convolution; weight [in, out / groups, kernel …]",
     infer_transpose,
     run_transpose},
};

}  // namespace

std::span<const Op> ops_conv() { return kOps; }

}  // namespace anemone::ops
