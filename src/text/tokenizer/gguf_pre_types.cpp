// The pre-tokenizers that GGUF files name. The expressions are those of the models' own tokenizer.json files. Where
// llama.cpp writes one in another way to suit its regex engine, the original stands here.
#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/gguf_vocabulary.h"

namespace anemone {
namespace {

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LINES_AND_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED_LOWER \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
#define CASED_UPPER \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
#define O200K_END " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES_AND_SPACES
#define DEEPSEEK3                                                                                      \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
  " ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES_AND_SPACES

constexpr std::string_view kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kLlama3 = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
constexpr std::string_view kQwen2 =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
constexpr std::string_view kQwen35 = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
constexpr std::string_view kJais2 = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|"
    "\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)"
    "|"
    "\\s{1,2}(?!\\S)|\\s{1}";
constexpr std::string_view kGpt4o =
    CASED_LOWER CONTRACTIONS "?|" CASED_UPPER CONTRACTIONS "?|\\p{N}{1,3}|" O200K_END;
constexpr std::string_view kYoutu =
    CASED_LOWER CONTRACTIONS "?|" CASED_UPPER CONTRACTIONS "?|\\p{N}|" O200K_END;
constexpr std::string_view kTekken = CASED_LOWER "|" CASED_UPPER "|\\p{N}|" O200K_END;
constexpr std::string_view kDeepSeek3 = DEEPSEEK3;
constexpr std::string_view kBailing =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|"
    "\\s+(?!\\S)|\\s+";
constexpr std::string_view kSeedCoder =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES_AND_SPACES;
constexpr std::string_view kExaoneMoe = CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|"
    "\\s+(?!\\S)|\\s+";
constexpr std::string_view kMiniCpm5 =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES;
constexpr std::string_view kBloom =
    " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+";
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
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}"
    "\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}"
    "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-"
    "\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}"
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}"
    "\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}"
    "\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}"
    "\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}"
    "\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}"
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-"
    "\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+";
constexpr std::string_view kDeepSeekPunctuation =
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3001}\\x{3002}]+";
// Without white space: llama.cpp sees that as a vertical tab wherever an expression names no property.
constexpr std::string_view kDeepSeekCjk =
    "[[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]&&[^\\s]]+";
constexpr std::string_view kAsian =
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}"
    "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}"
    "-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+";
constexpr std::string_view kYoutuAsian =
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}"
    "\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|"
    "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+";

struct Entry {
  std::vector<std::string_view> names;
  GgufPreType type;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> table = {
      {{"default"}, {{"[\\p{P}\\$\\+<=>\\^~\\|]+", kGpt2, "\\p{N}+", "[0-9][0-9][0-9]"}}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       {{kLlama3}, true, true}},
      {{"dbrx", "smaug-bpe"}, {{kLlama3}}},
      {{"glm4", "chatglm-bpe"}, {.regexes = {kLlama3}, .no_default_bos = true}},
      {{"deepseek-llm"},
       {{"[\r\n]", kDeepSeekLetters, kDeepSeekPunctuation, "\\s+$", kDeepSeekCjk, "\\p{N}+"}}},
      {{"deepseek-coder"}, {{"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kDeepSeekCjk, "\\p{N}"}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, {{"\\p{N}{1,3}", kCjkKana, kDeepSeek3}}},
      {{"youtu"}, {{kYoutuAsian, kYoutu}, true}},
      {{"falcon"}, {{"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2, "[0-9][0-9][0-9]"}}},
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
        "modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "jina-v1-en",
        "jina-v2-code", "roberta-bpe"},
       {{kGpt2}}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {{"\\p{N}", kGpt2}}},
      {{"jais-2"}, {{kJais2}}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "megrez", "solar-open",
        "grok-2"},
       {{kQwen2}}},
      {{"qwen35"}, {{kQwen35}}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {{kBloom}}},
      {{"viking"}, {{kBloom, "\\p{N}"}}},
      {{"tekken"}, {{kTekken}, true, true}},
      {{"chameleon"},
       {{"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
         "[\\p{P}!-/:-@\\[-`{-~]", kGpt2},
        false,
        true}},
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
