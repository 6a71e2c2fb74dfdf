// Walks the given models: whatever is there must open and decode, and two formats of one model must agree.
#include <doctest/doctest.h>

#include "support/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "support/temp_folder.h"

using namespace anemone;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> given_files(std::string_view extension) {
  std::vector<fs::path> found;
  for (const fs::path& root : data_roots()) {
    if (!fs::exists(root)) {
      MESSAGE("skipped: no given data at " << root.string());
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(root))
      if (entry.path().extension() == extension) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The names that Hugging Face models use for a GGUF tensor; several where families differ.
std::vector<std::string> other_names(const std::string& gguf_name) {
  static const std::map<std::string, std::vector<std::string>> kNames = {
      {"token_embd.weight", {"model.embed_tokens.weight", "embeddings.tok_embeddings.weight"}},
      {"token_embd_norm.weight", {"model.embedding_norm.weight", "embeddings.norm.weight"}},
      {"output_norm.weight", {"model.norm.weight", "final_norm.weight"}},
      {"output.weight", {"lm_head.weight"}},
      {"attn_norm", {"input_layernorm", "operator_norm", "attn_norm"}},
      {"ffn_norm", {"post_attention_layernorm", "ffn_norm", "mlp_norm"}},
      {"attn_q", {"self_attn.q_proj"}},
      {"attn_k", {"self_attn.k_proj"}},
      {"attn_v", {"self_attn.v_proj"}},
      {"attn_qkv", {"self_attn.qkv_proj", "attn.Wqkv"}},
      {"attn_output", {"self_attn.o_proj", "self_attn.out_proj", "attn.Wo"}},
      {"attn_q_norm", {"self_attn.q_norm", "self_attn.query_layernorm", "self_attn.q_layernorm"}},
      {"attn_k_norm", {"self_attn.k_norm", "self_attn.key_layernorm", "self_attn.k_layernorm"}},
      {"shortconv.in_proj", {"conv.in_proj"}},
      {"shortconv.conv", {"conv.conv"}},
      {"shortconv.out_proj", {"conv.out_proj"}},
      {"ffn_gate", {"mlp.gate_proj", "feed_forward.w1"}},
      {"ffn_up", {"mlp.up_proj", "mlp.gate_up_proj", "feed_forward.w3", "mlp.Wi"}},
      {"ffn_down", {"mlp.down_proj", "feed_forward.w2", "mlp.Wo"}},
  };
  if (const auto at = kNames.find(gguf_name); at != kNames.end()) return at->second;
  static const std::regex layered(R"(blk\.(\d+)\.([\w.]+)\.(weight|bias))");
  std::smatch m;
  std::vector<std::string> names;
  if (std::regex_match(gguf_name, m, layered))
    if (const auto at = kNames.find(m[2]); at != kNames.end())
      for (const auto& name : at->second)
        for (const char* prefix : {"model.layers.", "layers."})
          names.push_back(prefix + m[1].str() + "." + name + "." + m[3].str());
  return names;
}

// Undoes the row order that q and k of some architectures have in GGUF files: row 2i of a head is row i, row 2i + 1 is
// i + dim / 2.
std::vector<float> unpermuted(const std::vector<float>& rows, int64_t heads, int64_t columns) {
  std::vector<float> out(rows.size());
  const int64_t dim = static_cast<int64_t>(rows.size()) / heads / columns;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < dim; ++i) {
      const int64_t to = h * dim + (i % 2 ? dim / 2 : 0) + i / 2;
      std::memcpy(&out[static_cast<size_t>(to * columns)],
                  &rows[static_cast<size_t>((h * dim + i) * columns)], 4 * static_cast<size_t>(columns));
    }
  return out;
}

const TensorReader* counterpart(const Checkpoint& c, const std::string& gguf_name) {
  for (const auto& name : other_names(gguf_name))
    if (const TensorReader* t = c.find(name)) return t;
  return nullptr;
}

std::vector<float> gguf_floats(const Checkpoint& c, const TensorReader& t, ThreadPool& pool) {
  std::vector<float> values = t.read_floats(pool);
  const bool q = t.name().find(".attn_q.") != std::string::npos,
             k = t.name().find(".attn_k.") != std::string::npos;
  const std::string& architecture = c.architecture();
  const bool paired = architecture == "llama" || architecture == "smollm3" || architecture == "granite";
  if (!paired || (!q && !k)) return values;
  const char* key = q ? ".attention.head_count" : ".attention.head_count_kv";
  const auto heads = c.value(architecture + key)->get<int64_t>();
  return unpermuted(values, heads, t.row_elements());
}

// Without dimensions of 1: a convolution is [channels, taps] in GGUF and [channels, 1, taps] elsewhere.
std::vector<int64_t> sizes(const TensorReader& t) {
  std::vector<int64_t> shape = t.shape();
  std::erase(shape, 1);
  return shape;
}

// The largest difference that storing x in this type may make, in a block whose largest value is `most`.
float storage_error(BlockType type, float x, float most) {
  if (type == BlockType::f32) return 0;
  if (type == BlockType::f16) return std::fabs(x - round_to_half(x));
  return most / 127 * 0.5f + std::fabs(x) * 0x1p-10f + 1e-7f;  // Q8_0: half a step; the step is a half itself
}

int64_t compare(const std::vector<float>& stored, const std::vector<float>& truth, BlockType type) {
  int64_t wrong = 0;
  for (size_t block = 0; block < stored.size(); block += 32) {
    float most = 0;
    const size_t end = std::min(stored.size(), block + 32);
    for (size_t i = block; i < end; ++i) most = std::max(most, std::fabs(truth[i]));
    for (size_t i = block; i < end; ++i)
      wrong += !(std::fabs(stored[i] - truth[i]) <= storage_error(type, truth[i], most));
  }
  return wrong;
}

}  // namespace

