// What convert writes, held against the rules for the Neural Engine that public sources agree on: a walk of its own,
// that knows nothing of our linter. Rule numbers are those of docs/check.md.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/half.h"
#include "corpus/bundle_variants.h"
#include "corpus/corpus.h"
#include "package/package.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// Operations that are known to stay on the engine in fp16 and inside the size limits. Whatever is not in this list
// is a finding: O01 to O06, O09, D10 and the rest of what must not appear are so by not being here.
const std::set<std::string> kSafe = {"abs",          "add",           "clip",
                                     "concat",       "const",         "constexpr_blockwise_shift_scale",
                                     "conv",         "equal",         "exp",
                                     "gelu",         "greater_equal", "identity",
                                     "less",         "logical_and",   "matmul",
                                     "maximum",      "minimum",       "mul",
                                     "pad",          "read_state",    "real_div",
                                     "reduce_max",   "reduce_mean",   "reduce_min",
                                     "reduce_sum",   "reshape",       "rsqrt",
                                     "select",       "sigmoid",       "slice_by_index",
                                     "slice_update", "softmax",       "sub",
                                     "tanh",         "transpose",     "write_state"};

class Walk {
 public:
  Walk(const Package& package, const ConvertOptions& options) : options_(options) {
    for (const auto& f : package.program.functions) function(*f);
  }

  std::string text() const {
    std::string out;
    for (const std::string& finding : findings_) out += (out.empty() ? "" : "; ") + finding;
    return out;
  }

 private:
  void function(const Function& f) {
    int states = 0;
    for (const auto& input : f.inputs) {
      const bool state = input->type.kind == Type::Kind::state;
      const Type type = state ? input->type.content() : input->type;
      states += state;
      if (state && type.shape.back().size() % 32 != 0) found("S04 state width", input->name);
      if (type.dtype == DType::int32 && input->name == "position" && slice())
        continue;  // K04: slice_update takes the row as an integer
      tensor(type, input->name);
    }
    if (options_.kv == lower::KvKind::packed && states > 2) found("K02 states", f.name);
    for_each_op(f.body, [&](const Operation& op) { operation(op); });
    for (const Value* output : f.body.outputs)
      if (output->type.dtype != DType::fp16) found("D02 output is not fp16", output->name);
  }

  bool slice() const { return options_.kv_write == std::vector{lower::KvWrite::slice}; }

  void operation(const Operation& op) {
    if (!kSafe.contains(op.type)) found("operation " + op.type, op.name());
    if (op.type == "const") {
      const Constant* value = op.outputs[0]->constant();
      if (value && value->type.dtype == DType::fp16) finite(*value, op.name());
      return;
    }
    if (op.type == "constexpr_blockwise_shift_scale") return quantised(op);
    for (const auto& output : op.outputs) {
      // The chain of numbers that tells slice_update where: position, its end, and their vectors.
      const bool bound = output->type.dtype == DType::int32 && slice() &&
                         (op.type == "add" || op.type == "concat") && output->type.rank() == 1;
      if (!bound) tensor(output->type, op.name());
    }
    for (const Input& input : op.inputs)
      for (const Binding& binding : input.bindings)
        if (binding.literal && binding.literal->type.dtype == DType::fp16)
          finite(*binding.literal, op.name());
    if (op.type == "conv" && !constant_weight(op)) found("O10 conv with a computed weight", op.name());
    if (op.type == "slice_by_index" && !op.input("begin")->bindings[0].constant())
      found("O04 slice at a computed place", op.name());
    if (op.type == "matmul") matmul(op);
  }

  // D01, D02, S01, S05, S06, S09.
  void tensor(const Type& type, const std::string& name) {
    if (type.dtype != DType::fp16 && type.dtype != DType::boolean)
      found(fmt::format("D01/D02 {}", dtype_name(type.dtype)), name);
    if (type.rank() > 4) found("S01 rank", name);
    for (size_t i = 0; i < type.shape.size(); ++i) {
      const int64_t size = type.shape[i].known() ? type.shape[i].size() : 4;
      if (size > (i < 2 ? 65536 : 16384)) found("S05/S06 size", name);
    }
  }

  // D08: no infinity and no NaN.
  void finite(const Constant& constant, const std::string& name) {
    if (constant.type.size() > 100000) return;  // weights: convert refuses those that are not finite
    const auto bytes = constant.bytes();
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
      uint16_t bits;
      std::memcpy(&bits, bytes.data() + i, 2);
      if ((bits & 0x7c00) == 0x7c00) return found("D08 value that is not finite", name);
    }
  }

  // Q01, Q02: one scale per output channel or per tensor, never blocks along the inputs.
  void quantised(const Operation& op) {
    const Type &data = op.input("data")->bindings[0].type(), &scale = op.input("scale")->bindings[0].type();
    if (data.dtype != DType::int8) found("Q01 stored type", op.name());
    const int64_t rows = scale.shape[0].size();
    bool good = scale.dtype == DType::fp16 && (rows == 1 || rows == data.shape[0].size());
    for (size_t i = 1; i < scale.shape.size(); ++i) good = good && scale.shape[i].size() == 1;
    if (!good) found("Q02 scales in blocks", op.name());
    if (op.input("offset")) found("Q01 offset", op.name());
  }

  static bool constant_weight(const Operation& op) {
    const Binding& weight = op.input("weight")->bindings[0];
    if (weight.constant()) return true;
    return weight.value && weight.value->producer && weight.value->producer->type.starts_with("constexpr_");
  }

  // S07.
  void matmul(const Operation& op) {
    const Type& x = op.value("x")->type;
    const Dim inner = x.shape.back();
    if (inner.known() && inner.size() > 16384) found("S07 inner size", op.name());
  }

  void found(const std::string& what, const std::string& where) { findings_.insert(what + " at " + where); }

  const ConvertOptions& options_;
  std::set<std::string> findings_;
};

}  // namespace

TEST_CASE("corpus_ane_safe: packages of every kind hold nothing that leaves the Neural Engine") {
  const TempFolder folder;
  Tally tally("ane_safe");
  for (const GoldenModel& model : golden_models()) {
    if (!model.variant.empty() || !is_decoder(Checkpoint::open(model.checkpoint))) continue;
    for (const BundleForm& v : bundle_variants(32)) {
      if (!convert_variant(model.checkpoint, folder.path() / "b", v)) continue;
      for (const fs::path& path : files_ending(folder.path() / "b", ".mlpackage"))
        tally.add(fmt::format("{} {} {}", model.name(), v.name, path.filename().string()),
                  Walk(read_package(path), v.options).text());
    }
  }
}
