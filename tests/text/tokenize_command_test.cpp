#include "text/tokenize_command.h"

#include <doctest/doctest.h>

#include "support/data.h"

#include <regex>
#include <sstream>

#include "anemone/error.h"

namespace anemone {
namespace {

const std::string kModel = source_dir().string() + "/tests/data/sentencepiece_bpe.model";

std::string run(TokenizeOptions options) {
  options.source = kModel;
  std::ostringstream out;
  tokenize_command(options, out);
  return out.str();
}

}  // namespace

TEST_CASE("tokenize prints ids, as lines or JSON, and text again") {
  const std::string ids = run({.text = "The boat"});
  CHECK(ids.find_first_not_of("0123456789 \n") == std::string::npos);
  CHECK(run({.text = ids, .decode = true}) == "The boat\n");
  CHECK(run({.text = "[" + ids + "]", .json = true, .decode = true}) == "{\"text\": \"The boat\"}\n");
  const std::string array =
      "[" + std::regex_replace(ids.substr(0, ids.size() - 1), std::regex(" "), ", ") + "]\n";
  CHECK(run({.text = "\"The boat\"\n\"The boat\"\n", .lines = true}) == array + array);
  CHECK(run({.text = array, .lines = true, .decode = true}) == "\"The boat\"\n");
  CHECK_THROWS_AS(run({.text = "The boat\n", .lines = true}), Error);
  CHECK(run({.text = "The boat", .add_special = true}) == "1 " + ids);
  const std::string json = run({.text = "a\"", .json = true});
  CHECK(json.starts_with("{\"ids\": ["));
  CHECK(json.find("\"tokens\": [") != std::string::npos);
}

TEST_CASE("tokenize refuses ids that are none and sources that are not there") {
  CHECK_THROWS_AS(run({.text = "12 x", .decode = true}), Error);
  CHECK_THROWS_AS(run({.text = "99999999999", .decode = true}), Error);
  CHECK_THROWS_WITH_AS(run({.text = "3 99999999", .decode = true}), doctest::Contains("no token 99999999"),
                       Error);
  CHECK_THROWS_WITH_AS(run({.text = "-3", .decode = true}), doctest::Contains("no token -3"), Error);
  CHECK_THROWS_WITH_AS(run({.text = "[4, -3]\n", .lines = true, .decode = true}),
                       doctest::Contains("no token -3"), Error);
  std::ostringstream out;
  CHECK_THROWS_AS(tokenize_command({.source = "/nowhere/tokenizer.json"}, out), Error);
  CHECK_THROWS_AS(tokenize_command({.source = source_dir().string() + "/tests/text"}, out), Error);
}

}  // namespace anemone
