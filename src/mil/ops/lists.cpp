// Lists of tensors: make_list, list_write, list_read, list_gather, list_scatter, list_length.
// An item that was never written has neither dimensions nor data (a number has one element of data); it reads
// as zeros of the element's shape, where that is known.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/shape.h"
#include "mil/op.h"

namespace anemone::ops {
namespace {

using Item = TensorList::Item;

constexpr int64_t kLongest = int64_t{1} << 20;  // items: a list grows to the index written, whatever that is

void check_length(int64_t length) {
  if (length < 0 || length > kLongest)
    throw errorf("a list cannot have {} items", length).expected(fmt::format("0 to {}", kLongest));
}

bool written(const Item& item) { return !item.dims.empty() || !item.data.empty(); }

const Type& element(const OpCall& c) { return c.type("ls").items[0]; }

// elem_shape is a tuple: numbers, names of sizes that are not known, or one vector.
Shape element_shape(const OpCall& c) {
  Shape shape;
  for (int i = 0; i < c.count("elem_shape"); ++i) {
    if (c.type("elem_shape", i).dtype == DType::string) {
      shape.push_back(Dim::unknown());
      continue;
    }
    for (const int64_t size : c.integers("elem_shape", i)) {
      if (size < -1) throw errorf("'elem_shape' has a negative entry").found(fmt::format("{}", size));
      shape.push_back(size < 0 ? Dim::unknown() : Dim(size));
    }
  }
  return shape;
}

Types infer_make(const OpCall& c) {
  const DType dtype = dtype_from_name(c.text("dtype"));
  if (!(kWideOrBool & only(dtype)))
    throw errorf("a list cannot hold '{}'", c.text("dtype")).expected(dtypes_text(kWideOrBool));
  Dim length = Dim::unknown();
  if (!c.has("init_length") || c.known("init_length")) {
    check_length(c.integer("init_length"));
    if (!c.flag("dynamic_length")) length = c.integer("init_length");
  }
  return {Type::list(Type::tensor(dtype, element_shape(c)), length)};
}

void run_make(const OpCall& c) {
  c.out_list().dtype = c.out_type().items[0].dtype;
  c.out_list().items.assign(static_cast<size_t>(c.integer("init_length")), {});
}

Types infer_length(const OpCall&) { return {Type::tensor(DType::int32)}; }

void run_length(const OpCall& c) { c.out_ints()[0] = static_cast<int32_t>(c.list("ls")->items.size()); }

// The type of the list after tensors of type `value` were put into it.
Type after_write(const OpCall& c, const Type& value) {
  const Type& ls = c.type("ls");
  if (!element(c).is_tensor()) return Type::list(value, Dim::unknown());
  if (!compatible(element(c), value))
    throw errorf("'value' does not fit in the list").found(value.text()).expected(element(c).text());
  return Type::list(Type::tensor(element(c).dtype, element(c).shape), ls.length);
}

// Writing behind the end makes the list longer, so only a place known to be inside leaves the length as it
// is.
void open_length(Type& list, const OpCall& c, std::string_view param) {
  if (!list.length.known()) return;
  const bool inside = c.known(param) && [&] {
    const std::vector<int64_t> at = c.integers(param);
    return std::all_of(at.begin(), at.end(), [&](int64_t i) { return i < list.length.size(); });
  }();
  if (!inside) list.length = Dim::unknown();
}

Types infer_write(const OpCall& c) {
  Type out = after_write(c, c.type("value"));
  open_length(out, c, "index");
  return {out};
}

void put(TensorList& list, int64_t index, std::span<const int64_t> dims, const void* data) {
  if (index < 0) throw errorf("an index of a list must not be negative").found(fmt::format("{}", index));
  check_length(index + 1);
  if (static_cast<size_t>(index) >= list.items.size()) list.items.resize(static_cast<size_t>(index) + 1);
  Item& item = list.items[static_cast<size_t>(index)];
  item.dims.assign(dims.begin(), dims.end());
  item.data.resize(static_cast<size_t>(element_count(dims)));
  if (!item.data.empty()) std::memcpy(item.data.data(), data, item.data.size() * 4);
}

void run_write(const OpCall& c) {
  c.out_list() = *c.list("ls");
  c.out_list().dtype = c.out_type().items[0].dtype;
  put(c.out_list(), c.integer("index"), c.type("value").dims(), c.data("value"));
}

Types infer_scatter(const OpCall& c) {
  const Type &value = c.type("value"), &indices = c.type("indices");
  if (value.rank() < 1 || indices.rank() != 1)
    throw errorf("'indices' must be a vector and 'value' hold a tensor for each of them")
        .found(indices.text() + " and " + value.text());
  if (value.dim(0).known() && indices.dim(0).known() && value.dim(0) != indices.dim(0))
    throw errorf("{} tensors cannot go to {} places", value.dim(0).text(), indices.dim(0).text());
  Type out = after_write(c, Type::tensor(value.dtype, Shape(value.shape.begin() + 1, value.shape.end())));
  open_length(out, c, "indices");
  return {out};
}

void run_scatter(const OpCall& c) {
  c.out_list() = *c.list("ls");
  c.out_list().dtype = c.out_type().items[0].dtype;
  const std::vector<int64_t> dims = c.type("value").dims();
  const std::span<const int64_t> item = std::span(dims).subspan(1);
  const int64_t size = element_count(item);
  const auto* data = static_cast<const uint32_t*>(c.data("value"));
  for (const int64_t index : c.integers("indices")) {
    put(c.out_list(), index, item, data);
    data += size;
  }
}

const Item& item_at(const TensorList& list, int64_t index) {
  if (index < 0 || static_cast<size_t>(index) >= list.items.size())
    throw errorf("the list has no item {}", index).found(fmt::format("{} items", list.items.size()));
  return list.items[static_cast<size_t>(index)];
}

// The type of the items at `indices`: that of those written, else what the list says. They must agree.
Type type_of_items(const OpCall& c, const TensorList& list, std::span<const int64_t> indices) {
  const Item* like = nullptr;
  for (const int64_t index : indices) {
    const Item& item = item_at(list, index);
    if (!written(item)) continue;
    if (like && like->dims != item.dims)
      throw errorf("the items of the list differ in shape")
          .found(shape_text(item.dims))
          .expected(shape_text(like->dims));
    like = &item;
  }
  const bool open = !element(c).is_tensor() || !element(c).fixed();
  if (!like && open)  // zeros in the shape of what was written elsewhere
    for (const Item& item : list.items)
      if (!like && written(item)) like = &item;
  if (like) return Type::tensor(list.dtype, like->dims);
  if (open && !indices.empty())
    throw errorf("an item is read before it is written, and its shape is not known");
  return element(c);
}

Type element_type(const OpCall& c, std::string_view param) {
  if (c.list("ls") && c.known(param)) return type_of_items(c, *c.list("ls"), c.integers(param));
  if (!element(c).is_tensor()) throw errorf("the list was never written, and its type is not known");
  return element(c);
}

Types infer_read(const OpCall& c) {
  const Type& index = c.type("index");
  if (index.fixed() && index.size() != 1) throw errorf("'index' must be one number").found(index.text());
  const Type item = element_type(c, "index");
  return {Type::tensor(item.dtype, item.shape)};
}

void copy_item(const Item& item, int64_t size, uint32_t* out) {
  if (!written(item)) {
    std::fill_n(out, size, 0u);
    return;
  }
  if (static_cast<int64_t>(item.data.size()) != size)
    throw errorf("an item of the list has the wrong shape").found(shape_text(item.dims));
  std::copy(item.data.begin(), item.data.end(), out);
}

void run_read(const OpCall& c) {
  copy_item(item_at(*c.list("ls"), c.integer("index")), c.out_type().size(), static_cast<uint32_t*>(c.out()));
}

Types infer_gather(const OpCall& c) {
  const Type& indices = c.type("indices");
  if (indices.rank() != 1) throw errorf("'indices' must be a vector").found(indices.text());
  const Type item = element_type(c, "indices");
  Shape out = item.shape;
  // Nothing is known about an empty list; any size is fine.
  if (indices.dim(0) == Dim(0))
    for (Dim& d : out) d = d.known() ? d : Dim(0);
  out.insert(out.begin(), indices.dim(0));
  return {Type::tensor(item.dtype, out)};
}

void run_gather(const OpCall& c) {
  const std::vector<int64_t> indices = c.integers("indices");
  if (indices.empty()) return;
  const int64_t size = c.out_type().size() / static_cast<int64_t>(indices.size());
  auto* out = static_cast<uint32_t*>(c.out());
  for (const int64_t index : indices) {
    copy_item(item_at(*c.list("ls"), index), size, out);
    out += size;
  }
}

const Param kLs{"ls", kAnyDType, 0, kList};
const Param kValue{"value", kNumberOrBool, 'T'};

const Op kOps[] = {
    {"list_gather",
     {{Opset::ios15, {kLs, {"indices", kInt32}}}},
     "the items at `indices`, stacked",
     infer_gather,
     run_gather},
    {"list_length", {{Opset::ios15, {kLs}}}, "the number of items", infer_length, run_length},
    {"list_read", {{Opset::ios15, {kLs, {"index", kInt32}}}}, "the item at `index`", infer_read, run_read},
    {"list_scatter",
     {{Opset::ios15, {kLs, {"indices", kInt32}, kValue}}},
     "the list with the tensors stacked in `value` at `indices`; it grows as needed",
     infer_scatter,
     run_scatter},
    {"list_write",
     {{Opset::ios15, {kLs, {"index", kInt32}, kValue}}},
     "the list with `value` at `index`; it grows as needed",
     infer_write,
     run_write},
    {"make_list",
     {{Opset::ios15,
       {{"init_length", kInt32, 0, kOptional, int64_t{1}},
        {"dynamic_length", kBool, 0, kOptional | kConst, true},
        {"elem_shape", kInt32 | kString, 0, kOptional | kConst | kMany},
        {"dtype", kString, 0, kOptional | kConst, "fp32"}}}},
     "a list of `init_length` tensors of the shape and type given, not yet written",
     infer_make,
     run_make},
};

}  // namespace

std::span<const Op> ops_lists() { return kOps; }

}  // namespace anemone::ops
