// What this machine can do, and what share of it the products of a projection reach: the rate at which all cores read
// memory, and their multiply-adds; then every form of weight, for one token, for eight, and for a prompt of 64.
//     bench_roofline [--seconds 0.3] [--threads 0] [--avx2] [--level avx512] [--svg roofline.svg] [--k 896]
// --avx2 leaves AVX-512 unused; --level takes other kernels for `fast` arithmetic than the best. The plot has the
// multiply-adds per byte of weight across and their rate upwards.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <hwy/highway.h>

#include "base/thread_pool.h"
#include "engine/buffer.h"
#include "kernels/fast.h"
#include "kernels/gemm.h"
#include "kernels/matvec.h"
#include "reading.h"
#include "timing.h"

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

using namespace anemone;
using namespace anemone::bench;

namespace {

struct Options {
  double seconds = 0.3;
  int threads = 0;
  int64_t k = 896;
  bool avx2 = false;
  std::string svg, level;
};

// Multiply-adds that wait for nothing; the number of them.
constexpr int64_t kTimes = 20000, kSums = 12;
#if HWY_ARCH_X86
__attribute__((target("avx512f"))) int64_t floats_512() {
  __m512 sums[kSums] = {};
  for (auto& s : sums) asm volatile("" : "+v"(s));  // each unlike the others, as far as the compiler knows
  const __m512 x = _mm512_set1_ps(1.0001f), y = _mm512_set1_ps(1e-9f);
  for (int64_t i = 0; i < kTimes; ++i)
    for (auto& s : sums) s = _mm512_fmadd_ps(s, x, y);
  for (auto& s : sums) asm volatile("" : : "v"(s));
  return kTimes * kSums * 16;
}
__attribute__((target("avx512f,avx512vnni"))) int64_t bytes_512() {
  __m512i sums[kSums] = {}, x = _mm512_set1_epi8(3);
  for (auto& s : sums) asm volatile("" : "+v"(s));
  for (int64_t i = 0; i < kTimes; ++i)
    for (auto& s : sums) s = _mm512_dpbusd_epi32(s, x, x);
  for (auto& s : sums) asm volatile("" : : "v"(s));
  return kTimes * kSums * 64;
}
int64_t tiles() {
  struct alignas(64) {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const shapes;
  asm volatile("ldtilecfg %0" : : "m"(shapes));
  for (int64_t i = 0; i < kTimes; ++i)
    asm volatile(
        "tdpbssd %tmm7, %tmm6, %tmm0\n\ttdpbssd %tmm7, %tmm6, %tmm1\n\t"
        "tdpbssd %tmm7, %tmm6, %tmm2\n\ttdpbssd %tmm7, %tmm6, %tmm3");
  asm volatile("tilerelease");
  return kTimes * 4 * 16 * 16 * 64;
}
__attribute__((target("avx512f,avx512bw"))) int64_t pairs_512() {
  __m512i sums[kSums] = {}, x = _mm512_set1_epi8(3), one = _mm512_set1_epi16(1);
  for (int64_t i = 0; i < kTimes; ++i)
    for (auto& s : sums) {
      asm volatile("" : "+v"(x));
      s = _mm512_add_epi32(s, _mm512_madd_epi16(_mm512_maddubs_epi16(x, x), one));
    }
  for (auto& s : sums) asm volatile("" : : "v"(s));
  return kTimes * kSums * 64;
}
__attribute__((target("avx2,fma"))) int64_t floats_256() {
  __m256 sums[kSums] = {};
  for (auto& s : sums) asm volatile("" : "+x"(s));
  const __m256 x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-9f);
  for (int64_t i = 0; i < kTimes; ++i)
    for (auto& s : sums) s = _mm256_fmadd_ps(s, x, y);
  for (auto& s : sums) asm volatile("" : : "x"(s));
  return kTimes * kSums * 8;
}
__attribute__((target("avx2"))) int64_t bytes_256() {
  __m256i sums[kSums] = {}, x = _mm256_set1_epi8(3), one = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < kTimes; ++i)
    for (auto& s : sums) {
      asm volatile("" : "+x"(x));
      s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), one));
    }
  for (auto& s : sums) asm volatile("" : : "x"(s));
  return kTimes * kSums * 32;
}
#endif
int64_t floats_plain() {
  float sums[32] = {};
  for (int64_t i = 0; i < kTimes; ++i) {
    for (float& s : sums) s = s * 1.0001f + 1e-9f;
    asm volatile("" : : "r"(sums) : "memory");
  }
  return kTimes * 32;
}

