// The model that comes with anemone, through windows and in one pass.
#include "redact/model.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/npy.h"
#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "redact/document.h"
#include "redact/shipped.h"
#include "redact/shipped_files.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::redact;

namespace {

std::filesystem::path checkpoint() { return source_dir() / "models/privacy-small/checkpoint"; }

std::shared_ptr<const RedactModel> model_of(const TempFolder& folder, int64_t tokens) {
  const auto path = folder / std::to_string(tokens);
  ConvertOptions options;
  options.tokens = {{tokens, tokens}};
  options.precision = Precision::fp16;
  convert(checkpoint(), path, options);
  return RedactModel::open(path, cpu_backend({.threads = 1}));
}

struct Ran {
  std::string out;
  std::vector<Finding> findings;
};

Ran run(std::shared_ptr<const RedactModel> model, const std::string& text) {
  Redactor redactor({.threads = 2}, std::move(model));
  Ran ran;
  Document document(redactor, {.write = [&](std::string_view b) { ran.out += b; },
                               .found = [&](const Finding& f) { ran.findings.push_back(f); }});
  for (size_t at = 0; at < text.size(); at += 100) {
    document.feed(std::string_view(text).substr(at, 100));
    while (document.step(redactor.busy())) {
    }
  }
  document.finish();
  while (document.step(true)) {
  }
  return ran;
}

// Letters with names, numbers and plain sentences, one after the other, no two alike.
std::string long_text() {
  const char* first[] = {"Hazel", "Tomasz", "Ingrid", "Mehmet", "Chiara"};
  const char* last[] = {"Quist", "Wrona", "Solberg", "Yilmaz", "Bianchi", "Okafor", "Petit"};
  std::string out;
  for (int i = 0; i < 15; ++i)
    out += fmt::format(
        "Dear {} {},\nthe boat left at noon and the sea was calm. Call +1 570 555 01{:02}, or write to "
        "{}{}@example.org. "
        "We moved to {} Larkspur Lane, Dunmore.\n\n",
        first[i % 5], last[i % 7], i, first[i * 3 % 5], i, i + 2);
  return out;
}

}  // namespace

TEST_CASE("windows give the labels of one pass") {
  const TempFolder folder;
  const auto whole = model_of(folder, 1280), windows = model_of(folder, 896);
  CHECK(whole->sight() == 384);
  const std::string text = long_text();
  std::vector<int32_t> ids;
  std::vector<uint32_t> bytes;
  whole->tokens(text, ids, bytes);
  REQUIRE(ids.size() > 896 + 128);
  REQUIRE(ids.size() <= 1280);
  // The scores of a token in a window are those of the whole text, where all that it sees is there.
  const std::vector<float> all = whole->scores(ids, 0, ids.size());
  const std::vector<float> part = windows->scores(std::span(ids).subspan(100, 896), 384, 128);
  double worst = 0;
  for (size_t i = 0; i < part.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(part[i] - all[484 * 33 + i])));
  CHECK(worst < 2e-3);
  const Ran one = run(whole, text), many = run(windows, text);
  CHECK(one.findings.size() > 40);
  CHECK(one.out == many.out);
  REQUIRE(one.findings.size() == many.findings.size());
  for (size_t i = 0; i < one.findings.size(); ++i) {
    CHECK(one.findings[i].range.begin.byte == many.findings[i].range.begin.byte);
    CHECK(one.findings[i].kind == many.findings[i].kind);
    CHECK(std::abs(one.findings[i].score - many.findings[i].score) < 2e-3f);
  }
}

TEST_CASE(
    "the model inside of the program is the one of the repository, and computes what transformers does") {
  for (const ShippedFile& file : shipped_files()) CHECK(file.bytes == slurp(checkpoint() / file.name));
  std::filesystem::path folder;
  {
    const ShippedModel files;
    folder = files.checkpoint();
    CHECK(std::filesystem::exists(folder));
  }
  CHECK_FALSE(std::filesystem::exists(folder));
  {
    const auto model = RedactModel::shipped(cpu_backend({.threads = 1}));
    CHECK(model->longest() == 4096);
    CHECK(model->sight() == 384);
    std::vector<int32_t> ids;
    for (const float id : read_npy(source_dir() / "models/privacy-small/golden/input_ids.npy").to_float())
      ids.push_back(static_cast<int32_t>(id));
    const std::vector<float> wanted =
        read_npy(source_dir() / "models/privacy-small/golden/logits.npy").to_float();
    const std::vector<float> scores = model->scores(ids, 0, ids.size());
    REQUIRE(scores.size() == wanted.size());
    // Scores are logits less a number of their row.
    double worst = 0;
    for (size_t t = 0; t < ids.size(); ++t)
      for (size_t i = 0; i < 33; ++i) {
        const float given = scores[t * 33 + i] - scores[t * 33], meant = wanted[t * 33 + i] - wanted[t * 33];
        worst = std::max(worst, std::abs(static_cast<double>(given - meant)));
      }
    CHECK(worst < 0.02);  // inputs and tables are fp16
  }
}

TEST_CASE("a band that is computed in blocks gives what it gives in one piece") {
  const TempFolder folder;
  const auto plain = model_of(folder, 320), blocks = model_of(folder, 512);  // from 6 times the band on
  std::vector<int32_t> ids;
  std::vector<uint32_t> bytes;
  plain->tokens(long_text(), ids, bytes);
  ids.resize(300);  // padding, which is hidden, begins inside of a block
  const std::vector<float> expected = plain->scores(ids, 0, ids.size()),
                           got = blocks->scores(ids, 0, ids.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(got[i] - expected[i])));
  CHECK(worst < 2e-3);
}
