#include "placement/oracle_programs.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "support/data.h"

namespace anemone {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, at)) out.push_back(part);
  return out;
}

bool is_list(const std::string& text) {
  return !text.empty() && text.find_first_not_of("-0123456789,?x ") == std::string::npos &&
         text.find_first_of("0123456789?") != std::string::npos;
}

// "1,64,32,32"; '?' counts as one, as the tables do.
std::vector<int64_t> list_of(const std::string& text) {
  if (!is_list(text)) throw errorf("a shape of the table cannot be read").found("'" + text + "'");
  std::vector<int64_t> out;
  for (const std::string& part : split(text, ','))
    if (!part.empty())
      out.push_back(part.find('?') != std::string::npos ? 1 : std::strtoll(part.c_str(), nullptr, 10));
  return out;
}

std::vector<std::vector<int64_t>> shapes_of(const std::string& text) {
  std::vector<std::vector<int64_t>> out;
  if (text == "-") return out;
  for (const std::string& part : split(text, ';'))
    out.push_back(part == "scalar" || part.empty() ? std::vector<int64_t>{} : list_of(part));
  return out;
}

DType dtype_of(const std::string& name) {
  const DType dtype = dtype_from_name(name);
  if (dtype == DType::none) throw errorf("a type of the table is not known").found("'" + name + "'");
  return dtype;
}

const std::set<std::string> kBooleans = {"keep_dims", "exclusive",  "reverse",       "ascending",
                                         "validate",  "interleave", "align_corners", "return_indices",
                                         "sort",      "normalized"};
// The short names of the tables.
const std::map<std::string, std::string> kNames = {{"k", "kernel_sizes"}, {"s", "strides"},
                                                   {"d", "dilations"},    {"g", "groups"},
                                                   {"tx", "transpose_x"}, {"ty", "transpose_y"}};

class RowBuilder {
 public:
  explicit RowBuilder(const OracleRow& row) : row_(row), function_(std::make_unique<Function>()) {}

  std::unique_ptr<Function> build() {
    op_ = std::make_unique<Operation>();
    op_->type = row_.at("op");
    const std::string& dtypes = row_.at("dtype");
    const size_t arrow = dtypes.find('>');
    in_ = dtype_of(dtypes.substr(0, arrow));
    const DType out = arrow == std::string::npos ? in_ : dtype_of(dtypes.substr(arrow + 1));
    inputs_ = shapes_of(row_.at("inputs"));
    for (const std::string& token :
         row_.at("params") == "-" ? std::vector<std::string>{} : split(row_.at("params"), ';')) {
      const size_t equals = token.find('=');
      params_.push_back(
          {token.substr(0, equals), equals == std::string::npos ? "" : token.substr(equals + 1)});
    }
    weight();
    operands();
    parameters();
    for (const std::vector<int64_t>& dims : shapes_of(row_.at("out"))) {
      auto value =
          std::make_unique<Value>(Value{fmt::format("y_{}", op_->outputs.size()), Type::tensor(out, dims)});
      value->producer = op_.get();
      op_->outputs.push_back(std::move(value));
    }
    function_->body.ops.push_back(std::move(op_));
    return std::move(function_);
  }

 private:
  std::string param(const std::string& key) const {
    for (const auto& [k, v] : params_)
      if (k == key) return v;
    return "";
  }
  bool has(const std::string& key) const {
    return std::any_of(params_.begin(), params_.end(), [&](const auto& p) { return p.first == key; });
  }

  void bind(const std::string& name, Value* value) {
    Input* input = op_->input(name);
    if (!input) {
      op_->inputs.push_back({name, {}, ""});
      input = &op_->inputs.back();
    }
    Binding binding;
    binding.value = value;
    input->bindings.push_back(std::move(binding));
  }

  void tensor(const std::string& name, DType dtype, const std::vector<int64_t>& dims) {
    function_->inputs.push_back(std::make_unique<Value>(
        Value{fmt::format("x_{}", function_->inputs.size()), Type::tensor(dtype, dims)}));
    bind(name, function_->inputs.back().get());
  }

