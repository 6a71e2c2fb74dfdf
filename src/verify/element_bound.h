// ElementBound: what a storage form says about single elements: how far one may be from its source (half rounds,
// integers stay within a step, a palette holds the nearest entry), and what number it is exactly.
//     ElementBound bound(*stored, "int8");
//     ElementBound::Row row = bound.row(r);
//     if (std::abs(have - want) > row.limit(column, want, have)) …
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mil/stored.h"

namespace anemone {

class ElementBound {
 public:
  // `form`: storage_text of the weight. Rows are those of the tensor's first dimension.
  ElementBound(const StoredTensor& stored, const std::string& form);
  // Rows that a host reads by itself: fp16, or int8 with a scale a row that fits its largest number.
  static ElementBound of_table(bool int8);

  // The entries of all palettes of the tensor; 0: it has none, or so many that one palette is a small part of it.
  size_t entry_slots() const;
  // Where those of a row's palette begin among them.
  size_t first_slot(int64_t row) const { return static_cast<size_t>(palette_of(row)) * palette_entries(); }

  // False: the form says nothing about single elements (pruned, palettes of vectors, …).
  bool known() const { return kind_ != Kind::none; }

  // Of integers: how many scales there are, which one an element has, where its elements begin, and how large its steps
  // may be if `largest` is the largest magnitude that it stands for.
  size_t scales() const;
  size_t scale_of(int64_t row, int64_t column) const;
  int64_t columns_of_scale() const;
  int64_t first_row(size_t scale) const;
  int64_t first_column(size_t scale) const;
  double step(size_t scale) const;
  double coarsest_step(double largest) const;
  // Of palettes: which one a row has; 0 for all rows of other forms.
  int64_t palette_of(int64_t row) const;
  int64_t rows_of_palette() const;
  size_t palette_entries() const;  // 0: no palette

  // Elements are products with a scale, and read rounded to half.
  bool scaled() const { return (kind_ == Kind::integer || kind_ == Kind::palette) && layout_.scale; }

  // One row. Make one per thread.
  class Row {
   public:
    // The largest difference that rounding explains, of a source `want` that was stored as `have`. `weighed`: where
    // whoever rounded made up for the errors of other columns, and took a near number instead of the nearest.
    double limit(int64_t column, double want, double have, bool weighed = false) const;
    // How large a step is of an integer that was not cut off; 0 for others.
    double step(int64_t column, double want, double have) const;
    // Which entry of its palette an element is.
    size_t entry(int64_t column, double have) const;
    // Makes of a row that was read what is stored, before it was rounded to half as the declared type says: engines
    // that scale a sum compute with that.
    void undo_rounding(std::span<float> values) const;

   private:
    friend class ElementBound;
    double scale(int64_t column) const;
    double offset(int64_t column) const;
    // Whether an integer is the last one on the side on which its source lies.
    bool cut(double code, double want, double have, double scale) const;
    // Which entry of a palette is next to a number.
    size_t nearest(double target) const;

    const ElementBound* bound_ = nullptr;
    FloatView scales_;
    const float* offsets_ = nullptr;
    double scale_ = 1;             // with neither: of the whole row
    std::vector<double> entries_;  // of a palette, ascending
  };
  Row row(int64_t row) const;
  // The same for a row that a host reads, from its largest magnitude in the source.
  Row table_row(double largest) const;

 private:
  enum class Kind { none, half, kept, integer, palette };

  ElementBound() = default;
  int64_t scale_row(int64_t row) const;
  int64_t blocks() const;  // scales of one row

  Kind kind_ = Kind::none;
  StoredTensor::Layout layout_;
  int64_t rows_ = 1, columns_ = 1;
  int bits_ = 0;
  double lowest_ = 0, highest_ = 0;  // of an integer, where converters cut off what is far out
};

}  // namespace anemone
