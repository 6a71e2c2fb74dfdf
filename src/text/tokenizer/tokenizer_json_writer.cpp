#include "text/tokenizer/tokenizer_json_writer.h"
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "text/tokenizer/written_model.h"
#include "text/unicode.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

std::string utf8(char32_t c) {
  std::string out;
  append_utf8(out, c);
  return out;
}

Json pattern_json(const std::string& pattern, bool is_regex) {
  return {{is_regex ? "Regex" : "String", pattern}};
}

// One part as it is, several as a sequence, none as null.
Json sequence(std::vector<Json> parts, const char* key) {
  if (parts.empty()) return nullptr;
  if (parts.size() == 1) return parts.front();
  return {{"type", "Sequence"}, {key, std::move(parts)}};
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kLetters[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

Json replace_json(const std::string& pattern, bool is_regex, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", pattern_json(pattern, is_regex)}, {"content", content}};
}

// SentencePiece's own normalisation. It squeezes spaces alone, no other white space.
void add_sentencepiece(const NormalizerStep& step, std::vector<Json>& out) {
  if (step.suffix) throw errorf("spaces at the end of words have no form in tokenizer.json");
  if (!step.content.empty())
    out.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(step.content)}});
  if (step.squeeze) {
    out.push_back(replace_json("\\A +| +\\z", true, ""));
    out.push_back(replace_json(" {2,}", true, " "));
  }
  if (step.add_prefix) out.push_back({{"type", "Prepend"}, {"prepend", " "}});
  if (step.escape) out.push_back(replace_json(" ", false, "\u2581"));
}

const PreTokenizerStep* find_bert(const TokenizerSpec& spec) {
  for (const PreTokenizerStep& step : spec.pre_tokenizer)
    if (step.kind == PreTokenizerStep::Kind::bert_words) return &step;
  return nullptr;
}

Json normalizer_json(const TokenizerSpec& spec) {
  using Kind = NormalizerStep::Kind;
  std::vector<Json> out;
  if (const PreTokenizerStep* bert = find_bert(spec))
    out.push_back({{"type", "BertNormalizer"},
                   {"clean_text", true},
                   {"handle_chinese_chars", true},
                   {"strip_accents", bert->accents},
                   {"lowercase", bert->lower}});
  for (const NormalizerStep& step : spec.normalizer) {
    if (step.kind == Kind::prepend)
      out.push_back({{"type", "Prepend"}, {"prepend", step.content}});
    else if (step.kind == Kind::replace)
      out.push_back(replace_json(step.pattern, step.is_regex, step.content));
    else if (step.kind == Kind::sentencepiece)
      add_sentencepiece(step, out);
    else
      throw errorf("a normalization of this tokenizer has no form in tokenizer.json");
  }
  return sequence(std::move(out), "normalizers");
}

Json split_json(const PreTokenizerStep& step) {
  if (step.behavior != PreTokenizerStep::Behavior::isolated)
    throw errorf("a way to cut words of this tokenizer has no form in tokenizer.json");
  return {{"type", "Split"},
          {"pattern", pattern_json(step.pattern, step.is_regex)},
          {"behavior", "Isolated"},
          {"invert", step.invert}};
}

Json byte_level_json() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
}

Json pre_tokenizer_json(const TokenizerSpec& spec) {
  using Kind = PreTokenizerStep::Kind;
  std::vector<Json> out;
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    if (step.kind == Kind::split)
      out.push_back(split_json(step));
    else if (step.kind == Kind::byte_level)
      out.push_back(byte_level_json());
    else if (step.kind == Kind::bert_words)
      out.push_back({{"type", "BertPreTokenizer"}});
    else
      throw errorf("a way to cut words of this tokenizer has no form in tokenizer.json");
  }
  return sequence(std::move(out), "pretokenizers");
}

