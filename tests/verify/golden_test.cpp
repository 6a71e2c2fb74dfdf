#include "verify/golden.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/npy.h"
#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"
#include "verify/figures.h"
#include "verify/judged.h"
#include "verify/prompt.h"

using namespace anemone;
using namespace anemone::test;

namespace {

Array numbers(std::vector<int64_t> shape, float start = 0) {
  Array a(DType::fp32, std::move(shape));
  for (float& v : a.values<float>()) v = start++;
  return a;
}

std::string refused(const TempFolder& folder, const NamedArrays& arrays) {
  write_npz(folder / "g.npz", arrays);
  return error_of([&] { Golden::read(folder / "g.npz"); });
}

}  // namespace

TEST_CASE("figures: hand-made cases") {
  const std::vector<float> a{3, 4}, zero{0, 0}, twice{6, 8}, turned{-4, 3};
  CHECK(compare(a, a).cosine == doctest::Approx(1));
  CHECK(compare(a, a).relative == 0);
  CHECK(compare(a, a).psnr == 200);
  CHECK(compare(turned, a).cosine == doctest::Approx(0));
  // The direction is right and the length is not: no pass.
  CHECK(compare(twice, a).cosine == doctest::Approx(1));
  CHECK(compare(twice, a).relative == doctest::Approx(1));
  CHECK_FALSE(compare(twice, a).within(0.97));
  CHECK(compare(zero, zero).within(1));
  CHECK_FALSE(compare(a, zero).within(0.97));
  const std::vector<float> off{3, 4.5f};
  const Figures f = compare(off, a);
  CHECK(f.max_abs == doctest::Approx(0.5));
  CHECK(f.mean_abs == doctest::Approx(0.25));
  CHECK(f.relative == doctest::Approx(0.1));
  CHECK(f.psnr == doctest::Approx(20 * std::log10(4 / std::sqrt(0.125))));
  const std::vector<float> broken{NAN, 4};
  CHECK_FALSE(compare(broken, a).finite);
  CHECK_FALSE(compare(broken, a).within(0));

  const std::vector<float> logits{0, 5, 4, 3, 2, 1}, other{5, 4.9f, 4, 3, 0, 1};
  CHECK(best_of(logits) == 1);
  CHECK(in_top(logits, 5, 5));
  CHECK_FALSE(in_top(logits, 0, 5));
  const LogitFigures l = compare_logits(other, logits);
  CHECK_FALSE(l.same_best());
  CHECK(l.overlap == doctest::Approx(0.8));  // 1 2 3 4 5 against 0 1 2 3 5
  // The logits' standard deviation is sqrt(17.5 / 6).
  CHECK(margin_below_best(logits, 2) == doctest::Approx(1 / std::sqrt(17.5 / 6)));
}

TEST_CASE("golden: numpy's arrays are read by any of their names") {
  const TempFolder folder;
  Array ids(DType::int64, {1, 3});
  std::copy_n(std::vector<int64_t>{4, 0, 2}.begin(), 3, ids.values<int64_t>().begin());
  write_npz(folder / "g.npz", {{"ids", ids},
                               {"logits", numbers({1, 3, 5})},
                               {"greedy_ids", Array::from<int32_t>({2}, {1, 3})},
                               {"hidden_states_0", numbers({3, 2}, 10)},
                               {"hidden_states_1", numbers({3, 2}, 20)},
                               {"hidden_states_2", numbers({3, 2}, 30)},
                               {"k_0", numbers({3, 2, 4})},
                               {"something", numbers({7})}});
  const Golden g = Golden::read(folder / "g.npz");
  CHECK(g.ids == std::vector<int32_t>{4, 0, 2, 1, 3});
  CHECK(g.prompt == 3);
  CHECK(g.vocab == 5);
  CHECK(g.logits.row(2)[4] == 14);
  CHECK_FALSE(g.logits.has(3));
  CHECK(g.find("embed_out")->row(0)[0] == 10);
  CHECK(g.find("layer_out", 0)->row(1)[1] == 23);
  CHECK(g.find("layer_out", 1) == nullptr);  // after the final norm, in transformers
  CHECK(g.find("k", 0)->width == 8);
  CHECK(g.inner.size() == 3);
  write_npz(folder / "last.npz", {{"input_ids", ids}, {"logits_last", numbers({5})}});
  const Golden last = Golden::read(folder / "last.npz");
  CHECK(last.logits.has(2));
  CHECK_FALSE(last.logits.has(1));
}

