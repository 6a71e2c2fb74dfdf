// Precisions: the forms that a plan offers for a model's matrices, by name, and what each costs a chip.
//     StorageForm p = parse_precision("lut4-g16");            // 4-bit palettes, one per 16 rows
//     stored_bytes(p, 4096, 1024);                            // of a matrix with its tables: compress/form_bytes.h
//     file_bytes(p, 4096, 1024);                              // in weight.bin, with its records
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "compress/form_bytes.h"
#include "families/weight_ref.h"
#include "target/chips.h"

namespace anemone {

// "fp16", "int8" (a scale per row), "int8-tensor", "lut8", "lut6", "lut4", "lut2", "lut4-g16"; Error otherwise.
StorageForm parse_precision(std::string_view text);
// The same of a form, and for people of one that has no such name.
std::string precision_name(const StorageForm& form);
// What a plan compares, largest first.
std::span<const StorageForm> all_precisions();

// How `convert` stores a matrix of a model in that precision: some matrices stay fp16 in int8 models, and of the forms
// that compression makes, small matrices do.
StorageForm form_of(const StorageForm& precision, const WeightRef& ref);

// A matrix as it lies in a weight file: every part behind a record of 64 bytes, at multiples of 64.
uint64_t file_bytes(const StorageForm& form, int64_t rows, int64_t columns);
// Of a vector of halves in a weight file; 0 where it stays in the program (fewer than 10 elements).
uint64_t vector_file_bytes(int64_t elements);
// What a chip reads per token: forms that it does not stream are unfolded to fp16 when compiled.
uint64_t read_bytes(const StorageForm& form, int64_t rows, int64_t columns, const Chip& chip);
// Share of the weight-read rate that the form reaches.
double read_efficiency(const StorageForm& form);
// Bits of a stored value, tables and scales left out.
int bits_of(const StorageForm& form);

}  // namespace anemone
