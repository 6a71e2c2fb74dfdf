// Matrix products: linear (a constant weight and a bias) and matmul (numpy's rules for batches).
#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/matrix.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// Elements of an integer parameter, decoded where it is stored.
const int32_t* integers(const OpCall& c, std::string_view param, std::vector<int32_t>& room) {
  const Tiles tiles = c.tiles(param);
  if (!tiles.stored()) return static_cast<const int32_t*>(static_cast<const void*>(tiles.dense()));
  room = decode_ints(*tiles.stored());
  return room.data();
}

// A parameter as floats: as it is, or converted from integers into `room`.
Tiles floats(const OpCall& c, std::string_view param, std::vector<float>& room) {
  if (c.type(param).is_float()) return c.tiles(param);
  std::vector<int32_t> decoded;
  const int32_t* data = integers(c, param, decoded);
  room.assign(data, data + c.type(param).size());
  return Tiles(nullptr, room.data());
}

// A product of floats and integers is computed in floats; an integer result is then converted.
void multiply_to_out(const OpCall& c, Product product) {
  if (c.out_type().is_float()) {
    product.out = c.out_floats();
    return multiply(c.pool(), product);
  }
  std::vector<float> out(static_cast<size_t>(c.out_type().size()));
  product.out = out.data();
  multiply(c.pool(), product);
  constexpr float kEdge = 2147483648.0f;
  std::transform(out.begin(), out.end(), c.out_ints(), [](float v) {
    return v >= kEdge ? INT32_MAX : v >= -kEdge ? static_cast<int32_t>(v) : INT32_MIN;
  });
}

void check_inner(Dim a, Dim b, const Type& x, const Type& y) {
  if (a.known() && b.known() && a != b)
    throw errorf("the inner dimensions of {} and {} do not fit together", x.text(), y.text())
        .found(fmt::format("{} and {}", a.text(), b.text()));
}

Types infer_linear(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& weight = c.type("weight");
  if (x.rank() < 1) throw errorf("'x' must have at least one dimension");
  if (weight.rank() != 2) throw errorf("'weight' must be a matrix").found(weight.text());
  check_inner(x.shape.back(), weight.dim(1), x, weight);
  if (c.has("bias")) {
    const Type& bias = c.type("bias");
    if (bias.rank() != 1 || (bias.dim(0).known() && weight.dim(0).known() && bias.dim(0) != weight.dim(0)))
      throw errorf("'bias' must have one value per row of 'weight'")
          .found(bias.text())
          .expected(weight.dim(0).text());
  }
  Shape out = x.shape;
  out.back() = weight.dim(0);
  return {Type::tensor(x.dtype, out)};
}

void run_linear(const OpCall& c) {
  const std::vector<int64_t> weight = c.type("weight").dims();
  const int64_t n = weight[0], k = weight[1];
  const int64_t m = n == 0 ? 0 : c.out_type().size() / n;
  if (c.type("x").is_float() || c.type("weight").is_float()) {
    std::vector<float> room_x, room_weight, room_bias;
    return multiply_to_out(c, {.m = m,
                               .n = n,
                               .k = k,
                               .a = {floats(c, "x", room_x), 0, k, 1},
                               .b = {floats(c, "weight", room_weight), 0, 1, k},
                               .bias = c.has("bias") ? floats(c, "bias", room_bias).dense() : nullptr});
  }
  std::vector<int32_t> room;
  multiply_integers(m, n, k, {c.ints("x"), k, 1}, {integers(c, "weight", room), 1, k}, c.out_ints());
  if (!c.has("bias")) return;
  const int32_t* bias = c.ints("bias");
  int32_t* out = c.out_ints();
  for (int64_t i = 0; i < m * n; ++i)
    out[i] = static_cast<int32_t>(static_cast<uint32_t>(out[i]) + static_cast<uint32_t>(bias[i % n]));
}

// A side of a matmul: its batch dimensions, and its matrix with a transposition undone.
struct Side {
  Shape batch;
  Dim rows = 1, columns = 1;
  bool vector = false, transposed = false;
};

Side side(const OpCall& c, const char* param, const char* transpose, bool left) {
  const Type& t = c.type(param);
  if (t.rank() < 1) throw errorf("'{}' must have at least one dimension", param);
  Side s;
  if (t.rank() == 1) {
    s.vector = true;
    (left ? s.columns : s.rows) = t.dim(0);
    return s;
  }
  s.transposed = c.flag(transpose);
  s.batch.assign(t.shape.begin(), t.shape.end() - 2);
  s.rows = t.dim(t.rank() - 2);
  s.columns = t.dim(t.rank() - 1);
  if (s.transposed) std::swap(s.rows, s.columns);
  return s;
}

