#include "hub/libcurl.h"

#include <dlfcn.h>

#include <string>

#include "base/error.h"

namespace anemone::hub {
namespace {

// The name says the version of the interface; the second is what Debian calls the one over GnuTLS.
#ifdef __APPLE__
constexpr const char* kNames[] = {"libcurl.4.dylib", "/usr/lib/libcurl.4.dylib"};
#else
constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
#endif

class Loader {
 public:
  Loader() {
    std::string problem;
    for (const char* name : kNames) {
      if ((library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL))) return;
      if (const char* said = ::dlerror(); said && problem.empty()) problem = said;
    }
    throw Error("downloads need libcurl, and it could not be loaded")
        .found(problem)
        .hint("install it (Debian and Ubuntu: libcurl4), or download the files by hand");
  }

  template <class F>
  void find(F& function, const char* name) const {
    function = reinterpret_cast<F>(::dlsym(library_, name));
    if (!function)
      throw errorf("the libcurl of this machine is too old: it has no {}", name).expected("7.85 or later");
  }

 private:
  void* library_ = nullptr;  // stays loaded
};

LibCurl load() {
  const Loader from;
  LibCurl out{};
  from.find(out.easy_cleanup, "curl_easy_cleanup");
  from.find(out.easy_getinfo, "curl_easy_getinfo");
  from.find(out.easy_init, "curl_easy_init");
  from.find(out.easy_perform, "curl_easy_perform");
  from.find(out.easy_reset, "curl_easy_reset");
  from.find(out.easy_setopt, "curl_easy_setopt");
  from.find(out.easy_strerror, "curl_easy_strerror");
  from.find(out.free, "curl_free");
  from.find(out.slist_append, "curl_slist_append");
  from.find(out.slist_free_all, "curl_slist_free_all");
  from.find(out.url, "curl_url");
  from.find(out.url_cleanup, "curl_url_cleanup");
  from.find(out.url_get, "curl_url_get");
  from.find(out.url_set, "curl_url_set");
  decltype(&curl_global_init) global_init = nullptr;
  from.find(global_init, "curl_global_init");
  global_init(CURL_GLOBAL_DEFAULT);
  return out;
}

}  // namespace

const LibCurl& libcurl() {
  static const LibCurl loaded = load();
  return loaded;
}

}  // namespace anemone::hub
