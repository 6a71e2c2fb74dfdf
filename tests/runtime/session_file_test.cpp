// Sessions on disk: loaded, they go on bit for bit as the saved ones do; what is damaged or foreign is refused.
#include "runtime/session_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.h"
#include "runtime/demo.h"
#include "support/made_model.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::test;
using lower::KvKind;

namespace {

std::vector<int32_t> ids_of(size_t count) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>((i * i * 7 + 3 * i + 5) % kVocab));
  return out;
}

// Convolutions in layers 0 and 2, attention in 1 and 3.
MadeModel& model() {
  static MadeModel made(small_decoder(4, 2));
  return made;
}

std::string bytes_of(const std::filesystem::path& path) { return slurp(path); }

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("a loaded session goes on as the saved one, and can be rewound as far") {
  const TempFolder folder;
  const std::vector<ConvertOptions> forms = {{.context = {96}, .tokens = {{1, 1}, {4, 4}}},
                                             {.context = {8, 24, 96}, .tokens = {{1, 1}, {4, 4}}},
                                             {.context = {96}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::io},
                                             {.context = {16, 96}, .kv = KvKind::packed, .shard_bytes = 1}};
  const std::vector<int32_t> ids = ids_of(60);
  for (const ConvertOptions& form : forms) {
    const auto bundle = model().bundle(form);
    Session session(bundle);
    session.forward(std::span(ids).first(37));
    const auto path = folder / "a.session";
    const SessionAbout about = about_session(*bundle, 0);
    save_session(session, path, about);
    CHECK(read_session_title(path).ids == std::vector(ids.begin(), ids.begin() + 37));
    Session loaded = load_session(path, bundle, about);
    CHECK(loaded.position() == 37);
    CHECK(loaded.forward(std::span(ids).subspan(37)) == session.forward(std::span(ids).subspan(37)));
    for (const int64_t back : {33, 20, 3}) {
      session.rewind(back);
      loaded.rewind(back);
      const auto rest = std::span(ids).subspan(static_cast<size_t>(back), 2);
      CHECK(loaded.forward(rest) == session.forward(rest));
    }
  }
}

TEST_CASE("a session file is for its owner, and holds rows of the tokens alone") {
  const TempFolder folder;
  const auto bundle = model().bundle({.context = {96}, .tokens = {{1, 1}, {4, 4}}});
  const std::vector<int32_t> ids = ids_of(80);
  const SessionAbout about = about_session(*bundle, 0);
  std::vector<uintmax_t> sizes;
  for (const size_t count : {8, 80}) {
    Session session(bundle);
    session.forward(std::span(ids).first(count));
    save_session(session, folder / "b.session", about);
    sizes.push_back(std::filesystem::file_size(folder / "b.session"));
  }
  CHECK(sizes[0] < sizes[1] / 2);
  struct stat status {};
  REQUIRE(::stat((folder / "b.session").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a session file that is damaged anywhere, cut off, or of something else is refused") {
  const TempFolder folder;
  const auto bundle = model().bundle({.context = {96}, .tokens = {{1, 1}, {4, 4}}});
  const SessionAbout about = about_session(*bundle, 0);
  Session session(bundle);
  session.forward(ids_of(20));
  const auto path = folder / "c.session";
  save_session(session, path, about);
  const std::string good = bytes_of(path);
  for (size_t at = 0; at < good.size(); at += 1 + good.size() / 400) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write_bytes(path, bad);
    CAPTURE(at);
    CHECK_THROWS_AS(load_session(path, bundle, about), Error);
  }
  for (const size_t length :
       {size_t{0}, size_t{7}, size_t{15}, size_t{200}, good.size() / 2, good.size() - 1}) {
    write_bytes(path, good.substr(0, length));
    CHECK_THROWS_AS(load_session(path, bundle, about), Error);
  }
  write_bytes(path, good + "x");
  CHECK_THROWS_AS(load_session(path, bundle, about), Error);
  write_bytes(path, good);
  for (const auto change : {&SessionAbout::bundle, &SessionAbout::arithmetic, &SessionAbout::backend}) {
    SessionAbout other = about;
    other.*change += "x";
    CHECK_THROWS_WITH_AS(load_session(path, bundle, other), doctest::Contains("another model"), Error);
  }
  const auto shorter = model().bundle({.context = {48}, .tokens = {{1, 1}, {4, 4}}});
  CHECK(bundle_identity(*shorter) != about.bundle);
  CHECK_THROWS_AS(load_session(path, shorter, about), Error);
  CHECK(load_session(path, bundle, about).position() == 20);
}
