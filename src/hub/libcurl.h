// libcurl(): the functions of libcurl, which is loaded when the first of them is needed. It comes with some thirty
// libraries, and loading them takes a fifth of the time in which a small model answers.
//     CURL* handle = libcurl().easy_init();
#pragma once

#include <curl/curl.h>

namespace anemone::hub {

struct LibCurl {
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_free) free;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_url) url;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_url_get) url_get;
  decltype(&curl_url_set) url_set;
};

// Error where the machine has no libcurl, or an old one.
const LibCurl& libcurl();

}  // namespace anemone::hub
