// Signals: windows, Fourier transforms by their definition, mel weights.
#include <algorithm>
#include <numbers>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

// a - b cos(2 pi k / N) + c cos(4 pi k / N)
Arrays window(const Context& c, double a, double b, double d) {
  const int64_t size = c.ints(0).at(0);
  OnnxArray y = made(onnx_type_from_code(c.node.integer("output_datatype", 1)), {size});
  const auto period = static_cast<double>(c.node.integer("periodic", 1) ? size : size - 1);
  for (int64_t k = 0; k < size; ++k) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(k) / period;
    y.data[static_cast<size_t>(k)] = a - b * std::cos(turn) + d * std::cos(2 * turn);
  }
  return {y};
}

Arrays hann(const Context& c) { return window(c, 0.5, 0.5, 0); }
Arrays hamming(const Context& c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }
Arrays blackman(const Context& c) { return window(c, 0.42, 0.5, 0.08); }

struct Complex {
  double re = 0, im = 0;
};

// Bin f of the transform of x.
Complex bin(const std::vector<Complex>& x, int64_t f, bool inverse) {
  const auto n = static_cast<int64_t>(x.size());
  Complex y;
  for (int64_t t = 0; t < n; ++t) {
    const double turn =
        (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(t * f % n) / static_cast<double>(n);
    const Complex& v = x[static_cast<size_t>(t)];
    y.re += v.re * std::cos(turn) - v.im * std::sin(turn);
    y.im += v.re * std::sin(turn) + v.im * std::cos(turn);
  }
  if (inverse) y = {y.re / static_cast<double>(n), y.im / static_cast<double>(n)};
  return y;
}

int64_t positive(int64_t size, std::string_view what) {
  if (size < 1 || size > most_elements()) throw errorf("{} is {}", what, size);
  return size;
}

Arrays dft(const Context& c) {
  const OnnxArray& x = c[0];
  const int64_t given = c.node.version < 20 ? c.node.integer("axis", 1) : c.has(2) ? c.ints(2).at(0) : -2;
  const auto axis = static_cast<size_t>(at_axis(given, x.rank()));
  const bool inverse = c.node.integer("inverse", 0) != 0, half = c.node.integer("onesided", 0) != 0,
             mirror = half && inverse;
  const int64_t parts = x.dims.back(), have = x.dims[axis];
  if (axis + 1 == x.dims.size() || parts < 1 || parts > 2)
    throw errorf("the last dimension must hold real and imaginary parts");
  const int64_t size = positive(c.has(1) ? c.ints(1).at(0)
                                : mirror ? 2 * (have - 1)
                                         : have,
                                "the length of the transform");
  const int64_t outs = mirror ? size : half ? size / 2 + 1 : size, out_parts = mirror ? 1 : 2;
  std::vector<int64_t> dims = x.dims;
  dims[axis] = outs;
  dims.back() = out_parts;
  OnnxArray y = made(x.type, dims);
  const int64_t lines = strides_of(x.dims)[axis] / parts;  // between this axis and the parts
  for (int64_t line = 0; line < x.size() / (have * parts); ++line) {
    const int64_t outer = line / lines, inner = line % lines;
    std::vector<Complex> signal(static_cast<size_t>(size));
    for (int64_t t = 0; t < std::min(have, mirror ? size / 2 + 1 : size); ++t) {
      const auto at = static_cast<size_t>(((outer * have + t) * lines + inner) * parts);
      const Complex v{x.data[at], parts == 2 ? x.data[at + 1] : 0};
      signal[static_cast<size_t>(t)] = v;
      if (mirror && t > 0 && t < size - t) signal[static_cast<size_t>(size - t)] = {v.re, -v.im};
    }
    for (int64_t f = 0; f < outs; ++f) {
      const Complex v = bin(signal, f, inverse);
      const auto at = static_cast<size_t>(((outer * outs + f) * lines + inner) * out_parts);
      y.data[at] = v.re;
      if (!mirror) y.data[at + 1] = v.im;
    }
  }
  return {y};
}

Arrays stft(const Context& c) {
  const OnnxArray& x = c[0];
  const int64_t step = c.ints(1).at(0), frame = c.has(3) ? c.ints(3).at(0) : c[2].size();
  const int64_t batch = x.dims.at(0), length = x.dims.at(1), parts = x.rank() == 3 ? x.dims[2] : 1;
  if (step < 1 || frame < 1 || frame > length || parts < 1 || parts > 2 || (c.has(2) && c[2].size() < frame))
    throw errorf("frames of {} every {} do not fit {} samples", frame, step, length);
  const int64_t frames = (length - frame) / step + 1;
  const int64_t outs = c.node.integer("onesided", 1) ? frame / 2 + 1 : frame;
  OnnxArray y = made(x.type, {batch, frames, outs, 2});
  size_t at = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t f = 0; f < frames; ++f) {
      std::vector<Complex> signal(static_cast<size_t>(frame));
      for (int64_t t = 0; t < frame; ++t) {
        const auto from = static_cast<size_t>((b * length + f * step + t) * parts);
        const double w = c.has(2) ? c[2].data[static_cast<size_t>(t)] : 1;
        signal[static_cast<size_t>(t)] = {w * x.data[from], parts == 2 ? w * x.data[from + 1] : 0};
      }
      for (int64_t k = 0; k < outs; ++k) {
        const Complex v = bin(signal, k, false);
        y.data[at++] = v.re;
        y.data[at++] = v.im;
      }
    }
  return {y};
}

double to_mel(double hz) { return 2595 * std::log10(1 + hz / 700); }
double to_hz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// Triangles between neighbors of a scale of pitches; [bins, bands].
Arrays mel_weights(const Context& c) {
  const int64_t bands = positive(c.ints(0).at(0), "num_mel_bins"),
                length = positive(c.ints(1).at(0), "dft_length"),
                rate = positive(c.ints(2).at(0), "sample_rate"), bins = length / 2 + 1;
  const double low = to_mel(c[3].data.at(0)), high = to_mel(c[4].data.at(0));
  std::vector<int64_t> edges;
  for (int64_t k = 0; k < bands + 2; ++k) {
    const double hz = to_hz(low + static_cast<double>(k) * (high - low) / static_cast<double>(bands + 2));
    edges.push_back(whole(std::floor(static_cast<double>(length + 1) * hz / static_cast<double>(rate))));
  }
  OnnxArray y = made(onnx_type_from_code(c.node.integer("output_datatype", 1)), {bins, bands});
  for (int64_t band = 0; band < bands; ++band)
    for (int64_t k = 0; k < bins; ++k) {
      const auto e = static_cast<size_t>(band);
      const int64_t left = edges[e], center = edges[e + 1], right = edges[e + 2];
      double v = 0;
      if (k >= center && k < right)
        v = static_cast<double>(right - k) / static_cast<double>(right - center);
      else if (k >= left && k <= center)
        v = left == center ? 1 : static_cast<double>(k - left) / static_cast<double>(center - left);
      y.data[static_cast<size_t>(k * bands + band)] = v;
    }
  return {y};
}

}  // namespace

void add_signals(Table& t) {
  t["HannWindow"] = hann;
  t["HammingWindow"] = hamming;
  t["BlackmanWindow"] = blackman;
  t["DFT"] = dft;
  t["STFT"] = stft;
  t["MelWeightMatrix"] = mel_weights;
}

}  // namespace anemone::interpret
