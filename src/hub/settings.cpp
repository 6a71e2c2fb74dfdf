#include "hub/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

namespace anemone::hub {
namespace {

namespace fs = std::filesystem;

bool is_true(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

fs::path with_home(const std::string& text, const fs::path& home) {
  return text == "~" ? home : text.starts_with("~/") ? home / text.substr(2) : fs::path(text);
}

// The first word of a file: a token with a line break behind it.
std::string first_word(const fs::path& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

std::string token_of(const Settings::Lookup& variable, const fs::path& hf_home, const fs::path& home) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (const std::string token = variable(name); !token.empty()) return token;
  if (is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return "";
  const std::string path = variable("HF_TOKEN_PATH");
  return first_word(path.empty() ? hf_home / "token" : with_home(path, home));
}

}  // namespace

Settings Settings::from(const Lookup& variable) {
  Settings s;
  const fs::path home = variable("HOME");
  const std::string xdg = variable("XDG_CACHE_HOME");
  const fs::path caches = xdg.empty() ? home / ".cache" : with_home(xdg, home);
  std::string hf_home = variable("HF_HOME");
  if (hf_home.empty()) hf_home = (caches / "huggingface").string();
  const fs::path hf = with_home(hf_home, home);
  s.hub_cache = hf / "hub";
  for (const char* name : {"HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"})
    if (const std::string cache = variable(name); !cache.empty()) s.hub_cache = with_home(cache, home);
  s.url_cache = caches / "anemone" / "downloads";
  if (const std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) s.endpoint = endpoint;
  while (s.endpoint.ends_with('/')) s.endpoint.pop_back();
  s.token = token_of(variable, hf, home);
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const std::string file = variable(name); !file.empty()) s.certificates = file;
  s.offline = is_true(variable("HF_HUB_OFFLINE")) || is_true(variable("TRANSFORMERS_OFFLINE"));
  return s;
}

Settings Settings::from_environment() {
  return from([](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  });
}

}  // namespace anemone::hub