bool is_weight(const OpCall& c, const char* param) { return c.constant(param) || c.stored(param); }

Types infer_matmul(const OpCall& c) {
  const Side x = side(c, "x", "transpose_x", true), y = side(c, "y", "transpose_y", false);
  check_inner(x.columns, y.rows, c.type("x"), c.type("y"));
  Shape out = broadcast(x.batch, y.batch);
  if (!x.vector) out.push_back(x.rows);
  if (!y.vector) out.push_back(y.columns);
  // If the two element types differ, the type of the value is used, not that of the weight.
  const bool weight_first = is_weight(c, "x") && !is_weight(c, "y");
  return {Type::tensor(c.type(weight_first ? "y" : "x").dtype, out)};
}

// Where each product of the batch finds its matrix.
std::vector<int64_t> offsets(const Shape& batch, const std::vector<int64_t>& out_batch, int64_t count,
                             int64_t matrix) {
  std::vector<int64_t> dims;
  for (const Dim d : batch) dims.push_back(d.size());
  const std::vector<int64_t> strides[] = {broadcast_strides(dims, out_batch)};
  std::vector<int64_t> out;
  Walker walk(out_batch, strides);
  for (int64_t i = 0; i < count; ++i, walk.next()) out.push_back(walk.offset(0) * matrix);
  return out;
}

void run_matmul(const OpCall& c) {
  const Side x = side(c, "x", "transpose_x", true), y = side(c, "y", "transpose_y", false);
  int64_t m = x.rows.size();
  const int64_t k = x.columns.size(), n = y.columns.size();
  if (c.out_type().size() == 0) return;
  const Shape batch_shape = broadcast(x.batch, y.batch);
  std::vector<int64_t> batch;
  int64_t count = 1;
  for (const Dim d : batch_shape) {
    batch.push_back(d.size());
    count *= d.size();
  }
  std::vector<int64_t> ax = offsets(x.batch, batch, count, m * k), by = offsets(y.batch, batch, count, k * n);
  const bool one_y = std::all_of(by.begin(), by.end(), [](int64_t o) { return o == 0; });
  if (one_y && !x.transposed && product(x.batch, 0, x.batch.size()) == Dim(count)) {  // one tall product
    m *= count;
    ax = by = {0};
  }
  const int64_t x_row = x.transposed ? 1 : k, x_column = x.transposed ? m : 1;
  const int64_t y_row = y.transposed ? 1 : n, y_column = y.transposed ? k : 1;
  if (c.type("x").is_float() || c.type("y").is_float()) {
    std::vector<float> room_x, room_y;
    return multiply_to_out(c, {.m = m,
                               .n = n,
                               .k = k,
                               .a = {floats(c, "x", room_x), 0, x_row, x_column},
                               .b = {floats(c, "y", room_y), 0, y_row, y_column},
                               .a_offsets = std::move(ax),
                               .b_offsets = std::move(by)});
  }
  std::vector<int32_t> room_x, room_y;
  const int32_t* px = integers(c, "x", room_x);
  const int32_t* py = integers(c, "y", room_y);
  for (size_t i = 0; i < ax.size(); ++i)
    multiply_integers(m, n, k, {px + ax[i], x_row, x_column}, {py + by[i], y_row, y_column},
                      c.out_ints() + static_cast<int64_t>(i) * m * n);
}

const Op kOps[] = {
    {"linear",
     {{Opset::ios15,
       {{"x", kNumber, 'T'}, {"weight", kNumber, 'T', kStored}, {"bias", kNumber, 'T', kOptional | kConst}}},
      {Opset::ios17,
       {{"x", kNumber, 'T'}, {"weight", kNumber, 'U', kStored}, {"bias", kNumber, 'U', kOptional | kConst}}}},
     "x times the transposed weight [out, in], plus a bias",
     infer_linear,
     run_linear},
    {"matmul",
     {{Opset::ios15,
       {{"x", kNumber, 'T', kStored},
        {"y", kNumber, 'T', kStored},
        {"transpose_x", kBool, 0, kOptional | kConst, false},
        {"transpose_y", kBool, 0, kOptional | kConst, false}}},
      {Opset::ios17,
       {{"x", kNumber, 'T', kStored},
        {"y", kNumber, 'U', kStored},
        {"transpose_x", kBool, 0, kOptional | kConst, false},
        {"transpose_y", kBool, 0, kOptional | kConst, false}}}},
     "the matrix product over the last two dimensions, the others broadcast as in numpy",
     infer_matmul,
     run_matmul},
};

}  // namespace

std::span<const Op> ops_linear() { return kOps; }

}  // namespace anemone::ops
