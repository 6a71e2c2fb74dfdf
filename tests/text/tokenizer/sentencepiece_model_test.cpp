#include "text/tokenizer/sentencepiece_model.h"

#include <doctest/doctest.h>

#include "support/data.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "anemone/error.h"
#include "text/tokenizer.h"

namespace anemone {
namespace {

const std::string kData = source_dir().string() + "/tests/data/";

TokenizerSpec read(std::string bytes) {
  return read_sentencepiece_model(*MappedFile::from_bytes("t.model", std::move(bytes)));
}

}  // namespace

TEST_CASE("tokenizer.model files give SentencePiece's ids") {  // tests/oracle/make_sentencepiece_cases.py
  std::ifstream in(kData + "sentencepiece_cases.json");
  const auto cases = nlohmann::json::parse(in);
  for (const auto& [name, vectors] : cases.items()) {
    CAPTURE(name);
    const auto tokenizer = Tokenizer::load(kData + "sentencepiece_" + name + ".model");
    for (const auto& v : vectors) {
      const auto text = v[0].get<std::string>();
      CAPTURE(text);
      CHECK(tokenizer->encode(text) == v[1].get<std::vector<int32_t>>());
    }
    CHECK(tokenizer->bos() == 1);
    CHECK(tokenizer->eos() == 2);
    CHECK(tokenizer->unk() == 0);
    CHECK(tokenizer->decode(tokenizer->encode("The boat")) == "The boat");
    CHECK(tokenizer->encode("the", {.add_special = true}).front() == 1);
  }
}

TEST_CASE("broken SentencePiece models are refused") {
  CHECK_THROWS_AS(read(""), Error);
  CHECK_THROWS_AS(read("\x0a\xff\xff\xff\xff\x0f"), Error);  // a piece longer than the file
  CHECK_THROWS_AS(read("\x0a\x03\x0a\x01\x61\x12\x02\x18\x04"),
                  Error);  // characters: a model type that we do not run
  CHECK_NOTHROW(read(std::string("\x0a\x03\x0a\x01\x61\x12\x02\x18\x01", 9)));
  CHECK_NOTHROW(read(std::string("\x08\x01\x0a\x05\x0a\x01\x61\x18\x01", 9)));  // a field 1 that is no piece
  CHECK_THROWS_AS(read(std::string("\x0a\x08\x0a\x01\x61\x15\x00\x00\xc0\x7f", 10)),
                  Error);  // a score that is NaN
  // A charsmap whose trie is longer than its bytes.
  CHECK_THROWS_AS(
      Tokenizer::make(read(std::string("\x0a\x03\x0a\x01\x61\x1a\x07\x12\x05\xff\x00\x00\x00\x00", 14))),
      Error);
}

}  // namespace anemone
