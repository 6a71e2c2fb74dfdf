// Weights of ONNX graphs against the matrices that onnxruntime takes them for (tests/oracle/make_onnx_weights.py), and
// combinations that are refused.
#include "checkpoint/onnx_weights.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/half.h"
#include "base/npy.h"
#include "kernels/codes.h"
#include "support/data.h"

using namespace anemone;

namespace {

const TensorReader* find(const std::vector<TensorReader>& tensors, std::string_view name) {
  for (const TensorReader& t : tensors)
    if (t.name() == name) return &t;
  return nullptr;
}

}  // namespace

TEST_CASE("weights of ONNX operators are bit for bit those of onnxruntime") {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/data/onnx/weights")) {
    if (entry.path().extension() != ".onnx") continue;
    CAPTURE(entry.path().filename().string());
    const OnnxModel model = OnnxModel::open(entry.path());
    OnnxWeights weights(model);
    const std::vector<TensorReader> tensors = weights.take_tensors();
    std::filesystem::path golden = entry.path();
    const Array expected = read_npy(golden.replace_extension(".npy"));
    const TensorReader* t = nullptr;
    for (const char* name : {"B", "D", "W"})
      if (!t) t = find(tensors, name);
    REQUIRE(t);
    REQUIRE(t->shape() == expected.shape());
    std::vector<float> found(static_cast<size_t>(t->elements()));
    t->read_rows(0, t->rows(), found);
    const std::vector<float> wanted = expected.to_float();
    // A graph in fp16 shows its weights rounded. Zeros of either sign are equal: a sum has none that is negative.
    std::vector<float> shown = found;
    if (entry.path().stem().string().find("half") != std::string::npos)
      for (float& v : shown) v = half_to_float(half_from_float(v));
    CHECK(shown == wanted);
    // Any part is what the whole has there.
    std::vector<float> part(found.size() / 2);
    t->read_elements(3, 3 + static_cast<int64_t>(part.size()), part);
    CHECK(std::equal(part.begin(), part.end(), found.begin() + 3));
    ++cases;
  }
  CHECK(cases >= 41);
}

TEST_CASE("codes that onnxruntime's CPU kernels do not take are refused by name") {
  const std::filesystem::path folder = source_dir() / "tests/data/onnx/weights/refused";
  const auto error_of = [&](const char* name) -> std::string {
    const OnnxModel model = OnnxModel::open(folder / (std::string(name) + ".onnx"));
    try {
      OnnxWeights weights(model);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(error_of("qmoe_fp4"), "quant_type 'fp4'"));
  CHECK(has(error_of("qmoe_mixed"), "fc2_expert_weight_bits 8, expert_weight_bits 4"));
  CHECK(has(error_of("qmoe_prepacked"), "weights_prepacked 1"));
  CHECK(has(error_of("qmoe_3bit"), "3 bits"));
}

TEST_CASE("codes of any width and place: the fast way is the plain way") {
  std::vector<std::byte> bytes(300);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  for (const int bits : {2, 4, 8})
    for (const int64_t first : {0, 1, 2, 16, 31})
      for (const int64_t count : {0, 1, 15, 16, 32, 33, 100}) {
        std::vector<float> fast(static_cast<size_t>(count)), plain(fast);
        decode_codes(bytes.data(), bits, first, count, 7.5f, 0.013f, fast.data());
        decode_codes_plain(bytes.data(), bits, first, count, 7.5f, 0.013f, plain.data());
        CHECK(fast == plain);
      }
}
