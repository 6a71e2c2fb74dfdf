// Weights of packages as they are stored, scales and tables included: by element, row, page, block and piece.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "mutation/bytes.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

constexpr size_t kPage = 4096, kBlock = 65536;

// A blob of a package's weight file.
struct Stored {
  std::string package, name, final_name, param;
  DType dtype = DType::none;
  size_t rows = 1, offset = 0, bytes = 0;

  size_t row_bytes() const { return rows > 0 && bytes % rows == 0 ? bytes / rows : 0; }
  ByteRange all() const { return {offset, offset + bytes}; }
  ByteRange row(size_t r) const { return {offset + r * row_bytes(), offset + (r + 1) * row_bytes()}; }
  size_t element_bytes() const { return std::max<size_t>(1, static_cast<size_t>(dtype_bits(dtype)) / 8); }
  bool is_data() const {
    return param.empty() || param == "data" || param == "indices" || param == "nonzero_data";
  }
};

class Finder {
 public:
  explicit Finder(const Subject& subject) : subject_(subject) {}

  std::vector<Stored> find() {
    for (const auto& [name, package] : subject_.packages) {
      seen_.clear();
      for (const auto& f : package->program.functions) {
        name_users(*f);
        for (const auto& op : f->body.ops) operation(name, *op);
      }
    }
    return std::move(out_);
  }

 private:
  // The weight that a constant is a part of is called after the last of a chain of constexpr operations.
  void name_users(const Function& f) {
    user_.clear();
    for (const auto& op : f.body.ops)
      if (op->type.starts_with("constexpr_"))
        for (const Input& in : op->inputs)
          for (const Binding& b : in.bindings)
            if (b.value) user_[b.value] = {op.get(), in.name};
  }

  void operation(const std::string& package, const Operation& op) {
    if (op.type != "const" && !op.type.starts_with("constexpr_")) return;
    if (op.type == "const") {
      const auto user = user_.find(op.outputs[0].get());
      const std::string param = user == user_.end() ? "" : user->second.second;
      add(package, op, param, op.attributes.at("val"));
      return;
    }
    for (const Input& in : op.inputs)
      for (const Binding& b : in.bindings)
        if (b.literal) add(package, op, in.name, *b.literal);
    for (const auto& [name, constant] : op.attributes)
      if (name != "name") add(package, op, name, constant);
  }

  void add(const std::string& package, const Operation& op, const std::string& param,
           const Constant& constant) {
    const auto* blob = std::get_if<Blob>(&constant.data);
    if (!blob || blob->data_bytes == 0 || !seen_.insert(blob->data_offset).second) return;
    Stored s;
    s.package = package;
    s.name = op.outputs[0]->name;
    const Value* last = op.outputs[0].get();
    for (auto it = user_.find(last); it != user_.end(); it = user_.find(last))
      last = it->second.first->outputs[0].get();
    s.final_name = last->name;
    s.param = param;
    s.dtype = constant.type.dtype;
    s.rows = constant.type.rank() > 0 ? static_cast<size_t>(constant.type.dim(0).size()) : 1;
    s.offset = blob->data_offset;
    s.bytes = blob->data_bytes;
    out_.push_back(std::move(s));
  }

  const Subject& subject_;
  std::map<const Value*, std::pair<const Operation*, std::string>> user_;
  std::set<uint64_t> seen_;
  std::vector<Stored> out_;
};

// The token that row 0 of a piece of the head belongs to; -1 for other weights.
int64_t first_token(const Subject& subject, const Stored& s) {
  if (!s.final_name.starts_with("head_")) return -1;
  const auto piece = static_cast<size_t>(std::atoll(s.final_name.c_str() + 5));
  size_t at = 0;
  for (const Port& port : subject.stage_of(s.package).functions.front().interface.outputs)
    if (port.role.kind == Role::Kind::logits || port.role.kind == Role::Kind::best)
      if (at++ == piece) return port.role.first;
  return -1;
}

class Sites {
 public:
  Sites(const Subject& subject, Rng& rng) : subject_(subject), rng_(rng) {}

