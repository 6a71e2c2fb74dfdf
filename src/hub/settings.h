// Settings: where models are downloaded from and where they are kept, as Hugging Face's own tools are told.
//     Settings s = Settings::from_environment();
//
// | variable | meaning | without it |
// |---|---|---|
// | HF_ENDPOINT | the hub | https://huggingface.co |
// | HF_HUB_CACHE | the cache of repositories | $HF_HOME/hub |
// | HF_HOME | the home of cache and token | $XDG_CACHE_HOME/huggingface, ~/.cache/huggingface |
// | HF_TOKEN | who asks | the file $HF_TOKEN_PATH or $HF_HOME/token, if it is there |
// | HF_HUB_OFFLINE | 1: the cache alone | 0 |
// | SSL_CERT_FILE, CURL_CA_BUNDLE | certificates to trust | those of the system |
// | https_proxy, http_proxy, all_proxy, no_proxy | libcurl reads them | no proxy |
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace anemone::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  // without a slash at its end
  std::filesystem::path hub_cache;                  // shared with huggingface_hub
  std::filesystem::path url_cache;  // files of other hosts, of which Hugging Face knows nothing
  std::string token;
  std::string certificates;
  bool offline = false;

  // How long a hub is waited for.
  int attempts = 5;                                // of one request, with longer and longer pauses
  std::chrono::milliseconds first_pause{1000};     // doubled each time
  std::chrono::milliseconds longest_pause{60000};  // also where the hub asks for more
  int stall_s = 30;                                // a connection that brings nothing for so long is given up
  int connect_s = 15;

  using Lookup = std::function<std::string(const char* name)>;  // "" for a variable that is not set
  static Settings from_environment();
  static Settings from(const Lookup& variable);
};

}  // namespace anemone::hub
