#include "redact/replace.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/sha256.h"
#include "redact/labels.h"
#include "text/unicode.h"

namespace anemone::redact {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kHashDigits = 16;

std::string from_hex(std::string_view hex) {
  std::string out;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return out;
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string sha256(std::string_view a, std::string_view b) {
  Sha256 hash;
  hash.add(a);
  hash.add(b);
  return from_hex(hash.hex());
}

std::string random_key() {
  std::random_device device;
  std::string out;
  while (out.size() < kKeyBytes) out += static_cast<char>(device() & 0xff);
  return out;
}

}  // namespace

std::string_view style_name(Style style) {
  switch (style) {
    case Style::label: return "label";
    case Style::number: return "number";
    case Style::mask: return "mask";
    case Style::hash: return "hash";
    case Style::remove: return "remove";
    case Style::fake: return "fake";
  }
  return "";
}

const std::vector<std::string>& style_names() {
  static const std::vector<std::string> names = {"label", "number", "mask", "hash", "remove", "fake"};
  return names;
}

Style find_style(std::string_view name) {
  for (const Style s : {Style::label, Style::number, Style::mask, Style::hash, Style::remove, Style::fake})
    if (style_name(s) == name) return s;
  throw errorf("no way to replace has the name '{}'", name);
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  constexpr size_t kBlock = 64;
  std::string block(key.size() > kBlock ? sha256(key, "") : std::string(key));
  block.resize(kBlock, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return sha256(outer, sha256(inner, message));
}

std::string value_key(std::string_view value) {
  std::string out;
  bool space = false;
  for (const char* p = value.data(); p < value.data() + value.size();) {
    const char32_t c = decode_utf8(p, value.data() + value.size());
    if (class_of(c) & kSpace) {
      space = !out.empty();
      continue;
    }
    if (space) out += ' ';
    space = false;
    append_utf8(out, to_lower(c));
  }
  return out;
}

Replacer::Replacer(ReplaceOptions options, std::vector<std::string> kinds)
    : options_(std::move(options)), kinds_(std::move(kinds)), last_(kinds_.size()) {
  for (const std::string& kind : kinds_) names_.push_back(short_name(kind));
  if (options_.key.empty()) options_.key = random_key();
}

void Replacer::next_document() {
  ++document_;
  if (options_.per_run) return;
  numbers_.clear();
  std::fill(last_.begin(), last_.end(), 0);
}

std::string Replacer::number(int kind, std::string_view value) {
  const auto k = static_cast<size_t>(kind);
  const std::string id = hmac_sha256(options_.key, kinds_[k] + '\0' + value_key(value)).substr(0, 16);
  const auto [at, fresh] = numbers_.try_emplace(id, 0);
  if (fresh) at->second = ++last_[k];
  return fmt::format("[{}_{}]", names_[k], at->second);
}

std::string Replacer::text(int kind, std::string_view value) {
  const auto k = static_cast<size_t>(kind);
  switch (options_.style) {
    case Style::label: return fmt::format("[{}]", names_[k]);
    case Style::number: return number(kind, value);
    case Style::mask: return std::string(count_chars(value), '*');
    case Style::remove: return "";
    case Style::hash: {
      const std::string bytes = hmac_sha256(options_.key, kinds_[k] + '\0' + value_key(value));
      return fmt::format("[{}_{}]", names_[k], to_hex(bytes).substr(0, kHashDigits));
    }
    case Style::fake: break;
  }
  const std::string scope = options_.per_run ? "" : fmt::format("{}", document_);
  return fake_value(kinds_[k], hmac_sha256(options_.key, scope + '\0' + kinds_[k] + '\0' + value_key(value)),
                    value);
}

}  // namespace anemone::redact