TEST_CASE("golden: what is no golden is refused") {
  const TempFolder folder;
  const Array ids = Array::from<int32_t>({2}, {1, 2});
  const auto says = [&](const NamedArrays& arrays, const std::string& what) {
    const std::string error = refused(folder, arrays);
    CHECK_MESSAGE(error.find(what) != std::string::npos, error);
    CHECK(error.find("g.npz") != std::string::npos);
  };
  says({{"logits", numbers({2, 4})}}, "no array 'input_ids'");
  says({{"input_ids", ids}}, "no array 'logits'");
  says({{"input_ids", ids}, {"logits", numbers({1, 4})}}, "fewer rows");
  says({{"input_ids", ids}, {"logits", numbers({8})}}, "too few axes");
  says({{"input_ids", ids}, {"logits", numbers({2, 2})}}, "outside the golden's own vocabulary");
  says({{"input_ids", Array::from<int32_t>({2}, {1, -2})}, {"logits", numbers({2, 4})}}, "no token id");
  folder.write("g.npz", "no zip");
  CHECK(error_of([&] { Golden::read(folder / "g.npz"); }) != "");
}

TEST_CASE("golden: a captured one has what transformers gave, and survives its file") {
  const TempFolder folder;
  for (const GoldenModel& model : golden_models()) {
    const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(model.checkpoint));
    if (!model.variant.empty() || !is_decoder(*checkpoint)) continue;
    CAPTURE(model.name());
    const std::vector<int32_t> ids = read_ids(model.golden / "input_ids.npy");
    const Reference reference(checkpoint, model.describe(*checkpoint));
    capture(reference, ids, {.steps = 3, .layers = true}).write(folder / "g.npz");
    convert(model.checkpoint, folder / "b",
            {.context = {static_cast<int64_t>(ids.size()) + 3},
             .precision = Precision::fp16,
             .skip = model.skip(),
             .overwrite = true});
    const Golden bundle = capture(folder / "b", cpu_backend({}), ids, {.steps = 3, .layers = true});
    const Golden g = Golden::read(folder / "g.npz");
    CHECK(g.ids.size() == ids.size() + 3);
    CHECK(g.logits.rows == g.prompt + 3);
    CHECK(bundle.inner.size() == g.inner.size());
    size_t compared = 0;
    for (const auto& [name, rows] : g.inner) {
      CAPTURE(name.text());
      const Golden::Rows* same = bundle.find(name.name, name.layer);
      REQUIRE(same);
      CHECK(compare(same->values, rows.values).within(0.9999));
      const fs::path file = model.golden / (name.text() + ".npy");
      if (!fs::exists(file)) continue;
      ++compared;
      const std::vector<float> golden = read_npy(file).to_float();
      CHECK(compare(std::span(rows.values).first(golden.size()), golden).max_abs < 1e-3);
    }
    CHECK(compared > 0);
  }
}

TEST_CASE("golden: a bundle that picks has none") {
  const TempFolder folder;
  convert(demo_model(), folder / "b", {.context = {32}, .argmax = true});
  const std::vector<int32_t> ids{1, 2, 3};
  CHECK(error_of([&] { capture(folder / "b", cpu_backend({}), ids, {}); }).find("only the best token") !=
        std::string::npos);
  CHECK(error_of([&] { capture(folder / "b", cpu_backend({}), {}, {}); }).find("no tokens") !=
        std::string::npos);
}

TEST_CASE("prompt: without a tokenizer, ids of usual length that are not special") {
  // Every third row is hardly trained.
  const Ordinary ordinary(300, 4, [](int64_t id, std::span<float> row) {
    std::fill(row.begin(), row.end(), id % 3 == 0 ? 0.01f : 1.0f);
  });
  const std::vector<int64_t> special{1, 2};
  const std::vector<int32_t> ids = ordinary_ids(nullptr, 300, ordinary, special, 20);
  CHECK(ids.size() == 20);
  for (const int32_t id : ids) {
    CHECK(id % 3 != 0);
    CHECK(id > 2);
    CHECK(std::count(ids.begin(), ids.end(), id) == 1);
  }
}
