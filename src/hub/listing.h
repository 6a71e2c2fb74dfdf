// Listing: the files of a repository at a commit, as the hub's API names them.
//     Listing files = list_files(http, {.id = "Qwen/Qwen3-0.6B"});
//     files.commit                                     // "c1899de289a04d12100db370d81485cdf75e47ca"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hub/http.h"
#include "hub/name.h"

namespace anemone::hub {

struct ListedFile {
  std::string path;
  std::optional<uint64_t> bytes;  // mirrors may leave it out
  std::string sha256;             // of large files; empty where the hub does not say it
};

struct Listing {
  std::string commit;
  std::vector<ListedFile> files;

  const ListedFile* find(const std::string& path) const;
};

// GET /api/models/ID/revision/REVISION. Error that says what to do for a repository that is gated, private, misspelt.
Listing list_files(HttpClient& http, const RepoName& name);

// What the API answered. Error where it is no list, or names a file that could leave its folder. `where`: its address.
Listing parse_listing(const std::string& json, const std::string& where);

// The address of one file.
std::string file_url(const Settings& settings, const std::string& repo_id, const std::string& revision,
                     const std::string& path);

// Why a file of a repository is refused: status 401, 403, 404 and others.
Error refusal(const Response& response, const Settings& settings, const RepoName& name);

}  // namespace anemone::hub
