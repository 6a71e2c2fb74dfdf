#include "package/summary.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/shape.h"

namespace anemone {
namespace {

// The stored pieces behind one operation: a shared blob is counted once.
using BlobKey = std::pair<std::string, uint64_t>;

uint64_t stored_bytes(const Constant& constant) {
  if (const auto* blob = std::get_if<Blob>(&constant.data)) {
    if (blob->file) return blob->data_bytes;
    return constant.type.fixed() ? packed_bytes(constant.type.size(), dtype_bits(constant.type.dtype)) : 0;
  }
  if (const auto* bytes = std::get_if<Constant::Bytes>(&constant.data)) return bytes->size();
  return 0;
}

const Constant* parameter(const Operation& op, const std::string& name) {
  if (const Input* input = op.input(name))
    return input->bindings.empty() ? nullptr : input->bindings[0].constant();
  const auto it = op.attributes.find(name);
  return it == op.attributes.end() ? nullptr : &it->second;
}

// The operation that makes a parameter, when it is another constexpr.
const Operation* maker(const Operation& op, const std::string& name) {
  const Value* value = op.value(name);
  return value && value->producer && value->producer->type != "const" ? value->producer : nullptr;
}

std::string scale_form(const Constant* scale, const Type& data) {
  if (!scale || scale->type.shape.empty()) return "per tensor";
  if (scale->type.rank() != data.rank())
    return scale->type.fixed() && scale->type.size() > 1 ? "per channel" : "per tensor";
  int varying = 0;
  bool whole = true;
  for (int i = 0; i < data.rank(); ++i) {
    if (scale->type.dim(i) == Dim(1)) continue;
    ++varying;
    whole = whole && scale->type.dim(i) == data.dim(i);
  }
  if (varying == 0) return "per tensor";
  return varying == 1 && whole ? "per channel" : "per block";
}

int index_bits(const Operation& op, const Constant* indices) {
  if (const Constant* lut = parameter(op, "lut"); lut && lut->type.rank() == 1 && lut->type.fixed()) {
    int bits = 0;
    while ((int64_t{1} << bits) < lut->type.size()) ++bits;
    return bits;
  }
  return indices ? dtype_bits(indices->type.dtype) : 0;
}

std::string form_of(const Operation& op) {
  if (op.type == "const") return std::string(dtype_name(op.outputs[0]->type.dtype));
  if (op.type == "constexpr_affine_dequantize") {
    const Constant* data = parameter(op, "quantized_data");
    return data ? fmt::format("{} {}", dtype_name(data->type.dtype),
                              scale_form(parameter(op, "scale"), data->type))
                : op.type;
  }
  if (op.type == "constexpr_blockwise_shift_scale") {
    const Constant* data = parameter(op, "data");
    return data ? fmt::format("{} {}", dtype_name(data->type.dtype),
                              scale_form(parameter(op, "scale"), data->type))
                : op.type;
  }
  if (op.type == "constexpr_lut_to_dense") {
    const std::string table = maker(op, "lut") ? " with scales" : "";
    return fmt::format("palette {}-bit{}", index_bits(op, parameter(op, "indices")), table);
  }
  if (op.type == "constexpr_lut_to_sparse")
    return fmt::format("palette {}-bit", index_bits(op, parameter(op, "indices_nonzero_data")));
  if (op.type == "constexpr_sparse_blockwise_shift_scale") {
    const Constant* data = parameter(op, "nonzero_data");
    return data ? std::string(dtype_name(data->type.dtype)) : op.type;
  }
  if (op.type == "constexpr_sparse_to_dense") {
    const Operation* inner = maker(op, "nonzero_data");
    return inner ? "sparse + " + form_of(*inner) : "sparse";
  }
  if (op.type == "constexpr_cast") return "fp16 cast to fp32";
  return op.type;
}

// Bytes of the constants behind an operation; `keys` gets the blobs among them.
uint64_t collect(const Operation& op, std::set<BlobKey>& keys) {
  uint64_t bytes = 0;
  const auto take = [&](const Constant& constant) {
    const auto* blob = std::get_if<Blob>(&constant.data);
    if (blob && !keys.insert({blob->file_name, blob->record_offset}).second) return;
    bytes += stored_bytes(constant);
  };
  for (const auto& [name, constant] : op.attributes)
    if (name != "name") take(constant);
  for (const Input& input : op.inputs)
    for (const Binding& binding : input.bindings) {
      if (const Constant* constant = binding.constant())
        take(*constant);
      else if (binding.value && binding.value->producer)
        bytes += collect(*binding.value->producer, keys);
    }
  return bytes;
}

class Counter {
 public:
  PackageSummary count(const Package& package) {
    for (const auto& function : package.program.functions) {
      find_inner(function->body);
      for_each_op(std::as_const(function->body), [&](const Operation& op) { add(*function, op); });
    }
    return std::move(out_);
  }

