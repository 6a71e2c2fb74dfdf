#include "mil/ops/op_tester.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "mil/rules.h"

namespace anemone {
namespace {

std::vector<uint32_t> decode(const StoredTensor& tensor) {
  std::vector<uint32_t> out(static_cast<size_t>(tensor.type().size()) + 1);
  tensor.read(0, tensor.type().size(), out.data());
  return out;
}

OpTester::Result result(const Type& type, const uint32_t* data) {
  OpTester::Result r{type, {}, {}, {}};
  const auto n = static_cast<size_t>(type.size());
  r.floats.resize(type.is_float() ? n : 0);
  r.ints.resize(type.is_float() ? 0 : n);
  if (n) std::memcpy(type.is_float() ? static_cast<void*>(r.floats.data()) : r.ints.data(), data, n * 4);
  return r;
}

}  // namespace

OpTester::OpTester(std::string op, Opset opset) : opset_(opset) { operation_.type = std::move(op); }

OpTester& OpTester::of_type(const std::string& param, Type type) {
  values_.push_back(std::make_unique<Value>(Value{param, std::move(type), nullptr, {}}));
  Input* input = operation_.input(param);
  if (!input) input = &operation_.inputs.emplace_back(Input{param, {}, {}});
  input->bindings.push_back({values_.back().get(), nullptr, {}});
  return *this;
}

OpTester& OpTester::in(const std::string& param, std::vector<int64_t> dims, std::vector<float> values,
                       DType dtype) {
  of_type(param, Type::tensor(dtype, dims));
  Bound& b = bound_[values_.back().get()];
  b.known = true;
  b.data.resize(values.size() + 1);
  if (!values.empty()) std::memcpy(b.data.data(), values.data(), values.size() * 4);
  return *this;
}

OpTester& OpTester::in_ints(const std::string& param, std::vector<int64_t> dims, std::vector<int32_t> values,
                            DType dtype) {
  of_type(param, Type::tensor(dtype, dims));
  Bound& b = bound_[values_.back().get()];
  b.known = true;
  b.data.resize(values.size() + 1);
  if (!values.empty()) std::memcpy(b.data.data(), values.data(), values.size() * 4);
  return *this;
}

OpTester& OpTester::in_list(const std::string& param, DType dtype, std::vector<TensorList::Item> items) {
  Shape element = items.empty() ? Shape{} : to_shape(items[0].dims);
  of_type(param, Type::list(Type::tensor(dtype, element), Dim::unknown()));
  Bound& b = bound_[values_.back().get()];
  b.known = true;
  b.list = {dtype, std::move(items)};
  return *this;
}

OpTester& OpTester::constant(const std::string& param, Constant value) {
  Input* input = operation_.input(param);
  if (!input) input = &operation_.inputs.emplace_back(Input{param, {}, {}});
  input->bindings.push_back({nullptr, std::make_shared<const Constant>(std::move(value)), {}});
  return *this;
}

OpBinding OpTester::bind() {
  OpBinding binding = OpBinding::bind(operation_, opset_);
  const auto& params = binding.version->params;
  for (size_t p = 0; p < params.size(); ++p)
    for (int i = 0; i < binding.ranges[p].count; ++i) {
      Operand& operand = binding.operands[static_cast<size_t>(binding.ranges[p].begin + i)];
      const bool numbers =
          operand.constant && operand.type.is_tensor() && operand.type.dtype != DType::string;
      if (numbers && ((params[p].flags & kStored) || binding.op->store))
        operand.stored = stored_constant(*operand.constant);
    }
  return binding;
}

std::vector<const void*> OpTester::data(const OpBinding& binding, bool with_inputs) {
  std::vector<const void*> out(binding.operands.size(), nullptr);
  for (size_t i = 0; i < out.size(); ++i) {
    const Operand& operand = binding.operands[i];
    if (operand.constant) {
      if (operand.type.dtype == DType::string || !operand.type.is_tensor() || operand.stored) continue;
      decoded_.push_back(decode(*stored_constant(*operand.constant)));
      out[i] = decoded_.back().data();
    } else if (with_inputs) {
      const auto it = bound_.find(binding.sources[i]->value);
      if (it == bound_.end() || !it->second.known) continue;
      out[i] = operand.type.kind == Type::Kind::list ? static_cast<const void*>(&it->second.list)
                                                     : it->second.data.data();
    }
  }
  return out;
}

Types OpTester::infer() {
  const OpBinding binding = bind();
  return infer_types(binding, data(binding, false));
}

std::vector<OpTester::Result> OpTester::run(int threads) {
  const OpBinding binding = bind();
  const auto inputs = data(binding, true);
  const Types types = infer_types(binding, inputs);
  std::vector<std::vector<uint32_t>> buffers(types.size());
  std::vector<TensorList> lists(types.size());
  std::vector<void*> out;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].kind != Type::Kind::list)
      buffers[i].assign(static_cast<size_t>(types[i].size()) + 1, 0xdeadbeef);
    out.push_back(types[i].kind == Type::Kind::list ? static_cast<void*>(&lists[i]) : buffers[i].data());
  }
  ThreadPool pool(threads);
  binding.op->run(OpCall(binding, inputs, types, out, pool));
  std::vector<Result> results;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].kind == Type::Kind::list)
      results.push_back({types[i], {}, {}, std::move(lists[i])});
    else
      results.push_back(result(types[i], buffers[i].data()));
  }
  return results;
}

std::shared_ptr<const StoredTensor> OpTester::stored(int index) {
  const OpBinding binding = bind();
  const auto inputs = data(binding, true);
  const Types types = infer_types(binding, inputs);
  auto out = binding.op->store(OpCall(binding, inputs), index);
  if (!(out->type() == types[static_cast<size_t>(index)]))
    throw std::logic_error("a stored tensor has another type than the op's rule says");
  return out;
}

OpTester::Result OpTester::store(int index) {
  const auto tensor = stored(index);
  const std::vector<uint32_t> whole = decode(*tensor);
  const int64_t count = tensor->type().size();  // a tensor must read the same in pieces
  for (int64_t begin = 0, step = 1; begin < count; begin += step, step = step % 7 + 1) {
    const int64_t end = std::min(count, begin + step);
    std::vector<uint32_t> piece(static_cast<size_t>(end - begin));
    tensor->read(begin, end, piece.data());
    if (!std::equal(piece.begin(), piece.end(), whole.begin() + begin))
      throw std::logic_error("a stored tensor reads differently in pieces");
  }
  return result(tensor->type(), whole.data());
}

}  // namespace anemone
