#include "compress/compress.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "anemone/predictor.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/compressed_program.h"
#include "compress/find.h"
#include "lower/ops.h"
#include "mil/builder.h"
#include "mil/verify.h"
#include "package/package.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

constexpr int64_t kOut = 24, kIn = 32;

std::vector<float> normal_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<float> out(count);
  for (float& v : out) v = round_to_half(normal(random));
  return out;
}

void conv_function(Program& program, const std::string& name, Opset opset, int64_t positions,
                   const std::vector<float>& weight, DType dtype) {
  Function& f = add_function(program, name, opset);
  Value* x = add_input(f, "x", Type::tensor(dtype, {1, kIn, positions, 1}));
  Builder b(f);
  Value* w = b.constant(Constant::numbers(weight, dtype, {kOut, kIn, 1, 1}), "w");
  b.output(lower::conv1x1(b, x, w, nullptr, "y"));
}

std::filesystem::path conv_package(const TempFolder& folder, Opset opset, const std::vector<float>& weight,
                                   DType dtype = DType::fp16, int functions = 1) {
  Package p;
  for (int i = 0; i < functions; ++i)
    conv_function(p.program, functions == 1 ? "main" : "f" + std::to_string(i), opset, 1 + i, weight, dtype);
  p.spec_version = opset_info(opset).spec_version;
  p.description = description_of(p.program);
  const auto path = folder / "in.mlpackage";
  write_package(p, path, {.overwrite = true});
  return path;
}

Recipe recipe(const std::string& rule) {
  return parse_recipe("{\"min_size\": 1, \"rules\": [" + rule + "]}");
}

std::vector<float> weight_of(const std::filesystem::path& path) {
  const auto package = open_package(path);
  const FoundWeights found(package->program);
  REQUIRE(found.weights().size() == 1);
  return decode_floats(*found.weights()[0].weight.stored);
}

std::vector<float> outputs_of(const std::filesystem::path& path, const std::string& function = "") {
  const auto package = open_package(path);
  const auto predictor = make_predictor(package, function, {.threads = 1});
  Array x(DType::fp32, predictor->signature().inputs[0].shape);
  for (size_t i = 0; i < x.values<float>().size(); ++i) x.values<float>()[i] = static_cast<float>(i % 7) - 3;
  return predictor->predict({{"x", x}}).at("y").to_float();
}

double mean_square(const std::vector<float>& a, const std::vector<float>& b) {
  double out = 0;
  for (size_t i = 0; i < a.size(); ++i)
    out += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2) / static_cast<double>(a.size());
  return out;
}

struct Case {
  const char* rule;
  double most;  // error, in units of the variance 0.01
};

// Bounds from rate-distortion of normal values: Max's quantizers, or step^2 / 12 for a range of 4 sigma.
const Case kOld[] = {
    {R"({"palettize": 1})", 0.38},
    {R"({"palettize": 2})", 0.13},
    {R"({"palettize": 4})", 0.011},
    {R"({"palettize": 6})", 0.0008},
    {R"({"palettize": 8})", 0.00008},
    {R"({"palettize": {"bits": 4, "mode": "uniform"}})", 0.02},
    {R"({"palettize": {"bits": 4, "fast": true}})", 0.012},
    {R"({"quantize": "int8"})", 0.0002},
    {R"({"quantize": {"type": "uint8", "symmetric": false}})", 0.0002},
    {R"({"quantize": {"type": "int8", "per": "tensor"}})", 0.0003},
    {R"({"prune": 0.5})", 0.09},
};
const Case kNew[] = {
    {R"({"palettize": 3})", 0.036},
    {R"({"palettize": {"bits": 4, "group": 8}})", 0.011},
    {R"({"palettize": {"bits": 4, "group": 8, "channel_scale": true}})", 0.011},
    {R"({"palettize": {"bits": 4, "int8_lut": true}})", 0.011},
    {R"({"palettize": {"bits": 4, "group": 8, "channel_scale": true, "int8_lut": true}})", 0.011},
    {R"({"palettize": {"bits": 4, "vector": 2}})", 0.13},
    {R"({"palettize": {"bits": 6, "vector": 4, "group": 12}})", 0.13},
    {R"({"quantize": "int4"})", 0.03},
    {R"({"quantize": {"type": "uint4", "symmetric": false}})", 0.03},
    {R"({"quantize": {"type": "int4", "block": 8}})", 0.02},
    {R"({"quantize": {"type": "uint4", "block": 16, "symmetric": false}})", 0.02},
    {R"({"prune": {"n": 2, "m": 4}})", 0.25},
    {R"({"prune": 0.5, "palettize": 4})", 0.09},
    {R"({"prune": 0.5, "palettize": {"bits": 2, "group": 6}})", 0.12},
    {R"({"prune": 0.5, "palettize": {"bits": 4, "int8_lut": true}})", 0.09},
    {R"({"prune": 0.5, "quantize": "int8"})", 0.09},
    {R"({"prune": {"threshold": 0.05}, "quantize": {"type": "uint4", "block": 8, "symmetric": false}})",
     0.06},
};

