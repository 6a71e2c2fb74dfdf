// Constant: a value that is part of a program: a few bytes in place, a blob of a weight file, or a source
// that will produce one when the package is written.
//     Constant axes = Constant::ints({2, 3});
//     Constant w = Constant::from_blob(type, blob);      // opened lazily: nothing is read yet
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "mil/type.h"

namespace anemone {

class ThreadPool;

// Bytes of a weight file, as a Value names them. `file` is empty when the weights were not found (a program
// read without its weights): asking for the bytes is then an Error.
struct Blob {
  std::string file_name;       // as written: "@model_path/weights/weight.bin"
  uint64_t record_offset = 0;  // of the 64-byte record in front of the data
  uint64_t data_offset = 0;
  uint64_t data_bytes = 0;
  std::shared_ptr<const MappedFile> file;

  std::span<const std::byte> bytes() const;
};

// Something that produces a constant while a package is written: decode → quantise → pack is a chain of
// these. `prepare` is the first pass where one is needed (absmax, histogram, count) and fixes the type;
// `rows` then gives ranges of rows (of the first dimension) whose ends are multiples of 8 or the last row,
// from any thread. A `late` source gets its values from what other sources compute in `rows` (scales, found
// while the integers are made): the writer calls it after all others.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const Type& type() const = 0;
  virtual void prepare(ThreadPool&) {}
  virtual bool late() const { return false; }
  // `rows` takes ranges whose ends are multiples of this. Rows of whole bytes can be asked for one by one, so that
  // reading a range before the package is written (stored_constant) makes no more than it needs.
  virtual int64_t row_step() const { return 8; }
  virtual void rows(int64_t begin, int64_t end, std::span<std::byte> out) const = 0;
};

class Constant {
 public:
  using Bytes = std::vector<std::byte>;  // little-endian, row-major; sub-byte types packed, element 0 lowest
  using Strings = std::vector<std::string>;
  using Items = std::vector<Constant>;  // of a tuple or list; of a dict: key, value, key, value …
  using Source = std::shared_ptr<WeightSource>;

  Type type;
  std::variant<Bytes, Strings, Blob, Source, Items> data;
  std::string extra;  // fields of the file that we do not know, kept for writing back

  static Constant integer(int32_t value);                 // rank 0
  static Constant ints(std::span<const int64_t> values);  // int32 vector
  static Constant ints(std::initializer_list<int64_t> values) {
    return ints(std::span(values.begin(), values.size()));
  }
  static Constant boolean(bool value);
  static Constant booleans(std::span<const bool> values);
  static Constant text(std::string value);
  static Constant number(float value, DType dtype);  // rank 0, fp16 or fp32
  static Constant numbers(std::span<const float> values, DType dtype, Shape shape);
  static Constant from_bytes(Type type, Bytes bytes);
  static Constant from_blob(Type type, Blob blob);
  static Constant from_source(Source source);

  bool is_blob() const { return std::holds_alternative<Blob>(data); }
  bool is_strings() const { return std::holds_alternative<Strings>(data); }
  // The stored bytes, wherever they are; Error for strings, tuples, sources and weights that are not there.
  std::span<const std::byte> bytes() const;
  // Checks that the stored size is what the type needs.
  void check_size() const;
};

}  // namespace anemone
