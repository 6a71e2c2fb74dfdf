#include "text/tokenizer/tokenizer_json_parts.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone::tokenizer_json {
namespace {

struct Pattern {
  std::string text;
  bool is_regex;
};

// {"String": "…"} or {"Regex": "…"}.
Pattern pattern_of(Value object) {
  const Value pattern = member(object, "pattern");
  if (!is_absent(pattern, "String")) return {std::string(text(pattern, "String")), false};
  if (!is_absent(pattern, "Regex")) return {std::string(text(pattern, "Regex")), true};
  throw errorf("a pattern has neither 'String' nor 'Regex'");
}

// Steps run one inside the other; no real file has a tenth of this.
template <class Step>
void add_step(std::vector<Step>& steps, Step step) {
  if (steps.size() >= 256) throw errorf("more than 256 steps in a row");
  steps.push_back(std::move(step));
}

char32_t character_of(Value object, std::string_view key) {
  const std::string_view s = text(object, key);
  const char* p = s.data();
  if (s.empty() || count_chars(s) != 1) throw errorf("'{}' must be one character", key).found(std::string(s));
  return decode_utf8(p, p + s.size());
}

std::string from_base64(std::string_view s) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (char c : s) {
    int v = 0;
    if (c >= 'A' && c <= 'Z')
      v = c - 'A';
    else if (c >= 'a' && c <= 'z')
      v = c - 'a' + 26;
    else if (c >= '0' && c <= '9')
      v = c - '0' + 52;
    else if (c == '+')
      v = 62;
    else if (c == '/')
      v = 63;
    else if (c == '=' || c == '\n')
      continue;
    else
      throw errorf("bad base64 character in 'precompiled_charsmap'").found(std::to_string(c));
    bits = bits << 6 | static_cast<uint32_t>(v);
    have += 6;
    if (have >= 8) out.push_back(static_cast<char>(bits >> (have -= 8) & 0xff));
  }
  return out;
}

PreTokenizerStep::Behavior behavior_of(std::string_view name) {
  using Behavior = PreTokenizerStep::Behavior;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "Removed") return Behavior::removed;
  if (name == "Contiguous") return Behavior::contiguous;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  throw errorf("split behavior '{}' is not known", name);
}

void read_metaspace(Value v, PreTokenizerStep& step) {
  using Prepend = PreTokenizerStep::Prepend;
  step.character = character_of(v, "replacement");
  const std::string_view scheme = text(v, "prepend_scheme", "always");
  if (scheme == "always")
    step.prepend = Prepend::always;
  else if (scheme == "first")
    step.prepend = Prepend::first;
  else if (scheme == "never")
    step.prepend = Prepend::never;
  else
    throw errorf("Metaspace: prepend_scheme '{}' is not known", scheme);
  if (!flag(v, "add_prefix_space", true)) step.prepend = Prepend::never;
  step.cut = flag(v, "split", true);
}

int32_t checked_id(int64_t id) {
  if (id < 0 || id >= kMaxTokenId)
    throw errorf("a special token has an impossible id").found(std::to_string(id));
  return static_cast<int32_t>(id);
}

std::vector<int32_t> special_ids(Value processor, std::string_view name) {
  const Value token = member(member(processor, "special_tokens"), name);
  std::vector<int32_t> ids;
  for (Value id : simdjson::dom::array(member(token, "ids"))) ids.push_back(checked_id(int64_t(id)));
  return ids;
}

std::vector<int32_t> template_processing(Value v) {
  std::vector<int32_t> post;
  for (Value item : simdjson::dom::array(member(v, "single"))) {
    if (!is_absent(item, "Sequence")) {
      post.push_back(TokenizerSpec::kSequence);
    } else {
      const auto ids = special_ids(v, text(member(item, "SpecialToken"), "id"));
      post.insert(post.end(), ids.begin(), ids.end());
    }
  }
  return post;
}

// ["[SEP]", 102]
int32_t pair_id(Value v, std::string_view key) {
  const simdjson::dom::array pair(member(v, key));
  return checked_id(int64_t(pair.at(1)));
}

}  // namespace

Value member(Value object, std::string_view key) {
  Value value;
  if (object[key].get(value)) throw errorf("'{}' is missing", key);
  return value;
}

bool is_absent(Value object, std::string_view key) {
  Value value;
  return object[key].get(value) || value.is_null();
}

std::string_view text(Value object, std::string_view key) {
  std::string_view s;
  if (member(object, key).get(s)) throw errorf("'{}' must be a string", key);
  return s;
}

