#include "mil/op_call.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "mil/op.h"

namespace anemone {
namespace {

Type::Kind expected_kind(int flags) {
  if (flags & kList) return Type::Kind::list;
  if (flags & kState) return Type::Kind::state;
  return Type::Kind::tensor;
}

std::string param_names(const OpVersion& version) {
  std::string out;
  for (const Param& p : version.params) out += (out.empty() ? "" : ", ") + std::string(p.name);
  return out.empty() ? "no parameters" : out;
}

int64_t as_integer(const Type& type, const void* data, int64_t i) {
  if (!type.is_float()) return static_cast<const int32_t*>(data)[i];
  const float value = static_cast<const float*>(data)[i];
  if (value != std::trunc(value)) throw errorf("a whole number is needed").found(fmt::format("{}", value));
  return static_cast<int64_t>(value);
}

}  // namespace

OpBinding OpBinding::bind_names(const Operation& operation, Opset opset) {
  OpBinding b;
  b.operation = &operation;
  b.op = find_op(operation.type);
  if (!b.op)
    throw errorf("'{}' is not an operation of Core ML programs", operation.type)
        .hint("custom layers cannot be run here");
  b.version = b.op->version(opset);
  if (!b.version)
    throw errorf("the operation '{}' is not in the opset {}", operation.type, opset_info(opset).text_name)
        .expected(fmt::format("{} or later", opset_info(b.op->versions.front().since).text_name));
  const auto& params = b.version->params;
  b.ranges.reserve(params.size());
  b.operands.reserve(params.size());
  b.sources.reserve(params.size());
  const auto known = [&](std::string_view name) {
    return std::any_of(params.begin(), params.end(), [&](const Param& p) { return p.name == name; });
  };
  for (const Input& input : operation.inputs)
    if (!known(input.name))
      throw errorf("'{}' has no parameter '{}' in {}", operation.type, input.name,
                   opset_info(opset).text_name)
          .expected(param_names(*b.version));
  for (const Param& p : params) {
    Range range{static_cast<uint16_t>(b.operands.size()), 0};
    if (const Input* input = operation.input(p.name)) {
      if (input->bindings.size() != 1 && !(p.flags & kMany))
        throw errorf("the parameter '{}' takes one value", p.name)
            .found(fmt::format("{}", input->bindings.size()));
      if (input->bindings.size() > 60000) throw errorf("the parameter '{}' has too many values", p.name);
      for (const Binding& binding : input->bindings) {
        b.operands.push_back({binding.type(), binding.constant(), nullptr});
        b.sources.push_back(&binding);
      }
    } else if (const auto it = operation.attributes.find(std::string(p.name));
               it != operation.attributes.end()) {
      b.operands.push_back({it->second.type, &it->second, nullptr});
      b.sources.push_back(nullptr);
    } else if (!(p.flags & kOptional)) {
      throw errorf("the parameter '{}' of '{}' is missing", p.name, operation.type);
    }
    range.count = static_cast<uint16_t>(b.operands.size() - range.begin);
    b.ranges.push_back(range);
  }
  return b;
}

void OpBinding::check_types() const {
  const auto& params = version->params;
  for (size_t k = 0; k < params.size(); ++k) {
    const Param& p = params[k];
    for (int i = ranges[k].begin; i < ranges[k].begin + ranges[k].count; ++i) {
      const Operand& operand = operands[static_cast<size_t>(i)];
      if (p.flags & kAnyKind) continue;
      if (operand.type.kind != expected_kind(p.flags))
        throw errorf("the parameter '{}' has the wrong kind of value", p.name).found(operand.type.text());
      if (operand.type.kind != Type::Kind::list && !(p.types & only(operand.type.dtype)))
        throw errorf("the parameter '{}' has the wrong element type", p.name)
            .found(std::string(dtype_name(operand.type.dtype)))
            .expected(dtypes_text(p.types));
      for (size_t q = 0; p.group && q < k; ++q) {
        if (params[q].group != p.group || ranges[q].count == 0) continue;
        const Operand& other = operands[ranges[q].begin];
        if (other.type.dtype != operand.type.dtype)
          throw errorf("the parameters '{}' and '{}' must have the same element type", params[q].name, p.name)
              .found(fmt::format("{} and {}", dtype_name(other.type.dtype), dtype_name(operand.type.dtype)))
              .hint("insert a cast");
        break;
      }
    }
  }
}

OpBinding OpBinding::bind(const Operation& operation, Opset opset) {
  return bind(operation, opset, [](const Value* value) -> const Type& { return value->type; });
}

const float* Tiles::floats(int64_t begin, int64_t end, std::vector<float>& scratch) const {
  if (!stored_) return dense_ + begin;
  const auto n = static_cast<size_t>(end - begin);
  if (scratch.size() < n) scratch.resize(n);
  stored_->read(begin, end, scratch.data());
  return scratch.data();
}

int OpCall::index(std::string_view param) const {
  const auto& params = b_.version->params;
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == param) return static_cast<int>(i);
  return -1;
}

int OpCall::operand(std::string_view param, int i) const {
  const int k = index(param);
  if (k < 0) return -1;
  const auto& range = b_.ranges[static_cast<size_t>(k)];
  return i < range.count ? range.begin + i : -1;
}

int OpCall::require(std::string_view param, int i) const {
  const int k = operand(param, i);
  if (k < 0) throw errorf("the parameter '{}' is missing", param);
  return k;
}