using Burn = int64_t (*)();
struct Burners {
  Burn floats = floats_plain, bytes = floats_plain;
};
Burners burners() {
#if HWY_ARCH_X86
  const std::string level = fast_level_name();
  if (level == "amx") return {floats_512, tiles};
  if (level == "avx512") return {floats_512, bytes_512};
  if (level == "avx512bw") return {floats_512, pairs_512};
  if (level == "avx2") return {floats_256, bytes_256};
#endif
  return {};
}

// Thousand millions of multiply-adds a second, all threads together.
double multiply_adds(ThreadPool& pool, Burn burn, double limit_s) {
  int64_t count = 0;
  const int64_t parts = 8 * pool.threads();
  const double took = median(limit_s, [&] {
    pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) count = burn();
    });
  });
  return 1e-9 * static_cast<double>(count * parts) / took;
}

// A form of weight, as `fast` or as fp32 arithmetic takes it.
struct Form {
  const char* name;
  bool fast;
  FastKind kind;
  WeightKind exact;
  int64_t block;  // with a scale for each
};
constexpr Form kForms[] = {
    {"int8", true, FastKind::int8, WeightKind::int8, 0},
    {"int4, blocks of 32", true, FastKind::number4, WeightKind::table4, 32},
    {"int4", true, FastKind::number4, WeightKind::table4, 0},
    {"palette 8", true, FastKind::table8, WeightKind::table8, 0},
    {"palette 6", true, FastKind::table6, WeightKind::table6, 0},
    {"palette 4", true, FastKind::table4, WeightKind::table4, 0},
    {"palette 3", true, FastKind::table3, WeightKind::table3, 0},
    {"palette 2", true, FastKind::table2, WeightKind::table2, 0},
    {"palette 1", true, FastKind::table1, WeightKind::table1, 0},
    {"fp16", false, FastKind::int8, WeightKind::fp16, 0},
    {"int8", false, FastKind::int8, WeightKind::int8, 0},
    {"palette 4", false, FastKind::int8, WeightKind::table4, 0},
};

struct Result {
  std::string name;
  int64_t tokens;
  double intensity, rate, bytes_rate;  // multiply-adds per byte, 10^9 a second, GB/s
  bool fast;
};