  std::vector<Mutation> find() {
    const std::vector<Stored> all = Finder(subject_).find();
    for (const Stored& s : all) {
      if (s.is_data())
        data(s);
      else
        parameter(s);
      for (const Stored& other : all)
        if (s.is_data() && other.package == s.package && other.final_name == s.final_name) both(s, other);
    }
    return std::move(out_);
  }

 private:
  void add(const Stored& s, const std::string& kind, const std::string& where, std::vector<size_t> rows,
           const std::function<void(std::string&)>& change) {
    Mutation m;
    m.group = "weights";
    m.kind = kind;
    m.place =
        fmt::format("{} {}{}{} {}", s.package, s.final_name, s.param.empty() ? "" : ".", s.param, where);
    m.expected = {places_of(subject_, s.package, s.final_name), 1};
    if (s.name != s.final_name) m.expected.places.push_back(s.name);
    const int64_t first = first_token(subject_, s);
    for (const size_t row : rows)
      if (first >= 0) m.ids.push_back(static_cast<int32_t>(first + static_cast<int64_t>(row)));
    const std::string file = s.package + "/" + std::string(kWeightFile);
    m.apply = [=](Workspace& w) { w.edit_bytes(file, change); };
    out_.push_back(std::move(m));
  }

  void data(const Stored& s) {
    elements(s);
    if (s.row_bytes() > 0 && s.rows > 1) rows(s);
    ranges(s, "page", kPage);
    ranges(s, "block", kBlock);
    ranges(s, "third", (s.bytes / 3 + 1) / 2 * 2);
    const ByteRange all = s.all();
    add(s, "tensor times 1.02", "", {}, [=](std::string& b) { scale(b, all, s.dtype, 1.02f); });
    add(s, "tensor moved by one element", "", {}, [=](std::string& b) { turn(b, all, s.element_bytes()); });
    add(s, "tensor negated", "", {}, [=](std::string& b) { negate(b, all, s.dtype); });
  }

  void elements(const Stored& s) {
    const size_t width = s.element_bytes();
    const size_t at =
        s.offset + static_cast<size_t>(rng_.below(static_cast<int64_t>(s.bytes / width))) * width;
    const ByteRange element{at, std::min(at + width, s.offset + s.bytes)};
    const std::string where = fmt::format("byte {}", at - s.offset);
    add(s, "element zeroed", where, {}, [=](std::string& b) { zero(b, element); });
    add(s, "element negated", where, {}, [=](std::string& b) { negate(b, element, s.dtype); });
    const int bit = high_bit(s.dtype, rng_);
    add(s, "one bit flipped", fmt::format("{} bit {}", where, bit), {},
        [=](std::string& b) { flip_bit(b, element.begin + static_cast<size_t>(bit / 8), bit % 8); });
  }

  void rows(const Stored& s) {
    const auto r = static_cast<size_t>(rng_.below(static_cast<int64_t>(s.rows)));
    const size_t other = (r + 1 + static_cast<size_t>(rng_.below(static_cast<int64_t>(s.rows) - 1))) % s.rows;
    const std::string where = fmt::format("row {}", r), both = fmt::format("rows {} and {}", r, other);
    const ByteRange row = s.row(r), row2 = s.row(other);
    add(s, "row zeroed", where, {r}, [=](std::string& b) { zero(b, row); });
    add(s, "row negated", where, {r}, [=](std::string& b) { negate(b, row, s.dtype); });
    add(s, "two rows swapped", both, {r, other}, [=](std::string& b) { swap_ranges(b, row, row2); });
    add(s, "row of another", both, {r}, [=](std::string& b) {
      std::copy_n(b.begin() + static_cast<ptrdiff_t>(row2.begin), row.size(),
                  b.begin() + static_cast<ptrdiff_t>(row.begin));
    });
    add(s, "row times 1.1", where, {r}, [=](std::string& b) { scale(b, row, s.dtype, 1.1f); });
    add(s, "rows moved by one", "", {r}, [=](std::string& b) { turn(b, s.all(), s.row_bytes()); });
  }

