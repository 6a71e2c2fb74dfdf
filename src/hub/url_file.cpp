// A file of any host: https://host/model.gguf. Kept in a folder of our own, since no hub says what it is:
//     CACHE/HASH OF THE ADDRESS/model.gguf       and model.gguf.json: its address, ETag, date and size
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/staged.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/repository.h"
#include "hub/url.h"

namespace anemone::hub {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The file on the server is the one that is here.
struct Unchanged {};

// What tells two versions of a file apart.
struct Version {
  std::string etag, modified, bytes;

  bool operator==(const Version&) const = default;
  // For If-Range: a weak ETag says nothing about bytes.
  std::string validator() const { return etag.starts_with("W/") ? "" : etag; }
};

Version version_of(const Response& head) {
  // Of a part: the size of the whole stands behind the slash.
  const std::string range = head.header("content-range");
  return {head.header("etag"), head.header("last-modified"),
          head.status == 206 ? range.substr(range.rfind('/') + 1) : head.header("content-length")};
}

Version read_version(const fs::path& path) {
  try {
    std::ifstream in(path);
    const Json json = Json::parse(in);
    return {json.at("etag"), json.at("modified"), json.at("bytes")};
  } catch (const std::exception&) {
    return {};  // none, or broken: download it anew
  }
}

void write_version(const fs::path& path, const std::string& url, const Version& v) {
  StagedOutput staged(path, true);
  std::ofstream out(staged.path());
  out << json_text(Json{{"url", url}, {"etag", v.etag}, {"modified", v.modified}, {"bytes", v.bytes}}, 1)
      << "\n";
  out.close();
  if (!out) throw Error("cannot be written").at(path.string());
  staged.commit();
}

Error refused(const Response& response, const std::string& url) {
  Error e = errorf("the server answers with status {}", response.status).at(url);
  if (response.status == 404) return Error("the server has no such file").at(url);
  if (response.status == 401 || response.status == 403)
    e.hint("the file is not for everybody: download it by hand");
  return e;
}

// The address in its parts: "https://host/a/", "model.gguf", "?download=true".
struct Address {
  std::string folder, name, query;

  explicit Address(const std::string& url) {
    const size_t path_end = std::min(url.find_first_of("?#"), url.size());
    const size_t slash = url.rfind('/', path_end);
    folder = url.substr(0, slash + 1);
    name = unescape(url.substr(slash + 1, path_end - slash - 1));
    query = url.substr(path_end, url.find('#') - path_end);
    if (name.empty()) throw Error("the address names no file").at(url).expected("https://host/model.gguf");
    expect_inner_path(name, url);
    if (name.find('/') != name.npos) throw Error("the name of the file has a slash in it").at(url);
  }
  std::string url(const std::string& file) const { return folder + escape_part(file) + query; }
};

Resolved::File get(HttpClient& http, const std::string& url, const fs::path& whole,
                   const ResolveOptions& options) {
  const fs::path about = whole.string() + ".json";
  std::error_code none;
  const bool there = fs::is_regular_file(whole, none);
  const Version known = read_version(about);
  uint64_t all = 0;
  const auto begun = [&](const Response& head) {
    const Version now = version_of(head);
    if (there && now == known && now != Version{}) throw Unchanged{};
    all = std::strtoull(now.bytes.c_str(), nullptr, 10);
    write_version(about, url, now);
  };
  const std::string name = whole.filename().string();
  const auto progress = [&](uint64_t done) {
    if (options.progress) options.progress({name, done, std::max(done, all)});
  };
  try {
    download(http, {.url = url,
                    .shown = url,
                    .whole = whole,
                    .bytes = {},
                    .sha256 = "",
                    .validator = there ? "" : known.validator(),
                    .refusal = [&](const Response& r) { return refused(r, url); },
                    .begun = begun,
                    .progress = progress});
  } catch (const Unchanged&) {
    fs::remove(incomplete(whole), none);
    return {name, fs::file_size(whole, none), false};
  } catch (const Broken& why) {
    if (!there) throw;
    fs::remove(incomplete(whole), none);
    http.note(fmt::format("{}: the server cannot be asked ({}); this is the file that was downloaded before",
                          url, why.message()));
    return {name, fs::file_size(whole, none), false};
  }
  return {name, fs::file_size(whole, none), true};
}

}  // namespace

Resolved resolve_url(const FileUrl& named, const ResolveOptions& options) {
  const Address address(named.url);
  Sha256 key;
  key.add(address.folder + address.query);
  Resolved out;
  out.folder = fs::absolute(options.settings.url_cache).lexically_normal() / key.hex().substr(0, 16);
  out.path = out.folder / address.name;
  HttpClient http(options.settings, options.note);
  for (const std::string& part : parts_of_file(address.name)) {
    const fs::path whole = out.folder / part;
    std::error_code none;
    if (options.settings.offline) {
      if (!fs::is_regular_file(whole, none))
        throw Error("is not in the cache, and without a connection nothing is downloaded")
            .at(address.url(part))
            .found("no " + whole.string())
            .hint("run it once without --offline and HF_HUB_OFFLINE");
      out.files.push_back({part, fs::file_size(whole, none), false});
      continue;
    }
    const FileLock lock(out.folder / ("." + part + ".lock"), http);
    out.files.push_back(get(http, address.url(part), whole, options));
  }
  return out;
}

}  // namespace anemone::hub