void check_form(const Case& c, Opset opset, DType dtype) {
  CAPTURE(c.rule);
  const TempFolder folder;
  const std::vector<float> weight = normal_values(kOut * kIn, 4);
  const auto in = conv_package(folder, opset, weight, dtype);
  const auto out = folder / "out.mlpackage", plain = folder / "plain.mlpackage";
  const CompressReport report = compress_package(in, out, {.recipe = recipe(c.rule)});
  REQUIRE(report.rows.size() == 1);
  CHECK(verify(open_package(out)->program).empty());
  const std::vector<float> now = weight_of(out);
  CHECK(mean_square(now, weight) <= c.most * 0.01);
  CHECK(report.rows[0].sqnr_db ==
        doctest::Approx(10 * std::log10(mean_square(weight, std::vector<float>(weight.size())) /
                                        mean_square(now, weight))));
  // Back to plain values: the same numbers, and the engine computes the same with both.
  compress_package(out, plain, {.recipe = recipe(R"({"decompress": true})")});
  CHECK(weight_of(plain) == now);
  CHECK(open_package(plain)->program.functions[0]->body.ops[0]->type == "const");
  const std::vector<float> a = outputs_of(out), b = outputs_of(plain);
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-3));
  // The same input gives the same bytes, on one thread too.
  const auto again = folder / "again.mlpackage";
  compress_package(in, again, {.recipe = recipe(c.rule), .threads = 1});
  CHECK(all_files(again) == all_files(out));
}

}  // namespace

TEST_CASE("every form of iOS 18 decodes to what was meant, and the engine runs it") {
  for (const Case& c : kOld) check_form(c, Opset::ios18, DType::fp16);
  for (const Case& c : kNew) check_form(c, Opset::ios18, DType::fp16);
}

TEST_CASE("older programs get the forms of iOS 16") {
  for (const Case& c : kOld) check_form(c, Opset::ios16, DType::fp16);
  for (const Case& c : kOld) check_form(c, Opset::ios17, DType::fp32);
}

TEST_CASE("a program whose codes are not made yet can be read, and compressed again") {
  const std::vector<float> weight = normal_values(kOut * kIn, 4);
  ThreadPool pool(2);
  for (const Case& c : kNew) {
    CAPTURE(c.rule);
    const TempFolder folder;
    const auto in = conv_package(folder, Opset::ios18, weight), out = folder / "out.mlpackage";
    compress_package(in, out, {.recipe = recipe(c.rule)});
    const Recipe first = recipe(c.rule), second = recipe(R"({"decompress": true})");
    const auto original = open_package(in);
    const CompressedProgram once(original->program, "in", first, pool);
    const Program codes = once.rewritten();
    const FoundWeights found(codes);
    REQUIRE(found.weights().size() == 1);
    const StoredTensor& stored = *found.weights()[0].weight.stored;
    const std::vector<float> expected = weight_of(out);
    CHECK(decode_floats(stored) == expected);
    std::vector<float> part(100);
    stored.read(kIn * 5 + 3, kIn * 5 + 103, part.data());
    CHECK(std::equal(part.begin(), part.end(), expected.begin() + kIn * 5 + 3));

    const CompressedProgram twice(codes, "in", second, pool);
    Package plain = compressed_package(*original, twice, second);
    write_package(plain, folder / "plain.mlpackage");
    CHECK(weight_of(folder / "plain.mlpackage") == expected);
  }
}

