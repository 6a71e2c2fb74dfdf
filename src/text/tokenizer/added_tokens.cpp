#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "text/unicode.h"

namespace anemone {
namespace {

uint16_t class_before(std::string_view text, size_t at) {
  size_t start = at;
  while (start > 0 && (static_cast<unsigned char>(text[--start]) & 0xc0) == 0x80) {
  }
  const char* p = text.data() + start;
  return class_of(decode_utf8(p, text.data() + at));
}

uint16_t class_after(std::string_view text, size_t at) {
  const char* p = text.data() + at;
  return class_of(decode_utf8(p, text.data() + text.size()));
}

// Moves `at` over the white space before it, but not below `limit`.
size_t strip_left(std::string_view text, size_t at, size_t limit) {
  while (at > limit && (class_before(text, at) & kSpace)) {
    --at;
    while (at > limit && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  }
  return at;
}

size_t strip_right(std::string_view text, size_t at) {
  while (at < text.size() && (class_after(text, at) & kSpace))
    at += static_cast<size_t>(utf8_length(text[at]));
  return std::min(at, text.size());
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, bool longest_first)
    : tokens_(std::move(tokens)), longest_first_(longest_first) {
  std::vector<std::pair<std::string_view, int32_t>> texts;
  for (size_t i = 0; i < tokens_.size(); ++i) texts.emplace_back(tokens_[i].content, static_cast<int32_t>(i));
  trie_ = TokenTrie(std::move(texts));
}

std::vector<AddedTokens::Match> AddedTokens::leftmost(std::string_view text, bool parse_special) const {
  std::vector<Match> matches;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    if (!trie_.starts(text[at])) {
      ++at;
      continue;
    }
    size_t length = 0;
    int32_t found = kNoToken;
    trie_.for_each_prefix(text.substr(at), [&](size_t bytes, int32_t id) { length = bytes, found = id; });
    if (length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[found];
    size_t begin = at, end = at + length;
    at = end;  // a match that is thrown away is still passed over
    if (token.special && !parse_special) continue;
    if (token.single_word && ((begin > 0 && (class_before(text, begin) & kWord)) ||
                              (end < text.size() && (class_after(text, end) & kWord)))) {
      continue;
    }
    if (token.left_strip) begin = strip_left(text, begin, done);
    if (token.right_strip) end = strip_right(text, end);
    if (token.left_strip && end <= done) continue;  // the match before has eaten it
    if (begin < done) begin = done;
    matches.push_back({begin, end, static_cast<uint32_t>(found)});
    done = end;
  }
  return matches;
}

std::vector<AddedTokens::Match> AddedTokens::longest(std::string_view text, bool parse_special) const {
  std::vector<Match> all;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!trie_.starts(text[at])) continue;
    trie_.for_each_prefix(text.substr(at), [&](size_t bytes, int32_t id) {
      if (parse_special || !tokens_[id].special) all.push_back({at, at + bytes, static_cast<uint32_t>(id)});
    });
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Match& a, const Match& b) { return a.end - a.begin > b.end - b.begin; });
  std::map<size_t, Match> chosen;  // by their places, disjoint
  const auto is_blank = [&](size_t i) { return std::isspace(static_cast<unsigned char>(text[i])) != 0; };
  for (Match match : all) {
    const auto next = chosen.lower_bound(match.begin);
    const size_t low = next == chosen.begin() ? 0 : std::prev(next)->second.end;
    const size_t high = next == chosen.end() ? text.size() : next->second.begin;
    if (match.begin < low || match.end > high) continue;
    while (tokens_[match.token].left_strip && match.begin > low && is_blank(match.begin - 1)) --match.begin;
    while (tokens_[match.token].right_strip && match.end < high && is_blank(match.end)) ++match.end;
    chosen.emplace(match.begin, match);
  }
  std::vector<Match> matches;
  for (const auto& [begin, match] : chosen) matches.push_back(match);
  return matches;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool parse_special) const {
  std::vector<Part> parts;
  size_t done = 0;
  if (!trie_.empty()) {
    const auto matches = longest_first_ ? longest(text, parse_special) : leftmost(text, parse_special);
    for (const Match& match : matches) {
      if (match.begin > done) parts.push_back({text.substr(done, match.begin - done), kNoToken});
      parts.push_back({text.substr(match.begin, match.end - match.begin), tokens_[match.token].id});
      done = match.end;
    }
  }
  if (done < text.size()) parts.push_back({text.substr(done), kNoToken});
  return parts;
}

}  // namespace anemone