  // A page or a block of the weight file that went wrong.
  void ranges(const Stored& s, const std::string& what, size_t size) {
    if (s.bytes < size || size == 0) return;
    const size_t at = s.offset + static_cast<size_t>(rng_.below(static_cast<int64_t>(s.bytes / size))) * size;
    const ByteRange range{at, at + size};
    const std::string where = fmt::format("bytes {} to {}", at - s.offset, at - s.offset + size);
    std::vector<size_t> hit;
    if (s.row_bytes() > 0) hit = {(at - s.offset) / s.row_bytes()};
    add(s, what + " zeroed", where, hit, [=](std::string& b) { zero(b, range); });
    add(s, what + " negated", where, hit, [=](std::string& b) { negate(b, range, s.dtype); });
  }

  // Codes and their scale or table that fit each other, and not the source.
  void both(const Stored& codes, const Stored& param) {
    const auto r = static_cast<size_t>(rng_.below(static_cast<int64_t>(codes.rows)));
    const std::string where = fmt::format("row {}", r);
    const size_t width = param.element_bytes();
    if (param.param == "scale" && codes.row_bytes() > 0 && param.bytes == codes.rows * width) {
      const ByteRange row = codes.row(r), scale_of{param.offset + r * width, param.offset + (r + 1) * width};
      add(codes, "row zeroed, its scale times 100", where, {r}, [=](std::string& b) {
        zero(b, row);
        scale(b, scale_of, param.dtype, 100);
      });
    }
    if (param.param != "lut") return;
    const size_t table = (size_t{1} << dtype_bits(codes.dtype)) * width;
    if (table == 0 || param.bytes % table != 0) return;
    const auto which = static_cast<size_t>(rng_.below(static_cast<int64_t>(param.bytes / table)));
    const ByteRange entries{param.offset + which * table, param.offset + (which + 1) * table};
    const size_t first = which * codes.rows / (param.bytes / table);
    add(param, "table: one zeroed", fmt::format("table {}", which), {first},
        [=](std::string& b) { zero(b, entries); });
  }

  // Scales, offsets, tables, masks of a compressed weight.
  void parameter(const Stored& s) {
    const std::string kind = s.param == "lut" ? "table" : s.param;
    const size_t width = s.element_bytes();
    const auto count = static_cast<int64_t>(s.bytes / width);
    const auto at = static_cast<size_t>(rng_.below(count)), other = static_cast<size_t>(rng_.below(count));
    const ByteRange one{s.offset + at * width, s.offset + (at + 1) * width},
        two{s.offset + other * width, s.offset + (other + 1) * width};
    const std::string where = fmt::format("entry {}", at);
    const std::vector<size_t> hit = {at};
    add(s, kind + ": one entry times 1.2", where, hit, [=](std::string& b) { scale(b, one, s.dtype, 1.2f); });
    add(s, kind + ": one entry zeroed", where, hit, [=](std::string& b) { zero(b, one); });
    add(s, kind + ": one entry negated", where, hit, [=](std::string& b) { negate(b, one, s.dtype); });
    if (at != other)
      add(s, kind + ": two entries swapped", where, hit, [=](std::string& b) { swap_ranges(b, one, two); });
    add(s, kind + ": all times 1.02", "", {}, [=](std::string& b) { scale(b, s.all(), s.dtype, 1.02f); });
    add(s, kind + ": moved by one", "", {}, [=](std::string& b) { turn(b, s.all(), width); });
  }

  const Subject& subject_;
  Rng& rng_;
  std::vector<Mutation> out_;
};

}  // namespace

std::vector<std::string> weight_names_at(const Subject& subject, const std::string& file, size_t byte) {
  if (!file.ends_with(kWeightFile)) return {};
  for (const Stored& s : Finder(subject).find())
    if (file == s.package + "/" + std::string(kWeightFile) && byte >= s.offset && byte < s.offset + s.bytes) {
      std::vector<std::string> out = places_of(subject, s.package, s.final_name);
      out.push_back(s.name);
      return out;
    }
  return {};
}

std::vector<Mutation> weight_sites(const Subject& subject, Rng& rng) { return Sites(subject, rng).find(); }

}  // namespace anemone::mutation
