// Small packages with a fault each, for tests of the rules.
//     Seed s{"O01", Level::error, [](Graph& g) { g.x = g.b.op("cumsum", {{"x", g.x}}, "fault"); }};
//     CheckReport r = check_seed(s);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/check.h"
#include "mil/builder.h"

namespace anemone {

// A function under construction: tokens on the last axis, enough convolutions to be worth the engine.
struct Graph {
  Program program;
  Function* f;
  Builder b;
  Value* x = nullptr;

  explicit Graph(Shape input = {1, 64, 1, 64}, DType dtype = DType::fp16, Opset opset = Opset::ios18);

  Value* state(const std::string& name, Shape shape, DType dtype = DType::fp16);
  Value* input(const std::string& name, DType dtype, Shape shape);
  Value* conv(Value* in, int64_t outputs, const std::string& name, int64_t height = 1, int64_t width = 1);
  Value* conv_by(Value* in, Value* weight, const std::string& name);
  // Convolutions that cost about 3 ms on the CPU by Core ML's count: a segment that pays by itself.
  Value* work(Value* in, const std::string& name);
  std::shared_ptr<Package> finish(std::vector<Value*> outputs);
};

Constant zeros(DType dtype, Shape shape);
Constant filled(DType dtype, Shape shape, float value);

struct Seed {
  const char* id;
  Level level;
  const char* what;
  std::function<std::shared_ptr<const Package>()> make;
  CheckOptions options = {};
};

// The findings of one rule.
std::vector<Finding> of_rule(const CheckReport& report, std::string_view id);

const std::vector<Seed>& seeds();

}  // namespace anemone
