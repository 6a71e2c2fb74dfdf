// Decoders recovered from ONNX graphs: the reference over the recovered Model gives onnxruntime's logits. Small bundles
// of every exporter are in tests/data/onnx/models (tests/oracle/make_onnx_models.py); others are in the given data.
#include "families/recover/recover.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/npy.h"
#include "families/family.h"
#include "reference/reference.h"
#include "support/data.h"
#include "support/onnx_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// The largest difference to the golden logits, as a part of their range.
double fault_of(const fs::path& folder) {
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
  const std::vector<int64_t> wide = read_npy(folder / "golden/input_ids.npy").to_int();
  const std::vector<float> wanted = read_npy(*golden_logits(folder)).to_float();
  const Reference reference(checkpoint, describe(*checkpoint), 1);
  const std::vector<float> found = reference.logits(std::vector<int32_t>(wide.begin(), wide.end()));
  REQUIRE(found.size() == wanted.size());
  const auto [low, high] = std::minmax_element(wanted.begin(), wanted.end());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(double{found[i]} - wanted[i]));
  return worst / (double{*high} - *low);
}

std::string error_of(const fs::path& folder) {
  try {
    describe(Checkpoint::open(folder));
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// A copy of a small bundle whose config has one text in place of another.
std::string error_with(const std::string& model, const std::string& file, const std::string& from,
                       const std::string& to) {
  const TempFolder temp;
  for (const auto& entry : fs::directory_iterator(small_onnx_models() / model))
    if (entry.is_regular_file()) fs::copy(entry.path(), temp.path() / entry.path().filename());
  std::string text = slurp(temp.path() / file);
  REQUIRE(has(text, from));
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  std::ofstream(temp.path() / file, std::ios::binary) << text;
  return error_of(temp.path());
}

}  // namespace

TEST_CASE("decoders recovered from ONNX graphs give onnxruntime's logits") {
  CHECK(onnx_models().size() >= 33);
  for (const fs::path& folder : onnx_models()) {
    CAPTURE(folder.string());
    double fault = 1;
    CHECK_NOTHROW(fault = fault_of(folder));
    CHECK(fault < (computes_in_half(folder) ? 1e-3 : 5e-6));  // fp32 sums in another order
  }
}

TEST_CASE("what a graph says that no config does") {
  const Model qwen3 = describe(Checkpoint::open(small_onnx_models() / "genai-qwen3-int4"));
  CHECK(qwen3.ropes.at(0).base == 1e6);
  CHECK(qwen3.vocabulary_head().tied);
  CHECK(first_attention(qwen3)->qk_norm.has_value());
  CHECK(qwen3.eos == std::vector<int64_t>{2});
  const Model gemma = describe(Checkpoint::open(small_onnx_models() / "torch-gemma2-eager"));
  CHECK(gemma.embedding.scale == doctest::Approx(std::sqrt(32.0)));
  CHECK(first_attention(gemma)->reach == Reach{Reach::Kind::window, 5});
  CHECK(find_attention(gemma.layers.at(1))->reach == Reach{});
  CHECK(first_attention(gemma)->softcap == 50);
  CHECK(gemma.vocabulary_head().softcap == 30);
  CHECK(first_attention(gemma)->scale == doctest::Approx(1 / std::sqrt(24.0)));
  const Model phi = describe(Checkpoint::open(small_onnx_models() / "genai-phi3-longrope"));
  CHECK(phi.ropes.at(0).scaling == RopeScaling::longrope);
  CHECK(phi.ropes[0].original_context == 64);
  CHECK(phi.ropes[0].long_factors.at(7) == doctest::Approx(3.8).epsilon(1e-4));
  CHECK(phi.ropes[0].attention_factor ==
        doctest::Approx(std::sqrt(1 + std::log(4.0) / std::log(64.0))).epsilon(1e-5));
  CHECK(!phi.inferred.empty());
  // The same choice as a Where of frequencies, and as two tables before RotaryEmbedding. A trace keeps the short one.
  for (const char* name : {"dynamo-phi3-23", "genai-phi3-fp16"}) {
    CAPTURE(name);
    const Model other = describe(Checkpoint::open(small_onnx_models() / name));
    CHECK(other.ropes.at(0).scaling == RopeScaling::longrope);
    CHECK(other.ropes[0].original_context == 64);
    CHECK(other.ropes[0].short_factors.at(7) == doctest::Approx(1.35).epsilon(1e-3));
    CHECK(other.ropes[0].long_factors.at(7) == doctest::Approx(3.8).epsilon(1e-3));
    // Where the factor of cos and sin is one of the scores too, it is counted once.
    const double scores = first_attention(other)->scale * std::pow(other.ropes[0].attention_factor, 2);
    CHECK(scores == doctest::Approx((1 + std::log(4.0) / std::log(64.0)) / 4).epsilon(2e-3));
  }
  CHECK(describe(Checkpoint::open(small_onnx_models() / "optimum-phi3-q4")).ropes.at(0).scaling ==
        RopeScaling::divisors);
}

TEST_CASE("a config that contradicts the graph is refused with both values") {
  const std::string layers = error_with("genai-llama-int4", "genai_config.json", "\"num_hidden_layers\": 2",
                                        "\"num_hidden_layers\": 3");
  CHECK(has(layers, "2 layers in the graph"));
  CHECK(has(layers, "'num_hidden_layers' of genai_config.json is 3"));
  CHECK(has(error_with("genai-llama-int4", "genai_config.json", "\"hidden_size\": 32", "\"hidden_size\": 64"),
            "hidden size 32 in the graph"));
  CHECK(has(error_with("dynamo-qwen3-18", "config.json", "1000000.0", "5000.0"),
            "a rope of base 1e+06 in the graph"));
  CHECK(
      has(error_with("genai-llama-int4", "genai_config.json", "\"eos_token_id\": 2", "\"eos_token_id\": 70"),
          "no token of the vocabulary"));
}

TEST_CASE("a node that has no place is named") {
  const std::string error = error_with("torch-llama-eager", "model.onnx", "Softmax", "Hardmax");
  CHECK(has(error, "has no place in a decoder"));
  CHECK(has(error, ".mlpackage"));
}

TEST_CASE("experts of an ONNX graph") {
  const Model gpt_oss = describe(Checkpoint::open(small_onnx_models() / "genai-gptoss-int4"));
  const auto& limited = std::get<Experts>(gpt_oss.layers.at(0).steps.at(1).block);
  CHECK(limited.count() == 4);
  CHECK(limited.used == 2);
  CHECK(limited.share == Experts::Share::of_chosen);
  CHECK(limited.experts[0].limit == 7);
  CHECK(limited.experts[0].slope == doctest::Approx(1.702));
  CHECK(limited.experts[3].down.bias.slice == 3);
  CHECK(first_attention(gpt_oss)->sinks.rows() == 2);
  CHECK(first_attention(gpt_oss)->reach == Reach{Reach::Kind::window, 5});
  const Model flat = describe(Checkpoint::open(small_onnx_models() / "moe-qwen3-flat"));
  const auto& plain = std::get<Experts>(flat.layers.at(1).steps.at(1).block);
  CHECK(plain.share == Experts::Share::of_all);
  CHECK(plain.experts[0].limit == 0);
  CHECK(plain.experts[0].activation == Activation::silu);
}

TEST_CASE("experts in layouts that were not checked are refused by name") {
  // An attribute under another name is one that the node does not have.
  const auto without = [](const std::string& model, std::string attribute) {
    std::string gone = attribute;
    gone.back() = 'X';
    return error_with(model, "model.onnx", attribute, gone);
  };
  CHECK(has(without("qmoe-qwen3-rows4", "normalize_routing_weights"), "onnxruntime's kernels differ"));
  CHECK(has(without("qmoe-qwen3-rows4", "swiglu_fusion"), "swiglu_fusion 1"));
  CHECK(has(without("qmoe-qwen3-rows4", "activation_type"), "experts with relu have no gate"));
  CHECK(has(without("genai-gptoss-fp32", "swiglu_limit"), "found alpha 1.702, beta 1, limit inf"));
  CHECK(has(error_with("genai-gptoss-int4", "genai_config.json", "\"provider_options\": []",
                       "\"provider_options\": [{\"cuda\": {}}]"),
            "packed for one GPU"));
}

TEST_CASE("experts that share their codes have scales of their own") {
  CHECK(fault_of(source_dir() / "tests/data/onnx/shared_codes") < 5e-6);
}

TEST_CASE("weights of 4 bits that share their codes have scales of their own") {
  CHECK(fault_of(source_dir() / "tests/data/onnx/shared_blocks") < 1e-5);
}

TEST_CASE("more experts than any family may have are refused") {
  const TempFolder temp;
  fs::copy(small_onnx_models() / "moe-qwen3-flat/genai_config.json", temp.path() / "genai_config.json");
  fs::copy(small_onnx_models() / "moe-qwen3-flat/model.onnx.data", temp.path() / "model.onnx.data");
  fs::copy(source_dir() / "tests/data/onnx/many_experts.onnx", temp.path() / "model.onnx");
  std::ofstream(temp.path() / "zeros.bin").close();
  fs::resize_file(temp.path() / "zeros.bin", 4 * 2049 * 128);
  const std::string error = error_of(temp.path());
  CHECK_MESSAGE(has(error, "at most 2048 experts"), error);
  CHECK_MESSAGE(has(error, "2049"), error);
}
