// Reading parts of tensors as weights: by hand on small ones, and every block type against the dense tensor.
#include "families/weight_ref.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_builder.h"
#include "kernels/dequant.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

// Elements 0, 1, 2, … of the row-major shape.
TensorReader counting(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t d : shape) count *= d;
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) test::put<float>(bytes, static_cast<float>(i));
  return {MappedFile::from_bytes("t.bin", bytes), "w", BlockType::f32, std::move(shape), 0};
}

std::vector<float> read(const TensorReader& tensor, const WeightRef& ref, int64_t begin, int64_t end) {
  std::vector<float> out(static_cast<size_t>((end - begin) * ref.columns), -1);
  read_rows(tensor, ref, begin, end, out);
  release_rows(tensor, ref, begin, end);
  return out;
}

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("rows, columns, slices and transposes of small tensors are those of a hand calculation") {
  const TensorReader matrix = counting({3, 4});
  CHECK(read(matrix, {"w", 0, 3, 4}, 1, 3) == Floats{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(read(matrix, {"w", 1, 3, 4}, 0, 1) == Floats{4, 5, 6, 7});
  CHECK(read(matrix, {.tensor = "w", .row_begin = 1, .row_end = 3, .columns = 2, .column_begin = 1}, 0, 2) ==
        Floats{5, 6, 9, 10});
  const WeightRef turned{.tensor = "w", .row_end = 4, .columns = 3, .transposed = true};
  CHECK(read(matrix, turned, 0, 4) == Floats{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(read(matrix, turned, 2, 3) == Floats{2, 6, 10});

  const TensorReader stack = counting({2, 3, 4});
  CHECK(read(stack, {.tensor = "w", .row_end = 3, .columns = 4, .slice = 1}, 2, 3) == Floats{20, 21, 22, 23});
  WeightRef expert{.tensor = "w", .row_begin = 2, .row_end = 4, .columns = 2, .slice = 1, .transposed = true};
  expert.column_begin = 1;
  CHECK(read(stack, expert, 0, 2) == Floats{18, 22, 19, 23});
  CHECK(read(stack, expert, 1, 1).empty());
  // Without a slice the matrices of a stack are its rows, as of a convolution [channels, 1, taps].
  CHECK(read(counting({2, 1, 3}), {"w", 0, 2, 3}, 1, 2) == Floats{3, 4, 5});

  CHECK(read(counting({4}), {"w", 1, 4, 1}, 0, 3) == Floats{1, 2, 3});
  CHECK(read(counting({2, 4}), {.tensor = "w", .row_end = 4, .columns = 1, .slice = 1}, 1, 3) ==
        Floats{5, 6});
  // Heads of 4 in pairs: their rows are stored as 0 2 1 3.
  CHECK(read(counting({8}), {.tensor = "w", .row_end = 8, .columns = 1, .interleaved_head = 4}, 0, 8) ==
        Floats{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(read(counting({1, 8}),
             {.tensor = "w", .row_end = 8, .columns = 1, .interleaved_head = 4, .transposed = true}, 1,
             6) == Floats{2, 1, 3, 4, 6});
}

TEST_CASE("a part that a tensor does not have is an error with both sides") {
  const TensorReader stack = counting({2, 3, 4});
  const auto message = [&](const WeightRef& ref, int64_t begin, int64_t end) {
    return error_of([&] { read(stack, ref, begin, end); });
  };
  const std::string past = message({.tensor = "w", .row_end = 3, .columns = 4, .slice = 2}, 0, 3);
  CHECK_MESSAGE(past.find("t.bin: tensor 'w' has no such part; found [2, 3, 4], expected one that holds "
                          "slice 2, rows 0 to 3, columns 0 to 4") != std::string::npos,
                past);
  CHECK(message({.tensor = "w", .row_end = 3, .columns = 4, .slice = INT64_MAX}, 0, 3) != "");
  CHECK(message({.tensor = "w", .row_end = 4, .columns = 4, .slice = 0}, 0, 4).find("rows 0 to 4") !=
        std::string::npos);
  CHECK(message({.tensor = "w", .row_end = 3, .columns = 3, .slice = 0, .column_begin = 2}, 0, 3)
            .find("columns 2 to 5") != std::string::npos);
  CHECK(message({.tensor = "w", .row_end = 4, .columns = 4, .slice = 0, .transposed = true}, 0, 4)
            .find("of its transpose") != std::string::npos);
  CHECK(message({.tensor = "w", .row_end = 3, .columns = 4, .slice = 0}, 2, 4) != "");
  CHECK(message({.tensor = "w", .row_end = 3, .columns = 4, .slice = 0}, -1, 2) != "");
  CHECK(message({.tensor = "w", .row_end = 3, .columns = 4, .interleaved_head = 2, .slice = 0}, 0, 3) != "");
  CHECK(error_of([] {
          read(counting({4}), {.tensor = "w", .row_end = 1, .columns = 1, .slice = 0}, 0, 1);
        }) != "");
  Floats little(3);
  CHECK_THROWS_WITH_AS(
      read_rows(stack, {.tensor = "w", .row_end = 3, .columns = 4, .slice = 0}, 0, 1, little),
      doctest::Contains("found room for 3 elements, expected 4"), Error);
}

TEST_CASE("references that differ in any part differ") {
  const WeightRef plain{"w", 0, 4, 4};
  WeightRef other = plain;
  CHECK(other == plain);
  other.slice = 1;
  CHECK(plain < other);
  other = plain;
  other.transposed = true;
  CHECK(other != plain);
}

namespace {

// One tensor [slices, lines, length] of a type with random bytes, and all its elements.
struct Dense {
  static constexpr int64_t kSlices = 3, kLines = 8;
  int64_t length;
  std::string bytes;
  Floats values;
  BlockType type;

  Dense(const BlockInfo& info, uint32_t seed)
      : length(info.elements * (info.elements == 1       ? 12
                                : info.elements % 8 == 0 ? 2
                                                         : 8)),
        type(info.type) {
    const int64_t count = kSlices * kLines * length;
    std::mt19937 random(seed);
    bytes.resize(block_bytes(info, count));
    for (char& c : bytes) c = static_cast<char>(random() & 0xbf);  // no number in it is infinite or NaN
    values.resize(static_cast<size_t>(count));
    decode_blocks_plain(type, reinterpret_cast<const std::byte*>(bytes.data()), count, values.data());
  }

  // As a stack, or as one matrix of all lines.
  TensorReader reader(bool stack) const {
    const auto shape = stack ? std::vector<int64_t>{kSlices, kLines, length}
                             : std::vector<int64_t>{kSlices * kLines, length};
    return {MappedFile::from_bytes("t.bin", bytes), "w", type, shape, 0};
  }

  // The weight, element by element: what each field means, and no more.
  Floats weight(const WeightRef& ref) const {
    std::vector<int64_t> stored(static_cast<size_t>(ref.rows()));  // where row i of the model is
    const int64_t head = ref.interleaved_head ? ref.interleaved_head : 1;
    for (int64_t s = 0; s < (ref.row_end + head - 1) / head * head; ++s) {
      const int64_t in_head = s % head;
      const int64_t of_model =
          s - in_head + (ref.interleaved_head ? in_head / 2 + (in_head % 2) * head / 2 : 0);
      if (of_model >= ref.row_begin && of_model < ref.row_end)
        stored[static_cast<size_t>(of_model - ref.row_begin)] = s;
    }
    Floats out;
    for (const int64_t row : stored)
      for (int64_t c = ref.column_begin; c < ref.column_begin + ref.columns; ++c) {
        const int64_t line = ref.transposed ? c : row, at = ref.transposed ? row : c;
        out.push_back(
            values[static_cast<size_t>((std::max<int64_t>(ref.slice, 0) * kLines + line) * length + at)]);
      }
    return out;
  }
};

void compare(const Dense& dense, const WeightRef& ref, std::mt19937& random) {
  const TensorReader tensor = dense.reader(ref.slice >= 0);
  const Floats whole = dense.weight(ref);
  const auto same = [&](const Floats& part, int64_t begin) {
    return part.empty() ||
           std::memcmp(part.data(), whole.data() + begin * ref.columns, part.size() * sizeof(float)) == 0;
  };
  CHECK(same(read(tensor, ref, 0, ref.rows()), 0));
  const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(ref.rows()));
  const auto end = begin + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(ref.rows() - begin));
  CHECK(same(read(tensor, ref, begin, end), begin));
}

}  // namespace

TEST_CASE("every block type gives every part that a reference can name") {
  std::mt19937 random(11);
  int types = 0;
  for (uint32_t id = 0; id < 300; ++id) {
    const BlockInfo* info = block_info(static_cast<BlockType>(id));
    if (!info || !info->decodes) continue;
    CAPTURE(info->name);
    ++types;
    const Dense dense(*info, id);
    for (const int64_t slice : {-1, 0, 2})
      for (const bool transposed : {false, true})
        for (const int64_t head : {0, 4})
          for (const bool part : {false, true}) {
            const int64_t lines = slice < 0 ? Dense::kSlices * Dense::kLines : Dense::kLines;
            const int64_t out = transposed ? dense.length : lines, in = transposed ? lines : dense.length;
            WeightRef ref{"w", 0, out, in};
            ref.slice = slice;
            ref.transposed = transposed;
            ref.interleaved_head = head;
            if (part) {
              ref.row_begin = 3;
              ref.row_end = 7;
              ref.column_begin = 1;
              ref.columns = in - 3;
            }
            CAPTURE(slice);
            CAPTURE(transposed);
            CAPTURE(head);
            compare(dense, ref, random);
          }
  }
  CHECK(types >= 30);
}

TEST_CASE("a weight is read from a checkpoint by the name of its tensor") {
  std::string data;
  for (int i = 0; i < 24; ++i) test::put<float>(data, static_cast<float>(i));
  test::GgufBuilder b;
  b.value("general.architecture", "llama").tensor("experts", {4, 3, 2}, 0, 0).data(data);
  TempFolder folder;
  const Checkpoint c = Checkpoint::open(folder.write("m.gguf", b.bytes()));
  Floats row(4);
  read_rows(c, {.tensor = "experts", .row_end = 3, .columns = 4, .slice = 1}, 0, 1, row);
  CHECK(row == Floats{12, 13, 14, 15});
  CHECK_THROWS_WITH_AS(read_rows(c, {.tensor = "other", .row_end = 3, .columns = 4}, 0, 1, row),
                       doctest::Contains("there is no tensor 'other'"), Error);
}