const Default& OpCall::fallback(std::string_view param) const {
  static const Default none;
  const int k = index(param);
  const Default& value = k < 0 ? none : b_.version->params[static_cast<size_t>(k)].fallback;
  if (std::holds_alternative<std::monostate>(value)) throw errorf("the parameter '{}' is missing", param);
  return value;
}

int OpCall::count(std::string_view param) const {
  const int k = index(param);
  return k < 0 ? 0 : b_.ranges[static_cast<size_t>(k)].count;
}

const Type& OpCall::type(std::string_view param, int i) const {
  return b_.operands[static_cast<size_t>(require(param, i))].type;
}

namespace {

// A tensor without elements is known without any memory, for example the result of non_zero on zeros.
bool is_empty(const Type& t) { return t.is_tensor() && t.fixed() && t.size() == 0; }

}  // namespace

bool OpCall::known(std::string_view param, int i) const {
  const int k = operand(param, i);
  return k >= 0 && (data_[static_cast<size_t>(k)] || is_empty(b_.operands[static_cast<size_t>(k)].type));
}

const void* OpCall::data(std::string_view param, int i) const {
  static constexpr uint32_t kNothing = 0;
  const auto k = static_cast<size_t>(require(param, i));
  const void* d = data_[k];
  if (!d && is_empty(b_.operands[k].type)) return &kNothing;
  if (!d) throw errorf("the value of '{}' is not known when the program is compiled", param);
  return d;
}

const float* OpCall::floats(std::string_view param, int i) const {
  return static_cast<const float*>(data(param, i));
}
const int32_t* OpCall::ints(std::string_view param, int i) const {
  return static_cast<const int32_t*>(data(param, i));
}

int64_t OpCall::integer(std::string_view param) const {
  if (!has(param)) return std::get<int64_t>(fallback(param));
  const Type& t = type(param);
  if (t.fixed() && t.size() != 1) throw errorf("'{}' must be one number", param).found(t.text());
  return as_integer(t, data(param), 0);
}

double OpCall::number(std::string_view param) const {
  if (!has(param)) {
    const Default& d = fallback(param);
    if (const auto* whole = std::get_if<int64_t>(&d)) return static_cast<double>(*whole);
    return std::get<double>(d);
  }
  const Type& t = type(param);
  if (t.fixed() && t.size() != 1) throw errorf("'{}' must be one number", param).found(t.text());
  return t.is_float() ? static_cast<double>(floats(param)[0]) : static_cast<double>(ints(param)[0]);
}

bool OpCall::flag(std::string_view param) const {
  return has(param) ? ints(param)[0] != 0 : std::get<bool>(fallback(param));
}

std::string_view OpCall::text(std::string_view param) const {
  if (!has(param)) return std::get<const char*>(fallback(param));
  const Constant* c = constant(param);
  if (!c || !c->is_strings() || std::get<Constant::Strings>(c->data).size() != 1)
    throw errorf("'{}' must be a constant text", param);
  return std::get<Constant::Strings>(c->data)[0];
}

std::vector<int64_t> OpCall::integers(std::string_view param, int i) const {
  const Type& t = type(param, i);
  const void* d = data(param, i);
  std::vector<int64_t> out(static_cast<size_t>(t.size()));
  for (size_t k = 0; k < out.size(); ++k) out[k] = as_integer(t, d, static_cast<int64_t>(k));
  return out;
}

std::vector<double> OpCall::numbers(std::string_view param) const {
  const Type& t = type(param);
  const void* d = data(param);
  std::vector<double> out(static_cast<size_t>(t.size()));
  for (size_t k = 0; k < out.size(); ++k)
    out[k] = t.is_float() ? static_cast<double>(static_cast<const float*>(d)[k])
                          : static_cast<double>(static_cast<const int32_t*>(d)[k]);
  return out;
}

std::vector<bool> OpCall::flags(std::string_view param) const {
  const std::vector<int64_t> values = integers(param);
  return {values.begin(), values.end()};
}

std::vector<int64_t> OpCall::integers_or(std::string_view param, size_t n, int64_t fallback_value) const {
  if (!has(param)) return std::vector<int64_t>(n, fallback_value);
  std::vector<int64_t> out = integers(param);
  if (out.size() != n) throw errorf("'{}' has {} entries", param, out.size()).expected(fmt::format("{}", n));
  return out;
}

std::vector<bool> OpCall::flags_or(std::string_view param, size_t n, bool fallback_value) const {
  if (!has(param)) return std::vector<bool>(n, fallback_value);
  std::vector<bool> out = flags(param);
  if (out.size() != n) throw errorf("'{}' has {} entries", param, out.size()).expected(fmt::format("{}", n));
  return out;
}

Tiles OpCall::tiles(std::string_view param, int i) const {
  const auto k = static_cast<size_t>(require(param, i));
  return {b_.operands[k].stored.get(), b_.operands[k].stored ? nullptr : data(param, i)};
}

const TensorList* OpCall::list(std::string_view param) const {
  return static_cast<const TensorList*>(data_[static_cast<size_t>(require(param, 0))]);
}

const Constant* OpCall::constant(std::string_view param) const {
  const int k = operand(param, 0);
  return k < 0 ? nullptr : b_.operands[static_cast<size_t>(k)].constant;
}

const std::shared_ptr<const StoredTensor>& OpCall::stored(std::string_view param) const {
  return b_.operands[static_cast<size_t>(require(param, 0))].stored;
}

}  // namespace anemone
