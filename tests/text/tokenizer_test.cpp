#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include "support/data.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "anemone/error.h"
#include "base/mapped_file.h"
#include "text/tokenizer/tokenizer_json.h"

namespace anemone {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> from_json(const std::string& json) {
  return Tokenizer::make(read_tokenizer_json(*MappedFile::from_bytes("t.json", json)));
}

std::string error_of(const std::string& json) {
  try {
    from_json(json);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids) {
  Tokenizer::Stream stream(tokenizer);
  std::string out;
  for (int32_t id : ids) out += stream.feed(id);
  return out + stream.finish();
}

nlohmann::json cases() {  // made by tests/oracle/make_tokenizer_cases.py
  std::ifstream in(source_dir().string() + "/tests/data/tokenizer_cases.json");
  return nlohmann::json::parse(in);
}

// A byte-level vocabulary of the 256 bytes, "he" and one special token: enough to stream with.
std::string byte_vocabulary() {
  nlohmann::json vocab;
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool self = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const int c = self ? b : next++;
    const std::string text =
        c < 128 ? std::string(1, static_cast<char>(c))
                : std::string{static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    vocab[text] = b;
  }
  vocab["he"] = 256;
  return nlohmann::json{{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"h e"}}}},
                        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                        {"decoder", {{"type", "ByteLevel"}}},
                        {"added_tokens", {{{"content", "<end>"}, {"special", true}}}}}
      .dump();
}

}  // namespace

TEST_CASE("every component of tokenizer.json does what Hugging Face's does") {
  for (const auto& c : cases()) {
    const std::string name = c["name"];
    CAPTURE(name);
    const auto tokenizer = from_json(c["tokenizer"].dump());
    for (const auto& v : c["vectors"]) {
      const auto text = v[0].get<std::string>();
      CAPTURE(text);
      CHECK(tokenizer->encode(text) == v[1].get<Ids>());
      const auto special = v[2].get<Ids>();
      CHECK(tokenizer->encode(text, {.add_special = true}) == special);
      const auto decoded = v[3].get<std::string>();
      CHECK(tokenizer->decode(special) == decoded);
      CHECK(tokenizer->decode(special, true) == v[4].get<std::string>());
      if (decoded.find("\xef\xbf\xbd") == std::string::npos) CHECK(streamed(tokenizer, special) == decoded);
    }
  }
}

TEST_CASE("a stream gives a character out when its last byte is there") {
  const auto tokenizer = from_json(byte_vocabulary());
  Tokenizer::Stream stream(tokenizer);
  CHECK(stream.feed(0xe2) == "");
  CHECK(stream.feed(0x82) == "");
  CHECK(stream.feed(0xac) == "€");
  CHECK(stream.feed(256) == "he");
  CHECK(stream.feed(0xf0) == "");
  CHECK(stream.feed('a') == "\ufffda");  // what can no longer become a character is replaced at once
  CHECK(stream.feed(0xc3) == "");
  CHECK(stream.finish() == "\ufffd");
  CHECK(stream.feed(0xc3) == "");  // anew
  CHECK(stream.feed(0xa9) == "é");
  Tokenizer::Stream quiet(tokenizer, true);
  CHECK(quiet.feed(257) == "");
  CHECK(stream.feed(257) == "<end>");
  CHECK(stream.feed(99999) == "");
  CHECK(stream.feed(-5) == "");
}

TEST_CASE("special tokens in a text are plain text unless they are asked for") {
  const auto tokenizer = from_json(byte_vocabulary());
  CHECK(tokenizer->encode("he<end>") == Ids{256, 257});
  CHECK(tokenizer->encode("he<end>", {.parse_special = false}) == Ids{256, '<', 'e', 'n', 'd', '>'});
  CHECK(tokenizer->is_special(257));
  CHECK(tokenizer->piece(257) == "<end>");
  CHECK(tokenizer->find("<end>") == 257);
  CHECK(tokenizer->find("nothing") == kNoToken);
  CHECK(tokenizer->vocabulary_size() == 258);
}

TEST_CASE("malformed UTF-8 counts as the replacement character") {
  const auto tokenizer = from_json(byte_vocabulary());
  const Ids replaced{'a', 0xef, 0xbf, 0xbd, 'b'};
  CHECK(tokenizer->encode("a\xff"
                          "b") == replaced);
  CHECK(tokenizer->encode("a\xe2\x82"
                          "b") == replaced);
  CHECK(tokenizer->decode(Ids{'a', 0xff, 'b'}) == "a\ufffdb");
}

TEST_CASE("long words are merged as short ones are") {
  const auto tokenizer = from_json(byte_vocabulary());
  std::string text;
  Ids expected;
  for (int i = 0; i < 3000; ++i) {
    text += "hex";
    expected.insert(expected.end(), {256, 'x'});
  }
  CHECK(tokenizer->encode(text) == expected);
}

TEST_CASE("one tokenizer serves several threads at once") {
  const auto all = cases();
  const auto tokenizer = from_json(all[0]["tokenizer"].dump());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        for (const auto& v : all[0]["vectors"]) {
          wrong[t] += tokenizer->encode(v[0].get<std::string>()) != v[1].get<Ids>();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("a tokenizer.json that cannot be used is refused with the reason") {
  const auto has = [](const std::string& error, const std::string& part) {
    CAPTURE(error);
    CHECK(error.find(part) != std::string::npos);
    CHECK(error.find("t.json") != std::string::npos);
  };
  const std::string model = R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})";
  CHECK(error_of("{" + model + "}") == "");
  has(error_of(""), "JSON");
  has(error_of("{\"model\""), "JSON");
  has(error_of("[1]"), "'model' is missing");
  has(error_of("{}"), "'model' is missing");
  has(error_of(R"({"model":{"type":"Magic"}})"), "model 'Magic' is not known");
  has(error_of(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a c"]}})"),
      "'c' is not in the vocabulary");
  has(error_of(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})"), "two tokens");
  has(error_of(R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})"), "impossible id");
  has(error_of(R"({"model":{"type":"BPE","vocab":{"a":99999999999},"merges":[]}})"), "impossible id");
  has(error_of(R"({"model":{"type":"Unigram","vocab":[["a",-1.0]],"unk_id":3}})"), "unk_id 3");
  has(error_of("{" + model + R"(,"normalizer":{"type":"Upper"}})"), "normalizer 'Upper' is not known");
  has(error_of("{" + model + R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"X"}]}})"),
      "pre-tokenizer 'X' is not known");
  has(error_of("{" + model + R"(,"post_processor":{"type":"X"}})"), "post-processor 'X' is not known");
  has(error_of("{" + model + R"(,"decoder":{"type":"X"}})"), "decoder 'X' is not known");
}

TEST_CASE("a pre-tokenizer that cannot be built is refused") {
  const std::string model = R"("model":{"type":"BPE","vocab":{"a":0},"merges":[]})";
  CHECK_THROWS_AS(from_json("{" + model + R"(,"pre_tokenizer":{"type":"UnicodeScripts"}})"), Error);
  CHECK_THROWS_AS(
      from_json("{" + model +
                R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}})"),
      Error);
}

}  // namespace anemone
