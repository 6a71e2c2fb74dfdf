#include <doctest/doctest.h>

#include "convert/convert.h"
#include "coreml/double_fixture.h"
#include "engine/cpu_backend.h"
#include "runtime/encoder.h"
#include "support/tiny_encoder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

std::vector<EncodedText> encode_all(const std::filesystem::path& bundle,
                                    std::shared_ptr<const Backend> backend, int workers) {
  const Encoder encoder(Bundle::open(bundle, std::move(backend)));
  std::vector<std::vector<int32_t>> ids;
  for (size_t length : {3, 8, 9, 16, 1, 12, 5, 16}) {
    ids.emplace_back();
    for (size_t i = 0; i < length; ++i)
      ids.back().push_back(static_cast<int32_t>((3 + 7 * i + length) % TinyEncoder::kVocab));
  }
  std::vector<EncoderText> texts;
  for (const auto& one : ids) texts.push_back({.ids = one});
  std::vector<EncodedText> out(texts.size());
  encoder.each(texts, workers, [&](size_t i, EncodedText e) { out[i] = std::move(e); });
  return out;
}

}  // namespace

TEST_CASE("encoders: the CPU engine's vectors and classes, one text after the other and side by side") {
  const TempFolder folder;
  TinyEncoder("BertForTokenClassification", "bert", 3).write(folder / "model");
  convert(folder / "model", folder / "bundle",
          {.tokens = {{8, 8}, {16, 16}}, .precision = Precision::fp16, .threads = 1});
  const auto expected =
      encode_all(folder / "bundle", cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 1}), 1);
  for (const int in_flight : {1, 3}) {
    DoubleFixture fixture;
    CoreMlOptions options = fixture.options();
    options.in_flight = in_flight;
    const auto found = encode_all(folder / "bundle", coreml_backend(options), 4);
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].hidden == expected[i].hidden);
      CHECK(found[i].classes == expected[i].classes);
    }
    CHECK(apple_double::seen().most_in_flight <= (in_flight > 1 ? in_flight : 0));
  }
}
