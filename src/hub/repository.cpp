// A repository of the hub: what it has, what of that is needed, and what of that is missing here.
#include "hub/repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/listing.h"

namespace anemone::hub {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A blob's name becomes a file's: nothing but what hashes have.
std::string blob_name(const std::string& etag, const std::string& where) {
  const std::string name = plain_etag(etag);
  const bool good = !name.empty() && name.size() <= 128 && name.front() != '.' &&
                    name.find_first_not_of(
                        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") == name.npos;
  if (!good)
    throw Error("the hub gives the file no ETag that can name it")
        .at(where)
        .found(etag.empty() ? "none" : "'" + etag.substr(0, 80) + "'");
  return name;
}

bool looks_like_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// One run over one commit of a repository.
class Fetcher {
 public:
  Fetcher(HttpClient& http, const RepoCache& cache, const RepoName& name, const Listing& listing,
          const ResolveOptions& options)
      : http_(http), cache_(cache), name_(name), listing_(listing), options_(options) {}

  const std::vector<Resolved::File>& files() const { return files_; }

  // Makes these files of the snapshot be there.
  void get(const std::vector<std::string>& paths) {
    std::vector<Missing> missing;
    uint64_t bytes = 0;
    for (const std::string& path : paths) {
      if (cache_.holds(listing_.commit, path)) {
        std::error_code ignored;
        files_.push_back({path, fs::file_size(cache_.snapshot(listing_.commit) / path, ignored), false});
      } else {
        missing.push_back(look_up(path));
        bytes += missing.back().bytes - std::min(missing.back().bytes, begun_bytes(missing.back()));
        total_ += missing.back().bytes;
      }
    }
    expect_room(cache_.folder(), bytes, name_text(name_));
    for (const Missing& file : missing) get(file);
  }

 private:
  struct Missing {
    std::string path, hash, sha256;
    uint64_t bytes = 0;
  };

  RepoName named(const std::string& path) const { return {name_.id, name_.revision, path}; }

  uint64_t begun_bytes(const Missing& file) const {
    std::error_code none;
    const uint64_t size = fs::file_size(incomplete(cache_.blob(file.hash)), none);
    return none || file.sha256.empty() ? 0 : size;
  }

  // The hash and size of a file: the list has them for large ones, its headers for all.
  Missing look_up(const std::string& path) {
    const ListedFile* listed = listing_.find(path);
    if (!listed)
      throw Error("a file that the index names is not in the repository").at(name_.id).found("no " + path);
    if (!listed->sha256.empty() && listed->bytes)
      return {path, listed->sha256, listed->sha256, *listed->bytes};
    const std::string url = file_url(options_.settings, name_.id, listing_.commit, path);
    const Response head =
        http_.send({.url = url, .method = "HEAD", .headers = {}, .stop_at_linked_file = true});
    if (head.status >= 400) throw refusal(head, options_.settings, named(path));
    const std::string linked = head.header("x-linked-etag");
    Missing out{
        .path = path, .hash = blob_name(linked.empty() ? head.header("etag") : linked, url), .sha256 = ""};
    if (looks_like_sha256(out.hash)) out.sha256 = out.hash;
    if (!listed->sha256.empty() && out.sha256 != listed->sha256)
      throw Error("the hub's list and its file have different hashes")
          .at(url)
          .found(out.hash)
          .expected(listed->sha256);
    std::optional<uint64_t> size = head.number("x-linked-size");
    if (!size && head.good()) size = head.number("content-length");
    if (!size) size = listed->bytes;
    if (!size || (listed->bytes && *size != *listed->bytes))
      throw Error("the hub's list and its file have different sizes")
          .at(url)
          .found(size ? fmt::format("{} bytes", *size) : "none")
          .expected(listed->bytes ? fmt::format("{} bytes", *listed->bytes) : "a size");
    out.bytes = *size;
    return out;
  }

  void get(const Missing& file) {
    std::error_code ignored;
    const FileLock lock(cache_.lock_file(file.hash), http_);
    const fs::path blob = cache_.blob(file.hash);
    const bool there =
        fs::is_regular_file(blob, ignored);  // of another revision, or another program was faster
    if (!there)
      download(http_,
               {.url = file_url(options_.settings, name_.id, listing_.commit, file.path),
                .shown = name_text(named(file.path)),
                .whole = blob,
                .bytes = file.bytes,
                .sha256 = file.sha256,
                .validator = "",
                .refusal = [&](const Response& r) { return refusal(r, options_.settings, named(file.path)); },
                .begun = {},
                .progress = [&](uint64_t done) { report(file.path, done_ + done); }});
    done_ += file.bytes;
    report(file.path, done_);
    cache_.link(listing_.commit, file.path, file.hash);
    files_.push_back({file.path, file.bytes, !there});
  }

  void report(const std::string& path, uint64_t done) const {
    if (options_.progress) options_.progress({path, done, total_});
  }

  HttpClient& http_;
  const RepoCache& cache_;
  const RepoName& name_;
  const Listing& listing_;
  const ResolveOptions& options_;
  std::vector<Resolved::File> files_;
  uint64_t done_ = 0, total_ = 0;
};

// What a verb opens: the folder, or one file where the folder would be ambiguous.
fs::path opened(const RepoCache& cache, const std::string& commit, const Choice& choice) {
  const fs::path root = cache.snapshot(commit);
  if (!choice.file.empty()) return root / choice.file;
  const std::vector<std::string> all = cache.files(commit);
  const bool gguf_too = std::any_of(all.begin(), all.end(), [&](const std::string& f) {
    return f.ends_with(".gguf") && f.starts_with(choice.folder) &&
           f.find('/', choice.folder.size()) == f.npos;
  });
  if (gguf_too) return root / choice.instead_of_folder;
  return choice.folder.empty() ? root : root / choice.folder.substr(0, choice.folder.size() - 1);
}

std::vector<std::string> weights_of(const RepoCache& cache, const std::string& commit, const Choice& choice) {
  if (choice.index.empty()) return choice.weights;
  const fs::path index = cache.snapshot(commit) / choice.index;
  std::vector<std::string> out = indexed_files(read_file(index), choice.folder, index.string());
  out.insert(out.end(), choice.weights.begin(), choice.weights.end());
  return out;
}

Resolved result(const RepoCache& cache, const RepoName& name, const std::string& commit, const Choice& choice,
                std::vector<Resolved::File> files) {
  return {.path = opened(cache, commit, choice),
          .repository = name.id,
          .commit = commit,
          .folder = cache.snapshot(commit),
          .files = std::move(files)};
}

// From the cache alone. Error that names what is missing.
Resolved from_cache(const RepoCache& cache, const RepoName& name, const ResolveOptions& options) {
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  const std::optional<std::string> commit = cache.commit_of(revision);
  const Error missing = Error("is not in the cache, and without a connection nothing is downloaded")
                            .at(name_text(name))
                            .hint("run it once without --offline and HF_HUB_OFFLINE");
  Listing there;
  if (commit) {
    there.commit = *commit;
    for (const std::string& path : cache.files(*commit)) {
      std::error_code ignored;
      there.files.push_back({path, fs::file_size(cache.snapshot(*commit) / path, ignored), ""});
    }
  }
  if (there.files.empty()) {
    Error e = missing;
    throw e.found(
        fmt::format("no revision '{}' of {} in {}", revision, name.id, options.settings.hub_cache.string()));
  }
  Choice choice;
  std::vector<std::string> paths;
  try {
    choice = choose_files(there, name.path, options.need, name);
    paths = choice.small;
    for (const std::string& path : weights_of(cache, *commit, choice)) paths.push_back(path);
  } catch (const Ambiguous&) {
    throw;
  } catch (const Error&) {
    Error e = missing;
    throw e.found(fmt::format("{} of its files in {}, without those needed", there.files.size(),
                              cache.snapshot(*commit).string()));
  }
  std::string absent;
  std::vector<Resolved::File> files;
  for (const std::string& path : paths) {
    if (const ListedFile* file = there.find(path))
      files.push_back({path, file->bytes.value_or(0), false});
    else
      absent += (absent.empty() ? "" : ", ") + path;
  }
  if (!absent.empty()) {
    Error e = missing;
    throw e.found("no " + absent);
  }
  return result(cache, name, *commit, choice, std::move(files));
}

}  // namespace

Resolved resolve_repository(const RepoName& name, const ResolveOptions& options) {
  const RepoCache cache(options.settings.hub_cache, name.id);
  if (options.settings.offline) return from_cache(cache, name, options);
  HttpClient http(options.settings, options.note);
  Listing listing;
  try {
    listing = list_files(http, name);
  } catch (const Broken& why) {
    // No connection: what was downloaded before is better than nothing, and is said to be that.
    std::optional<Resolved> before;
    try {
      before = from_cache(cache, name, options);
    } catch (const Error&) {
    }
    if (!before) {
      Broken last = why;
      last.hint(fmt::format("'{}' is no path here, so the hub was asked", name_text(name)));
      throw last;
    }
    http.note(fmt::format("{}: the hub cannot be asked ({}); this is commit {} from the cache",
                          name_text(name), why.message(), before->commit.substr(0, 8)));
    return *before;
  }
  const Choice choice = choose_files(listing, name.path, options.need, name);
  Fetcher fetcher(http, cache, name, listing, options);
  std::vector<std::string> first = choice.small;
  if (!choice.index.empty() && std::find(first.begin(), first.end(), choice.index) == first.end())
    first.push_back(choice.index);
  fetcher.get(first);
  std::vector<std::string> weights = weights_of(cache, listing.commit, choice);
  std::erase_if(
      weights, [&](const std::string& w) { return std::find(first.begin(), first.end(), w) != first.end(); });
  fetcher.get(weights);
  // Last: a branch that moved is followed once all of it is here.
  cache.set_commit(name.revision.empty() ? "main" : name.revision, listing.commit);
  return result(cache, name, listing.commit, choice, fetcher.files());
}

}  // namespace anemone::hub
