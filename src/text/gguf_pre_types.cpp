// The pre-tokenizers that GGUF files name. Expressions are those of the models' own tokenizer.json files; where
// llama.cpp writes one differently to suit its regex engine, the original stands here.
#include <algorithm>

#include "base/error.h"
#include "text/gguf_vocabulary.h"

namespace anemone {
namespace {

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LINES_AND_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED_LOWER "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
#define CASED_UPPER "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
#define O200K_END " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES_AND_SPACES
#define DEEPSEEK3                                                                                       \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
  " ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES_AND_SPACES

constexpr std::string_view kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kLlama3 = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
constexpr std::string_view kQwen2 = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
constexpr std::string_view kQwen35 = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
constexpr std::string_view kJais2 = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|"
    "\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
    "\\s{1,2}(?!\\S)|\\s{1}";
constexpr std::string_view kGpt4o = CASED_LOWER CONTRACTIONS "?|" CASED_UPPER CONTRACTIONS "?|\\p{N}{1,3}|" O200K_END;
constexpr std::string_view kYoutu = CASED_LOWER CONTRACTIONS "?|" CASED_UPPER CONTRACTIONS "?|\\p{N}|" O200K_END;
constexpr std::string_view kTekken = CASED_LOWER "|" CASED_UPPER "|\\p{N}|" O200K_END;
constexpr std::string_view kDeepSeek3 = DEEPSEEK3;
constexpr std::string_view kBailing =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|"
    "\\s+(?!\\S)|\\s+";
constexpr std::string_view kSeedCoder = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES_AND_SPACES;
constexpr std::string_view kExaoneMoe = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|"
    "\\s+(?!\\S)|\\s+";
constexpr std::string_view kMiniCpm5 = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
constexpr std::string_view kBloom = " ?[^(\\s|.,!?…。，、।۔،)]+";
constexpr std::string_view kLines = "[^\\n]+|[\\n]+";
constexpr std::string_view kCjkKana = "[一-龥぀-ゟ゠-ヿ]+";
// Ideographs are cut off first, then words as o200k's without them.
constexpr std::string_view kKimi =
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?(?:(?!\\p{Han})[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])*"
    "(?:(?!\\p{Han})[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])+" CONTRACTIONS
    "?|[^\\r\\n\\p{L}\\p{N}]?(?:(?!\\p{Han})[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])+"
    "(?:(?!\\p{Han})[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])*" CONTRACTIONS
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
// The letters with case of Unicode 15 that DeepSeek's file lists.
constexpr std::string_view kDeepSeekLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼι"
    "ῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲"
    "𑢠-𑣟𞤀-𞥃]+";
constexpr std::string_view kDeepSeekCjk = "[一-龥ࠀ-一가-퟿]+";
constexpr std::string_view kAsian = "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+";
constexpr std::string_view kYoutuAsian =
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+";

struct Entry {
  std::vector<std::string_view> names;
  GgufPreType type;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> table = {
      {{"default"}, {{"[\\p{P}\\$\\+<=>\\^~\\|]+", kGpt2, "\\p{N}+", "[0-9][0-9][0-9]"}}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {{kLlama3}, true, true}},
      {{"dbrx", "smaug-bpe"}, {{kLlama3}}},
      {{"glm4", "chatglm-bpe"}, {.regexes = {kLlama3}, .no_default_bos = true}},
      {{"deepseek-llm"},
       {{"[\r\n]", kDeepSeekLetters, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", kDeepSeekCjk, "\\p{N}+"}}},
      {{"deepseek-coder"}, {{"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kDeepSeekCjk, "\\p{N}"}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, {{"\\p{N}{1,3}", kCjkKana, kDeepSeek3}}},
      {{"youtu"}, {{kYoutuAsian, kYoutu}, true}},
      {{"falcon"}, {{"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2, "[0-9][0-9][0-9]"}}},
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
        "modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "jina-v1-en", "jina-v2-code",
        "roberta-bpe"},
       {{kGpt2}}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {{"\\p{N}", kGpt2}}},
      {{"jais-2"}, {{kJais2}}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "megrez", "solar-open", "grok-2"},
       {{kQwen2}}},
      {{"qwen35"}, {{kQwen35}}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {{kBloom}}},
      {{"viking"}, {{kBloom, "\\p{N}"}}},
      {{"tekken"}, {{kTekken}, true, true}},
      {{"chameleon"},
       {{"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
         "[\\p{P}!-/:-@\\[-`{-~]", kGpt2},
        false, true}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {{kGpt4o}}},
      {{"granite-embed-multi-97m"}, {{kGpt4o}, true}},
      {{"tiny_aya", "cohere2moe"}, {{"\\d{1,3}(?=(?:\\d{3})*\\b)", kGpt4o}}},
      {{"superbpe"}, {{"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {{kBailing}}},
      {{"seed-coder"}, {{kSeedCoder}}},
      {{"kimi-k2"}, {{kKimi}}},
      {{"afmoe"}, {{"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", kAsian, kDeepSeek3}}},
      {{"laguna"}, {{kLines, kQwen2}}},
      {{"exaone-moe"}, {{kExaoneMoe}}},
      {{"minicpm5"}, {{"\\p{N}{1,3}", kMiniCpm5}, true}},
      {{"gemma4", "granite-embed-multi-311m"}, {{kLines}, false, true, true}},
      {{"sarvam-moe"}, {{kLines}, false, false, true}},
  };
  return table;
}

}  // namespace

GgufPreType gguf_pre_type(std::string_view name) {
  for (const Entry& entry : entries()) {
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return entry.type;
  }
  throw errorf("pre-tokenizer '{}' is not known", name)
      .at("tokenizer.ggml.pre")
      .hint("use the model's tokenizer.json instead");
}

}  // namespace anemone