Json decoder_json(const TokenizerSpec& spec) {
  using Kind = DetokenizerStep::Kind;
  if (find_bert(spec)) return {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  std::vector<Json> out;
  for (const DetokenizerStep& step : spec.detokenizer) {
    if (step.kind == Kind::byte_level)
      out.push_back(byte_level_json());
    else if (step.kind == Kind::replace)
      out.push_back(replace_json(step.pattern, step.is_regex, step.content));
    else if (step.kind == Kind::byte_fallback)
      out.push_back({{"type", "ByteFallback"}});
    else if (step.kind == Kind::fuse)
      out.push_back({{"type", "Fuse"}});
    else if (step.kind == Kind::strip)
      out.push_back(
          {{"type", "Strip"}, {"content", utf8(step.character)}, {"start", step.start}, {"stop", step.stop}});
    else
      throw errorf("a way to make text of this tokenizer has no form in tokenizer.json");
  }
  return sequence(std::move(out), "decoders");
}

// What stands around a text, by the tokens' own names.
Json post_json(const TokenizerSpec& spec) {
  if (spec.post == std::vector{TokenizerSpec::kSequence}) return nullptr;
  Json single = Json::array(), pair = Json::array(), tokens = Json::object();
  for (const char* text : {"A", "B"})
    for (const int32_t id : spec.post) {
      Json item;
      if (id == TokenizerSpec::kSequence) {
        item["Sequence"] = {{"id", text}, {"type_id", text[0] - 'A'}};
      } else {
        const std::string name = written_token(spec, id);
        tokens[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
        item["SpecialToken"] = {{"id", name}, {"type_id", text[0] - 'A'}};
      }
      if (text[0] == 'A') single.push_back(item);
      pair.push_back(std::move(item));
    }
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(tokens)}};
}

Json added_json(const TokenizerSpec& spec) {
  Json out = Json::array();
  for (const AddedToken& token : spec.added)
    out.push_back({{"id", token.id},
                   {"content", token.content},
                   {"single_word", token.single_word},
                   {"lstrip", token.left_strip},
                   {"rstrip", token.right_strip},
                   {"normalized", token.normalized},
                   {"special", token.special}});
  return out;
}

}  // namespace

std::string tokenizer_json(const TokenizerSpec& spec) {
  const std::string model = written_model(spec);
  // The vocabulary is most of the file, and too long for a tree of JSON values.
  const auto part = [](const char* key, const Json& value) {
    return fmt::format("  \"{}\": {},\n", key, json_text(value));
  };
  return "{\n" + part("version", "1.0") + part("truncation", nullptr) + part("padding", nullptr) +
         part("added_tokens", added_json(spec)) + part("normalizer", normalizer_json(spec)) +
         part("pre_tokenizer", pre_tokenizer_json(spec)) + part("post_processor", post_json(spec)) +
         part("decoder", decoder_json(spec)) + "  \"model\": " + model + "\n}\n";
}

std::string tokenizer_config_json(const TokenizerSpec& spec) {
  const PreTokenizerStep* const bert = find_bert(spec);
  Json out = {{"tokenizer_class", bert ? "BertTokenizerFast" : "PreTrainedTokenizerFast"},
              {"clean_up_tokenization_spaces", bert != nullptr}};
  const auto token = [&](const char* name, int32_t id) {
    if (spec.vocabulary.has(id)) out[name] = written_token(spec, id);
  };
  token("bos_token", bert ? kNoToken : spec.bos);
  token("eos_token", bert ? kNoToken : spec.eos);
  token("unk_token", spec.unk);
  token("pad_token", spec.pad);
  token("sep_token", bert ? spec.sep : kNoToken);
  token("cls_token", bert ? spec.bos : kNoToken);
  token("mask_token", spec.mask);
  if (bert) {
    out["do_lower_case"] = bert->lower;
    out["strip_accents"] = bert->accents;
  } else {
    out["add_bos_token"] = std::count(spec.post.begin(), spec.post.end(), spec.bos) > 0;
    out["add_eos_token"] = std::count(spec.post.begin(), spec.post.end(), spec.eos) > 0;
  }
  if (!spec.chat_template.empty()) out["chat_template"] = spec.chat_template;
  return json_text(out, 2) + "\n";
}

}  // namespace anemone
