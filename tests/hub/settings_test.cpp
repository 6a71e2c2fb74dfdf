#include "hub/settings.h"

#include <doctest/doctest.h>

#include <map>

#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::hub;

namespace {

Settings with(const std::map<std::string, std::string>& variables) {
  return Settings::from([&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? "" : at->second;
  });
}

}  // namespace

TEST_CASE("the places of cache and token are those of huggingface_hub") {
  CHECK(with({{"HOME", "/home/me"}}).hub_cache == "/home/me/.cache/huggingface/hub");
  CHECK(with({{"HOME", "/home/me"}}).url_cache == "/home/me/.cache/anemone/downloads");
  CHECK(with({{"HOME", "/home/me"}, {"XDG_CACHE_HOME", "/c"}}).hub_cache == "/c/huggingface/hub");
  CHECK(with({{"HOME", "/home/me"}, {"HF_HOME", "/hf"}}).hub_cache == "/hf/hub");
  CHECK(with({{"HOME", "/home/me"}, {"HF_HOME", "~/hf"}}).hub_cache == "/home/me/hf/hub");
  CHECK(with({{"HF_HOME", "/hf"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}).hub_cache == "/old");
  CHECK(with({{"HF_HOME", "/hf"}, {"HF_HUB_CACHE", "/new"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}).hub_cache ==
        "/new");
  CHECK(with({}).endpoint == "https://huggingface.co");
  CHECK(with({{"HF_ENDPOINT", "https://mirror.example/"}}).endpoint == "https://mirror.example");
  CHECK(with({{"SSL_CERT_FILE", "/ca.pem"}}).certificates == "/ca.pem");
}

TEST_CASE("offline is what huggingface_hub takes for true") {
  for (const char* yes : {"1", "on", "YES", "True"}) CHECK(with({{"HF_HUB_OFFLINE", yes}}).offline);
  for (const char* no : {"", "0", "no", "2"}) CHECK(!with({{"HF_HUB_OFFLINE", no}}).offline);
}

TEST_CASE("the token comes from HF_TOKEN, or the file of a login") {
  const TempFolder folder;
  spill(folder / "token", "hf_file\n");
  const std::string home = folder.path().string();
  CHECK(with({{"HF_HOME", home}}).token == "hf_file");
  CHECK(with({{"HF_HOME", home}, {"HF_TOKEN", "hf_x"}}).token == "hf_x");
  CHECK(with({{"HF_HOME", home}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}).token == "");
  CHECK(with({{"HF_HOME", "/none"}, {"HF_TOKEN_PATH", home + "/token"}}).token == "hf_file");
}
