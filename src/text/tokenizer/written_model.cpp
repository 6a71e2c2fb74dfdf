#include "text/tokenizer/written_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "text/unicode.h"

namespace anemone {
namespace {

using Kind = TokenModelSpec::Kind;

std::string json_string(std::string_view text) { return json_text(nlohmann::json(std::string(text))); }

bool is_hidden(const TokenizerSpec& spec, int32_t id) {
  return static_cast<size_t>(id) < spec.model.hidden.size() && spec.model.hidden[static_cast<size_t>(id)];
}

// {"a": 0, "b": 1 …}. Of ids with the same text only the one that is found counts.
std::string vocabulary_text(const TokenizerSpec& spec) {
  std::string out = "{";
  for (int32_t id = 0; id < spec.vocabulary.size(); ++id) {
    if (!spec.vocabulary.has(id) || spec.vocabulary.find(spec.vocabulary.text(id)) != id) continue;
    out += fmt::format("{}{}: {}", out.size() > 1 ? ", " : "", json_string(written_token(spec, id)), id);
  }
  return out + "}";
}

// As [["a", "b"] …]: a token may hold a space.
std::string merges_text(const std::vector<std::pair<std::string_view, std::string_view>>& merges) {
  const bool spaces = std::any_of(merges.begin(), merges.end(), [](const auto& merge) {
    return merge.first.find(' ') != std::string_view::npos ||
           merge.second.find(' ') != std::string_view::npos;
  });
  std::string out = "[";
  for (const auto& [left, right] : merges) {
    out += out.size() > 1 ? ", " : "";
    // The older form, which every reader knows, where nothing is ambiguous.
    out += spaces ? fmt::format("[{}, {}]", json_string(left), json_string(right))
                  : json_string(std::string(left) + " " + std::string(right));
  }
  return out + "]";
}

std::vector<std::pair<std::string_view, std::string_view>> file_merges(const TokenizerSpec& spec) {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  const Vocabulary& v = spec.vocabulary;
  for (const TokenModelSpec::Merge& m : spec.model.merges)
    if (v.has(m.left) && v.has(m.right) && v.has(m.result)) out.emplace_back(v.text(m.left), v.text(m.right));
  return out;
}

// Every way to make a piece of two others, the best score first.
std::vector<std::pair<std::string_view, std::string_view>> score_merges(const TokenizerSpec& spec) {
  const Vocabulary& v = spec.vocabulary;
  std::vector<int32_t> order;
  for (int32_t id = 0; id < v.size(); ++id)
    if (v.has(id) && !is_hidden(spec, id)) order.push_back(id);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return spec.model.scores[static_cast<size_t>(a)] > spec.model.scores[static_cast<size_t>(b)];
  });
  const auto usable = [&](std::string_view text) {
    const int32_t id = v.find(text);
    return id != kNoToken && !is_hidden(spec, id);
  };
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (const int32_t id : order) {
    const std::string_view text = v.text(id);
    for (size_t at = 0; at < text.size();) {
      at += static_cast<size_t>(utf8_length(text[at]));
      if (at < text.size() && usable(text.substr(0, at)) && usable(text.substr(at)))
        out.emplace_back(text.substr(0, at), text.substr(at));
    }
  }
  return out;
}

// Characters without a token become the tokens of their bytes, where the vocabulary has those.
bool falls_back_to_bytes(const TokenizerSpec& spec) {
  const bool bytes = spec.vocabulary.find("<0x0A>") != kNoToken;
  const bool byte_level =
      !spec.pre_tokenizer.empty() && spec.pre_tokenizer.back().kind == PreTokenizerStep::Kind::byte_level;
  return bytes && !byte_level && (spec.model.byte_fallback || spec.model.unknown_as_bytes);
}

std::string bpe_text(const TokenizerSpec& spec) {
  const TokenModelSpec& m = spec.model;
  const std::string unk =
      spec.vocabulary.has(m.unk_id) ? json_string(spec.vocabulary.text(m.unk_id)) : "null";
  return fmt::format(
      "{{\"type\": \"BPE\", \"dropout\": null, \"unk_token\": {}, \"continuing_subword_prefix\": null, "
      "\"end_of_word_suffix\": null, \"fuse_unk\": {}, \"byte_fallback\": {}, \"ignore_merges\": {},\n"
      "    \"vocab\": {},\n    \"merges\": {}}}",
      unk, m.fuse_unk || m.kind == Kind::score_bpe, falls_back_to_bytes(spec), m.ignore_merges,
      vocabulary_text(spec), merges_text(m.kind == Kind::score_bpe ? score_merges(spec) : file_merges(spec)));
}

std::string unigram_text(const TokenizerSpec& spec) {
  const TokenModelSpec& m = spec.model;
  std::string pieces;
  for (int32_t id = 0; id < spec.vocabulary.size(); ++id)
    pieces += fmt::format("{}[{}, {}]", id ? ", " : "", json_string(spec.vocabulary.text(id)),
                          m.scores[static_cast<size_t>(id)]);
  return fmt::format("{{\"type\": \"Unigram\", \"unk_id\": {}, \"byte_fallback\": {},\n    \"vocab\": [{}]}}",
                     spec.vocabulary.has(m.unk_id) ? fmt::format("{}", m.unk_id) : "null",
                     falls_back_to_bytes(spec), pieces);
}

std::string word_piece_text(const TokenizerSpec& spec) {
  constexpr int kMostCharacters = 100;  // BERT's own; a longer word is unknown
  return fmt::format(
      "{{\"type\": \"WordPiece\", \"unk_token\": {}, \"continuing_subword_prefix\": \"##\", "
      "\"max_input_chars_per_word\": {},\n    \"vocab\": {}}}",
      json_string(written_token(spec, spec.model.unk_id)), kMostCharacters, vocabulary_text(spec));
}

}  // namespace

std::string written_token(const TokenizerSpec& spec, int32_t id) {
  const std::string_view text = spec.vocabulary.text(id);
  const std::string& start = spec.model.word_prefix;
  if (spec.model.kind != Kind::word_piece || start.empty() || is_hidden(spec, id)) return std::string(text);
  return text.starts_with(start) ? std::string(text.substr(start.size())) : "##" + std::string(text);
}

std::string written_model(const TokenizerSpec& spec) {
  switch (spec.model.kind) {
    case Kind::bpe:
    case Kind::score_bpe: return bpe_text(spec);
    case Kind::unigram: return unigram_text(spec);
    case Kind::word_piece: return word_piece_text(spec);
    case Kind::word_level:
    case Kind::longest: break;
  }
  throw errorf("a tokenizer that takes the longest token at each place has no form in tokenizer.json");
}

}  // namespace anemone
