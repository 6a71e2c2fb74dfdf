#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"
#include "mil/rules.h"

using namespace anemone;

namespace {

// An operation with two blocks that give values of the types named.
struct WithBlocks {
  Operation op;
  std::vector<std::unique_ptr<Value>> values;

  Value* value(Type type) {
    values.push_back(std::make_unique<Value>(Value{"v", std::move(type), nullptr, {}}));
    return values.back().get();
  }
  void bind(const std::string& param, const std::vector<Type>& types) {
    Input& input = op.inputs.emplace_back(Input{param, {}, {}});
    for (const Type& type : types) input.bindings.push_back({value(type), nullptr, {}});
  }
  void block(size_t inputs, const std::vector<Type>& outputs) {
    op.blocks.push_back(std::make_unique<Block>());
    for (size_t i = 0; i < inputs; ++i) op.blocks.back()->inputs.push_back(std::make_unique<Value>());
    for (const Type& type : outputs) op.blocks.back()->outputs.push_back(value(type));
  }
  Types infer() {
    const OpBinding binding = OpBinding::bind(op, Opset::ios18);
    const std::vector<const void*> data(binding.operands.size(), nullptr);
    return infer_types(binding, data);
  }
};

const Type kTruth = Type::tensor(DType::boolean);
const Type kTwoByFour = Type::tensor(DType::fp32, {2, 4});
const Type kThreeByFour = Type::tensor(DType::fp32, {3, 4});

Types infer_cond(const std::vector<Type>& yes, const std::vector<Type>& no) {
  WithBlocks w;
  w.op.type = "cond";
  w.bind("pred", {kTruth});
  w.block(0, yes);
  w.block(0, no);
  return w.infer();
}

Types infer_while(const std::vector<Type>& vars, const std::vector<Type>& body) {
  WithBlocks w;
  w.op.type = "while_loop";
  w.bind("loop_vars", vars);
  w.block(vars.size(), {kTruth});
  w.block(vars.size(), body);
  return w.infer();
}

}  // namespace

TEST_CASE("cond gives what both blocks can give") {
  CHECK(infer_cond({kTwoByFour, kTruth}, {kTwoByFour, kTruth}) == Types{kTwoByFour, kTruth});
  CHECK(infer_cond({kTwoByFour}, {kThreeByFour})[0] == Type::tensor(DType::fp32, {Dim::unknown(), 4}));
  CHECK_THROWS_AS(infer_cond({kTwoByFour}, {Type::tensor(DType::fp16, {2, 4})}), Error);
  CHECK_THROWS_AS(infer_cond({kTwoByFour}, {Type::tensor(DType::fp32, {2})}), Error);
  CHECK_THROWS_AS(infer_cond({kTwoByFour}, {}), Error);
}

TEST_CASE("while_loop gives its variables, with open dimensions where the body changes them") {
  const Type list = Type::list(kTwoByFour, Dim::unknown());
  CHECK(infer_while({kTwoByFour, list}, {kThreeByFour, list}) ==
        Types{Type::tensor(DType::fp32, {Dim::unknown(), 4}), list});
  CHECK(infer_while({Type::list(kTwoByFour, 3)}, {Type::list(kThreeByFour, 4)})[0] ==
        Type::list(Type::tensor(DType::fp32, {Dim::unknown(), 4}), Dim::unknown()));
  CHECK_THROWS_AS(infer_while({kTwoByFour}, {kTwoByFour, kTruth}), Error);
  CHECK_THROWS_AS(infer_while({kTwoByFour}, {kTruth}), Error);
}

TEST_CASE("control flow needs two blocks and a truth value") {
  WithBlocks w;
  w.op.type = "cond";
  w.bind("pred", {kTruth});
  CHECK_THROWS_AS(w.infer(), Error);
  WithBlocks loop;
  loop.op.type = "while_loop";
  loop.bind("loop_vars", {kTwoByFour});
  loop.block(1, {kTwoByFour});
  loop.block(1, {kTwoByFour});
  CHECK_THROWS_AS(loop.infer(), Error);
}

TEST_CASE("a constant has the type of its value") {
  WithBlocks w;
  w.op.type = "const";
  CHECK_THROWS_AS(w.infer(), Error);
  w.op.attributes["val"] = Constant::ints({1, 2, 3});
  CHECK(w.infer() == Types{Type::tensor(DType::int32, {3})});
}

TEST_CASE("states are read as tensors and written with their own type") {
  const Type state = Type::state(DType::fp16, {1, 8});
  CHECK(OpTester("read_state").of_type("input", state).infer() == Types{Type::tensor(DType::fp16, {1, 8})});
  CHECK(OpTester("write_state").of_type("input", state).of_type("data", state.content()).infer().empty());
  CHECK_THROWS_AS(
      OpTester("write_state").of_type("input", state).in("data", {1, 8}, std::vector<float>(8)).infer(),
      Error);
  CHECK_THROWS_AS(OpTester("read_state").in("input", {1}, {1}).infer(), Error);
  CHECK_THROWS_AS(OpTester("read_state", Opset::ios17).of_type("input", state).infer(), Error);
}
