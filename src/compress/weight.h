// Weight: a tensor of a program that can be compressed, and its values by ranges.
//     WeightValues values(weight);
//     const uint16_t* h = values.halves(begin, end, room);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "mil/stored.h"

namespace anemone {

struct Weight {
  std::string name;                // of the value in the program
  std::string input;               // the value that it is multiplied with: x of a conv or linear, else empty
  std::vector<std::string> kinds;  // of the operations that use it: "conv"
  Type type;                       // fp16 or fp32, fixed
  std::shared_ptr<const StoredTensor> stored;
  std::shared_ptr<const MappedFile> file;  // that a plain weight lies in: pages go back when they were read
  uint64_t stored_bytes = 0;               // as it is now, tables and scales included
  bool plain = false;                      // a constant as it is
  bool sparse = false;                     // stored with a mask
  int output_axis = 0, input_axis = 1;     // of the channels

  std::vector<int64_t> dims() const { return type.dims(); }
  bool half() const { return type.dtype == DType::fp16; }
  // [rows, columns], with ones behind: each row is multiplied with one vector of the input's channels.
  bool is_matrix() const {
    return output_axis == 0 && type.size() == type.dim(0).size() * type.dim(1).size();
  }
};

// The values of a weight, in place where they lie in memory as fp16. Safe from any thread.
class WeightValues {
 public:
  explicit WeightValues(const Weight& weight);

  bool half() const { return half_; }
  int64_t size() const { return size_; }
  // Only for fp16 weights.
  const uint16_t* halves(int64_t begin, int64_t end, std::vector<uint16_t>& room) const;
  const float* floats(int64_t begin, int64_t end, std::vector<float>& room) const;
  // Gives pages back to the system.
  void release(int64_t begin, int64_t end) const;

 private:
  std::shared_ptr<const StoredTensor> stored_;
  std::shared_ptr<const MappedFile> file_;
  const uint16_t* plain_ = nullptr;
  bool half_;
  int64_t size_;
};

// How a tensor falls into slices along one axis: [outer, slices, inner].
struct Axis {
  int64_t outer = 1, slices = 1, inner = 1;
};
Axis axis_of(const std::vector<int64_t>& dims, int axis);

}  // namespace anemone
