// Decoders as ONNX, of every exporter: converted, they give onnxruntime's logits, and the ladder is green.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/npy.h"
#include "convert/convert.h"
#include "corpus/corpus.h"
#include "engine/cpu_backend.h"
#include "runtime/session.h"
#include "support/onnx_models.h"
#include "support/temp_folder.h"
#include "verify/ladder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// How far the logits may be, as a part of their range. The random routers of the experts give scores of up to 19, so
// that fp16 weights change the shares a little.
double most_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.find("moe") == std::string::npos ? 1e-3 : 4e-3;
}

// Empty where the logits are those of the golden file, and the best token too, up to near ties.
std::string far_logits(const std::vector<float>& got, const Array& golden, double most) {
  const std::vector<float> wanted = golden.to_float();
  if (got.size() != wanted.size()) return fmt::format("{} logits of {}", got.size(), wanted.size());
  const auto [low, high] = std::minmax_element(wanted.begin(), wanted.end());
  const double room = most * (double{*high} - *low);
  const auto vocab = static_cast<ptrdiff_t>(golden.shape().back());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(double{got[i]} - wanted[i]) <= room))
      return fmt::format("logit {} is {}, expected {}", i, got[i], wanted[i]);
  for (ptrdiff_t t = 0; t < std::ssize(got); t += vocab) {
    const auto best = std::max_element(got.begin() + t, got.begin() + t + vocab) - got.begin();
    const float top = *std::max_element(wanted.begin() + t, wanted.begin() + t + vocab);
    if (double{top} - wanted[static_cast<size_t>(best)] > 2 * room)
      return fmt::format("another best token at {}", t / vocab);
  }
  return "";
}

std::string problem_of(const fs::path& folder, const fs::path& bundle) {
  const std::vector<int64_t> wide = read_npy(folder / "golden/input_ids.npy").to_int();
  const std::vector<int32_t> ids(wide.begin(), wide.end());
  const int64_t context = (std::ssize(ids) + 16 + 31) / 32 * 32;
  convert(
      folder, bundle,
      {.context = {context}, .tokens = {{1, 1}, {16, 16}}, .precision = Precision::fp16, .overwrite = true});
  Session session(Bundle::open(bundle, cpu_backend({.arithmetic = Arithmetic::fp32})),
                  {.positions = std::ssize(ids)});
  const std::string far = far_logits(session.forward(ids), read_npy(*golden_logits(folder)), most_of(folder));
  if (!far.empty()) return far;
  const VerifyReport r = verify(bundle, {.source = folder, .steps = 8, .backend = cpu_backend});
  if (r.passed() && r.rungs.size() == 6) return "";
  return fmt::format("rung {} {}: {}", r.rungs.back().number, r.rungs.back().name, r.rungs.back().summary);
}

}  // namespace

TEST_CASE("corpus_onnx: bundles of every exporter give onnxruntime's logits and are green") {
  const TempFolder temp;
  Tally tally("onnx");
  for (const fs::path& folder : onnx_models()) {
    std::string problem;
    try {
      problem = problem_of(folder, temp / "b");
    } catch (const Error& e) {
      problem = e.what();
    }
    tally.add(folder.filename().string(), problem);
  }
}
