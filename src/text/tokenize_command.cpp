#include "text/tokenize_command.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <ostream>

#include "base/error.h"
#include "base/json_text.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace anemone {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : is_valid_utf8(text) ? std::string(text) : to_valid_utf8(text)) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + "\"";
}

std::vector<int32_t> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    if (std::string_view(" \t\r\n,[]").find(*p) != std::string_view::npos) {
      ++p;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc()) {
      const std::string found(p, std::min(std::find(p, end, ' '), p + std::min<ptrdiff_t>(end - p, 20)));
      throw errorf("an id must be a whole number below {}", INT32_MAX).found("'" + found + "'");
    }
    ids.push_back(id);
    p = next;
  }
  return ids;
}

std::string decoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  for (const int32_t id : ids)
    if (id < 0 || id >= tokenizer.vocabulary_size())
      throw errorf("the vocabulary has no token {}", id)
          .expected(fmt::format("0 to {}", tokenizer.vocabulary_size() - 1));
  return tokenizer.decode(ids, skip_special);
}

void answer(const Tokenizer& tokenizer, const TokenizeOptions& options, std::string_view text,
            std::ostream& out) {
  if (options.decode) {
    const std::string plain = decoded(tokenizer, parse_ids(text), options.skip_special);
    if (options.json)
      out << "{\"text\": " << quoted(plain) << "}\n";
    else
      out << plain << "\n";
    return;
  }
  const auto ids =
      tokenizer.encode(text, {.add_special = options.add_special, .parse_special = options.parse_special});
  if (!options.json) {
    out << fmt::format("{}\n", fmt::join(ids, " "));
    return;
  }
  std::vector<std::string> pieces;
  for (int32_t id : ids) pieces.push_back(quoted(tokenizer.piece(id)));
  out << fmt::format("{{\"ids\": [{}], \"tokens\": [{}]}}\n", fmt::join(ids, ", "), fmt::join(pieces, ", "));
}

// A JSON string in, a JSON array of ids out; with --decode the other way round.
void answer_line(const Tokenizer& tokenizer, const TokenizeOptions& options, std::string_view line,
                 int number, std::ostream& out) {
  try {
    const auto json = nlohmann::json::parse(line);
    if (options.decode) {
      out << json_text(
                 nlohmann::json(decoded(tokenizer, json.get<std::vector<int32_t>>(), options.skip_special)))
          << "\n";
      return;
    }
    const auto ids = tokenizer.encode(json.get<std::string>(), {.add_special = options.add_special,
                                                                .parse_special = options.parse_special});
    out << fmt::format("[{}]\n", fmt::join(ids, ", "));
  } catch (const nlohmann::json::exception&) {
    throw errorf("line {} is not what --lines takes", number)
        .found(std::string(line.substr(0, 60)))
        .expected(options.decode ? "a JSON array of ids" : "a JSON string");
  }
}

}  // namespace

void tokenize_command(const TokenizeOptions& options, std::ostream& out) {
  const auto tokenizer = Tokenizer::load(options.source);
  if (!options.lines) return answer(*tokenizer, options, options.text, out);
  std::string_view rest = options.text;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      answer_line(*tokenizer, options, line, number, out);
  }
}

}  // namespace anemone