std::string_view text(Value object, std::string_view key, std::string_view otherwise) {
  return is_absent(object, key) ? otherwise : text(object, key);
}

bool flag(Value object, std::string_view key, bool otherwise) {
  if (is_absent(object, key)) return otherwise;
  bool b = false;
  if (member(object, key).get(b)) throw errorf("'{}' must be true or false", key);
  return b;
}

int64_t number(Value object, std::string_view key, int64_t otherwise) {
  if (is_absent(object, key)) return otherwise;
  int64_t n = 0;
  if (member(object, key).get(n)) throw errorf("'{}' must be a whole number", key);
  return n;
}

std::string_view type_of(Value object) { return text(object, "type"); }

void read_normalizer(Value v, TokenizerSpec& spec) {
  using Kind = NormalizerStep::Kind;
  const std::string_view type = type_of(v);
  if (type == "Sequence") {
    for (Value part : simdjson::dom::array(member(v, "normalizers"))) read_normalizer(part, spec);
    return;
  }
  static constexpr std::pair<std::string_view, Kind> kinds[] = {{"NFC", Kind::nfc},
                                                                {"NFD", Kind::nfd},
                                                                {"NFKC", Kind::nfkc},
                                                                {"NFKD", Kind::nfkd},
                                                                {"Lowercase", Kind::lowercase},
                                                                {"Strip", Kind::strip},
                                                                {"StripAccents", Kind::strip_accents},
                                                                {"Replace", Kind::replace},
                                                                {"Prepend", Kind::prepend},
                                                                {"BertNormalizer", Kind::bert},
                                                                {"Bert", Kind::bert},
                                                                {"Precompiled", Kind::precompiled},
                                                                {"Nmt", Kind::nmt},
                                                                {"ByteLevel", Kind::byte_level}};
  const auto found =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& k) { return k.first == type; });
  if (found == std::end(kinds)) throw errorf("normalizer '{}' is not known", type);
  NormalizerStep step{.kind = found->second};
  if (step.kind == Kind::strip) {
    step.strip_left = flag(v, "strip_left", true);
    step.strip_right = flag(v, "strip_right", true);
  } else if (step.kind == Kind::replace) {
    auto pattern = pattern_of(v);
    step.pattern = std::move(pattern.text);
    step.is_regex = pattern.is_regex;
    step.content = text(v, "content");
  } else if (step.kind == Kind::prepend) {
    step.content = text(v, "prepend");
  } else if (step.kind == Kind::bert) {
    step.clean_text = flag(v, "clean_text", true);
    step.chinese = flag(v, "handle_chinese_chars", true);
    step.lower = flag(v, "lowercase", true);
    step.accents = flag(v, "strip_accents", step.lower);
  } else if (step.kind == Kind::precompiled) {
    step.content = from_base64(text(v, "precompiled_charsmap", ""));
  }
  add_step(spec.normalizer, std::move(step));
}

void read_pre_tokenizer(Value v, TokenizerSpec& spec) {
  using Kind = PreTokenizerStep::Kind;
  const std::string_view type = type_of(v);
  if (type == "Sequence") {
    for (Value part : simdjson::dom::array(member(v, "pretokenizers"))) read_pre_tokenizer(part, spec);
    return;
  }
  static constexpr std::pair<std::string_view, Kind> kinds[] = {{"ByteLevel", Kind::byte_level},
                                                                {"Split", Kind::split},
                                                                {"Whitespace", Kind::whitespace},
                                                                {"WhitespaceSplit", Kind::whitespace_split},
                                                                {"Metaspace", Kind::metaspace},
                                                                {"Punctuation", Kind::punctuation},
                                                                {"Digits", Kind::digits},
                                                                {"BertPreTokenizer", Kind::bert},
                                                                {"CharDelimiterSplit", Kind::delimiter},
                                                                {"Delimiter", Kind::delimiter},
                                                                {"UnicodeScripts", Kind::unicode_scripts},
                                                                {"FixedLength", Kind::fixed_length}};
  const auto found =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& k) { return k.first == type; });
  if (found == std::end(kinds)) throw errorf("pre-tokenizer '{}' is not known", type);
  PreTokenizerStep step{.kind = found->second};
  if (step.kind == Kind::byte_level) {
    step.add_prefix_space = flag(v, "add_prefix_space", true);
    step.use_regex = flag(v, "use_regex", true);
  } else if (step.kind == Kind::split) {
    auto pattern = pattern_of(v);
    step.pattern = std::move(pattern.text);
    step.is_regex = pattern.is_regex;
    step.behavior = behavior_of(text(v, "behavior"));
    step.invert = flag(v, "invert", false);
  } else if (step.kind == Kind::metaspace) {
    read_metaspace(v, step);
  } else if (step.kind == Kind::punctuation) {
    step.behavior = behavior_of(text(v, "behavior", "Isolated"));
  } else if (step.kind == Kind::digits) {
    step.individual_digits = flag(v, "individual_digits", false);
  } else if (step.kind == Kind::delimiter) {
    step.character = character_of(v, "delimiter");
  } else if (step.kind == Kind::fixed_length) {
    step.length = static_cast<size_t>(std::max<int64_t>(number(v, "length", 5), 0));
  }
  add_step(spec.pre_tokenizer, std::move(step));
}

