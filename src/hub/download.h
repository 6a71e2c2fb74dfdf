// download: one file, with all that can happen on the way: cuts, busy servers, ranges that are ignored, wrong bytes.
//     download(http, {.url = url, .shown = "model.safetensors", .whole = blob, .bytes = 988097824, .sha256 = "fdf7…"});
// The bytes go to WHOLE.incomplete, which stays when the program ends, and get their name once size and hash are right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "hub/http.h"

namespace anemone::hub {

struct Download {
  std::string url;
  std::string shown;  // for messages
  std::filesystem::path whole;
  std::optional<uint64_t> bytes;  // nothing: what the server says
  std::string sha256;             // empty: not known
  // Begins anew what was begun before, unless the hash can check the sum of both, or the server can: its ETag then.
  std::string validator;
  std::function<Error(const Response&)> refusal;         // for a status such as 404
  std::function<void(const Response& head)> begun = {};  // before the first byte
  std::function<void(uint64_t bytes_there)> progress = {};
};

// Error where the file cannot be had; then nothing stands under its name.
void download(HttpClient& http, const Download& what);

std::filesystem::path incomplete(const std::filesystem::path& whole);

// Error where the disk of `folder`, which may not exist yet, has less room.
void expect_room(const std::filesystem::path& folder, uint64_t bytes, const std::string& what);

// An ETag without quotes and W/: what huggingface_hub names blobs by.
std::string plain_etag(const std::string& etag);

}  // namespace anemone::hub
