// Encoded: a weight in its new form. The tables and scales are there; codes and masks are made by rows while
// the package is written, so that nothing as large as the weight is ever held.
//     Sources sources(encode(weight, form, pool));       // compress/sources.h
//     Value* v = build_encoded(builder, sources, "w");   // compress/build.h
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compress/form.h"
#include "compress/weight.h"

namespace anemone {

class Hessian;
class ThreadPool;

// One byte for each element of the rows [begin, end) of the first dimension. Safe from any thread.
using RowCodes = std::function<void(int64_t begin, int64_t end, uint8_t* out)>;

// Which elements a pruned weight keeps.
struct Mask {
  RowCodes rows;                // 1: kept
  std::vector<int64_t> before;  // kept elements before each row, and in all
  int64_t kept() const { return before.back(); }
};

struct Encoded {
  StorageForm form;
  std::vector<int64_t> dims;       // of the weight
  DType dtype = DType::fp16;       // of its values
  std::vector<int64_t> code_dims;  // as `dims`, but for vectors
  DType code_dtype = DType::none;
  RowCodes codes;
  // Of matrices: the code nearest to a value at a place, and what it stands for.
  std::function<float(int64_t row, int64_t column, float value, uint8_t& code)> nearest;
  std::function<float(int64_t row, int64_t column, uint8_t code)>
      value;                                   // of matrices: what a code stands for
  bool calibrated = false;                     // tables or codes come from the activations
  std::shared_ptr<const Mask> mask;            // pruned weights
  std::shared_ptr<const WeightValues> values;  // of dense and merely pruned weights

  // Palettes: tables one after the other, shaped by table_dims (rank + 2).
  std::vector<float> tables;
  std::vector<int8_t> int8_tables;  // instead of `tables`, with `scales` of the shape scale_dims
  std::vector<int64_t> table_dims;
  int vector_axis = -1;
  // Integers, and tables that are scaled.
  std::vector<float> scales;
  std::vector<int32_t> offsets;  // empty: none
  std::vector<int64_t> scale_dims;
};

// Fits tables or scales in a first pass over the weight. Error, saying what would work, where the form does
// not fit the weight's shape. Empty when a palette of mode unique has too few entries for the weight.
// With the squares of a matrix's inputs, `hessian` (factored), tables are fitted to what the outputs lose, and
// codes are chosen so that later ones make up for the errors of earlier ones; of this, the fitted tables alone,
// and the plain form, the one with the least error on the tokens that the Hessian held out is kept.
std::shared_ptr<const Encoded> encode(const Weight& weight, const StorageForm& form, ThreadPool& pool,
                                      const Hessian* hessian = nullptr);

// Parts of encode(), a file each.
std::shared_ptr<const Mask> prune(const Weight& weight, const PruneForm& form, ThreadPool& pool);
// The mask of a weight that is stored sparse: what is not zero.
std::shared_ptr<const Mask> mask_of(const Weight& weight, ThreadPool& pool);
// importance: of each column's errors; empty: all alike.
bool encode_palette(Encoded& e, const Weight& weight, const PaletteForm& form, ThreadPool& pool,
                    std::span<const float> importance);
// The error of the outputs on the tokens that the Hessian held out; in a large matrix, some rows stand for all.
double cost_of(const Encoded& e, const Weight& weight, const Hessian& hessian, ThreadPool& pool);
// Replaces the codes by error-compensated ones.
void compensate(Encoded& e, const Weight& weight, const Hessian& hessian, ThreadPool& pool);
void encode_vectors(Encoded& e, const Weight& weight, const PaletteForm& form, ThreadPool& pool);
void encode_integers(Encoded& e, const Weight& weight, const IntegerForm& form, ThreadPool& pool,
                     std::span<const float> importance);

// Codes of `bits` each, packed, element 0 in the lowest bits of the first byte.
void pack_codes(const uint8_t* codes, int64_t count, int bits, std::byte* out);

}  // namespace anemone
