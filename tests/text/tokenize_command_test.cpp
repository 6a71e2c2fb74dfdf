#include "text/tokenize_command.h"

#include <doctest/doctest.h>

#include "support/data.h"

#include <regex>
#include <sstream>

#include "anemone/error.h"

namespace anemone {
namespace {

const std::string kModel = source_dir().string() + "/tests/data/sentencepiece_bpe.model";

std::string run(TokenizeOptions options, const std::string& input = "") {
  options.source = kModel;
  std::istringstream in(input);
  std::ostringstream out;
  tokenize_command(options, in, out);
  return out.str();
}

}  // namespace

TEST_CASE("tokenize prints ids, as lines or JSON, and text again") {
  const std::string ids = run({.text = "The boat"});
  CHECK(ids.find_first_not_of("0123456789 \n") == std::string::npos);
  CHECK(run({}, "The boat") == ids);
  CHECK(run({.text = ids, .decode = true}) == "The boat\n");
  CHECK(run({.text = "[" + ids + "]", .json = true, .decode = true}) == "{\"text\": \"The boat\"}\n");
  const std::string array =
      "[" + std::regex_replace(ids.substr(0, ids.size() - 1), std::regex(" "), ", ") + "]\n";
  CHECK(run({.lines = true}, "\"The boat\"\n\"The boat\"\n") == array + array);
  CHECK(run({.lines = true, .decode = true}, array) == "\"The boat\"\n");
  CHECK_THROWS_AS(run({.lines = true}, "The boat\n"), Error);
  CHECK(run({.text = "The boat", .add_special = true}) == "1 " + ids);
  const std::string json = run({.text = "a\"", .json = true});
  CHECK(json.starts_with("{\"ids\": ["));
  CHECK(json.find("\"tokens\": [") != std::string::npos);
}

TEST_CASE("tokenize refuses ids that are none and sources that are not there") {
  CHECK_THROWS_AS(run({.text = "12 x", .decode = true}), Error);
  CHECK_THROWS_AS(run({.text = "99999999999", .decode = true}), Error);
  std::istringstream in;
  std::ostringstream out;
  CHECK_THROWS_AS(tokenize_command({.source = "/nowhere/tokenizer.json"}, in, out), Error);
  CHECK_THROWS_AS(tokenize_command({.source = source_dir().string() + "/tests/text"}, in, out), Error);
}

}  // namespace anemone
