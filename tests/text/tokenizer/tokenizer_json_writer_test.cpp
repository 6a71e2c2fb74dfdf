// What is written as tokenizer.json: the parts by hand, and that our own reader gives the same ids. Hugging Face's
// tokenizers judge it in tests/oracle/tokenizer_export.py.
#include "text/tokenizer/tokenizer_json_writer.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "anemone/error.h"
#include "checkpoint/gguf_builder.h"
#include "support/data.h"
#include "support/temp_folder.h"
#include "text/tokenizer.h"
#include "text/tokenizer/gguf_vocabulary.h"
#include "text/tokenizer/tokenizer_json.h"
#include "text/tokenizer_export.h"

namespace anemone {
namespace {

using test::GgufBuilder;
using Json = nlohmann::json;

constexpr uint32_t kF32 = 6, kI32 = 5;

TokenizerSpec spec_of(const GgufBuilder& builder) {
  return read_gguf_vocabulary(GgufFile::from_parts({MappedFile::from_bytes("t.gguf", builder.bytes())}));
}

Json written(const GgufBuilder& builder) { return Json::parse(tokenizer_json(spec_of(builder))); }

// Hidden pieces: <unk>, <s>, </s> and the bytes.
GgufBuilder by_scores() {
  GgufBuilder b;
  b.value("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens",
               {"<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "▁", "a", "b", "▁a", "ab", "▁ab", "<sep>"})
      .array<float>("tokenizer.ggml.scores", kF32, {0, 0, 0, 0, 0, -5, -6, -7, -2, -1, -3, 0})
      .array<int32_t>("tokenizer.ggml.token_type", kI32, {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 4})
      .value("tokenizer.chat_template", "{{ messages[0].content }}");
  return b;
}

}  // namespace

TEST_CASE("pieces with scores become merges, the best score first, each way to make one") {
  const Json j = written(by_scores());
  CHECK(j["model"]["type"] == "BPE");
  // ab (-1) of a and b; ▁a (-2) of ▁ and a; ▁ab (-3) of ▁ and ab, or of ▁a and b.
  CHECK(j["model"]["merges"] == Json{"a b", "▁ a", "▁ ab", "▁a b"});
  CHECK(j["model"]["vocab"]["▁ab"] == 10);
  CHECK(j["model"]["vocab"].size() == 12);
  CHECK(j["model"]["unk_token"] == "<unk>");
  CHECK(j["model"]["byte_fallback"] == true);
  CHECK(j["normalizer"]["normalizers"][0] == Json{{"type", "Prepend"}, {"prepend", " "}});
  CHECK(j["pre_tokenizer"] == nullptr);
  CHECK(j["decoder"]["decoders"].back() ==
        Json{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  CHECK(j["post_processor"]["single"][0]["SpecialToken"]["id"] == "<s>");
  REQUIRE(j["added_tokens"].size() == 4);
  CHECK(j["added_tokens"][3]["content"] == "<sep>");
  CHECK(j["added_tokens"][3]["special"] == false);
  CHECK(j["added_tokens"][1]["special"] == true);
  const Json config = Json::parse(tokenizer_config_json(spec_of(by_scores())));
  CHECK(config["bos_token"] == "<s>");
  CHECK(config["eos_token"] == "</s>");
  CHECK(config["add_bos_token"] == true);
  CHECK(config["add_eos_token"] == false);
  CHECK(config["chat_template"] == "{{ messages[0].content }}");
}

TEST_CASE("GGUF's WordPiece is written as BERT's own") {
  GgufBuilder b;
  b.value("tokenizer.ggml.model", "bert")
      .strings("tokenizer.ggml.tokens", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁tide", "s", "▁."})
      .array<int32_t>("tokenizer.ggml.token_type", kI32, {3, 2, 3, 3, 1, 1, 1})
      .number<uint32_t>("tokenizer.ggml.bos_token_id", 4, 2)
      .number<uint32_t>("tokenizer.ggml.seperator_token_id", 4, 3)
      .number<uint32_t>("tokenizer.ggml.unknown_token_id", 4, 1)
      .number<uint32_t>("tokenizer.ggml.padding_token_id", 4, 0);
  const Json j = written(b);
  CHECK(j["model"]["vocab"] ==
        Json{{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3}, {"tide", 4}, {"##s", 5}, {".", 6}});
  CHECK(j["model"]["continuing_subword_prefix"] == "##");
  CHECK(j["normalizer"]["type"] == "BertNormalizer");
  CHECK(j["pre_tokenizer"]["type"] == "BertPreTokenizer");
  const auto read = Tokenizer::make(read_tokenizer_json(*MappedFile::from_bytes("t.json", j.dump())));
  CHECK(read->encode("Tides.", {.add_special = true}) == std::vector<int32_t>{2, 4, 5, 6, 3});
  CHECK(Json::parse(tokenizer_config_json(spec_of(b)))["cls_token"] == "[CLS]");
}

TEST_CASE("byte-level merges are written as the file has them, those without tokens left out") {
  GgufBuilder b;
  b.value("tokenizer.ggml.model", "gpt2")
      .value("tokenizer.ggml.pre", "smollm")
      .strings("tokenizer.ggml.tokens", {"a", "1", "Ġ", "Ġa", "aa", "<|im_end|>"})
      .array<int32_t>("tokenizer.ggml.token_type", kI32, {1, 1, 1, 1, 1, 3})
      .strings("tokenizer.ggml.merges", {"Ġ a", "x y", "a a"});
  const Json j = written(b);
  CHECK(j["model"]["merges"] == Json{"Ġ a", "a a"});
  REQUIRE(j["pre_tokenizer"]["pretokenizers"].size() == 3);
  CHECK(j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] == "\\p{N}");
  CHECK(j["pre_tokenizer"]["pretokenizers"][2]["use_regex"] == false);
}

TEST_CASE("what has no form in tokenizer.json says so") {
  GgufBuilder b;
  b.value("tokenizer.ggml.model", "rwkv").strings("tokenizer.ggml.tokens", {"<s>", "a"});
  CHECK_THROWS_WITH_AS(tokenizer_json(spec_of(b)), doctest::Contains("no form in tokenizer.json"), Error);
  const TempFolder folder;
  folder.write("tokenizer.json", "{}");
  CHECK_THROWS_WITH_AS(export_tokenizer_json(folder.path()), doctest::Contains("already"), Error);
}

TEST_CASE("our own reader gives the same ids and texts for what is written") {
  for (const std::string name :
       {"examples/demo_model/demo.gguf", "tests/data/sentencepiece_bpe.model",
        "tests/data/sentencepiece_bpe_user.model", "tests/data/sentencepiece_unigram.model"}) {
    CAPTURE(name);
    const auto path = source_dir() / name;
    const auto ours = Tokenizer::load(path);
    const auto file = MappedFile::from_bytes("tokenizer.json", export_tokenizer_json(path));
    const auto read = Tokenizer::make(read_tokenizer_json(*file));
    for (const std::string text : {"", " ", "Once upon a time", "  two  spaces ", "naïve 人工 🚀\n\n\tx",
                                   "12345 it's", "a<s>b</s> <sep>the", "\xc2\xa0 end "}) {
      CAPTURE(text);
      // Hugging Face matches user-defined tokens together with the space that it puts in front.
      if (name.ends_with("unigram.model") && text.find("<sep>") != std::string::npos) continue;
      const std::vector<int32_t> ids = ours->encode(text);
      CHECK(read->encode(text) == ids);
      CHECK(read->encode(text, {.add_special = true}) == ours->encode(text, {.add_special = true}));
      CHECK(read->decode(ids) == ours->decode(ids));
    }
  }
}

}  // namespace anemone