 private:
  // Constants that only feed constexpr operations belong to those.
  void find_inner(const Block& block) {
    std::set<const Value*> direct;
    for_each_op(block, [&](const Operation& op) {
      for (const Input& input : op.inputs)
        for (const Binding& binding : input.bindings) {
          if (!binding.value) continue;
          if (op.type.starts_with("constexpr_"))
            inner_.insert(binding.value);
          else
            direct.insert(binding.value);
        }
    });
    for (const Value* value : direct) inner_.erase(value);
  }

  void add(const Function& function, const Operation& op) {
    const bool constexpr_op = op.type.starts_with("constexpr_");
    if (op.type != "const" && !constexpr_op) {
      ++out_.ops[function.name][op.type];
      return;
    }
    ++out_.constants[function.name];
    if (op.outputs.empty() || inner_.contains(op.outputs[0].get())) return;
    const Type& type = op.outputs[0]->type;
    if (!type.is_tensor() || !type.fixed() || type.dtype == DType::string || type.size() < 10) return;
    std::set<BlobKey> keys;
    const uint64_t bytes = collect(op, keys);
    if (!keys.empty()) {
      const auto [it, fresh] = seen_.try_emplace(*keys.begin(), out_.weights.size());
      if (!fresh) {
        ++out_.weights[it->second].uses;
        return;
      }
    }
    out_.weights.push_back({op.outputs[0]->name, function.name, form_of(op), type, bytes, 1});
  }

  PackageSummary out_;
  std::set<const Value*> inner_;
  std::map<BlobKey, size_t> seen_;
};

}  // namespace

double WeightInfo::bits_per_weight() const {
  const int64_t count = type.size();
  return count ? 8.0 * static_cast<double>(bytes) / static_cast<double>(count) : 0;
}

StoredForm stored_form(const Operation& op) {
  std::set<BlobKey> keys;
  return {form_of(op), collect(op, keys)};
}

PackageSummary summarize(const Package& package) {
  PackageSummary out = Counter().count(package);
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path root = package.path;
  const auto size_of = [&](const fs::path& path) {
    const auto bytes = fs::file_size(path, error);
    return error ? uint64_t{0} : static_cast<uint64_t>(bytes);
  };
  std::set<std::string> files;
  for (const auto& function : package.program.functions)
    for_each_op(std::as_const(function->body), [&](const Operation& op) {
      const auto take = [&](const Constant& c) {
        if (const auto* blob = std::get_if<Blob>(&c.data);
            blob && blob->file && files.insert(blob->file->path()).second)
          out.weight_file_bytes += blob->file->size();
      };
      for (const auto& [name, constant] : op.attributes) take(constant);
      for (const Input& input : op.inputs)
        for (const Binding& binding : input.bindings)
          if (binding.literal) take(*binding.literal);
    });
  if (fs::is_regular_file(root, error))
    out.program_bytes = size_of(root);
  else if (fs::exists(root / "model.mil", error))
    out.program_bytes = size_of(root / "model.mil");
  else
    out.program_bytes = size_of(root / "Data" / "com.apple.CoreML" / "model.mlmodel");
  return out;
}

}  // namespace anemone
