// Downloads from a hub of our own on 127.0.0.1, which also misbehaves. Nothing here leaves the machine.
#include "hub/resolve.h"

#include <doctest/doctest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fcntl.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/sha256.h"
#include "hub/cache.h"
#include "support/loopback_hub.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::hub;
using anemone::test::LoopbackHub;
namespace fs = std::filesystem;

namespace {

std::string sha256(const std::string& bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string noise(size_t size, unsigned seed) {
  std::mt19937 next(seed);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(next());
  return out;
}

// A hub with one model, a cache of its own, and little patience.
struct World {
  LoopbackHub hub;
  TempFolder folder;
  ResolveOptions options;
  std::vector<std::string> notes;
  std::vector<Progress> progress;
  std::string weights = noise(60'000, 1), tokenizer = noise(5'000, 2);

  World() {
    hub.add("tiny/model", "config.json", R"({"model_type": "tiny"})");
    hub.add("tiny/model", "tokenizer.json", tokenizer, LoopbackHub::large);
    hub.add("tiny/model", "model.safetensors", weights, LoopbackHub::large);
    hub.add("tiny/model", "pytorch_model.bin", "not this", LoopbackHub::large);
    Settings s;
    s.endpoint = hub.endpoint();
    s.hub_cache = folder / "hub";
    s.url_cache = folder / "urls";
    s.first_pause = std::chrono::milliseconds(1);
    s.longest_pause = std::chrono::milliseconds(2000);
    options.settings = s;
    options.note = [this](const std::string& text) { notes.push_back(text); };
    options.progress = [this](const Progress& p) { progress.push_back(p); };
  }

  Resolved get(const std::string& name = "tiny/model") { return resolve(name, options); }
  std::string why(const std::string& name = "tiny/model") {
    return error_of([&] { get(name); });
  }
  fs::path repo() const { return folder / "hub/models--tiny--model"; }
  fs::path blob() const { return repo() / "blobs" / sha256(weights); }
  fs::path partial() const { return blob().string() + ".incomplete"; }
  bool whole() const { return slurp(blob()) == weights; }
};

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a repository is downloaded into the layout of huggingface_hub, once") {
  World w;
  const Resolved first = w.get();
  const std::string commit = w.hub.commit("tiny/model");
  CHECK(first.path == w.repo() / "snapshots" / commit);
  CHECK(first.commit == commit);
  CHECK(slurp(first.path / "model.safetensors") == w.weights);
  CHECK(slurp(first.path / "tokenizer.json") == w.tokenizer);
  CHECK(!fs::exists(first.path / "pytorch_model.bin"));
  CHECK(slurp(w.repo() / "refs/main") == commit);
  CHECK(fs::read_symlink(first.path / "model.safetensors") == fs::path("../../blobs") / sha256(w.weights));
  CHECK(fs::read_symlink(first.path / "config.json") ==
        fs::path("../../blobs") / LoopbackHub::hash_of(R"({"model_type": "tiny"})"));
  CHECK(w.progress.back().done == w.progress.back().total);
  CHECK(w.progress.back().file == "model.safetensors");
  CHECK(w.notes.empty());
  w.hub.forget();
  const Resolved again = w.get();
  CHECK(again.path == first.path);
  CHECK(w.hub.seen().size() == 1);  // the list alone
  for (const auto& file : again.files) CHECK(!file.downloaded);
}

TEST_CASE("a path that exists wins over a name, and nobody is asked") {
  World w;
  spill(w.folder / "tiny/model/config.json", "{}");
  const fs::path before = fs::current_path();
  fs::current_path(w.folder.path());
  const Resolved r = w.get("tiny/model");
  fs::current_path(before);
  CHECK(r.path == "tiny/model");
  CHECK(r.folder == "");
  CHECK(w.hub.seen().empty());
}

TEST_CASE("a new commit downloads what changed alone; a revision may be named") {
  World w;
  const std::string old = w.get().commit;
  w.hub.add("tiny/model", "config.json", R"({"model_type": "new"})");
  w.hub.forget();
  const Resolved r = w.get();
  CHECK(r.commit != old);
  CHECK(slurp(r.path / "config.json") == R"({"model_type": "new"})");
  CHECK(w.hub.count("GET", "/cdn/") == 0);  // the weights are blobs already
  CHECK(slurp(w.repo() / "refs/main") == r.commit);
  CHECK(w.get("tiny/model@" + r.commit).path == r.path);
  CHECK(says(w.why("tiny/model@nowhere"), "no revision 'nowhere'"));
  w.options.revision = "main";
  CHECK(w.get().path == r.path);
  CHECK(says(w.why("tiny/model@v2"), "--revision says 'main'"));
}

TEST_CASE("the token goes to the hub and to no other host") {
  World w;
  w.options.settings.token = "hf_secret";
  w.hub.gate("tiny/model", "hf_secret");
  w.get();
  for (const auto& seen : w.hub.seen())
    CHECK(seen.headers.contains("authorization") == !seen.target.starts_with("/cdn/"));
  CHECK(w.hub.count("GET", "/cdn/") == 2);
}

TEST_CASE("settings that cannot be right are named before anybody is asked") {
  World w;
  w.options.settings.token = "a\r\nX-Evil: 1";
  CHECK(says(w.why(), "HF_TOKEN"));
  w.options.settings.token = "";
  w.options.settings.endpoint = "nonsense//";
  CHECK(says(w.why(), "HF_ENDPOINT"));
  CHECK(w.hub.seen().empty());
}

TEST_CASE("gated, private and misspelt repositories say what to do") {
  World w;
  w.hub.gate("tiny/model", "hf_secret");
  const std::string gated = w.why();
  CHECK(says(gated, "accept"));
  CHECK(says(gated, w.hub.endpoint() + "/tiny/model"));
  CHECK(says(gated, "HF_TOKEN"));
  CHECK(says(w.why("tiny/modle"), "did you mean 'tiny/model'?"));
  CHECK(says(w.why("nobody/nothing"), "no such repository"));
  w.options.settings.token = "hf_wrong";
  CHECK(says(w.why(), "accept"));
  CHECK(!fs::exists(w.repo()));
}

TEST_CASE("connections that are cut are taken up where they ended") {
  World w;
  const std::string at = "/cdn/" + sha256(w.weights);
  w.hub.trouble({.at = at, .kind = LoopbackHub::cut, .times = 1, .after = 20'000});
  w.hub.trouble({.at = at, .kind = LoopbackHub::cut, .times = 1, .after = 10'000});
  w.get();
  CHECK(w.whole());
  std::vector<std::string> ranges;
  for (const auto& seen : w.hub.seen())
    if (seen.target == at) ranges.push_back(seen.headers.contains("range") ? seen.headers.at("range") : "");
  CHECK(ranges == std::vector<std::string>{"", "bytes=20000-", "bytes=30000-"});
  CHECK(w.notes.size() == 2);
}

TEST_CASE("a download that ended with the program goes on from what it left") {
  World w;
  spill(w.partial(), w.weights.substr(0, 12'345));
  w.get();
  CHECK(w.whole());
  CHECK(!fs::exists(w.partial()));
  bool asked = false;
  for (const auto& seen : w.hub.seen())
    asked = asked || (seen.headers.contains("range") && seen.headers.at("range") == "bytes=12345-");
  CHECK(asked);
}

TEST_CASE("what was left and does not fit is downloaded anew") {
  for (const size_t size : {size_t{1000}, size_t{60'000}, size_t{80'000}}) {
    CAPTURE(size);
    World w;
    spill(w.partial(), noise(size, 99));
    w.get();
    CHECK(w.whole());
  }
  World w;  // all of it was there, and only the name was missing
  spill(w.partial(), w.weights);
  w.get();
  CHECK(w.whole());
  CHECK(w.hub.count("GET", "/cdn/" + sha256(w.weights)) == 0);
}

TEST_CASE("a server that ignores ranges sends all of it, and the file is right") {
  World w;
  spill(w.partial(), w.weights.substr(0, 1000));
  w.hub.trouble({.at = "/cdn/", .kind = LoopbackHub::ignore_range, .times = 9});
  w.get();
  CHECK(w.whole());
}

TEST_CASE("wrong bytes never get the file's name") {
  World w;
  w.hub.trouble({.at = "/cdn/" + sha256(w.weights), .kind = LoopbackHub::wrong_bytes, .times = 99});
  CHECK(says(w.why(), "SHA-256 differs"));
  CHECK(!fs::exists(w.blob()));
  CHECK(!fs::exists(w.repo() / "refs/main"));
  CHECK(fs::file_size(w.partial()) == 0);
  World part;
  spill(part.partial(), part.weights.substr(0, 1000));
  part.hub.trouble({.at = "/cdn/" + sha256(part.weights), .kind = LoopbackHub::other_range, .times = 99});
  CHECK(says(part.why(), "another part of the file"));
  World more;
  more.hub.trouble({.at = "/cdn/" + sha256(more.weights), .kind = LoopbackHub::more_bytes, .times = 99});
  CHECK(says(more.why(), "more than the file has"));
}

TEST_CASE("busy servers are asked again, as late as they say, and not for ever") {
  World w;
  w.hub.trouble({.at = "/api/", .kind = LoopbackHub::status, .code = 429, .text = "Retry-After: 1"});
  w.hub.trouble({.at = "/cdn/", .kind = LoopbackHub::status, .times = 2, .code = 503});
  const auto start = std::chrono::steady_clock::now();
  w.get();
  CHECK(w.whole());
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::seconds(1));
  World later;
  later.hub.trouble({.at = "/api/", .kind = LoopbackHub::status, .code = 429, .text = "Retry-After: 3600"});
  CHECK(says(later.why(), "wait for 3600 seconds"));
  CHECK(later.hub.seen().size() == 1);
  World never;
  never.hub.trouble({.at = "/api/", .kind = LoopbackHub::status, .times = 99, .code = 500});
  CHECK(says(never.why(), "status 500"));
  CHECK(never.hub.seen().size() == 5);
  World cuts;
  cuts.hub.trouble({.at = "/cdn/", .kind = LoopbackHub::cut, .times = 99, .after = 10});
  CHECK(says(cuts.why(), "was cut"));
  CHECK(cuts.hub.count("GET", "/cdn/") == 5);
}

TEST_CASE("a connection that falls silent is given up, and taken up again") {
  World w;
  w.options.settings.stall_s = 1;
  w.hub.trouble({.at = "/cdn/" + sha256(w.weights), .kind = LoopbackHub::stall, .after = 1000});
  w.get();
  CHECK(w.whole());
  CHECK(says(w.notes.at(0), "does not answer any more"));
}

TEST_CASE("redirects are followed, but not in circles and not to unprotected hosts") {
  World w;
  w.hub.trouble(
      {.at = "/api/", .kind = LoopbackHub::redirect, .text = "/api/models/tiny/model/revision/main?moved"});
  w.get();
  CHECK(w.whole());
  World circle;
  circle.hub.trouble({.at = "/api/", .kind = LoopbackHub::redirect, .times = 99, .text = "/api/again"});
  CHECK(says(circle.why(), "in circles"));
  CHECK(circle.hub.seen().size() == 11);
  for (const char* target : {"http://example.invalid/x", "file:///etc/passwd", "ftp://127.0.0.1/x"}) {
    World away;
    away.hub.trouble({.at = "/cdn/", .kind = LoopbackHub::redirect, .times = 9, .text = target});
    CHECK(away.why() != "");
    CHECK(!fs::exists(away.blob()));
  }
}

TEST_CASE("a hostile hub writes nothing outside of its folder") {
  World w;
  const std::string commit(40, 'c');
  for (const std::string file : {"../../../evil", "/tmp/evil"}) {
    w.hub.trouble({.at = "/api/",
                   .kind = LoopbackHub::body,
                   .text = R"({"sha": ")" + commit + R"(", "siblings": [{"rfilename": ")" + file + "\"}]}"});
    CHECK(says(w.why(), "refused"));
  }
  w.hub.trouble(
      {.at = "/resolve/", .kind = LoopbackHub::status, .code = 200, .text = "ETag: \"../../../evil\""});
  CHECK(says(w.why(), "ETag"));
  w.hub.trouble({.at = "/api/", .kind = LoopbackHub::body, .text = "<html>log in</html>"});
  CHECK(says(w.why(), "no list of files"));
  for (const auto& entry : fs::recursive_directory_iterator(w.folder.path()))
    CHECK(entry.path().filename().string().find("evil") == std::string::npos);
}

TEST_CASE("a disk that is too full is said before anything is downloaded") {
  World w;
  w.hub.trouble({.at = "/api/",
                 .kind = LoopbackHub::body,
                 .text = R"({"sha": ")" + std::string(40, 'c') +
                         R"(", "siblings": [{"rfilename": "m.gguf", "lfs": {"sha256": ")" +
                         std::string(64, 'd') + R"(", "size": 900000000000000000}}]})"});
  CHECK(says(w.why(), "too full"));
  CHECK(w.hub.seen().size() == 1);
}

TEST_CASE("without sizes and hashes in the list, headers give them") {
  World w;
  w.hub.hide_details();
  w.get();
  CHECK(w.whole());
  CHECK(w.hub.count("HEAD", "/resolve/") == 3);
  World wrong;
  wrong.hub.hide_details();
  wrong.hub.trouble({.at = "/cdn/" + sha256(wrong.weights), .kind = LoopbackHub::wrong_bytes, .times = 9});
  CHECK(says(wrong.why(), "SHA-256 differs"));
}

TEST_CASE("offline, the cache answers alone, and says what is missing") {
  World w;
  w.options.settings.offline = true;
  CHECK(says(w.why(), "not in the cache"));
  w.options.settings.offline = false;
  const Resolved online = w.get();
  w.hub.forget();
  w.options.settings.offline = true;
  CHECK(w.get().path == online.path);
  CHECK(w.get("tiny/model@" + online.commit).path == online.path);
  CHECK(w.hub.seen().empty());
  CHECK(says(w.why("tiny/model@v2"), "no revision 'v2'"));
  fs::remove(w.blob());
  CHECK(says(w.why(), "without those needed"));
  // Weights in parts: the index names the missing one.
  spill(online.path / "model.safetensors.index.json",
        R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
  spill(online.path / "m-1.safetensors", "x");
  CHECK(says(w.why(), "found no m-2.safetensors"));
}

TEST_CASE("without a connection the cache helps, and says that it is old") {
  World w;
  const Resolved online = w.get();
  w.hub.trouble({.at = "/api/", .kind = LoopbackHub::status, .times = 99, .code = 503});
  CHECK(w.get().path == online.path);
  CHECK(says(w.notes.back(), "from the cache"));
  int port = 0;
  {
    const LoopbackHub gone;
    port = gone.port();
  }
  w.options.settings.endpoint = "http://127.0.0.1:" + std::to_string(port);
  CHECK(w.get().path == online.path);
  CHECK(says(w.why("other/model"), "no connection to 127.0.0.1"));
  CHECK(says(w.why("other/model"), "'other/model' is no path here"));
}

TEST_CASE("small needs bring small files") {
  World w;
  w.options.need = Need::config;
  const Resolved r = w.get();
  CHECK(fs::exists(r.path / "config.json"));
  CHECK(!fs::exists(r.path / "model.safetensors"));
  w.options.need = Need::everything;
  CHECK(fs::exists(w.get().path / "model.safetensors"));
}

TEST_CASE("one GGUF file of a repository, in parts or not") {
  World w;
  w.hub.add("tiny/gguf", "m.Q4_0.gguf", "four", LoopbackHub::large);
  w.hub.add("tiny/gguf", "big-00001-of-00002.gguf", "one", LoopbackHub::large);
  w.hub.add("tiny/gguf", "big-00002-of-00002.gguf", "two", LoopbackHub::large);
  CHECK(says(w.why("tiny/gguf"), "several GGUF files"));
  CHECK(slurp(w.get("tiny/gguf/m.Q4_0.gguf").path) == "four");
  const fs::path part = w.get("hf:tiny/gguf/big-00001-of-00002.gguf").path;
  CHECK(slurp(part) == "one");
  CHECK(slurp(part.parent_path() / "big-00002-of-00002.gguf") == "two");
  const std::string url = w.hub.endpoint() + "/tiny/gguf/resolve/main/m.Q4_0.gguf?download=true";
  CHECK(slurp(w.get(url).path) == "four");
}

TEST_CASE("where a repository has safetensors and a GGUF file too, what is opened is one of them") {
  World w;
  w.hub.add("tiny/model", "model.gguf", "gguf", LoopbackHub::large);
  CHECK(w.get("tiny/model/model.gguf").path.filename() == "model.gguf");
  CHECK(w.get("tiny/model").path.filename() == "model.safetensors");
}

TEST_CASE("a file of any host is kept with its ETag, taken up again, and asked for changes") {
  World w;
  const std::string bytes = noise(50'000, 5), url = w.hub.endpoint() + "/files/x%20y.gguf";
  w.hub.add_plain("x%20y.gguf", bytes);
  w.hub.trouble({.at = "/files/", .kind = LoopbackHub::cut, .after = 40'000});
  w.options.settings.token = "hf_secret";
  w.options.settings.endpoint = "https://hub.invalid";
  const Resolved first = w.get(url);
  CHECK(slurp(first.path) == bytes);
  CHECK(first.path.filename() == "x y.gguf");
  CHECK(w.hub.seen().at(1).headers.at("range") == "bytes=40000-");
  CHECK(w.hub.seen().at(1).headers.at("if-range") == '"' + LoopbackHub::hash_of(bytes) + '"');
  for (const auto& seen : w.hub.seen()) CHECK(!seen.headers.contains("authorization"));
  CHECK(!w.get(url).files.at(0).downloaded);
  w.hub.add_plain("x%20y.gguf", "changed");
  CHECK(w.get(url).files.at(0).downloaded);
  CHECK(slurp(first.path) == "changed");
  w.hub.trouble({.at = "/files/", .kind = LoopbackHub::status, .times = 99, .code = 503});
  CHECK(slurp(w.get(url).path) == "changed");
  CHECK(says(w.notes.back(), "downloaded before"));
  w.options.settings.offline = true;
  CHECK(slurp(w.get(url).path) == "changed");
  CHECK(says(w.why(w.hub.endpoint() + "/files/other.gguf"), "not in the cache"));
  w.options.settings.offline = false;
  CHECK(says(w.why(w.hub.endpoint() + "/nothing/other.gguf"), "no such file"));
  CHECK(says(w.why(w.hub.endpoint() + "/files/"), "names no file"));
}

TEST_CASE("another program that downloads the same file is waited for") {
  World w;
  const fs::path lock = w.folder / "hub/.locks/models--tiny--model" / (sha256(w.weights) + ".lock");
  fs::create_directories(lock.parent_path());
  const int file = ::open(lock.c_str(), O_RDWR | O_CREAT, 0664);
  REQUIRE(::flock(file, LOCK_EX) == 0);
  std::atomic<bool> waited = false;
  w.options.note = [&](const std::string& text) { waited = waited || says(text, "waiting"); };
  std::thread other([&] {
    for (int i = 0; i < 3000 && !waited; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    spill(w.blob(), w.weights);
    ::close(file);
  });
  w.get();
  other.join();
  CHECK(w.hub.count("GET", "/cdn/" + sha256(w.weights)) == 0);
  CHECK(waited);
}

TEST_CASE("a proxy is asked for what lies behind it") {
  World w;
  w.options.settings.endpoint = "http://hub.invalid";
  w.hub.hide_details();
  ::setenv("http_proxy", w.hub.endpoint().c_str(), 1);
  const std::string why = w.why();
  ::unsetenv("http_proxy");
  REQUIRE(!w.hub.seen().empty());
  CHECK(w.hub.seen()[0].target.starts_with("http://hub.invalid/api/models/tiny/model"));
  CHECK(why == "");
  CHECK(slurp(w.repo() / "refs/main") == w.hub.commit("tiny/model"));
}
