// Small programs that tests of passes write, and what the CPU engine computes with them.
//     Net net;
//     net.output(net.op("relu", {{"x", net.input({2, 3})}}));
//     const std::vector<float> before = outputs(net.program);
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "anemone/predictor.h"
#include "engine/cpu_backend.h"
#include "mil/builder.h"
#include "mil/verify.h"
#include "package/package.h"

namespace anemone::made {

inline Constant noise(std::vector<int64_t> shape, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  int64_t count = 1;
  for (const int64_t d : shape) count *= d;
  std::vector<float> values;
  for (int64_t k = 0; k < count; ++k) values.push_back(static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
  return Constant::numbers(values, DType::fp32, to_shape(shape));
}

inline int64_t count(const Program& program, std::string_view type) {
  int64_t found = 0;
  for_each_op(program.functions[0]->body, [&](const Operation& op) { found += op.type == type; });
  return found;
}

inline Prediction predicted(const Program& program, const std::map<std::string, Array>& inputs,
                            Arithmetic arithmetic = Arithmetic::fp32) {
  REQUIRE(verify(program).empty());
  Package package;
  package.program = program.clone();
  package.description = description_of(package.program);
  package.spec_version = opset_info(Opset::ios18).spec_version;
  const auto shared = std::make_shared<const Package>(std::move(package));
  return cpu_backend({.arithmetic = arithmetic, .threads = 1})
      ->open(shared, "main")
      ->predict(inputs, nullptr);
}

// All outputs, of made-up inputs.
inline std::vector<float> outputs(const Program& program, int seed = 1) {
  std::map<std::string, Array> inputs;
  for (const auto& input : program.functions[0]->inputs) {
    const Constant values = noise(input->type.dims(), seed++);
    Array array(DType::fp32, input->type.dims());
    std::copy(values.bytes().begin(), values.bytes().end(), array.bytes().begin());
    inputs.emplace(input->name, array);
  }
  const Prediction p = predicted(program, inputs);
  std::vector<float> all;
  for (const auto& [name, array] : p.outputs) {
    const std::vector<float> values = array.to_float();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline void check_near(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t k = 0; k < a.size(); ++k) CHECK(a[k] == doctest::Approx(b[k]).epsilon(1e-4));
}

struct Net {
  Program program;
  Function& f = add_function(program, "main", Opset::ios18);
  std::unique_ptr<Builder> b;

  Value* input(std::vector<int64_t> shape, DType dtype = DType::fp32, std::string name = "x") {
    return add_input(f, std::move(name), Type::tensor(dtype, to_shape(shape)));
  }
  Builder& builder() {
    if (!b) b = std::make_unique<Builder>(f);
    return *b;
  }
  Value* op(std::string_view type, Args args, std::string_view name = "") {
    return builder().op(type, args, name);
  }
  Value* cast(Value* x, std::string dtype) {
    return op("cast", {{"x", x}, {"dtype", Constant::text(std::move(dtype))}});
  }
  Value* transpose(Value* x, std::vector<int64_t> perm) {
    return op("transpose", {{"x", x}, {"perm", Constant::ints(perm)}});
  }
  Value* reshape(Value* x, std::vector<int64_t> shape) {
    return op("reshape", {{"x", x}, {"shape", Constant::ints(shape)}});
  }
  Value* linear(Value* x, int64_t in, int64_t out, int seed) {
    return op("linear", {{"x", x}, {"weight", noise({out, in}, seed)}, {"bias", noise({out}, seed + 1)}});
  }
  void output(Value* value, std::string_view name = "y") {
    builder().output(op("identity", {{"x", value}}, name));
  }
};

}  // namespace anemone::made