class Bench {
 public:
  Bench(const Options& options, ThreadPool& pool, const Buffer& memory)
      : o_(options), pool_(pool), memory_(memory), values_(256) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = std::sin(static_cast<float>(i));
  }

  Result run(const Form& form, int64_t tokens) {
    const int64_t bits = form.fast ? fast_bits(form.kind) : weight_bits(form.exact),
                  row_bytes = o_.k * bits / 8;
    // One token reads what no cache holds; a prompt multiplies what does not matter where it lies.
    const int64_t rows = (tokens > 8 ? 3072 : static_cast<int64_t>(memory_.size()) / row_bytes) / 64 * 64;
    x_.assign(static_cast<size_t>(o_.k * tokens), 0);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = std::sin(static_cast<float>(7 * i));
    out_.resize(static_cast<size_t>(rows * tokens));
    const double took =
        form.fast ? time_fast(form, tokens, rows, row_bytes) : time_exact(form, tokens, rows, row_bytes);
    const double count = static_cast<double>(rows * o_.k * tokens);
    const double bytes =
        static_cast<double>(rows * row_bytes + (form.block > 0 ? rows * o_.k / form.block * 4 : 0));
    return {fmt::format("{}{}", form.name, form.fast ? "" : " (fp32)"),
            tokens,
            count / bytes,
            1e-9 * count / took,
            1e-9 * bytes / took,
            form.fast};
  }

 private:
  double time_fast(const Form& form, int64_t tokens, int64_t rows, int64_t row_bytes) {
    const int bits = fast_bits(form.kind);
    std::vector<std::byte> table(static_cast<size_t>(std::max(fast_table_bytes(bits), kFastNumberBytes)));
    const bool is_table = fast_is_table(form.kind);
    is_table ? void(fast_table(values_.data(), bits, table.data())) : fast_numbers(true, table.data());
    std::vector<float> scales(static_cast<size_t>(form.block > 0 ? rows * o_.k / form.block : 1), 0.01f);
    std::vector<FastRow> all(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) {
      all[static_cast<size_t>(r)] = {.data = memory_.data() + r * row_bytes, .table = table.data()};
      if (form.kind == FastKind::number4) all[static_cast<size_t>(r)].offset = 8;  // they are signed
      if (form.block > 0) all[static_cast<size_t>(r)].block_scale = scales.data() + r * o_.k / form.block;
    }
    if (tokens <= kFastColumns) {
      const Buffer room(static_cast<uint64_t>(tokens * fast_column_bytes(o_.k)));
      FastColumn x[kFastColumns];
      for (int64_t t = 0; t < tokens; ++t)
        x[t] = fast_column(x_.data() + t * o_.k, o_.k, true, room.data() + t * fast_column_bytes(o_.k));
      return median(o_.seconds, [&] {
        pool_.parallel_for(rows / 64, 1, [&](int64_t begin, int64_t end) {
          for (int64_t u = begin; u < end; ++u) {
            float* out[kFastColumns];
            for (int64_t t = 0; t < tokens; ++t) out[t] = out_.data() + 64 * u + t * rows;
            fast_matvec(form.kind, form.block, false, all.data() + 64 * u, 64, o_.k, x, tokens, out);
          }
        });
      });
    }
    const Buffer room(static_cast<uint64_t>(fast_panels_bytes(o_.k, tokens)));
    const int64_t lanes = fast_panel_columns(), some = fast_gemm_rows();  // 3072 rows are a multiple
    return median(o_.seconds, [&] {
      fast_pack(x_.data(), tokens, o_.k, tokens, 0, (tokens + lanes - 1) / lanes, room.data());
      pool_.parallel_for(rows / some, 1, [&](int64_t begin, int64_t end) {
        const Buffer tile(static_cast<uint64_t>(fast_room_bytes(false, some, o_.k)));
        for (int64_t u = begin; u < end; ++u)
          fast_gemm(form.kind, form.block, false, all.data() + some * u, some, {o_.k, tokens, room.data()},
                    out_.data() + some * u * tokens, tokens, tile.data());
      });
    });
  }

  double time_exact(const Form& form, int64_t tokens, int64_t rows, int64_t row_bytes) {
    const std::byte* end = memory_.data() + memory_.size();
    std::vector<WeightRow> all(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r)
      all[static_cast<size_t>(r)] = {memory_.data() + r * row_bytes, values_.data()};
    if (tokens <= 8)
      return median(o_.seconds, [&] {
        pool_.parallel_for(rows / 64, 1, [&](int64_t begin, int64_t stop) {
          for (int64_t r = 64 * begin; r < 64 * stop; r += 64)
            for (int64_t t = 0; t < tokens; t += kMostVectors) {
              const int64_t some = std::min(kMostVectors, tokens - t);
              if (form.exact <= WeightKind::int8)
                matvec(form.exact, all[static_cast<size_t>(r)].data, 64, o_.k, x_.data() + t * o_.k, some,
                       out_.data() + t * rows + r, rows);
              else
                matvec(form.exact, all.data() + r, 64, end, o_.k, x_.data() + t * o_.k, some,
                       out_.data() + t * rows + r, rows);
            }
        });
      });
    std::vector<float> packed(static_cast<size_t>(packed_size(tokens, o_.k)));
    return median(o_.seconds, [&] {
      for (int64_t from = 0; from < o_.k; from += kGemmDepth)
        pack_columns({x_.data() + from * tokens, tokens, 1}, tokens, std::min(kGemmDepth, o_.k - from),
                     packed.data() + packed_size(tokens, from));
      pool_.parallel_for(rows / 24, 1, [&](int64_t begin, int64_t stop) {
        std::vector<float> tile(24 * kGemmDepth);
        for (int64_t r = 24 * begin; r < 24 * stop; r += 24)
          for (int64_t from = 0; from < o_.k; from += kGemmDepth) {
            const int64_t depth = std::min(kGemmDepth, o_.k - from);
            for (int64_t i = 0; i < 24; ++i) {
              const WeightRow& row = all[static_cast<size_t>(r + i)];
              widen(form.exact, {row.data + from * weight_bits(form.exact) / 8, row.beside}, end, depth,
                    tile.data() + i * depth);
            }
            gemm_packed(24, tokens, depth, tile.data(), depth, packed.data() + packed_size(tokens, from),
                        out_.data() + r * tokens, tokens, from > 0);
          }
      });
    });
  }

  const Options& o_;
  ThreadPool& pool_;
  const Buffer& memory_;
  std::vector<float> values_, x_, out_;
};

