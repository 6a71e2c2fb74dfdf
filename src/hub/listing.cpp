#include "hub/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_problem.h"
#include "base/nearest_name.h"
#include "hub/cache.h"
#include "hub/url.h"

namespace anemone::hub {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostFiles = 100'000;

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

ListedFile listed_file(const Json& entry, const std::string& where) {
  ListedFile out{.path = entry.at("rfilename").get<std::string>(), .bytes = {}, .sha256 = ""};
  expect_inner_path(out.path, where);
  if (const auto size = entry.find("size"); size != entry.end() && size->is_number_unsigned())
    out.bytes = size->get<uint64_t>();
  const auto lfs = entry.find("lfs");
  if (lfs == entry.end() || !lfs->is_object()) return out;
  if (const auto size = lfs->find("size"); size != lfs->end() && size->is_number_unsigned())
    out.bytes = size->get<uint64_t>();
  if (const auto hash = lfs->find("sha256"); hash != lfs->end() && hash->is_string()) out.sha256 = *hash;
  if (!is_sha256(out.sha256)) out.sha256.clear();
  return out;
}

// Another repository of the same owner whose name is near; one request, and no trouble where it fails.
std::string near_repository(HttpClient& http, const std::string& id) {
  const size_t slash = id.find('/');
  if (slash == id.npos) return "";
  try {
    const Response r =
        http.attempt({.url = fmt::format("{}/api/models?author={}&limit=200", http.settings().endpoint,
                                         escape_part(id.substr(0, slash)))});
    if (r.status != 200) return "";
    std::vector<std::string> names;
    for (const Json& model : Json::parse(r.body)) names.push_back(model.at("id").get<std::string>());
    return nearest_name(id, names);
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

const ListedFile* Listing::find(const std::string& path) const {
  const auto at =
      std::find_if(files.begin(), files.end(), [&](const ListedFile& f) { return f.path == path; });
  return at == files.end() ? nullptr : &*at;
}

Listing parse_listing(const std::string& json, const std::string& where) {
  Listing out;
  try {
    const Json root = Json::parse(json);
    out.commit = root.at("sha").get<std::string>();
    const Json& siblings = root.at("siblings");
    if (!siblings.is_array() || siblings.size() > kMostFiles)
      throw errorf("the hub's list of files is none")
          .at(where)
          .found(fmt::format("{} files", siblings.size()));
    std::set<std::string> seen;
    for (const Json& entry : siblings)
      if (ListedFile file = listed_file(entry, where); seen.insert(file.path).second)
        out.files.push_back(std::move(file));
  } catch (const Json::exception& e) {
    throw Error("the hub's answer is no list of files")
        .at(where)
        .found(json_problem(e, json))
        .hint("is HF_ENDPOINT a hub?");
  }
  if (!is_commit(out.commit))
    throw Error("the hub names no commit")
        .at(where)
        .found("'" + out.commit.substr(0, 60) + "'")
        .expected("40 hexadecimal digits");
  return out;
}

Listing list_files(HttpClient& http, const RepoName& name) {
  const Settings& s = http.settings();
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  const std::string url =
      fmt::format("{}/api/models/{}/revision/{}?blobs=true", s.endpoint, name.id, escape_part(revision));
  const Response r = http.send({.url = url});
  if (r.good()) return parse_listing(r.body, url);
  Error why = refusal(r, s, {name.id, name.revision, ""});
  const bool unknown =
      r.header("x-error-code") == "RepoNotFound" || (r.status == 404 && r.header("x-error-code").empty());
  if (unknown)
    if (const std::string meant = near_repository(http, name.id); !meant.empty())
      why.hint(fmt::format("did you mean '{}'?", meant));
  throw why;
}

std::string file_url(const Settings& settings, const std::string& repo_id, const std::string& revision,
                     const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, repo_id, escape_part(revision),
                     escape_path(path));
}

Error refusal(const Response& response, const Settings& settings, const RepoName& name) {
  const std::string code = response.header("x-error-code"), page = settings.endpoint + "/" + name.id;
  const bool token = !settings.token.empty();
  const std::string get_token =
      "make a token at " + settings.endpoint + "/settings/tokens and set HF_TOKEN to it";
  const std::string where = name_text(name);
  if (code == "GatedRepo" || (response.status == 403 && code.empty()))
    return Error("this repository is gated: its owner asks people to accept a licence")
        .at(where)
        .hint(fmt::format("open {} in a browser and accept it; then {}", page,
                          token ? "try again with HF_TOKEN of the same account" : get_token));
  if (code == "RevisionNotFound")
    return errorf("the repository has no revision '{}'", name.revision)
        .at(name.id)
        .hint(page + "/tree/main shows its branches and tags");
  if (code == "EntryNotFound")
    return Error("the repository has no such file").at(where).hint(page + "/tree/main lists them");
  if (code == "RepoNotFound" || response.status == 404)
    return Error("is no path here, and the hub has no such repository, or a private one")
        .at(where)
        .hint(token ? "check the name, and that the account of HF_TOKEN may read it"
                    : "check the name; for a private one, " + get_token);
  if (response.status == 401)
    return Error(token ? "the hub does not accept the token" : "the hub wants to know who asks")
        .at(where)
        .hint(token ? "check HF_TOKEN: it may have been revoked" : get_token);
  const std::string said = response.header("x-error-message").substr(0, 200);
  return errorf("the hub answers with status {}{}", response.status, said.empty() ? "" : ": " + said)
      .at(where);
}

}  // namespace anemone::hub
