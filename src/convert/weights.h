// Weights of a checkpoint as the lowering wants them: decoded by rows while the package is written, as fp16
// or as int8 with one scale per output channel or per tensor. Nothing is held in memory but the scales.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "compress/form.h"
#include "convert/kept_blocks.h"
#include "lower/weights.h"
#include "mil/constant.h"

namespace anemone {

// How matrices are stored straight from the checkpoint; a recipe makes other forms of these.
enum class Precision { fp16, int8, int8_tensor };
StorageForm storage_form(Precision precision);

class CheckpointWeights : public lower::Weights {
 public:
  // The checkpoint must outlive what the sources produce.
  CheckpointWeights(const Checkpoint& checkpoint, Precision precision)
      : checkpoint_(checkpoint), precision_(precision) {}

  // Blocks of codes that the checkpoint holds are written as they are (kept_blocks.h); other matrices are not.
  bool keep_blocks = false;
  int64_t kept = 0;  // matrices that were

  // Called with the bytes of each part that was made, from any thread; what it throws ends the conversion.
  std::function<void(uint64_t bytes)> on_part;

  Value* projection(Builder& b, const WeightRef& ref, double factor, std::string_view name) override;
  Value* vector(Builder& b, const WeightRef& ref, Shape shape, double offset, double factor,
                std::string_view name) override;

 private:
  using Key = std::pair<WeightRef, double>;

  struct Stored {
    Constant::Source data, scale;  // scale: int8 only
  };

  // The same weight in several functions is one source, and so one blob.
  const Stored& stored(const WeightRef& ref, double factor);

  // nullptr where the blocks of the checkpoint cannot be kept.
  Value* kept_projection(Builder& b, const WeightRef& ref, double factor, std::string_view name);

  const Checkpoint& checkpoint_;
  Precision precision_;
  std::map<Key, Stored> stored_;
  std::map<Key, std::optional<KeptBlocks>> kept_;
};

}  // namespace anemone
