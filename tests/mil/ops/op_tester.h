// OpTester: builds one operation, infers its types and runs its plain kernel, without an engine.
//     auto out = OpTester("add").in("x", {2}, {1, 2}).in("y", {2}, {10, 20}).run();
//     CHECK(out[0].floats == std::vector<float>{11, 22});
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "anemone/error.h"
#include "base/thread_pool.h"
#include "mil/op.h"
#include "mil/program.h"

namespace anemone {

class OpTester {
 public:
  struct Result {
    Type type;
    std::vector<float> floats;  // of a floating type
    std::vector<int32_t> ints;  // of the others
    TensorList list;            // of a list
  };

  explicit OpTester(std::string op, Opset opset = Opset::ios18);

  // A tensor computed at run time: its elements are not known to the type rule of `infer`, but to that of
  // `run`.
  OpTester& in(const std::string& param, std::vector<int64_t> dims, std::vector<float> values,
               DType dtype = DType::fp32);
  OpTester& in_ints(const std::string& param, std::vector<int64_t> dims, std::vector<int32_t> values,
                    DType dtype = DType::int32);
  // A run-time input of which only the type is known; for infer().
  OpTester& of_type(const std::string& param, Type type);
  OpTester& in_list(const std::string& param, DType dtype, std::vector<TensorList::Item> items);
  // Constants.
  OpTester& constant(const std::string& param, Constant value);
  OpTester& set(const std::string& param, int value) { return constant(param, Constant::integer(value)); }
  OpTester& set(const std::string& param, bool value) { return constant(param, Constant::boolean(value)); }
  OpTester& set(const std::string& param, const char* value) {
    return constant(param, Constant::text(value));
  }
  OpTester& set(const std::string& param, float value, DType dtype = DType::fp32) {
    return constant(param, Constant::number(value, dtype));
  }
  OpTester& set(const std::string& param, std::vector<int64_t> values) {
    return constant(param, Constant::ints(values));
  }
  OpTester& set(const std::string& param, std::initializer_list<int64_t> values) {  // so that {2} is a vector
    return constant(param, Constant::ints(values));
  }
  OpTester& weight(const std::string& param, Shape shape, std::vector<float> values,
                   DType dtype = DType::fp32) {
    return constant(param, Constant::numbers(values, dtype, std::move(shape)));
  }

  // The types by the op's rule, with only constants known.
  Types infer();
  // The types with every value known, then the kernel.
  std::vector<Result> run(int threads = 2);
  // constexpr ops: output `index`, decoded.
  Result store(int index = 0);
  // The same as it is stored; it reads the constants of this tester.
  std::shared_ptr<const StoredTensor> stored(int index = 0);

 private:
  struct Bound {
    std::vector<uint32_t> data;
    TensorList list;
    bool known = false;
  };

  OpBinding bind();
  std::vector<const void*> data(const OpBinding& binding, bool with_inputs);

  Opset opset_;
  Operation operation_;
  std::vector<std::unique_ptr<Value>> values_;
  std::map<const Value*, Bound> bound_;
  std::vector<std::vector<uint32_t>> decoded_;
};

// 0, 1, 2 …
inline std::vector<float> count_up(int n) {
  std::vector<float> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

}  // namespace anemone