struct Roof {
  double read, floats, bytes;  // GB/s; 10^9 multiply-adds a second
};

// Log scales: multiply-adds per byte 0.4 … 1000 across, 10^9 a second 4 … 4000 upwards.
struct Plane {
  static constexpr double kWide = 860, kHigh = 520, kLeft = 60, kTop = 20, kRight = 20, kBottom = 50;
  static constexpr double kX0 = 0.4, kX1 = 1000, kY0 = 4, kY1 = 4000;
  static double x(double v) {
    return kLeft + (kWide - kLeft - kRight) * std::log(v / kX0) / std::log(kX1 / kX0);
  }
  static double y(double v) {
    return kHigh - kBottom - (kHigh - kTop - kBottom) * std::log(v / kY0) / std::log(kY1 / kY0);
  }
};

std::string text_at(double x, double y, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" {}>{}</text>\n", x, y, more, text);
}

std::string roof_line(const Roof& roof, double most, const char* name) {
  const double knee = most / roof.read;
  return fmt::format("<path class=\"roof\" d=\"M{:.0f} {:.0f}L{:.0f} {:.0f}L{:.0f} {:.0f}\"/>\n",
                     Plane::x(Plane::kX0), Plane::y(Plane::kX0 * roof.read), Plane::x(knee), Plane::y(most),
                     Plane::x(Plane::kX1), Plane::y(most)) +
         text_at(Plane::x(Plane::kX1), Plane::y(most) - 5, fmt::format("{}: {:.0f}", name, most),
                 "text-anchor=\"end\"");
}