TEST_CASE("int8 scales keep the largest halves in range, and nothing is divided by zero") {
  std::vector<float> weight = normal_values(kOut * kIn, 4);
  weight[7] = 65504;                                                        // 65504 / 127 rounds up to 516
  std::fill(weight.begin() + kIn, weight.begin() + 2 * kIn, 0.0f);          // a row of zeros
  std::fill(weight.begin() + 2 * kIn, weight.begin() + 3 * kIn, 0x1p-24f);  // of the smallest half
  for (const DType dtype : {DType::fp16, DType::fp32}) {
    const TempFolder folder;
    const auto in = conv_package(folder, Opset::ios18, weight, dtype), out = folder / "out.mlpackage";
    compress_package(in, out, {.recipe = recipe(R"({"quantize": "int8"})")});
    const std::vector<float> now = weight_of(out);
    CHECK(now[7] == doctest::Approx(65504).epsilon(0.001));
    for (int64_t i = 0; i < kIn; ++i) {
      CHECK(now[static_cast<size_t>(kIn + i)] == 0);
      CHECK(now[static_cast<size_t>(2 * kIn + i)] == doctest::Approx(0x1p-24f));
    }
  }
}

TEST_CASE("single precision weights keep their type") {
  for (const Case& c : kNew) check_form(c, Opset::ios18, DType::fp32);
}

TEST_CASE("values that fit a table survive exactly") {
  const TempFolder folder;
  std::vector<float> weight(kOut * kIn);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 5) * 0.25f - 0.5f;
  const auto in = conv_package(folder, Opset::ios18, weight);
  for (const char* rule : {R"({"palettize": 3})", R"({"palettize": {"bits": 8, "mode": "unique"}})",
                           R"({"palettize": {"bits": 3, "lut": [-0.5, -0.25, 0, 0.25, 0.5, 1, 2, 3]}})"}) {
    const CompressReport r =
        compress_package(in, folder / "out.mlpackage", {.recipe = recipe(rule), .overwrite = true});
    CHECK(weight_of(folder / "out.mlpackage") == weight);
    CHECK(std::isinf(r.rows[0].sqnr_db));
  }
  // Unique takes as few bits as there are values: five need three, and the smallest width it uses then is 4.
  const CompressReport r = compress_package(
      in, folder / "u.mlpackage", {.recipe = recipe(R"({"palettize": {"bits": 8, "mode": "unique"}})")});
  CHECK(r.rows[0].form == "4-bit palette, unique");
  const auto many = conv_package(folder, Opset::ios18, normal_values(kOut * kIn, 1));
  const CompressReport kept = compress_package(
      many, folder / "k.mlpackage", {.recipe = recipe(R"({"palettize": {"bits": 8, "mode": "unique"}})")});
  CHECK(kept.rows.empty());
  REQUIRE(kept.kept.size() == 1);
  CHECK(kept.kept[0].find("more than 256 different values") != std::string::npos);
}

TEST_CASE("a channel of zeros stays zero, in every form") {
  const TempFolder folder;
  std::vector<float> weight = normal_values(kOut * kIn, 8);
  std::fill(weight.begin() + 3 * kIn, weight.begin() + 4 * kIn, 0.0f);
  const auto in = conv_package(folder, Opset::ios18, weight);
  for (const char* rule :
       {R"({"quantize": "int8"})", R"({"quantize": {"type": "uint4", "block": 8, "symmetric": false}})",
        R"({"palettize": {"bits": 4, "group": 1, "channel_scale": true}})",
        R"({"prune": 0.5, "quantize": "int4"})"}) {
    CAPTURE(rule);
    compress_package(in, folder / "out.mlpackage", {.recipe = recipe(rule), .overwrite = true});
    const std::vector<float> now = weight_of(folder / "out.mlpackage");
    for (int64_t i = 0; i < kIn; ++i) CHECK(now[static_cast<size_t>(3 * kIn + i)] == 0);
  }
}

