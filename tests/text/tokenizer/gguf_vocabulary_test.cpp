#include "text/tokenizer/gguf_vocabulary.h"

#include <doctest/doctest.h>

#include "anemone/error.h"
#include "checkpoint/gguf_builder.h"
#include "text/tokenizer.h"

namespace anemone {
namespace {

using test::GgufBuilder;
using Ids = std::vector<int32_t>;

constexpr uint32_t kF32 = 6, kI32 = 5, kU32 = 4, kBool = 7;

std::shared_ptr<const Tokenizer> load(const GgufBuilder& builder) {
  return Tokenizer::make(
      read_gguf_vocabulary(GgufFile::from_parts({MappedFile::from_bytes("t.gguf", builder.bytes())})));
}

std::string error_of(const GgufBuilder& builder) {
  try {
    load(builder);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

GgufBuilder spm() {
  GgufBuilder b;
  b.value("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens",
               {"<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", "▁", "a", "b", "▁a", "ab", "▁ab"})
      .array<float>("tokenizer.ggml.scores", kF32, {0, 0, 0, 0, 0, -5, -6, -7, -2, -1, -3})
      .array<int32_t>("tokenizer.ggml.token_type", kI32, {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1});
  return b;
}

}  // namespace

TEST_CASE("SentencePiece vocabularies merge by score, fall back to bytes and get a space in front") {
  const auto t = load(spm());
  CHECK(t->encode("ab") == Ids{10});  // a+b first (-1), then ▁+ab
  CHECK(t->encode("b a") == Ids{5, 7, 8});
  CHECK(t->encode("é") == Ids{5, 3, 4});
  CHECK(t->encode("ab", {.add_special = true}) == Ids{1, 10});
  CHECK(t->encode("a</s>a") == Ids{8, 2, 8});  // a space after each special token too
  CHECK(t->decode(Ids{10, 5, 3, 4}) == "ab é");
  CHECK(t->bos() == 1);
  CHECK(t->end_of_generation() == Ids{2});
}

TEST_CASE("byte-level vocabularies are cut as their pre-tokenizer's name says") {
  GgufBuilder b;
  b.value("tokenizer.ggml.model", "gpt2")
      .value("tokenizer.ggml.pre", "smollm")
      .strings("tokenizer.ggml.tokens", {"a", "1", "Ġ", "Ġa", "aa", "11", "<|im_end|>"})
      .array<int32_t>("tokenizer.ggml.token_type", kI32, {1, 1, 1, 1, 1, 1, 3})
      .strings("tokenizer.ggml.merges", {"a a", "Ġ a", "1 1"})
      .number<uint32_t>("tokenizer.ggml.bos_token_id", kU32, 6)
      .number<uint8_t>("tokenizer.ggml.add_bos_token", kBool, 1);
  const auto t = load(b);
  CHECK(t->encode("aa a11") == Ids{4, 3, 1, 1});  // digits stand alone
  CHECK(t->encode("a", {.add_special = true}) == Ids{6, 0});
  CHECK(t->encode("<|im_end|>") == Ids{6});
  CHECK(t->decode(Ids{4, 3, 6}) == "aa a<|im_end|>");
}

TEST_CASE("BERT vocabularies lower-case, strip accents and take the longest pieces") {
  GgufBuilder b;
  b.value("tokenizer.ggml.model", "bert")
      .strings("tokenizer.ggml.tokens", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un", "able", "▁able", "▁!"})
      .array<int32_t>("tokenizer.ggml.token_type", kI32, {3, 3, 3, 3, 1, 1, 1, 1})
      .number<uint32_t>("tokenizer.ggml.bos_token_id", kU32, 2)
      .number<uint32_t>("tokenizer.ggml.unknown_token_id", kU32, 1)
      .number<uint32_t>("tokenizer.ggml.seperator_token_id", kU32, 3);
  const auto t = load(b);
  CHECK(t->encode("Unàble! able xyz") == Ids{4, 5, 7, 6, 1});
  CHECK(t->encode("able", {.add_special = true}) == Ids{2, 6, 3});
  CHECK(t->decode(Ids{4, 5, 6}) == "unable able");
}

TEST_CASE("RWKV vocabularies take the longest token at each place") {
  GgufBuilder b;
  b.value("tokenizer.ggml.model", "rwkv")
      .strings("tokenizer.ggml.tokens", {"<s>", "a", "ab", "\\n", "\\xe2\\x82"});
  const auto t = load(b);
  CHECK(t->encode("aab\n") == Ids{1, 2, 3});
  CHECK(t->decode(Ids{1, 3, 2}) == "a\nab");
}

TEST_CASE("GGUF vocabularies that cannot be used are refused with the reason") {
  const auto has = [](const std::string& error, const std::string& part) {
    CAPTURE(error);
    CHECK(error.find(part) != std::string::npos);
  };
  has(error_of(GgufBuilder()), "tokenizer.ggml.model");
  has(error_of(GgufBuilder().value("tokenizer.ggml.model", "llama")), "no tokens");
  GgufBuilder bpe;
  bpe.value("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a"});
  GgufBuilder unknown_pre = bpe, no_merges = bpe, bad_merge = bpe;
  has(error_of(unknown_pre.value("tokenizer.ggml.pre", "nobody's")), "pre-tokenizer 'nobody's' is not known");
  has(error_of(no_merges), "no merges");
  has(error_of(bad_merge.strings("tokenizer.ggml.merges", {"ab"})), "two tokens");
  GgufBuilder few = GgufBuilder();
  few.value("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", {"a", "b"});
  has(error_of(few.array<float>("tokenizer.ggml.scores", kF32, {1})), "fewer entries than tokens");
  GgufBuilder other;
  other.value("tokenizer.ggml.model", "plamo2").strings("tokenizer.ggml.tokens", {"a"});
  has(error_of(other), "'plamo2' is not supported");
}

}  // namespace anemone
