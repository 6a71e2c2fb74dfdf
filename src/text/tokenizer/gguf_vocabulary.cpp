#include "text/tokenizer/gguf_vocabulary.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "text/tokenizer/end_tokens.h"

namespace anemone {
namespace {

constexpr std::string_view kKey = "tokenizer.ggml.";

std::string key(std::string_view name) { return std::string(kKey) + std::string(name); }

std::vector<PieceEntry> read_pieces(const GgufFile& file, std::vector<std::string>& made) {
  const auto tokens = file.strings(key("tokens"));
  if (tokens.empty()) throw errorf("no tokens").at(key("tokens")).hint("the file has no vocabulary");
  const auto scores = file.numbers(key("scores"));
  const auto types = file.integers(key("token_type"));
  const auto check = [&](size_t have, const char* name) {
    if (have != 0 && have < tokens.size()) {
      throw errorf("fewer entries than tokens")
          .at(key(name))
          .found(std::to_string(have))
          .expected(std::to_string(tokens.size()));
    }
  };
  check(scores.size(), "scores");
  check(types.size(), "token_type");
  std::vector<PieceEntry> pieces(tokens.size());
  made.reserve(tokens.size() * 2);  // views into it must stay; RWKV adds one a token
  for (size_t i = 0; i < tokens.size(); ++i) {
    pieces[i].text = tokens[i];
    if (tokens[i].empty()) pieces[i].text = made.emplace_back("[EMPTY_" + std::to_string(i) + "]");
    if (!scores.empty()) pieces[i].score = static_cast<float>(scores[i]);
    if (!types.empty()) {
      pieces[i].type =
          types[i] >= 0 && types[i] <= 6 ? static_cast<PieceType>(types[i]) : PieceType::undefined;
    }
    // Some converters leave these as plain tokens, which is never meant.
    if (is_end_token_name(pieces[i].text) || is_middle_token_name(pieces[i].text))
      pieces[i].type = PieceType::control;
  }
  return pieces;
}

void read_special_ids(const GgufFile& file, TokenizerSpec& spec) {
  const auto read = [&](const char* name, int32_t& id) {
    if (id >= spec.vocabulary.size()) id = kNoToken;  // a default for another vocabulary
    const auto given = file.integer(key(name));
    if (given && *given >= 0 && *given < spec.vocabulary.size()) id = static_cast<int32_t>(*given);
  };
  int32_t eot = kNoToken, eom = kNoToken;
  read("bos_token_id", spec.bos);
  read("eos_token_id", spec.eos);
  read("unknown_token_id", spec.unk);
  read("seperator_token_id", spec.sep);  // spelt so in the format
  read("padding_token_id", spec.pad);
  read("mask_token_id", spec.mask);
  read("eot_token_id", eot);
  read("eom_token_id", eom);
  for (int32_t id : {eot, eom}) {
    if (id != kNoToken) spec.end_of_generation.push_back(id);
  }
  add_end_tokens(spec);
  spec.chat_template = file.string("tokenizer.chat_template").value_or("");
}

// "a b": cut at the first space that is not the first character. A text that is no token gets a number past the
// vocabulary, so that it can still be merged further.
void read_merges(const GgufFile& file, TokenizerSpec& spec) {
  const auto merges = file.strings(key("merges"));
  if (merges.empty()) throw errorf("no merges").at(key("merges"));
  std::unordered_map<std::string, int32_t> virtual_ids;
  const auto id_of = [&](std::string_view text) {
    const int32_t id = spec.vocabulary.find(text);
    if (id != kNoToken) return id;
    const auto next = spec.vocabulary.size() + static_cast<int32_t>(virtual_ids.size());
    return virtual_ids.try_emplace(std::string(text), next).first->second;
  };
  spec.model.merges.reserve(merges.size());
  std::string joined;
  for (std::string_view merge : merges) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      throw errorf("a merge must be two tokens with a space between")
          .at(key("merges"))
          .found(std::string(merge));
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    joined.assign(left).append(right);
    spec.model.merges.push_back({id_of(left), id_of(right), id_of(joined)});
  }
}

void set_bpe(const GgufFile& file, std::string_view pre, TokenizerSpec& spec, bool& add_bos) {
  const GgufPreType type = gguf_pre_type(pre.empty() ? "default" : pre);
  spec.model.kind = TokenModelSpec::Kind::bpe;
  spec.model.ignore_merges = type.ignore_merges;
  spec.model.unknown_as_bytes = true;
  add_bos = type.add_bos;
  spec.bos = type.no_default_bos || type.characters ? kNoToken : 11;
  spec.eos = type.characters ? kNoToken : 11;
  read_merges(file, spec);
  for (std::string_view regex : type.regexes) {
    spec.pre_tokenizer.push_back(
        {.kind = PreTokenizerStep::Kind::split, .pattern = std::string(regex), .is_regex = true});
  }
  if (type.characters) {
    spec.normalizer.push_back({.kind = NormalizerStep::Kind::replace, .pattern = " ", .content = "\u2581"});
    return add_piece_detokenizer(false, spec);
  }
  spec.pre_tokenizer.push_back({.kind = PreTokenizerStep::Kind::byte_level});
  spec.detokenizer.push_back({.kind = DetokenizerStep::Kind::byte_level});
}

void set_spm(const GgufFile& file, TokenizerSpec& spec) {
  spec.model.kind = TokenModelSpec::Kind::score_bpe;
  spec.model.byte_fallback = true;
  spec.bos = 1, spec.eos = 2, spec.unk = 0;
  const bool prefix = file.boolean(key("add_space_prefix")).value_or(true);
  if (prefix) spec.normalizer.push_back({.kind = NormalizerStep::Kind::prepend, .content = " "});
  spec.normalizer.push_back({.kind = NormalizerStep::Kind::replace, .pattern = " ", .content = "\u2581"});
  add_piece_detokenizer(prefix, spec);
}

void set_unigram(const GgufFile& file, TokenizerSpec& spec) {
  spec.model.kind = TokenModelSpec::Kind::unigram;
  spec.eos = 1, spec.unk = 2, spec.pad = 0;
  std::string charsmap;
  for (int64_t byte : file.integers(key("precompiled_charsmap"))) charsmap.push_back(static_cast<char>(byte));
  const bool prefix = file.boolean(key("add_space_prefix")).value_or(false);
  const bool squeeze = file.boolean(key("remove_extra_whitespaces")).value_or(false);
  spec.normalizer.push_back({.kind = NormalizerStep::Kind::sentencepiece,
                             .content = std::move(charsmap),
                             .add_prefix = prefix || squeeze,  // squeezing puts a space before every word
                             .before_word = true,
                             .squeeze = squeeze,
                             .escape = true});
  add_piece_detokenizer(prefix, spec);
}

void set_bert(const GgufFile& file, TokenizerSpec& spec) {
  spec.model.kind = TokenModelSpec::Kind::word_piece;
  spec.bos = 101, spec.unk = 100, spec.sep = 102, spec.pad = 0, spec.mask = 103;
  spec.model.word_prefix = "\u2581";
  spec.model.max_word_chars = std::numeric_limits<size_t>::max();
  const bool lower = file.boolean(key("normalizer.lowercase")).value_or(true);
  const bool accents = file.boolean(key("normalizer.strip_accents")).value_or(lower);
  spec.pre_tokenizer.push_back(
      {.kind = PreTokenizerStep::Kind::bert_words, .lower = lower, .accents = accents});
  add_piece_detokenizer(true, spec);
}

// Python's escapes: \n, \t, \r, \x41, and any other character for itself.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n')
      out += '\n';
    else if (c == 't')
      out += '\t';
    else if (c == 'r')
      out += '\r';
    else if (c == 'x' && i + 2 < text.size()) {
      out += static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

// How special tokens treat the white space beside them is not in the file; llama.cpp goes by the model's name.
void restore_strips(const GgufFile& file, std::string_view pre, TokenizerSpec& spec) {
  std::string name(file.string("general.name").value_or(""));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string_view architecture = file.string("general.architecture").value_or("");
  const auto has = [](std::string_view s, std::string_view part) {
    return s.find(part) != std::string_view::npos;
  };
  const bool jina = has(pre, "jina-v2-de") || has(pre, "jina-v2-es") || has(pre, "jina-v2-code") ||
                    has(architecture, "nomic-bert-moe") || has(architecture, "jina-bert-v3");
  const bool phi3 = has(name, "phi-3") || has(name, "phi3");
  for (AddedToken& token : spec.added) {
    const std::string& text = token.content;
    if (jina)
      token.left_strip = text == "<mask>";
    else if (phi3)
      token.right_strip = text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
    else if (has(name, "modern-bert"))
      token.left_strip = text == "[MASK]";
  }
}

void set_post(const GgufFile& file, std::string_view model, bool add_bos, bool add_eos, TokenizerSpec& spec) {
  add_bos = file.boolean(key("add_bos_token")).value_or(add_bos) || (model == "gemma4");
  add_eos = file.boolean(key("add_eos_token")).value_or(add_eos);
  if (model == "bert") {
    spec.post = {spec.bos, TokenizerSpec::kSequence, spec.sep};
  } else {
    spec.post = {add_bos ? spec.bos : kNoToken - 1, TokenizerSpec::kSequence,
                 add_eos ? spec.eos : kNoToken - 1};
  }
  std::vector<int32_t> post;
  for (size_t i = 0; i < spec.post.size(); ++i) {
    if (i == 1 || spec.post[i] >= 0) post.push_back(spec.post[i]);
  }
  spec.post = std::move(post);
}

TokenizerSpec read_spec(const GgufFile& file) {
  TokenizerSpec spec;
  const auto model = file.string(key("model"));
  if (!model) throw errorf("no tokenizer").at(key("model")).hint("the file has no vocabulary");
  const std::string_view pre = *model == "gemma4" ? "gemma4" : file.string(key("pre")).value_or("");
  std::vector<std::string> made;
  std::vector<PieceEntry> pieces = read_pieces(file, made);
  if (*model == "rwkv") {
    for (PieceEntry& piece : pieces) piece.text = made.emplace_back(unescape(piece.text));
  }
  if (*model == "t5") spec.model.kind = TokenModelSpec::Kind::unigram;
  add_pieces(pieces, spec);
  spec.longest_first = true;
  bool add_bos = false, add_eos = false;
  if (*model == "gpt2" || *model == "gemma4") {
    set_bpe(file, pre, spec, add_bos);
  } else if (*model == "llama") {
    set_spm(file, spec);
    add_bos = true;
  } else if (*model == "t5") {
    set_unigram(file, spec);
    add_eos = true;
  } else if (*model == "bert") {
    set_bert(file, spec);
  } else if (*model == "rwkv") {
    spec.model.kind = TokenModelSpec::Kind::longest;
  } else {
    throw errorf("tokenizer '{}' is not supported", *model)
        .at(key("model"))
        .expected("gpt2, llama, t5, bert, rwkv or gemma4");
  }
  read_special_ids(file, spec);
  spec.model.unk_id = *model == "gpt2" || *model == "gemma4" || *model == "rwkv" ? kNoToken : spec.unk;
  restore_strips(file, pre, spec);
  set_post(file, *model, add_bos, add_eos, spec);
  return spec;
}

}  // namespace

void add_pieces(std::span<const PieceEntry> pieces, TokenizerSpec& spec) {
  size_t bytes = 0;
  for (const PieceEntry& piece : pieces) bytes += piece.text.size();
  spec.vocabulary.reserve(pieces.size(), bytes);
  spec.model.scores.resize(pieces.size());
  spec.model.hidden.resize(pieces.size());
  double lowest = std::numeric_limits<double>::max();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const PieceEntry& piece = pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (std::isnan(piece.score)) throw errorf("the score of token '{}' is not a number", piece.text);
    spec.vocabulary.add(piece.text, id);
    if (piece.type == PieceType::normal) lowest = std::min<double>(lowest, piece.score);
    spec.model.scores[i] = piece.type == PieceType::user_defined ? 0.0 : piece.score;
    spec.model.hidden[i] =
        piece.type == PieceType::control || piece.type == PieceType::unknown || piece.type == PieceType::byte;
    const bool special = piece.type == PieceType::control || piece.type == PieceType::unknown;
    if (!special && piece.type != PieceType::user_defined) continue;
    AddedToken token;
    token.content = piece.text;
    token.id = id;
    token.special = special;
    spec.added.push_back(std::move(token));
  }
  spec.model.unk_score = lowest - 10.0;
}

void add_piece_detokenizer(bool add_prefix, TokenizerSpec& spec) {
  spec.detokenizer.push_back({.kind = DetokenizerStep::Kind::replace, .pattern = "\u2581", .content = " "});
  spec.detokenizer.push_back({.kind = DetokenizerStep::Kind::byte_fallback});
  spec.detokenizer.push_back({.kind = DetokenizerStep::Kind::fuse});
  if (add_prefix)
    spec.detokenizer.push_back({.kind = DetokenizerStep::Kind::strip, .character = U' ', .start = 1});
}

TokenizerSpec read_gguf_vocabulary(const GgufFile& file) {
  try {
    return read_spec(file);
  } catch (Error& e) {
    e.within(file.path());
    throw;
  }
}

}  // namespace anemone