TEST_CASE("every given GGUF file opens and all its tensors decode") {
  ThreadPool pool;
  for (const fs::path& path : given_files(".gguf")) {
    CAPTURE(path);
    const Checkpoint c = Checkpoint::open(path);
    CHECK(!c.architecture().empty());
    CHECK(c.list_size("tokenizer.ggml.tokens").value_or(0) > 0);
    CHECK(c.list_size("tokenizer.ggml.token_type") == c.list_size("tokenizer.ggml.tokens"));
    for (const TensorReader& t : c.tensors()) {
      int64_t bad = 0;
      for (const float x : t.read_floats(pool)) bad += !std::isfinite(x);
      CHECK_MESSAGE(bad == 0, t.name());
    }
  }
}

TEST_CASE("every given safetensors model opens and all its tensors decode") {
  ThreadPool pool;
  for (const fs::path& path : given_files(".safetensors")) {
    CAPTURE(path);
    const Checkpoint c = Checkpoint::open(path);
    CHECK(!c.architecture().empty());
    for (const TensorReader& t : c.tensors()) {
      if (!t.decodes()) continue;
      int64_t bad = 0;
      for (const float x : t.read_floats(pool)) bad += !std::isfinite(x);
      CHECK_MESSAGE(bad == 0, t.name());
    }
  }
}

TEST_CASE("a model as GGUF holds the weights that it has as safetensors") {
  ThreadPool pool;
  for (const fs::path& path : given_files(".gguf")) {
    if (!fs::exists(path.parent_path() / "model.safetensors")) continue;
    CAPTURE(path);
    const Checkpoint gguf = Checkpoint::open(path), other = Checkpoint::open(path.parent_path());
    REQUIRE(other.naming() == Naming::hugging_face);
    int compared = 0;
    for (const TensorReader& t : gguf.tensors()) {
      const TensorReader* twin = counterpart(other, t.name());
      if (!twin) continue;
      const BlockType type = t.blocks()->type;
      if (type != BlockType::f32 && type != BlockType::f16 && type != BlockType::q8_0) continue;
      // Norms of Gemma and Qwen3.5 have 1 added; Gemma's tables may lack the rows that have no token.
      const bool gemma = gguf.architecture().starts_with("gemma");
      if ((gemma || gguf.architecture() == "qwen35") && t.shape().size() == 1) continue;
      if (gemma && t.shape() != twin->shape()) continue;
      CAPTURE(t.name());
      REQUIRE(sizes(t) == sizes(*twin));
      CHECK(compare(gguf_floats(gguf, t, pool), twin->read_floats(pool), type) == 0);
      ++compared;
    }
    CHECK(compared >= 10);
  }
}
