#include "compress/encoded.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "compress/hessian.h"

namespace anemone {
namespace {

// "1, 2, 4, 8": the divisors of a number, the largest first, a few of them.
std::string divisors(int64_t n) {
  std::string out;
  int found = 0;
  for (int64_t d = std::min<int64_t>(n, 128); d > 0 && found < 6; --d)
    if (n % d == 0) out += fmt::format("{}{}", found++ ? ", " : "", d);
  return out;
}

void check_shape(const Weight& weight, const StorageForm& form) {
  const std::vector<int64_t> dims = weight.dims();
  const int64_t out = dims[static_cast<size_t>(weight.output_axis)],
                in = dims[static_cast<size_t>(weight.input_axis)];
  if (form.palette) {
    const PaletteForm& p = *form.palette;
    if (p.group && out % p.group != 0)
      throw errorf("groups of {} do not divide the {} output channels of '{}'", p.group, out, weight.name)
          .expected(fmt::format("one of {}", divisors(out)))
          .hint(fmt::format("use --group {}, or leave it out with --skip {}",
                            divisors(out).substr(0, divisors(out).find(',')), weight.name));
    if (p.vector > 1 && out % p.vector != 0)
      throw errorf("vectors of {} do not divide the {} output channels of '{}'", p.vector, out, weight.name)
          .expected(fmt::format("one of {}", divisors(out)));
  }
  if (form.integers && form.integers->per == IntegerForm::Per::block && in % form.integers->block != 0)
    throw errorf("blocks of {} do not divide the {} input channels of '{}'", form.integers->block, in,
                 weight.name)
        .expected(fmt::format("one of {}", divisors(in)))
        .hint(fmt::format("leave it out with --skip {}, or give it a rule of its own in a recipe",
                          weight.name));
}

// Without a Hessian's codes: tables or scales, weighted by the columns' importance, and the nearest codes.
std::shared_ptr<Encoded> fitted(const Weight& weight, const StorageForm& form,
                                std::shared_ptr<const Mask> mask, ThreadPool& pool,
                                std::span<const float> importance) {
  auto e = std::make_shared<Encoded>();
  e->form = form;
  e->dims = weight.dims();
  e->dtype = weight.type.dtype;
  e->mask = std::move(mask);
  if (form.palette && form.palette->vector > 1) {
    encode_vectors(*e, weight, *form.palette, pool);
  } else if (form.palette) {
    if (!encode_palette(*e, weight, *form.palette, pool, importance)) return nullptr;
  } else if (form.integers) {
    encode_integers(*e, weight, *form.integers, pool, importance);
  } else {
    e->values = std::make_shared<const WeightValues>(weight);
  }
  return e;
}

}  // namespace

std::shared_ptr<const Encoded> encode(const Weight& weight, const StorageForm& form, ThreadPool& pool,
                                      const Hessian* hessian) {
  check_shape(weight, form);
  std::shared_ptr<const Mask> mask;
  if (form.prune) mask = prune(weight, *form.prune, pool);
  // What was pruned before stays so.
  else if (weight.sparse && !form.dense && !form.keep)
    mask = mask_of(weight, pool);
  std::shared_ptr<const Encoded> best = fitted(weight, form, mask, pool, {});
  if (!hessian || !best || !best->nearest) return best;
  double least = cost_of(*best, weight, *hessian, pool);
  const std::vector<float> importance = hessian->diagonal();
  const auto attempt = [&](std::shared_ptr<Encoded> e) {
    e->calibrated = true;
    const double cost = cost_of(*e, weight, *hessian, pool);
    if (cost < least) least = cost, best = std::move(e);
  };
  const std::shared_ptr<Encoded> weighted = fitted(weight, form, mask, pool, importance);
  attempt(weighted);
  auto compensated = std::make_shared<Encoded>(*weighted);
  compensate(*compensated, weight, *hessian, pool);
  attempt(compensated);
  return best;
}

void pack_codes(const uint8_t* codes, int64_t count, int bits, std::byte* out) {
  if (bits == 8) {
    std::memcpy(out, codes, static_cast<size_t>(count));
    return;
  }
  if (bits == 4) {
    for (int64_t i = 0; i < count / 2; ++i)
      out[i] = static_cast<std::byte>((codes[2 * i] & 15) | codes[2 * i + 1] << 4);
    if (count % 2) out[count / 2] = static_cast<std::byte>(codes[count - 1] & 15);
    return;
  }
  // Eight codes fill `bits` whole bytes.
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (int64_t i = 0; i < count; i += 8) {
    const int64_t n = std::min<int64_t>(8, count - i);
    uint64_t word = 0;
    for (int64_t k = 0; k < n; ++k) word |= (codes[i + k] & mask) << (k * bits);
    const int64_t bytes = (n * bits + 7) / 8;
    for (int64_t b = 0; b < bytes; ++b) *out++ = static_cast<std::byte>(word >> (8 * b));
  }
}

}  // namespace anemone