TEST_CASE("a weight of several functions is compressed and stored once") {
  const TempFolder folder;
  const std::vector<float> weight = normal_values(kOut * kIn, 2);
  const auto in = conv_package(folder, Opset::ios18, weight, DType::fp16, 3);
  const auto out = folder / "out.mlpackage";
  const CompressReport r =
      compress_package(in, out, {.recipe = recipe(R"({"palettize": {"bits": 4, "group": 8}})")});
  REQUIRE(r.rows.size() == 1);
  CHECK(r.rows[0].functions == 3);
  const auto package = open_package(out);
  const FoundWeights found(package->program);
  REQUIRE(found.weights().size() == 1);
  CHECK(found.weights()[0].uses.size() == 3);
  // A header, two records with their heads, the codes, three tables.
  CHECK(std::filesystem::file_size(out / "Data/com.apple.CoreML/weights/weight.bin") <
        64 * 5 + kOut * kIn / 2 + 3 * 32);
  for (const char* f : {"f0", "f1", "f2"}) CHECK(outputs_of(out, f).size() > 0);
}

TEST_CASE("what was pruned before stays pruned") {
  const TempFolder folder;
  const auto in = conv_package(folder, Opset::ios18, normal_values(kOut * kIn, 3));
  const auto sparse = folder / "sparse.mlpackage", both = folder / "both.mlpackage";
  compress_package(in, sparse, {.recipe = recipe(R"({"prune": 0.6})")});
  compress_package(sparse, both, {.recipe = recipe(R"({"palettize": 4})")});
  const std::vector<float> a = weight_of(sparse), b = weight_of(both);
  for (size_t i = 0; i < a.size(); ++i) CHECK((a[i] == 0) == (b[i] == 0));
}

TEST_CASE("rules choose by name, package, operation and size") {
  Weight w;
  w.name = "l3_gate_weight";
  w.kinds = {"conv"};
  w.type = Type::tensor(DType::fp16, {64, 64, 1, 1});
  const Recipe r = parse_recipe(R"({"min_size": 100, "skip": ["*_norm", "op:gather"], "rules": [
      {"match": "head_*/*", "quantize": "int8"},
      {"match": "l?_gate*", "min_size": 5000, "palettize": 2},
      {"op": "conv", "palettize": {"bits": 4, "group": 16}},
      {"palettize": 8}]})");
  CHECK(r.form_of("layers_00", w).palette->bits == 4);
  CHECK(r.form_of("head_01", w).integers->dtype == DType::int8);
  CHECK(r.text() == "mixed");
  w.type = Type::tensor(DType::fp16, {128, 64, 1, 1});
  CHECK(r.form_of("layers_00", w).palette->bits == 2);
  w.kinds = {"linear"};
  w.name = "other";
  CHECK(r.form_of("layers_00", w).palette->bits == 8);
  w.name = "x_norm";
  CHECK(r.form_of("layers_00", w).keep);
  w.name = "table";
  w.kinds = {"gather"};
  CHECK(r.form_of("layers_00", w).keep);
  CHECK(matches("a*b?c", "axxbyc"));
  CHECK(!matches("a*b?c", "axxbc"));
}

