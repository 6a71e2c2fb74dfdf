// What `anemone tokenize` does: text to ids or back, printed for people or programs.
//     tokenize_command({.source = "model/", .text = "Hello"}, std::cout);      // 9906
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

namespace anemone {

struct TokenizeOptions {
  std::filesystem::path source;  // tokenizer.json, .gguf, tokenizer.model or a folder that holds one
  std::string text;              // what to tokenise
  // Each line is a JSON string, answered by a JSON array of ids on a line; with `decode` the other way.
  bool lines = false;
  bool json = false;    // {"ids": […], "tokens": […]} or {"text": "…"} on each line
  bool decode = false;  // the input is ids, separated by white space, commas or brackets
  bool add_special = false;
  bool parse_special = true;
  bool skip_special = false;  // decode: leave special tokens out
};

// Throws Error on a source that cannot be read, on ids that are no numbers and on those that the vocabulary has not.
void tokenize_command(const TokenizeOptions& options, std::ostream& out);

}  // namespace anemone
