#include "compress/form.h"

#include <cmath>

#include "base/error.h"

namespace anemone {
namespace {

void check_palette(const PaletteForm& p) {
  const bool known = p.bits == 1 || p.bits == 2 || p.bits == 3 || p.bits == 4 || p.bits == 6 || p.bits == 8;
  if (!known) throw errorf("a palette cannot have {} bits", p.bits).expected("1, 2, 3, 4, 6 or 8");
  if (p.group < 0) throw errorf("a group has at least one channel").found(fmt::format("{}", p.group));
  if (p.vector < 1 || p.vector > 64)
    throw errorf("a vector of {} values is not possible", p.vector).expected("1 to 64; 2 and 4 are usual");
  if (p.vector > 1) {
    if (p.mode == PaletteForm::Mode::uniform)
      throw errorf("vectors have no uniform table").hint("use mode kmeans, or vector 1");
    if (p.mode == PaletteForm::Mode::unique)
      throw errorf("unique tables of vectors are not supported").hint("use mode kmeans, or vector 1");
    if (p.channel_scale)
      throw errorf("a scale per channel cannot be combined with vectors across channels")
          .hint("use one of --per-channel-scale and --vector");
    if (p.int8_table)
      throw errorf("int8 tables of vectors are not supported").hint("leave out --int8-lut, or use vector 1");
    if (p.group % p.vector != 0)
      throw errorf("vectors of {} channels do not fit groups of {}", p.vector, p.group)
          .hint(fmt::format("use groups of {}", (p.group / p.vector + 1) * p.vector));
  }
  if (p.mode == PaletteForm::Mode::given) {
    const auto need = (size_t{1} << p.bits) * static_cast<size_t>(p.vector);
    if (p.table.size() != need)
      throw errorf("the given table has {} values", p.table.size())
          .expected(fmt::format("{} for {} bits{}", need, p.bits,
                                p.vector > 1 ? fmt::format(" and vectors of {}", p.vector) : ""));
    for (const float v : p.table)
      if (!std::isfinite(v)) throw errorf("the given table has a value that is not finite");
    if (p.int8_table || p.channel_scale)
      throw errorf("a given table is stored as it is").hint("leave out --int8-lut and --per-channel-scale");
  }
}

void check_integers(const IntegerForm& q) {
  if (q.dtype != DType::int8 && q.dtype != DType::uint8 && q.dtype != DType::int4 && q.dtype != DType::uint4)
    throw errorf("weights cannot be quantized to {}", dtype_name(q.dtype))
        .expected("int8, uint8, int4 or uint4");
  if (q.per == IntegerForm::Per::block && q.block < 1)
    throw errorf("a block has at least one channel").found(fmt::format("{}", q.block));
}

void check_prune(const PruneForm& p) {
  const int ways = (p.sparsity ? 1 : 0) + (p.threshold ? 1 : 0) + (p.m != 0 || p.n != 0 ? 1 : 0);
  if (ways != 1)
    throw errorf("pruning takes one of a sparsity, a threshold and n:m")
        .found(fmt::format("{} of them", ways));
  if (p.sparsity && !(*p.sparsity >= 0 && *p.sparsity < 1))
    throw errorf("the sparsity is a share of the values")
        .found(fmt::format("{}", *p.sparsity))
        .expected("0 to below 1, such as 0.4");
  if (p.threshold && !(*p.threshold >= 0 && std::isfinite(*p.threshold)))
    throw errorf("the threshold is a magnitude").found(fmt::format("{}", *p.threshold));
  if (ways == 1 && (p.m || p.n) && (p.n < 1 || p.m <= p.n || p.m > 4096))
    throw errorf("{}:{} is not possible", p.n, p.m).expected("n below m, such as 2:4");
}

}  // namespace

std::string StorageForm::text() const {
  if (keep) return "kept";
  std::string out;
  if (palette) {
    const PaletteForm& p = *palette;
    out = fmt::format("{}-bit palette", p.bits);
    if (p.mode == PaletteForm::Mode::uniform) out += ", uniform";
    if (p.mode == PaletteForm::Mode::unique) out += ", unique";
    if (p.mode == PaletteForm::Mode::given) out += ", given";
    if (p.vector > 1) out += fmt::format(", vectors of {}", p.vector);
    if (p.group) out += fmt::format(", groups of {}", p.group);
    if (p.channel_scale) out += ", channel scales";
    if (p.int8_table) out += ", int8 tables";
  } else if (integers) {
    const IntegerForm& q = *integers;
    out = std::string(dtype_name(q.dtype));
    if (q.per == IntegerForm::Per::tensor) out += " per tensor";
    if (q.per == IntegerForm::Per::channel) out += " per channel";
    if (q.per == IntegerForm::Per::block) out += fmt::format(" per block of {}", q.block);
    if (!q.symmetric) out += ", asymmetric";
  } else if (!prune) {
    return "dense";
  }
  if (prune) {
    if (prune->sparsity)
      out += fmt::format("{}{:.0f}% pruned", out.empty() ? "" : ", ", *prune->sparsity * 100);
    else if (prune->threshold)
      out += fmt::format("{}pruned to {}", out.empty() ? "" : ", ", *prune->threshold);
    else
      out += fmt::format("{}pruned {}:{}", out.empty() ? "" : ", ", prune->n, prune->m);
  }
  return out;
}

void check_form(const StorageForm& form) {
  if (form.keep || form.dense) {
    if (form.palette || form.integers || form.prune)
      throw errorf("a weight cannot be both dense and compressed")
          .hint("leave out --decompress, or use it alone");
    return;
  }
  if (form.palette && form.integers)
    throw errorf("a palette and integers cannot be combined")
        .hint("use --int8-lut for a palette whose table is quantized");
  if (!form.palette && !form.integers && !form.prune)
    throw errorf("there is nothing to do")
        .hint("give one of --palettize, --quantize, --prune, --decompress, --search, --recipe");
  if (form.palette && form.palette->vector > 1 && form.prune)
    throw errorf("a palette of vectors has no sparse form: a vector could only be kept or dropped as a whole")
        .hint("use --prune with --palettize and no --vector, or --vector alone");
  if (form.palette) check_palette(*form.palette);
  if (form.integers) check_integers(*form.integers);
  if (form.prune) check_prune(*form.prune);
}

void check_opset(const StorageForm& form, Opset opset) {
  if (form.keep || form.dense || opset >= Opset::ios18) return;
  const std::string systems(opset_info(opset).systems);
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    throw errorf("{} needs a program for iOS 18 or macOS 15", what)
        .found(systems)
        .hint(fmt::format("convert the model again for iOS 18, or use {}", instead));
  };
  if (opset < Opset::ios16)
    throw errorf("compressed weights need a program for iOS 16 or macOS 13")
        .found(systems)
        .hint("convert the model again for iOS 16 or later");
  if (form.palette) {
    const PaletteForm& p = *form.palette;
    if (form.prune) refuse("a pruned palette", "--palettize without --prune");
    if (p.bits == 3) refuse("a 3-bit palette", "2 or 4 bits");
    if (p.group) refuse("a table per group of channels", "--palettize without --group");
    if (p.vector > 1) refuse("a table of vectors", "--palettize without --vector");
    if (p.channel_scale) refuse("a palette with channel scales", "--palettize without --per-channel-scale");
    if (p.int8_table) refuse("an int8 table", "--palettize without --int8-lut");
  }
  if (form.integers) {
    const IntegerForm& q = *form.integers;
    if (form.prune) refuse("a pruned and quantized weight", "one of --prune and --quantize");
    if (dtype_bits(q.dtype) == 4)
      refuse(fmt::format("{} weights", dtype_name(q.dtype)), "int8, or --palettize 4");
    if (q.per == IntegerForm::Per::block) refuse("a scale per block", "a scale per channel");
  }
}

}  // namespace anemone
