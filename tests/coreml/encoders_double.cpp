#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "convert/convert.h"
#include "coreml/double_fixture.h"
#include "engine/cpu_backend.h"
#include "runtime/encoder.h"
#include "runtime/session.h"
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

namespace {

// Many texts through an encoder, three predictions under way, handlers late and on other threads.
struct ManyTexts {
  DoubleFixture fixture;
  TempFolder folder;
  std::vector<std::vector<int32_t>> ids;
  std::vector<EncoderText> texts;

  ManyTexts() {
    TinyEncoder("BertForTokenClassification", "bert", 3).write(folder / "model");
    convert(folder / "model", folder / "bundle",
            {.tokens = {{8, 8}, {16, 16}}, .precision = Precision::fp16, .threads = 1});
    for (size_t i = 0; i < 24; ++i)
      ids.emplace_back(3 + i % 12, static_cast<int32_t>(3 + i % (TinyEncoder::kVocab - 3)));
    for (const auto& one : ids)
      texts.push_back({.ids = one, .place = "text " + std::to_string(texts.size())});
  }
  Encoder encoder() const {
    CoreMlOptions options = fixture.options();
    options.in_flight = 3;
    return Encoder(Bundle::open(folder / "bundle", coreml_backend(options)));
  }
};

}  // namespace

TEST_CASE("many texts: a prediction that fails in the middle names its text, and the others go on later") {
  const ManyTexts many;
  const Encoder encoder = many.encoder();
  std::vector<int> seen(many.texts.size());
  encoder.each(std::span(many.texts).first(2), 3, [&](size_t, EncodedText) {});  // loads the functions
  apple_double::switches().fail_at = apple_double::seen().predictions + 8;
  apple_double::switches().fail_count = 4;  // also what is asked again without buffers
  const int64_t before = apple_double::seen().predictions;
  const std::string text =
      error_of([&] { encoder.each(many.texts, 4, [&](size_t i, EncodedText) { ++seen[i]; }); });
  CHECK(text.find("a prediction failed") != std::string::npos);
  CHECK(text.find("text ") != std::string::npos);
  CHECK(apple_double::seen().predictions - before < 8 + 8);  // those under way, asked again without buffers
  CHECK(std::ranges::count(seen, 1) < static_cast<std::ptrdiff_t>(seen.size()));
  std::ranges::fill(seen, 0);
  encoder.each(many.texts, 4, [&](size_t i, EncodedText) { ++seen[i]; });
  CHECK(std::ranges::count(seen, 1) == static_cast<std::ptrdiff_t>(seen.size()));
  CHECK(apple_double::seen().most_in_flight > 1);
  CHECK(apple_double::seen().most_in_flight <= 3);
}

TEST_CASE("many texts: cancelled in the middle, nothing is under way afterwards and nothing more begins") {
  const ManyTexts many;
  const Encoder encoder = many.encoder();
  apple_double::switches().late_ms = 10;
  std::atomic<size_t> taken{0};
  CHECK_THROWS_AS(encoder.each(
                      many.texts, 4, [&](size_t, EncodedText) { ++taken; }, [&] { return taken < 5; }),
                  Cancelled);
  CHECK(taken >= 5);
  CHECK(taken < 5 + 4);
  const int64_t now = apple_double::seen().predictions;
  apple_double::wait_for_handlers();
  CHECK(apple_double::seen().predictions == now);
  // What takes the results may stop them, too.
  CHECK_THROWS_AS(encoder.each(many.texts, 4, [&](size_t, EncodedText) { throw Cancelled(); }), Cancelled);
}
