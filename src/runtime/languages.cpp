#include "runtime/languages.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace anemone {
namespace {

constexpr Language kLanguages[] = {
    {"ar", "Arabic", "阿拉伯语"},     {"bn", "Bengali", "孟加拉语"},
    {"bo", "Tibetan", "藏语"},        {"cs", "Czech", "捷克语"},
    {"de", "German", "德语"},         {"en", "English", "英语"},
    {"es", "Spanish", "西班牙语"},    {"fa", "Persian", "波斯语"},
    {"fr", "French", "法语"},         {"gu", "Gujarati", "古吉拉特语"},
    {"he", "Hebrew", "希伯来语"},     {"hi", "Hindi", "印地语"},
    {"id", "Indonesian", "印尼语"},   {"it", "Italian", "意大利语"},
    {"ja", "Japanese", "日语"},       {"kk", "Kazakh", "哈萨克语"},
    {"km", "Khmer", "高棉语"},        {"ko", "Korean", "韩语"},
    {"mn", "Mongolian", "蒙古语"},    {"mr", "Marathi", "马拉地语"},
    {"ms", "Malay", "马来语"},        {"my", "Burmese", "缅甸语"},
    {"nl", "Dutch", "荷兰语"},        {"pl", "Polish", "波兰语"},
    {"pt", "Portuguese", "葡萄牙语"}, {"ru", "Russian", "俄语"},
    {"ta", "Tamil", "泰米尔语"},      {"te", "Telugu", "泰卢固语"},
    {"th", "Thai", "泰语"},           {"tl", "Filipino", "菲律宾语"},
    {"tr", "Turkish", "土耳其语"},    {"ug", "Uyghur", "维吾尔语"},
    {"uk", "Ukrainian", "乌克兰语"},  {"ur", "Urdu", "乌尔都语"},
    {"vi", "Vietnamese", "越南语"},   {"yue", "Cantonese", "粤语"},
    {"zh", "Chinese", "中文"},        {"zh-Hant", "Traditional Chinese", "繁体中文"},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace

std::span<const Language> languages() { return kLanguages; }

const Language& find_language(std::string_view name) {
  const std::string wanted = lower(name);
  std::string codes;
  for (const Language& l : kLanguages) {
    if (wanted == lower(l.code) || wanted == lower(l.english) || name == l.chinese) return l;
    codes += (codes.empty() ? "" : ", ") + std::string(l.code);
  }
  throw errorf("unknown language '{}'", name).expected(codes);
}

}  // namespace anemone
