// Op: everything about one operation of MIL in one place: its parameters per opset, its type rule, its plain
// kernel. A file in mil/ops/ holds one op or a tight family and exports them under the file's name; CMake
// makes the table:
//
//     const Op kOps[] = {{
//         .name = "silu",
//         .versions = {{Opset::ios15, {{"x", kFloat, 'T'}}}},
//         .doc = "x * sigmoid(x), element by element",
//         .infer = [](const OpCall& c) -> Types { return {c.type("x")}; },
//         .run = [](const OpCall& c) { map_float(c, "x", [](float x) { return x / (1 + std::exp(-x)); }); },
//     }};
//     std::span<const Op> ops_silu() { return kOps; }
//
// Values at run time are dense, row-major, 4 bytes an element: float for every floating type, int32 for
// integers and bool. What a declared fp16 means is decided by the engine (it rounds after the op, or does
// not), not by the kernel.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mil/program.h"
#include "mil/stored.h"

namespace anemone {

class OpCall;
class ThreadPool;
using Types = std::vector<Type>;

// A set of element types.
using DTypes = uint32_t;
constexpr DTypes only(DType dtype) { return DTypes{1} << static_cast<int>(dtype); }
inline constexpr DTypes kAnyDType = ~DTypes{0};
inline constexpr DTypes kInt32 = only(DType::int32);
inline constexpr DTypes kBool = only(DType::boolean);
inline constexpr DTypes kString = only(DType::string);
inline constexpr DTypes kFp32 = only(DType::fp32);
inline constexpr DTypes kFloat = only(DType::fp16) | kFp32;
inline constexpr DTypes kInt8 = only(DType::int8) | only(DType::uint8);  // the two bytes
inline constexpr DTypes kInt16 = only(DType::int16) | only(DType::uint16);
inline constexpr DTypes kNumber = kFloat | kInt32;
inline constexpr DTypes kNumberOrBool = kNumber | kBool;
inline constexpr DTypes kWide = kNumber | kInt8 | kInt16;  // what iOS 17 data movement takes
inline constexpr DTypes kWideOrBool = kWide | kBool;
inline constexpr DTypes kIndex = kInt32 | kInt8 | kInt16;

enum ParamFlags : uint8_t {
  kOptional = 1,
  kConst = 2,     // must be known when the program is compiled
  kMany = 4,      // several bindings: concat.values
  kList = 8,      // a list value
  kState = 16,    // a state
  kAnyKind = 32,  // any kind of value
  kStored = 64,   // the kernel reads it through OpCall::tiles, so that a weight stays as it is stored
};

// What a parameter that is left out stands for; none where the op says it in its rule.
using Default = std::variant<std::monostate, bool, int64_t, double, const char*>;

struct Param {
  std::string_view name;
  DTypes types = kAnyDType;
  char group = 0;  // parameters of one group have one element type; 0: stands alone
  int flags = 0;
  Default fallback = {};
};

struct OpVersion {
  Opset since;
  std::vector<Param> params;
};

struct Op {
  std::string_view name;
  std::vector<OpVersion> versions;  // oldest first; each holds until the next
  std::string_view doc;
  // The types of the outputs. Dimensions that depend on values not known yet are unknown; at run time, when
  // the values are there, the same rule gives them as numbers.
  Types (*infer)(const OpCall&) = nullptr;
  // The plain kernel; empty for what the engine does itself (const, constexpr, control flow, state).
  void (*run)(const OpCall&) = nullptr;
  // constexpr ops: output `index` as a stored tensor over the inputs'.
  std::shared_ptr<const StoredTensor> (*store)(const OpCall&, int index) = nullptr;
  bool random = false;            // gives another result each time: never folded
  bool value_from_type = false;   // the result follows from the input's type alone: shape
  std::string_view view_of = {};  // the output is this input's elements in another shape: no copy is needed
  // Where `view_of` holds for some calls only: the place of the first element, when the output's elements lie
  // one after the other in the input.
  std::optional<int64_t> (*view_at)(const OpCall&) = nullptr;

  // The definition that holds in that opset; empty when the op came later.
  const OpVersion* version(Opset opset) const;
};

// The op of that name, or empty. `all_ops` is sorted by name.
const Op* find_op(std::string_view name);
std::span<const Op* const> all_ops();

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

// The element types of a set, for messages: "fp16, fp32".
std::string dtypes_text(DTypes types);

}  // namespace anemone
