// Signals: windows, the Fourier transform as a matrix product, mel weights.
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

// a - b cos(2 pi k / N) + c cos(4 pi k / N)
void window(OnnxCall& n, double a, double b, double c) {
  const int64_t size = n.ints(0).at(0);
  const auto period = static_cast<double>(n.node.integer("periodic", 1) ? size : size - 1);
  const OnnxType type = onnx_type_from_code(n.node.integer("output_datatype", 1));
  std::vector<float> values;
  for (int64_t k = 0; k < size; ++k) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(k) / period;
    values.push_back(static_cast<float>(a - b * std::cos(turn) + c * std::cos(2 * turn)));
  }
  n.out(0, n.cast(n.float_values(values, {size}), mil_dtype(type)), type);
}

void hann(OnnxCall& n) { window(n, 0.5, 0.5, 0); }
void hamming(OnnxCall& n) { window(n, 25.0 / 46, 21.0 / 46, 0); }
void blackman(OnnxCall& n) { window(n, 0.42, 0.5, 0.08); }

struct Waves {
  Value *cos, *sin;  // [size, outs]
};

Waves waves(OnnxCall& n, int64_t size, int64_t outs) {
  std::vector<float> c, s;
  for (int64_t t = 0; t < size; ++t)
    for (int64_t f = 0; f < outs; ++f) {
      const double turn =
          2 * std::numbers::pi * static_cast<double>(t * f % size) / static_cast<double>(size);
      c.push_back(static_cast<float>(std::cos(turn)));
      s.push_back(static_cast<float>(std::sin(turn)));
    }
  return {n.float_values(c, {size, outs}), n.float_values(s, {size, outs})};
}

// The transform over the last dimension; `im` may be empty. Both results, [.., outs].
struct Complex {
  Value *re, *im;
};

Complex transform(OnnxCall& n, Complex x, int64_t size, int64_t outs, bool inverse) {
  const Waves w = waves(n, size, outs);
  const float sign = inverse ? 1.0f : -1.0f;
  Complex y{n.matmul(x.re, w.cos), n.mul(n.matmul(x.re, w.sin), n.f(sign))};
  if (x.im) {
    y.re = n.sub(y.re, n.mul(n.matmul(x.im, w.sin), n.f(sign)));
    y.im = n.add(y.im, n.matmul(x.im, w.cos));
  }
  if (inverse) {
    const float scale = 1.0f / static_cast<float>(size);
    y = {n.mul(y.re, n.f(scale)), n.mul(y.im, n.f(scale))};
  }
  return y;
}

// Back from one half of a spectrum, whose other half is its mirror image: a real signal.
Value* from_half(OnnxCall& n, Complex x, int64_t size) {
  const int64_t bins = size / 2 + 1;
  std::vector<float> c, s;
  for (int64_t f = 0; f < bins; ++f)
    for (int64_t t = 0; t < size; ++t) {
      const double turn =
          2 * std::numbers::pi * static_cast<double>(t * f % size) / static_cast<double>(size);
      const double share = (f == 0 || 2 * f == size ? 1.0 : 2.0) / static_cast<double>(size);
      c.push_back(static_cast<float>(share * std::cos(turn)));
      s.push_back(static_cast<float>(-share * std::sin(turn)));
    }
  Value* y = n.matmul(x.re, n.float_values(c, {bins, size}));
  return x.im ? n.add(y, n.matmul(x.im, n.float_values(s, {bins, size}))) : y;
}

Value* joined(OnnxCall& n, Complex y) {
  const int64_t rank = y.re->type.rank();
  return n.concat({n.expand(y.re, {rank}), n.expand(y.im, {rank})}, rank);
}

// Cut or filled with zeros along the last dimension.
Value* fitted(OnnxCall& n, Value* x, int64_t size) {
  std::vector<int64_t> d = n.dims(x);
  const auto last = static_cast<int64_t>(d.size()) - 1;
  if (d.back() > size) return n.slice(x, last, 0, size);
  if (d.back() == size) return x;
  d.back() = size - d.back();
  return n.concat({x, n.filled(d, 0, DType::fp32)}, last);
}

