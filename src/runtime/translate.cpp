#include "runtime/translate.h"

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {
namespace {

// Hunyuan's turns, for files that come without their chat template: the 1.8B model's marks, then the 7B's.
constexpr const char* kSmallTemplate =
    "<｜hy_begin▁of▁sentence｜>{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}"
    "<｜hy_place▁holder▁no▁3｜>{% elif m.role == 'user' %}<｜hy_User｜>{{ m.content }}"
    "{% else %}<｜hy_Assistant｜>{{ m.content }}<｜hy_place▁holder▁no▁2｜>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜hy_Assistant｜>{% endif %}";
constexpr const char* kLargeTemplate =
    "<|startoftext|>{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}<|extra_4|>"
    "{% elif m.role == 'user' %}{{ m.content }}<|extra_0|>"
    "{% else %}{{ m.content }}<|eos|><|startoftext|>{% endif %}{% endfor %}";

std::string template_for(const Bundle& bundle, const Tokenizer& tokenizer) {
  if (!tokenizer.chat_template().empty()) return tokenizer.chat_template();
  if (bundle.info().family == "hunyuan") {
    if (tokenizer.find("<｜hy_User｜>") != kNoToken) return kSmallTemplate;
    if (tokenizer.find("<|extra_0|>") != kNoToken) return kLargeTemplate;
  }
  throw errorf("the model has no chat template, so it cannot be asked to translate")
      .at(bundle.path().string())
      .found(fmt::format("family {}", bundle.info().family))
      .hint("convert a translation model (Hy-MT) or one that follows instructions");
}

// Han characters, and no kana or hangul between them.
bool looks_chinese(std::string_view text) {
  bool han = false;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const char32_t c = decode_utf8(p, end);
    if ((c >= 0x3040 && c <= 0x30ff) || (c >= 0xac00 && c <= 0xd7a3)) return false;
    han = han || (c >= 0x4e00 && c <= 0x9fff);
  }
  return han;
}

bool is_chinese(const Language& l) { return l.code == "zh" || l.code == "zh-Hant" || l.code == "yue"; }

}  // namespace

Translator::Translator(const Bundle& bundle, std::shared_ptr<const Tokenizer> tokenizer,
                       const std::string& chat_template)
    : trained_(bundle.info().family == "hunyuan"),
      format_(tokenizer, chat_template.empty() ? template_for(bundle, *tokenizer) : chat_template) {}

std::string Translator::request(std::string_view text, const Language& to, const Language* from) const {
  if (!trained_)
    return fmt::format("Translate the following text{} into {}. Answer with the translation only.\n\n{}",
                       from ? fmt::format(" from {}", from->english) : "", to.english, text);
  if (is_chinese(to) || (from ? is_chinese(*from) : looks_chinese(text)))
    return fmt::format("将以下文本翻译为{}，注意只需要输出翻译后的结果，不要额外解释：\n\n{}", to.chinese,
                       text);
  return fmt::format("Translate the following segment into {}, without additional explanation.\n\n{}",
                     to.english, text);
}

std::vector<int32_t> Translator::prompt(std::string_view text, const Language& to,
                                        const Language* from) const {
  if (text.empty()) throw errorf("there is no text to translate");
  return format_.conversation({{"user", request(text, to, from)}});
}

}  // namespace anemone
