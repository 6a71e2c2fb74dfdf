#include "compress/form_bytes.h"

#include <doctest/doctest.h>

#include "compress/compress.h"
#include "lower/ops.h"
#include "package/package.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

// A convolution whose weight [24, 32, 1, 1] has as many different values as elements.
std::filesystem::path conv_package(const TempFolder& folder) {
  std::vector<float> values;
  for (int i = 0; i < 24 * 32; ++i)
    values.push_back(static_cast<float>((i * 37) % 768 - 384) / 512.0f + 0x1p-11f);
  Package p;
  Function& f = add_function(p.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, 32, 1, 1}));
  Builder b(f);
  Value* w = b.constant(Constant::numbers(values, DType::fp16, {24, 32, 1, 1}), "w");
  b.output(lower::conv1x1(b, x, w, nullptr, "y"));
  p.spec_version = opset_info(Opset::ios18).spec_version;
  p.description = description_of(p.program);
  const auto path = folder / "in.mlpackage";
  write_package(p, path);
  return path;
}

}  // namespace

TEST_CASE("the bytes of a form are known before it is made") {
  struct Row {
    const char* rule;
    uint64_t bytes;  // of 24 rows of 32, by hand
  };
  const Row rows[] = {
      {R"("palettize": {"bits": 4})", 384 + 32},   // 768 * 4 bits; 16 halves
      {R"("palettize": {"bits": 6})", 576 + 128},  // 64 halves
      {R"("palettize": {"bits": 3})", 288 + 16},
      {R"("palettize": {"bits": 1, "group": 1})", 96 + 24 * 4},  // a table a row
      {R"("palettize": {"bits": 4, "group": 8})", 384 + 3 * 32},
      {R"("palettize": {"bits": 4, "group": 8, "int8_lut": true})", 384 + 3 * 16 + 3 * 2},
      {R"("palettize": {"bits": 2, "channel_scale": true})", 192 + 24 * 8 + 24 * 2},
      {R"("palettize": {"bits": 4, "vector": 2})", 192 + 16 * 2 * 2},  // an index for two values
      {R"("quantize": "int8")", 768 + 24 * 2},
      {R"("quantize": {"type": "int8", "per": "tensor"})", 768 + 2},
      {R"("quantize": {"type": "uint8"})", 768 + 24 * 2 + 24},  // with offsets
      {R"("quantize": {"type": "int8", "symmetric": false})", 768 + 24 * 2 + 24},
      {R"("quantize": {"type": "int4", "block": 16})", 384 + 24 * 2 * 2},  // two blocks a row
      {R"("quantize": {"type": "uint4", "block": 16})", 384 + 24 * 2 * 2 + 24},
      {R"("prune": 0.5)", 384 * 2 + 96},  // floor(0.5 * 767) + 1 go
      {R"("prune": {"n": 2, "m": 4})", 384 * 2 + 96},
      {R"("prune": {"n": 3, "m": 5})", (768 - 24 * 18) * 2 + 96},  // 6 whole groups of 5, and 2 left
      {R"("prune": 0.25, "palettize": {"bits": 4})", 576 / 2 + 32 + 96},
      {R"("prune": 0.25, "quantize": "int8")", 576 + 48 + 96},
  };
  const TempFolder folder;
  const auto in = conv_package(folder);
  for (const Row& row : rows) {
    CAPTURE(row.rule);
    const Recipe recipe = parse_recipe(std::string("{\"min_size\": 1, \"rules\": [{") + row.rule + "}]}");
    CHECK(stored_bytes(recipe.rules[0].form, 24, 32) == row.bytes);
    const CompressReport report =
        compress_package(in, folder / "out.mlpackage", {.recipe = recipe, .overwrite = true});
    REQUIRE(report.rows.size() == 1);
    // The axis of the vectors is a number of the program, and counted with what is stored.
    const bool vectors = recipe.rules[0].form.palette && recipe.rules[0].form.palette->vector > 1;
    CHECK(report.rows[0].bytes_after == row.bytes + (vectors ? 4 : 0));
  }
  StorageForm plain;
  plain.dense = true;
  CHECK(stored_bytes(plain, 24, 32) == 24 * 32 * 2);
}