std::string plot(const std::vector<Result>& results, const Roof& roof) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<style>.roof{{fill:none;stroke:#555;stroke-width:2}}"
      ".grid{{stroke:#ddd}}.fast{{fill:#0a6ebd}}.exact{{fill:#c05a00}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      Plane::kWide, Plane::kHigh);
  for (double v = 1; v <= 1000; v *= 10) {
    out += fmt::format("<line class=\"grid\" x1=\"{0:.0f}\" x2=\"{0:.0f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\"/>\n",
                       Plane::x(v), Plane::kTop, Plane::kHigh - Plane::kBottom);
    out += text_at(Plane::x(v), Plane::kHigh - Plane::kBottom + 18, fmt::format("{:.0f}", v),
                   "text-anchor=\"middle\"");
    if (v < 10) continue;
    out += fmt::format("<line class=\"grid\" x1=\"{1:.0f}\" x2=\"{2:.0f}\" y1=\"{0:.0f}\" y2=\"{0:.0f}\"/>\n",
                       Plane::y(v), Plane::kLeft, Plane::kWide - Plane::kRight);
    out += text_at(Plane::kLeft - 6, Plane::y(v) + 4, fmt::format("{:.0f}", v), "text-anchor=\"end\"");
  }
  out += text_at(Plane::kWide / 2, Plane::kHigh - 10, "multiply-adds per byte of weight",
                 "text-anchor=\"middle\"");
  out += text_at(Plane::kLeft + 4, Plane::kTop + 12, "10⁹ multiply-adds a second");
  out += roof_line(roof, roof.floats, "fp32") + roof_line(roof, roof.bytes, "8 bits");
  out += text_at(Plane::x(0.45), Plane::y(0.45 * roof.read) - 26,
                 fmt::format("reading: {:.0f} GB/s", roof.read));
  for (const Result& r : results)
    out += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}, {} tokens: {:.1f}</title>"
        "</circle>\n",
        r.fast ? "fast" : "exact", Plane::x(r.intensity), Plane::y(r.rate), r.name, r.tokens, r.rate);
  out += text_at(Plane::kLeft + 20, Plane::kTop + 40, "fast", "class=\"fast\"");
  out += text_at(Plane::kLeft + 20, Plane::kTop + 56, "fp32", "class=\"exact\"");
  return out + "</svg>\n";
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--avx2") {
      o.avx2 = true;
      continue;
    }
    if (flag == "--seconds") o.seconds = std::atof(value.c_str());
    if (flag == "--threads") o.threads = std::atoi(value.c_str());
    if (flag == "--k") o.k = std::atoi(value.c_str());
    if (flag == "--svg") o.svg = value;
    if (flag == "--level") o.level = value;
    ++i;
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
#if HWY_ARCH_X86
  if (o.avx2) hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
  if (!o.level.empty()) fast_choose_level(o.level);
#endif
  ThreadPool pool(o.threads);
  const Buffer memory(uint64_t{128} << 20);
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < memory.size() / 8; ++i)
    reinterpret_cast<uint64_t*>(memory.data())[i] = random() & 0x3b3b3b3b3b3b3b3bull;  // small in every type
  const Roof roof{read_rate(pool, memory, 3 * o.seconds), multiply_adds(pool, burners().floats, o.seconds),
                  multiply_adds(pool, burners().bytes, o.seconds)};
  fmt::print(
      "{} kernels, {} threads, k {}\nreading {:.1f} GB/s; multiply-adds: fp32 {:.0f}, 8 bits {:.0f} x "
      "10^9/s\n",
      fast_level_name(), pool.threads(), o.k, roof.read, roof.floats, roof.bytes);
  fmt::print(
      "| form | 1 token, GB/s | of reading | 8 tokens, 10^9/s | of the roof | 64 tokens, 10^9/s | of the "
      "roof |\n"
      "|---|---|---|---|---|---|---|\n");
  Bench bench(o, pool, memory);
  std::vector<Result> all;
  for (const Form& form : kForms) {
    std::string line = fmt::format("| {}{} |", form.name, form.fast ? "" : " (fp32)");
    for (const int64_t tokens : {1, 8, 64}) {
      const Result r = bench.run(form, tokens);
      const double most = std::min(form.fast ? roof.bytes : roof.floats, roof.read * r.intensity);
      line += tokens == 1 ? fmt::format(" {:.1f} | {:.0f}% |", r.bytes_rate, 100 * r.bytes_rate / roof.read)
                          : fmt::format(" {:.0f} | {:.0f}% |", r.rate, 100 * r.rate / most);
      all.push_back(r);
    }
    fmt::print("{}\n", line);
  }
  if (!o.svg.empty()) std::ofstream(o.svg) << plot(all, roof);
}