  // A constant of zeros, or of these integers.
  void constant(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                const std::vector<int64_t>& values = {}) {
    auto op = std::make_unique<Operation>();
    op->type = "const";
    const Type type = Type::tensor(dtype, dims);
    const auto bytes = static_cast<size_t>(dtype_bits(dtype)) / 8;
    Constant::Bytes data(static_cast<size_t>(type.size()) * bytes);
    for (size_t i = 0; i < values.size() && (i + 1) * bytes <= data.size(); ++i)
      for (size_t b = 0; b < bytes; ++b)
        data[i * bytes + b] = static_cast<std::byte>(static_cast<uint64_t>(values[i]) >> (8 * b));
    op->attributes["val"] = Constant::from_bytes(type, std::move(data));
    op->outputs.push_back(std::make_unique<Value>(Value{name, type}));
    op->outputs[0]->producer = op.get();
    bind(name, op->outputs[0].get());
    function_->body.ops.push_back(std::move(op));
  }

  // What stands in the column `weight`: a constant operand, or a note that an input is one.
  void weight() {
    const std::string& text = row_.at("weight");
    if (text == "-" || text.empty()) return;
    if (text.starts_with("dyn:")) return;
    if (text.find('=') != std::string::npos) {  // ih=64,64;hh=64,64
      for (const std::string& part : split(text, ';')) {
        const size_t equals = part.find('=');
        constant("weight_" + part.substr(0, equals), DType::fp16, list_of(part.substr(equals + 1)));
      }
      return;
    }
    const std::vector<int64_t> dims = list_of(text);
    constant(op_->type == "matmul" ? "y" : op_->type == "gather" ? "x" : "weight", DType::fp16, dims);
    if (has("bias")) constant("bias", DType::fp16, {dims[0]});
  }

  std::vector<std::string> names() const {
    const std::string& op = op_->type;
    if (op == "conv") return {"x", "weight"};
    if (op == "select") return {"a", "b", "cond"};
    if (op == "scaled_dot_product_attention") return {"query", "key", "value", "attn_mask"};
    if (op == "concat" || op == "stack") return std::vector<std::string>(inputs_.size(), "values");
    if (op == "gather" && op_->input("x")) return {"indices"};
    if (op.starts_with("gather")) return {"x", "indices"};
    if (op.starts_with("scatter")) return {"data", "indices", "updates"};
    for (const auto& [key, value] : params_)
      if (value.find("dyn") != std::string::npos) return {"x", key};
    return {"x", "y", "z"};
  }

