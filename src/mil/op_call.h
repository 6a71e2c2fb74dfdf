// OpCall: an operation with its inputs bound to the parameters of its version, as a type rule and a kernel see it.
//     const OpBinding b = OpBinding::bind(operation, opset);   // checked: names, kinds, element types
//     OpCall c(b, data);
//     c.type("x"), c.integers("axes"), c.floats("x");
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "mil/op_params.h"
#include "mil/program.h"
#include "mil/stored.h"

namespace anemone {

struct Op;
class ThreadPool;

// A list at run time. Elements of one list may differ in shape.
struct TensorList {
  struct Item {
    std::vector<int64_t> dims;
    std::vector<uint32_t> data;  // 4-byte elements
  };
  DType dtype = DType::none;
  std::vector<Item> items;
};

// One bound input of a call.
struct Operand {
  Type type;
  const Constant* constant = nullptr;          // when it is part of the program
  std::shared_ptr<const StoredTensor> stored;  // when it is a weight that the kernel reads in tiles
};

// An operation with its inputs bound to the parameters of its version.
struct OpBinding {
  struct Range {
    uint16_t begin = 0, count = 0;
  };

  const Op* op = nullptr;
  const OpVersion* version = nullptr;
  const Operation* operation = nullptr;
  std::vector<Range> ranges;  // of `operands`, by parameter
  std::vector<Operand> operands;
  std::vector<const Binding*> sources;  // what each operand came from; empty for attributes

  // Binds and checks: known op, known parameters, required ones present, kinds and element types, groups. The
  // types are those of the bound values, or what `type_of` says.
  static OpBinding bind(const Operation& operation, Opset opset);
  template <class TypeOf>
  static OpBinding bind(const Operation& operation, Opset opset, TypeOf type_of) {
    OpBinding b = bind_names(operation, opset);
    for (size_t i = 0; i < b.operands.size(); ++i)
      if (b.sources[i] && b.sources[i]->value) b.operands[i].type = type_of(b.sources[i]->value);
    b.check_types();
    return b;
  }

 private:
  static OpBinding bind_names(const Operation& operation, Opset opset);
  void check_types() const;
};

// A weight or a computed value, read in pieces as floats.
class Tiles {
 public:
  Tiles(const StoredTensor* stored, const void* dense)
      : stored_(stored), dense_(static_cast<const float*>(dense)) {}
  // The elements [begin, end); decoded into `scratch` (grown as needed) unless they lie in memory already.
  const float* floats(int64_t begin, int64_t end, std::vector<float>& scratch) const;
  const StoredTensor* stored() const { return stored_; }
  const float* dense() const { return dense_; }

 private:
  const StoredTensor* stored_;
  const float* dense_;
};

// What a type rule and a kernel see: the bound inputs, by name, and at run time the outputs.
class OpCall {
 public:
  // For a type rule. data[i]: the elements of operand i where they are known, else empty.
  OpCall(const OpBinding& binding, std::span<const void* const> data) : b_(binding), data_(data) {}
  // For a kernel.
  OpCall(const OpBinding& binding, std::span<const void* const> data, std::span<const Type> out_types,
         std::span<void* const> out, ThreadPool& pool)
      : b_(binding), data_(data), out_types_(out_types), out_(out), pool_(&pool) {}

  const Operation& operation() const { return *b_.operation; }
  Opset since() const { return b_.version->since; }  // of the definition in use

  bool has(std::string_view param) const { return count(param) > 0; }
  int count(std::string_view param) const;
  const Type& type(std::string_view param, int i = 0) const;
  // The elements are there: always at run time; in a type rule only for constants and what follows from them.
  bool known(std::string_view param, int i = 0) const;

  // Small parameters; the schema's default when left out. Error when the value is not known.
  int64_t integer(std::string_view param) const;
  double number(std::string_view param) const;
  bool flag(std::string_view param) const;
  std::string_view text(std::string_view param) const;
  std::vector<int64_t> integers(std::string_view param, int i = 0) const;
  std::vector<double> numbers(std::string_view param) const;
  std::vector<bool> flags(std::string_view param) const;
  // The same for parameters whose default depends on the rank: n times `fallback`.
  std::vector<int64_t> integers_or(std::string_view param, size_t n, int64_t fallback) const;
  std::vector<bool> flags_or(std::string_view param, size_t n, bool fallback) const;

  // Inputs as elements, at run time (or in a type rule where known()).
  const void* data(std::string_view param, int i = 0) const;
  const float* floats(std::string_view param, int i = 0) const;
  const int32_t* ints(std::string_view param, int i = 0) const;
  Tiles tiles(std::string_view param, int i = 0) const;
  const TensorList* list(std::string_view param) const;  // empty when not known
  const Constant* constant(std::string_view param) const;
  const std::shared_ptr<const StoredTensor>& stored(std::string_view param) const;

  // Outputs, at run time.
  int outputs() const { return static_cast<int>(out_.size()); }
  const Type& out_type(int i = 0) const { return out_types_[static_cast<size_t>(i)]; }
  void* out(int i = 0) const { return out_[static_cast<size_t>(i)]; }
  float* out_floats(int i = 0) const { return static_cast<float*>(out(i)); }
  int32_t* out_ints(int i = 0) const { return static_cast<int32_t*>(out(i)); }
  TensorList& out_list(int i = 0) const { return *static_cast<TensorList*>(out(i)); }
  ThreadPool& pool() const { return *pool_; }

 private:
  int index(std::string_view param) const;
  int operand(std::string_view param, int i) const;  // -1 when absent
  int require(std::string_view param, int i) const;
  const Default& fallback(std::string_view param) const;

  const OpBinding& b_;
  std::span<const void* const> data_;
  std::span<const Type> out_types_;
  std::span<void* const> out_;
  ThreadPool* pool_ = nullptr;
};

}  // namespace anemone