void dft(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t rank = x->type.rank();
  int64_t axis = n.node.version < 20 ? n.node.integer("axis", 1) : n.has(2) ? n.ints(2).at(0) : -2;
  axis = n.axis(axis, rank);
  const bool inverse = n.node.integer("inverse", 0) != 0, half = n.node.integer("onesided", 0) != 0;
  const std::vector<int64_t> d = n.dims(x);
  if (axis == rank - 1) throw errorf("the last dimension holds real and imaginary parts");
  // The axis goes last, behind the parts are taken apart.
  std::vector<int64_t> perm, back;
  for (int64_t k = 0; k + 1 < rank; ++k)
    if (k != axis) perm.push_back(k);
  perm.push_back(axis);
  perm.push_back(rank - 1);
  back.resize(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) back[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
  Value* moved = n.transpose(x, perm);
  const bool mirror = half && inverse;
  const int64_t given = d[static_cast<size_t>(axis)];
  const int64_t size = n.has(1) ? n.ints(1).at(0) : mirror ? 2 * (given - 1) : given;
  const int64_t bins = mirror ? size / 2 + 1 : size;
  const auto part = [&](int64_t k) {
    return fitted(n, n.squeeze(n.slice(moved, rank - 1, k, k + 1), {rank - 1}), bins);
  };
  const Complex in{part(0), d.back() == 2 ? part(1) : nullptr};
  if (mirror) return n.out(n.transpose(n.expand(from_half(n, in, size), {rank - 1}), back));
  const Complex y = transform(n, in, size, half ? size / 2 + 1 : size, inverse);
  n.out(n.transpose(joined(n, y), back));
}

void stft(OnnxCall& n) {
  Value* x = n.in(0);
  const std::vector<int64_t> d = n.dims(x);
  if (d.size() != 2 && d.size() != 3)
    throw errorf("a signal has two or three dimensions").found(shape_text(d));
  const int64_t step = n.ints(1).at(0);
  Value* shape = n.maybe(2);
  const int64_t frame = n.has(3) ? n.ints(3).at(0) : n.dims(shape).at(0);
  const bool half = n.node.integer("onesided", 1) != 0;
  if (d.size() == 3 && d[2] == 2) throw n.refused("STFT of complex signals");
  if (step < 1 || frame < 1 || frame > d[1])
    throw errorf("frames of {} every {} do not fit {} samples", frame, step, d[1]);
  const int64_t frames = (d[1] - frame) / step + 1;
  std::vector<int64_t> places;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t t = 0; t < frame; ++t) places.push_back(f * step + t);
  Value* flat = d.size() == 3 ? n.reshape(x, {d[0], d[1]}) : x;
  Value* cut =
      n.op("gather", {{"x", flat}, {"indices", n.int_values(places, {frames * frame})}, {"axis", n.i(1)}});
  cut = n.reshape(cut, {d[0], frames, frame});
  if (shape) cut = n.mul(cut, shape);
  n.out(joined(n, transform(n, {cut, nullptr}, frame, half ? frame / 2 + 1 : frame, false)));
}

// Triangles over a scale of pitches.
void mel_weights(OnnxCall& n) {
  const int64_t bands = n.ints(0).at(0), length = n.ints(1).at(0), rate = n.ints(2).at(0);
  const double low = static_cast<double>(n.floats(3).at(0)), high = static_cast<double>(n.floats(4).at(0));
  const int64_t bins = length / 2 + 1;
  const auto mel = [](double hz) { return 2595 * std::log10(1 + hz / 700); };
  std::vector<int64_t> edges;
  for (int64_t k = 0; k < bands + 2; ++k) {
    const double at =
        mel(low) + static_cast<double>(k) * (mel(high) - mel(low)) / static_cast<double>(bands + 2);
    const double hz = 700 * (std::pow(10, at / 2595) - 1);
    edges.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hz / static_cast<double>(rate))));
  }
  std::vector<float> out(static_cast<size_t>(bins * bands));
  const auto put = [&](int64_t bin, int64_t band, double value) {
    if (bin >= 0 && bin < bins) out[static_cast<size_t>(bin * bands + band)] = static_cast<float>(value);
  };
  for (int64_t k = 0; k < bands; ++k) {
    const auto from = static_cast<size_t>(k);
    const int64_t left = edges[from], center = edges[from + 1], right = edges[from + 2];
    if (center == left) put(center, k, 1);
    for (int64_t j = left; j <= center && center != left; ++j)
      put(j, k, static_cast<double>(j - left) / static_cast<double>(center - left));
    for (int64_t j = center; j < right; ++j)
      put(j, k, static_cast<double>(right - j) / static_cast<double>(right - center));
  }
  const OnnxType type = onnx_type_from_code(n.node.integer("output_datatype", 1));
  n.out(0, n.cast(n.float_values(out, {bins, bands}), mil_dtype(type)), type);
}

const OnnxOp kOps[] = {
    {"HannWindow", hann}, {"HammingWindow", hamming},       {"BlackmanWindow", blackman}, {"DFT", dft},
    {"STFT", stft},       {"MelWeightMatrix", mel_weights},
};

}  // namespace

std::span<const OnnxOp> onnx_signal() { return kOps; }

}  // namespace anemone::onnx_ops
