// Q: weight formats.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "check/rule.h"
#include "mil/stored.h"
#include "placement/product.h"

namespace anemone {
namespace {

using Kind = placement::WeightForm::Kind;

constexpr int64_t kMostScales = int64_t{1} << 22;
constexpr double kLargeWeight = 1e7;  // elements
constexpr double kOutlier = 40;       // largest over root mean square

bool is_weight_of(const WeightSubject& w, Kind kind) { return w.form.kind == kind; }

std::string name_of(const WeightSubject& w) { return fmt::format("'{}': {}", w.value->name, w.form.text()); }

// int4 with a scale per output channel: fine on macOS 27, on the CPU on macOS 15.
void int4_channels(const PackageSubject& s, Findings& out) {
  int count = 0;
  for (const WeightSubject& w : s.weights)
    count += is_weight_of(w, Kind::integer) && w.form.bits == 4 &&
             !w.form.split_along_inputs(placement::output_axis(*w.user, *w.value));
  if (count > 0)
    out.add(
        s.bundle.os >= 27 ? Level::hint : Level::warning,
        fmt::format("{} weights of int4 with a scale per output channel{}", count,
                    s.bundle.os >= 27 ? "" : ": seen on the engine with macOS 27, on the CPU with macOS 15"));
}

void integer_tables(const PackageSubject& s, Findings& out) {
  for (const WeightSubject& w : s.weights)
    if (is_weight_of(w, Kind::palette) && w.form.integer_table) out.add(Level::error, *w.user, name_of(w));
}

void palettes_in_prefill(const FunctionSubject& s, Findings& out) {
  if (s.tokens < 16) return;
  int count = 0;
  for (const auto& op : s.placed.ops) {
    if (!placement::is_product(*op.op)) continue;
    const placement::OpView view(*op.op);
    const auto projection = placement::projection_of(view);
    const Operation* maker = projection ? projection->weight->maker : nullptr;
    count += maker && placement::weight_form(*maker).kind == Kind::palette;
  }
  if (count > 0)
    out.add(Level::warning, fmt::format("{} palettes in a function of {} tokens", count, s.tokens));
}

void scaled_palettes(const PackageSubject& s, Findings& out) {
  for (const WeightSubject& w : s.weights)
    if (is_weight_of(w, Kind::palette) && w.form.scaled_palette && !w.form.integer_table)
      out.add(s.bundle.os >= 26 ? Level::error : Level::warning, *w.user, name_of(w));
}

void int8_without_gain(const PackageSubject& s, Findings& out) {
  if (s.bundle.target.chip->streams().int8) return;
  int count = 0;
  for (const WeightSubject& w : s.weights) count += is_weight_of(w, Kind::integer);
  if (count > 0)
    out.add(Level::hint,
            fmt::format("{} unfolded to fp16 on {}: smaller files, no more speed",
                        count == 1 ? "1 integer weight is" : fmt::format("{} integer weights are", count),
                        s.bundle.target.chip->name));
}

// Largest over root mean square of every n-th element.
double outlier_ratio(const Value& value) {
  const Operation* maker = value.producer;
  const placement::WeightForm form = placement::weight_form(*maker);
  if (!form.data || !is_readable(*form.data)) return 0;
  const auto stored = stored_constant(*form.data);
  const int64_t count = form.data->type.size(), piece = 4096, pieces = std::min<int64_t>(count / piece, 256);
  double largest = 0, squares = 0, seen = 0;
  std::vector<int32_t> room(piece);
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t begin = count / pieces * i;
    stored->read(begin, std::min(count, begin + piece), room.data());
    for (int64_t j = 0; j < std::min(piece, count - begin); ++j) {
      const double q = room[static_cast<size_t>(j)];
      largest = std::max(largest, std::abs(q));
      squares += q * q;
      ++seen;
    }
  }
  return squares > 0 ? largest / std::sqrt(squares / seen) : 0;
}

void outliers(const PackageSubject& s, Findings& out) {
  for (const WeightSubject& w : s.weights) {
    if (!is_weight_of(w, Kind::integer) || w.form.bits != 8 || !w.form.whole() || w.elements < kLargeWeight)
      continue;
    const double ratio = outlier_ratio(*w.value);
    out.add(Level::warning, *w.user,
            fmt::format("{} over {:.3g} elements; the largest is {:.0f} times the root mean square{}",
                        name_of(w), w.elements, ratio, ratio > kOutlier ? ": outliers" : ""));
  }
}

void bad_scales(const PackageSubject& s, Findings& out) {
  for (const WeightSubject& w : s.weights) {
    if (!is_weight_of(w, Kind::integer)) continue;
    const std::vector<float> scales = constant_values(w.form.scale, kMostScales);
    const auto bad = std::count_if(scales.begin(), scales.end(), [](float x) { return !std::isfinite(x); });
    if (bad > 0)
      out.add(Level::error, *w.user, fmt::format("'{}': {} scales are not finite", w.value->name, bad));
  }
}

void few_bits(const PackageSubject& s, Findings& out) {
  int count = 0, least = 4;
  for (const WeightSubject& w : s.weights)
    if (is_weight_of(w, Kind::palette) && w.form.bits <= 3) {
      ++count;
      least = std::min(least, w.form.bits);
    }
  if (count > 0) out.add(Level::warning, fmt::format("{} weights of {} bits and up to 3", count, least));
}

constexpr Rule kRules[] = {
    {.id = "Q01",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "int8 with one scale a tensor or an output channel stays on the engine",
     .why = "\"ANE only support per-cout/per-tensor quantization\".",
     .cost = "",
     .fix = "The default of convert: a scale per output channel.",
     .sources = "AB ch3; CAD; ct#2510"},
    {.id = "Q02",
     .grade = Grade::A,
     .level = Level::error,
     .title = "No int4 or int8 with blocks along the inputs",
     .why = "The whole graph runs on the CPU (in Core AI on the GPU), or on the engine with wrong numbers.",
     .cost = "everything; or a cosine of 0.367",
     .fix = "One scale per output channel, or a palette per group of output channels (lut4-g32).",
     .sources = "AB INT4 note; ct#2510; M6 7.5; CAD; apple/coreai-models#279, #205",
     .by_placement = true},
    {.id = "Q03",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "int4 with a scale per output channel and no blocks runs on the engine with macOS 27",
     .why = "Measured on M5 Pro with macOS 27; another source saw such graphs on the CPU with macOS 15.",
     .cost = "1.45 to 1.75 times the speed of fp16 where it runs",
     .fix = "Only for systems from 27 on, with calibration; palettes elsewhere.",
     .sources = "CAD G8; AB INT4 note",
     .targets = "a warning before iOS 27 and macOS 27",
     .in_package = int4_channels},
    {.id = "Q04",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "Palettes of 1, 2, 3, 4, 6 or 8 bits, one per tensor or per group of output channels, stay on "
              "the engine",
     .why = "Weights are read compressed: time is proportional to bytes.",
     .cost = "4 bits 0.32, 2 bits 0.16 of the time of fp16 (a weight-bound 2048 by 2048 layer, M6)",
     .fix = "Group along the output channels.",
     .sources = "M6 7.5; AB e35, j112; AF; AN; JR"},
    {.id = "Q05",
     .grade = Grade::B,
     .level = Level::error,
     .title = "Palettes must be grouped along the output channels only",
     .why = "A palette per row and block, or a palette with blockwise scales, gives error -14, and the "
            "package runs on the CPU.",
     .cost = "everything",
     .fix = "Keep the groups on axis 0.",
     .sources = "JR DECODE_STATE 8",
     .by_placement = true},
    {.id = "Q06",
     .grade = Grade::B,
     .level = Level::error,
     .title = "No palettes of vectors",
     .why = "cluster_dim 2 and 4 compile nowhere that was tested; tables of parameters claim H17 and later.",
     .cost = "CPU",
     .fix = "Palettes of single values.",
     .sources = "M6 7.5",
     .by_placement = true},
    {.id = "Q07",
     .grade = Grade::B,
     .level = Level::error,
     .title = "Entries of palettes must be fp16",
     .why = "With int8 entries (joint compression) the dequantization falls back to the CPU.",
     .cost = "a cosine of 0.83",
     .fix = "fp16 entries.",
     .sources = "JR ROUND8",
     .in_package = integer_tables},
    {.id = "Q08",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "Palettes are for one token at a time",
     .why = "With many positions per call, Core ML's palette graphs had 0.065 to 0.28 of Core AI's speed, "
            "slower than fp16 from 64 positions on (M5 Pro, macOS 27). Another source saw no loss with 4 "
            "positions.",
     .cost = "slow prefill",
     .fix = "Choose the form per function: prefill fp16 or int8, decode palettes; measure.",
     .sources = "CAD G7, G8; AB e35",
     .in_function = palettes_in_prefill},
    {.id = "Q09",
     .grade = Grade::A,
     .level = Level::error,
     .title = "No palettes with a scale per channel",
     .why = "enable_per_channel_scale crashes MPSGraph at load on macOS 26; 4-bit palettes of coremltools 9 "
            "have given "
            "cosines of 0.03 to 0.63.",
     .cost = "a crash, or wrong numbers",
     .fix = "Plain palettes, and a parity check on the stored codes.",
     .sources = "ct#2688; ct#2716; ct#2777",
     .targets = "an error from macOS 26 on, a warning before",
     .in_package = scaled_palettes},
    {.id = "Q10",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Not every chip reads compressed weights directly",
     .why = "M1 reads only palettes and sparse weights directly, and expands int8 to fp16. M2 also reads "
            "int8 directly. M3 to M5 read all forms.",
     .cost = "on M1 int8 saves disk space, but no time",
     .fix = "Use palettes for M1.",
     .sources = "AF",
     .targets = "A14, M1",
     .in_package = int8_without_gain},
    {.id = "Q11",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Sparse weights are a mask and values, and zeros are skipped; zeros of dense constants are not",
     .why = "",
     .cost = "pays from 75% zeros for 3 by 3 kernels, from any for 1 by 1",
     .fix = "Optional.",
     .sources = "M6 7.5"},
    {.id = "Q12",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "No int8 with one scale over a large tensor with outliers",
     .why = "There it is worse than grouped 4-bit palettes.",
     .cost = "a cosine of 0.9555 per layer, 0.565 over all layers (Gemma's expert bank)",
     .fix = "A scale per channel, or a palette, for tensors whose largest value is far from the rest.",
     .sources = "AB e36, j108",
     .in_package = outliers},
    {.id = "Q13",
     .grade = Grade::B,
     .level = Level::error,
     .title = "Quantization must handle channels of zeros",
     .why = "Linear quantisation of an all-zero channel gives NaN.",
     .cost = "NaN",
     .fix = "Guard the scale.",
     .sources = "JR",
     .in_package = bad_scales},
    {.id = "Q14",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "2- and 3-bit palettes need training",
     .why = "Without training for it, models like Gemma give gibberish. 4 bits are usable, 6 and 8 bits are "
            "safe.",
     .cost = "quality",
     .fix = "6 bits, or 4 with an int8 head.",
     .sources = "JR; AN",
     .in_package = few_bits},
};

}  // namespace

std::span<const Rule> weight_rules() { return kRules; }

}  // namespace anemone
