#include "text/tokenizer/tokenizer_json.h"

#include <simdjson.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/json_problem.h"
#include "text/tokenizer/tokenizer_json_parts.h"

namespace anemone {
namespace {

using namespace tokenizer_json;

void read_vocabulary(Value vocab, Vocabulary& out) {
  simdjson::dom::object object;
  if (vocab.get(object)) throw errorf("'vocab' must be an object of tokens and ids");
  out.reserve(object.size(), object.size() * 8);
  for (const auto& [token, id] : object) {
    int64_t n = 0;
    if (id.get(n)) throw errorf("token '{}' has no whole number as its id", token);
    out.add(token, n);
  }
}

void read_merges(Value merges, TokenizerSpec& spec) {
  const Vocabulary& vocabulary = spec.vocabulary;
  const size_t prefix = spec.model.continuing_prefix.size();
  const auto id_of = [&](std::string_view token, size_t rank) {
    const int32_t id = vocabulary.find(token);
    if (id == kNoToken) throw errorf("merge {}: '{}' is not in the vocabulary", rank, token);
    return id;
  };
  simdjson::dom::array list;
  if (merges.get(list)) throw errorf("'merges' must be a list");
  spec.model.merges.reserve(list.size());
  std::string joined;
  size_t rank = 0;
  for (Value merge : list) {
    std::string_view left, right;
    if (merge.is_string()) {
      const std::string_view line = std::string_view(merge);
      if (line.starts_with("#version")) continue;
      const size_t space = line.find(' ');
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
        throw errorf("merge {} must be two tokens with one space between", rank).found(std::string(line));
      }
      left = line.substr(0, space);
      right = line.substr(space + 1);
    } else if (merge.at(0).get(left) || merge.at(1).get(right)) {
      throw errorf("merge {} must be a string or a pair of strings", rank);
    }
    joined.assign(left);
    joined.append(right.substr(std::min(prefix, right.size())));
    spec.model.merges.push_back({id_of(left, rank), id_of(right, rank), id_of(joined, rank)});
    ++rank;
  }
}

void read_unigram(Value v, TokenizerSpec& spec) {
  TokenModelSpec& model = spec.model;
  simdjson::dom::array list;
  if (member(v, "vocab").get(list)) throw errorf("Unigram: 'vocab' must be a list of tokens and scores");
  spec.vocabulary.reserve(list.size(), list.size() * 8);
  double lowest = 0;
  for (Value entry : list) {
    std::string_view token;
    double score = 0;
    if (entry.at(0).get(token) || entry.at(1).get(score)) {
      throw errorf("Unigram: entry {} of 'vocab' must be a token and a score", model.scores.size());
    }
    lowest = model.scores.empty() ? score : std::min(lowest, score);
    spec.vocabulary.add(token, static_cast<int64_t>(model.scores.size()));
    model.scores.push_back(score);
  }
  const int64_t unk = number(v, "unk_id", kNoToken);
  if (unk >= static_cast<int64_t>(model.scores.size())) {
    throw errorf("Unigram: unk_id {} is past the {} tokens", unk, model.scores.size());
  }
  model.unk_id = unk < 0 ? kNoToken : static_cast<int32_t>(unk);
  model.unk_score = lowest - 10.0;
  model.byte_fallback = flag(v, "byte_fallback", false);
}

TokenModelSpec::Kind model_kind(Value v) {
  const std::string_view type = text(v, "type", "");
  if (type == "BPE" || (type.empty() && !is_absent(v, "merges"))) return TokenModelSpec::Kind::bpe;
  if (type == "Unigram" || (type.empty() && !is_absent(v, "unk_id"))) return TokenModelSpec::Kind::unigram;
  if (type == "WordPiece" || (type.empty() && !is_absent(v, "max_input_chars_per_word"))) {
    return TokenModelSpec::Kind::word_piece;
  }
  if (type == "WordLevel" || type.empty()) return TokenModelSpec::Kind::word_level;
  throw errorf("model '{}' is not known", type);
}

void read_model(Value v, TokenizerSpec& spec) {
  TokenModelSpec& model = spec.model;
  model.kind = model_kind(v);
  if (model.kind == TokenModelSpec::Kind::unigram) return read_unigram(v, spec);
  read_vocabulary(member(v, "vocab"), spec.vocabulary);
  const bool piece = model.kind == TokenModelSpec::Kind::word_piece;
  model.unk_token = text(v, "unk_token", piece ? "[UNK]" : "");
  if (!model.unk_token.empty()) model.unk_id = spec.vocabulary.find(model.unk_token);
  model.continuing_prefix = text(v, "continuing_subword_prefix", piece ? "##" : "");
  if (piece) {
    model.max_word_chars =
        static_cast<size_t>(std::max<int64_t>(number(v, "max_input_chars_per_word", 100), 0));
  }
  if (model.kind != TokenModelSpec::Kind::bpe) return;
  if (double dropout = 0; !is_absent(v, "dropout") && !member(v, "dropout").get(dropout) && dropout > 0)
    throw errorf("BPE dropout {} is not supported: the ids would differ from call to call", dropout);
  model.word_suffix = text(v, "end_of_word_suffix", "");
  model.fuse_unk = flag(v, "fuse_unk", false);
  model.byte_fallback = flag(v, "byte_fallback", false);
  model.ignore_merges = flag(v, "ignore_merges", false);
  read_merges(member(v, "merges"), spec);
}

// Ids come from the vocabulary. Tokens that are not in it are numbered on from its end, whatever the file says.
void read_added_tokens(Value v, TokenizerSpec& spec) {
  simdjson::dom::array list;
  if (v.get(list)) throw errorf("'added_tokens' must be a list");
  int32_t next = spec.vocabulary.count();
  std::unordered_map<std::string_view, size_t> seen;
  for (Value entry : list) {
    const std::string_view content = text(entry, "content");
    if (content.empty()) continue;
    AddedToken token;
    token.content = content;
    token.single_word = flag(entry, "single_word", false);
    token.left_strip = flag(entry, "lstrip", false);
    token.right_strip = flag(entry, "rstrip", false);
    token.special = flag(entry, "special", false);
    token.normalized = flag(entry, "normalized", !token.special);
    const auto before = seen.find(content);
    if (before != seen.end()) {
      token.id = spec.added[before->second].id;
      spec.added[before->second] = std::move(token);
      continue;
    }
    token.id = spec.vocabulary.find(content);
    if (token.id == kNoToken) token.id = next++;
    if (token.id >= kMaxTokenId) throw errorf("too many added tokens");
    seen.emplace(content, spec.added.size());
    spec.added.push_back(std::move(token));
  }
}

template <class F>
void in_part(const char* name, F&& read) {
  try {
    read();
  } catch (Error& e) {
    e.within(name);
    throw;
  } catch (const simdjson::simdjson_error& e) {
    throw errorf("{}", e.error() == simdjson::NO_SUCH_FIELD ? "a key is missing"
                                                            : "a value is of another kind than is needed")
        .at(name);
  }
}

TokenizerSpec read(Value root) {
  TokenizerSpec spec;
  const auto part = [&](const char* name, auto&& reader, bool needed = false) {
    in_part(name, [&] {
      if (needed || !is_absent(root, name)) reader(member(root, name), spec);
    });
  };
  part("model", read_model, true);
  part("normalizer", read_normalizer);
  part("pre_tokenizer", read_pre_tokenizer);
  part("post_processor", read_post_processor);
  part("added_tokens", read_added_tokens);
  spec.join_with_spaces = is_absent(root, "decoder");
  part("decoder", read_detokenizer);
  spec.unk = spec.model.unk_id;
  return spec;
}

// "bos_token" is a string or {"content": "…"}.
int32_t named_token(Value config, std::string_view key, const TokenizerSpec& spec) {
  if (is_absent(config, key)) return kNoToken;
  const Value v = member(config, key);
  const std::string_view name = v.is_string()   ? text(config, key)
                                : v.is_object() ? text(v, "content", "")
                                                : "";
  for (const AddedToken& token : spec.added) {
    if (token.content == name) return token.id;
  }
  return spec.vocabulary.find(name);
}

void read_config(Value config, TokenizerSpec& spec) {
  spec.bos = named_token(config, "bos_token", spec);
  spec.eos = named_token(config, "eos_token", spec);
  spec.pad = named_token(config, "pad_token", spec);
  spec.sep = named_token(config, "sep_token", spec);
  spec.mask = named_token(config, "mask_token", spec);
  if (is_absent(config, "chat_template")) return;
  const Value chat = member(config, "chat_template");
  if (chat.is_string()) {
    spec.chat_template = std::string_view(chat);
  } else if (chat.is_array()) {  // several, by name
    for (Value one : simdjson::dom::array(chat)) {
      if (text(one, "name", "") == "default") spec.chat_template = text(one, "template", "");
    }
  }
}

void read_generation(Value config, TokenizerSpec& spec) {
  const auto add = [&](Value v) {
    int64_t id = 0;
    if (!v.get(id) && id >= 0 && id < kMaxTokenId) spec.end_of_generation.push_back(static_cast<int32_t>(id));
  };
  if (is_absent(config, "eos_token_id")) return;
  const Value eos = member(config, "eos_token_id");
  if (!eos.is_array()) return add(eos);
  for (Value id : simdjson::dom::array(eos)) add(id);
}

Error not_json(const MappedFile& file) {
  return invalid_json(file.text()).at(file.path()).hint("was the download cut short?");
}

template <class F>
void with_json(const std::filesystem::path& path, F&& use) {
  if (!std::filesystem::is_regular_file(path)) return;
  const auto file = MappedFile::open(path);
  simdjson::dom::parser parser;
  Value root;
  if (parser.parse(file->text().data(), file->size(), true).get(root)) throw not_json(*file);
  in_part(path.string().c_str(), [&] { use(root); });
}

}  // namespace

TokenizerSpec read_tokenizer_json(const MappedFile& file) {
  simdjson::dom::parser parser;
  Value root;
  if (parser.parse(file.text().data(), file.size(), true).get(root)) throw not_json(file);
  TokenizerSpec spec;
  in_part(file.path().c_str(), [&] { spec = read(root); });
  return spec;
}

void read_companions(const std::filesystem::path& folder, TokenizerSpec& spec) {
  with_json(folder / "tokenizer_config.json", [&](Value config) { read_config(config, spec); });
  with_json(folder / "generation_config.json", [&](Value config) { read_generation(config, spec); });
  if (std::filesystem::is_regular_file(folder / "chat_template.jinja")) {
    spec.chat_template = MappedFile::open(folder / "chat_template.jinja")->text();
  }
}

}  // namespace anemone