TEST_CASE("wrong combinations are refused with what would work") {
  const TempFolder folder;
  const auto in = conv_package(folder, Opset::ios18, normal_values(kOut * kIn, 6));
  const auto old = folder / "old";
  std::filesystem::create_directories(old);
  struct Wrong {
    const char* rule;
    const char* says;
  };
  const Wrong kWrong[] = {
      {R"({"palettize": 5})", "1, 2, 3, 4, 6 or 8"},
      {R"({"palettize": {"bits": 4, "group": 16}})", "use --group 24"},
      {R"({"quantize": {"type": "int4", "block": 5}})", "one of 32, 16, 8, 4, 2, 1"},
      {R"({"quantize": "int3"})", "int8, uint8, int4 or uint4"},
      {R"({"palettize": 4, "quantize": "int8"})", "cannot be combined"},
      {R"({"prune": 1.5})", "0 to below 1"},
      {R"({"prune": {"n": 4, "m": 2}})", "n below m"},
      {R"({"palettize": {"bits": 2, "lut": [1, 2, 3]}})", "4 for 2 bits"},
      {R"({"palettize": {"bits": 4, "vector": 5}})", "do not divide the 24"},
      {R"({"palettize": {"bits": 4, "vector": 2, "mode": "uniform"}})", "use mode kmeans"},
      {R"({"palettise": 4})", "unknown key 'palettise'"},
      {R"({"keep": true, "prune": 0.5})", "cannot be both dense"},
      {R"({"match": "w"})", "nothing to do"},
  };
  for (const Wrong& w : kWrong) {
    CAPTURE(w.rule);
    const std::string said =
        error_of([&] { compress_package(in, folder / "out.mlpackage", {.recipe = recipe(w.rule)}); });
    CHECK_MESSAGE(said.find(w.says) != std::string::npos, said);
    CHECK(!std::filesystem::exists(folder / "out.mlpackage"));
  }
  const auto ios17 = conv_package(folder, Opset::ios17, normal_values(kOut * kIn, 6));
  for (const char* rule : {R"({"palettize": 3})", R"({"palettize": {"bits": 4, "group": 8}})",
                           R"({"quantize": "int4"})", R"({"prune": 0.5, "palettize": 4})"}) {
    const std::string said =
        error_of([&] { compress_package(ios17, folder / "out.mlpackage", {.recipe = recipe(rule)}); });
    CHECK_MESSAGE(said.find("convert the model again for iOS 18, or use") != std::string::npos, said);
  }
  const auto ios15 = conv_package(folder, Opset::ios15, normal_values(kOut * kIn, 6));
  CHECK(error_of([&] {
          compress_package(ios15, folder / "out.mlpackage", {.recipe = recipe(R"({"palettize": 4})")});
        }).find("iOS 16") != std::string::npos);
  std::vector<float> broken = normal_values(kOut * kIn, 6);
  broken[77] = INFINITY;
  const auto infinite = conv_package(folder, Opset::ios18, broken);
  for (const char* rule :
       {R"({"palettize": 4})", R"({"quantize": "int8"})", R"({"palettize": {"bits": 4, "vector": 2}})"})
    CHECK(error_of([&] {
            compress_package(infinite, folder / "out.mlpackage", {.recipe = recipe(rule)});
          }).find("not finite") != std::string::npos);
}

TEST_CASE("forms that leave the Neural Engine are warned of, with the rule") {
  const TempFolder folder;
  const auto in = conv_package(folder, Opset::ios18, normal_values(kOut * kIn, 6));
  const auto rules = [&](const char* rule) {
    std::string out;
    for (const auto& w :
         compress_package(in, folder / "o.mlpackage", {.recipe = recipe(rule), .overwrite = true}).warnings)
      out += w.rule + " ";
    return out;
  };
  CHECK(rules(R"({"palettize": {"bits": 4, "group": 8}})").empty());
  CHECK(rules(R"({"quantize": "int8"})").empty());
  CHECK(rules(R"({"quantize": {"type": "int4", "block": 8}})") == "Q02 ");
  CHECK(rules(R"({"palettize": {"bits": 4, "vector": 2}})") == "Q06 ");
  CHECK(rules(R"({"palettize": {"bits": 4, "int8_lut": true}})") == "Q07 ");
  CHECK(rules(R"({"palettize": {"bits": 2, "channel_scale": true}})") == "Q09 Q14 ");
}