void read_post_processor(Value v, TokenizerSpec& spec) {
  const std::string_view type = type_of(v);
  std::vector<int32_t> outer;
  if (type == "Sequence") {
    for (Value part : simdjson::dom::array(member(v, "processors"))) read_post_processor(part, spec);
    return;
  }
  if (type == "ByteLevel") return;  // only moves offsets
  if (type == "TemplateProcessing") {
    outer = template_processing(v);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    outer = {pair_id(v, "cls"), TokenizerSpec::kSequence, pair_id(v, "sep")};
  } else {
    throw errorf("post-processor '{}' is not known", type);
  }
  if (spec.post_in_parts) {
    throw errorf("post-processor '{}' after a TemplateProcessing is not supported", type)
        .hint("Hugging Face takes what the first one made for a pair of texts");
  }
  spec.post_in_parts = type == "TemplateProcessing" && outer.size() > 1;
  const auto texts = static_cast<size_t>(std::count(outer.begin(), outer.end(), TokenizerSpec::kSequence));
  if (outer.size() + texts * spec.post.size() > 4096)
    throw errorf("post-processor '{}' adds too many tokens", type);
  std::vector<int32_t> post;  // the outer one around what earlier ones made
  for (int32_t id : outer) {
    if (id != TokenizerSpec::kSequence)
      post.push_back(id);
    else
      post.insert(post.end(), spec.post.begin(), spec.post.end());
  }
  spec.post = std::move(post);
}

void read_detokenizer(Value v, TokenizerSpec& spec) {
  using Kind = DetokenizerStep::Kind;
  const std::string_view type = type_of(v);
  if (type == "Sequence") {
    for (Value part : simdjson::dom::array(member(v, "decoders"))) read_detokenizer(part, spec);
    return;
  }
  static constexpr std::pair<std::string_view, Kind> kinds[] = {
      {"ByteLevel", Kind::byte_level},       {"Replace", Kind::replace}, {"WordPiece", Kind::word_piece},
      {"ByteFallback", Kind::byte_fallback}, {"Fuse", Kind::fuse},       {"Strip", Kind::strip},
      {"Metaspace", Kind::metaspace},        {"BPEDecoder", Kind::bpe},  {"CTC", Kind::ctc}};
  const auto found =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& k) { return k.first == type; });
  if (found == std::end(kinds)) throw errorf("decoder '{}' is not known", type);
  DetokenizerStep step{.kind = found->second};
  if (step.kind == Kind::replace) {
    auto pattern = pattern_of(v);
    step.pattern = std::move(pattern.text);
    step.is_regex = pattern.is_regex;
    step.content = text(v, "content");
  } else if (step.kind == Kind::word_piece) {
    step.pattern = text(v, "prefix", "##");
    step.cleanup = flag(v, "cleanup", true);
  } else if (step.kind == Kind::strip) {
    step.character = character_of(v, "content");
    step.start = static_cast<size_t>(std::max<int64_t>(number(v, "start", 0), 0));
    step.stop = static_cast<size_t>(std::max<int64_t>(number(v, "stop", 0), 0));
  } else if (step.kind == Kind::metaspace) {
    PreTokenizerStep same{.kind = PreTokenizerStep::Kind::metaspace};
    read_metaspace(v, same);
    step.character = same.character;
    step.strip_first = same.prepend != PreTokenizerStep::Prepend::never;
  } else if (step.kind == Kind::bpe) {
    step.pattern = text(v, "suffix", "</w>");
  } else if (step.kind == Kind::ctc) {
    step.pattern = text(v, "pad_token", "<pad>");
    step.content = text(v, "word_delimiter_token", "|");
    step.cleanup = flag(v, "cleanup", true);
  }
  add_step(spec.detokenizer, std::move(step));
}

}  // namespace anemone::tokenizer_json