  void operands() {
    const std::vector<std::string> all = names();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const std::string name = i < all.size() ? all[i] : fmt::format("x{}", i);
      DType dtype = in_;
      const std::string given = param(name);
      if (name == "cond") dtype = DType::boolean;
      if (given.find("dyn") != std::string::npos) dtype = DType::int32;
      if (name == "indices" && !given.empty()) dtype = dtype_of(given.substr(0, given.find_first_of(" [")));
      tensor(name, dtype, inputs_[i]);
    }
  }

  void parameters() {
    for (const auto& [key, value] : params_) {
      const std::string name = kNames.contains(key) ? kNames.at(key) : key;
      if (op_->input(name) || key == "bias") continue;                             // an operand
      if (key == "indices" && value.find("const") == std::string::npos) continue;  // type of another result
      if (!parameter(name, value)) bind_text(key == "pad" ? "pad_type" : name);
    }
    if (op_->type.ends_with("_pool") && has("k")) {  // what a pool has besides
      constant("pad", DType::int32, {static_cast<int64_t>(2 * list_of(param("k")).size())});
      constant("ceil_mode", DType::boolean, {});
    }
  }

  // A text counts nothing, whatever it says.
  void bind_text(const std::string& name) {
    auto op = std::make_unique<Operation>();
    op->type = "const";
    op->attributes["val"] = Constant::text("");
    op->outputs.push_back(std::make_unique<Value>(Value{name, op->attributes["val"].type}));
    op->outputs[0]->producer = op.get();
    bind(name, op->outputs[0].get());
    function_->body.ops.push_back(std::move(op));
  }

  // "const fp16 4,4", "fp16 256", "int32", "[1,2]", "0,1,3,2", "3".
  bool parameter(const std::string& name, const std::string& text) {
    if (name == "dtype" || name == "output_dtype" || name == "mode" || text.empty()) return false;
    std::string rest = text.starts_with("const ") ? text.substr(6) : text;
    const size_t end = rest.find_first_of(" [");
    const DType dtype = dtype_from_name(rest.substr(0, end));
    if (dtype != DType::none && dtype != DType::string) {
      std::string dims = end == std::string::npos ? "" : rest.substr(end);
      std::erase_if(dims, [](char c) { return c == '[' || c == ']' || c == ' '; });
      constant(name, dtype, is_list(dims) ? list_of(dims) : std::vector<int64_t>{});
      return true;
    }
    std::erase_if(rest, [](char c) { return c == '[' || c == ']'; });
    if (!is_list(rest)) return false;
    const std::vector<int64_t> values = list_of(rest);
    const bool flag = kBooleans.contains(name) || name.starts_with("transpose_");
    const bool scalar = values.size() == 1 && text.find('[') == std::string::npos;
    constant(name, flag ? DType::boolean : DType::int32,
             scalar && name != "kernel_sizes" ? std::vector<int64_t>{}
                                              : std::vector<int64_t>{static_cast<int64_t>(values.size())},
             values);
    return true;
  }

  const OracleRow& row_;
  std::unique_ptr<Function> function_;
  std::unique_ptr<Operation> op_;
  DType in_ = DType::fp16;
  std::vector<std::vector<int64_t>> inputs_;
  std::vector<std::pair<std::string, std::string>> params_;
};

}  // namespace

std::vector<OracleRow> read_table(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> header;
  std::vector<OracleRow> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.back() == '\r') line.pop_back();
    const std::vector<std::string> cells = split(line, '\t');
    if (header.empty()) {
      header = cells;
      continue;
    }
    OracleRow row;
    for (size_t i = 0; i < header.size(); ++i) row[header[i]] = i < cells.size() ? cells[i] : "-";
    rows.push_back(std::move(row));
  }
  return rows;
}

std::unique_ptr<Function> build_row(const OracleRow& row) { return RowBuilder(row).build(); }

const Operation& last_op(const Function& function) { return *function.body.ops.back(); }

bool OracleProgram::estimates_known() const {
  return std::all_of(rows.begin(), rows.end(),
                     [](const OracleRow& r) { return r.at("est_source") == "mil"; });
}

std::vector<OracleProgram> oracle_programs(const std::filesystem::path& table) {
  std::vector<OracleProgram> out;
  for (OracleRow& row : read_table(table)) {
    const std::string name = row["folder"] + "/" + row["probe"];
    auto it = std::find_if(out.begin(), out.end(), [&](const OracleProgram& p) { return p.name == name; });
    if (it == out.end()) it = out.insert(out.end(), {name, {}});
    it->rows.push_back(std::move(row));
  }
  return out;
}

std::optional<double> number_of(const std::string& text) {
  if (text == "-" || text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0') throw errorf("a number of the table cannot be read").found("'" + text + "'");
  return value;
}

bool on_ane(const OracleRow& row) {
  const std::string& selected = row.at("selected");
  if (selected != "ane" && selected != "bnns" && selected != "classic_cpu" && selected != "cpu")
    throw errorf("a device of the table is not known").found("'" + selected + "'");
  return selected == "ane";
}

std::vector<std::filesystem::path> oracle_tables(const std::string& name) {
  std::vector<std::filesystem::path> out;
  for (const std::filesystem::path& root : data_roots()) {
    std::error_code why;
    for (auto it = std::filesystem::recursive_directory_iterator(root, why);
         !why && it != std::filesystem::recursive_directory_iterator(); it.increment(why))
      if (it->path().filename() == name) out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace anemone
