// SessionFile: the past of a session on disk, so that another process can go on from it.
//     save_session(session, "a.session", {.bundle = bundle_identity(*bundle), .model = "smollm2"});
//     SessionTitle title = read_session_title("a.session");            // cheap: no caches are read
//     Session session = load_session("a.session", bundle, title.about);
// Layout, numbers little-endian:
//     "anemsess", uint32 version, uint32 bytes of the JSON, the JSON, the tokens as int32, XXH3 of all of this
//     the arrays one behind the other, XXH3 of them
// The JSON says what the text belongs to (SessionAbout), and type and shape of each array. An array of floats is stored
// in half precision where this loses nothing, else as it is: what is loaded is what was saved, bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/session.h"

namespace anemone {

// What a text was computed with. Another model or arithmetic gives other caches.
struct SessionAbout {
  std::string bundle;  // bundle_identity()
  std::string model, backend, arithmetic;
  int64_t positions = 0;  // SessionOptions::positions
  bool operator==(const SessionAbout&) const = default;
};

struct SessionTitle {
  SessionAbout about;
  std::vector<int32_t> ids;
};

// XXH3 of bundle.json, which holds those of the other files.
std::string bundle_identity(const Bundle& bundle);
SessionAbout about_session(const Bundle& bundle, int64_t positions);

// Written beside its final name and renamed when whole; for the owner's eyes alone. Error when it cannot be written.
void save_session(const Session& session, const std::filesystem::path& path, const SessionAbout& about);

// Error for a file that is no session, of another version, cut off or damaged.
SessionTitle read_session_title(const std::filesystem::path& path);
// The same, and for a text of something else than `about`.
Session load_session(const std::filesystem::path& path, std::shared_ptr<const Bundle> bundle,
                     const SessionAbout& about);

}  // namespace anemone
