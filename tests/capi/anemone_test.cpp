#include "anemone/anemone.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "runtime/generate.h"
#include "runtime/prompt.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

struct Opened {
  TempFolder folder;
  anemone_bundle* bundle = nullptr;

  Opened() {
    convert(source_dir() / "examples/demo_model/demo.gguf", folder.path() / "demo",
            {.context = {64}, .tokens = {{1, 1}, {4, 4}}, .threads = 1});
    anemone_open_options options;
    anemone_open_options_init(&options);
    options.backend = ANEMONE_BACKEND_CPU;
    options.threads = 1;
    REQUIRE(anemone_bundle_open((folder.path() / "demo").c_str(), &options, &bundle) == ANEMONE_OK);
  }
  ~Opened() { anemone_bundle_close(bundle); }
};

int append(void* user, const char* piece) {
  *static_cast<std::string*>(user) += piece;
  return 0;
}

// What the library says without the C interface.
Generation expected(const std::filesystem::path& path, const std::string& prompt, int64_t tokens) {
  const auto bundle = Bundle::open(path, cpu_backend({.threads = 1}));
  const PromptFormat format(load_tokenizer(*bundle));
  Session session(bundle);
  return Generator(format.tokenizer(), {.max_new = tokens}).run(session, format.plain(prompt));
}

}  // namespace

TEST_CASE("C: a bundle, tokens, a session, streamed text") {
  Opened opened;
  CHECK(std::string(anemone_bundle_backend(opened.bundle)) == "cpu");
  CHECK(anemone_bundle_context(opened.bundle) == 64);
  CHECK(anemone_bundle_load(opened.bundle) == ANEMONE_OK);
  CHECK(anemone_api_version() == ANEMONE_API_VERSION);

  int32_t* ids = nullptr;
  size_t count = 0;
  REQUIRE(anemone_encode(opened.bundle, "Once upon a time", 0, &ids, &count) == ANEMONE_OK);
  char* text = nullptr;
  REQUIRE(anemone_decode(opened.bundle, ids, count, 1, &text) == ANEMONE_OK);
  CHECK(std::string(text).find("Once upon a time") != std::string::npos);
  anemone_free(text);

  anemone_session* session = nullptr;
  REQUIRE(anemone_session_new(opened.bundle, &session) == ANEMONE_OK);
  anemone_generate_options options;
  anemone_generate_options_init(&options);
  options.max_new = 20;
  std::string said;
  anemone_result result;
  result.size = sizeof(result);
  REQUIRE(anemone_generate_text(session, "Once upon a time", &options, append, &said, &result) == ANEMONE_OK);
  const Generation right = expected(opened.folder.path() / "demo", "Once upon a time", 20);
  CHECK(said == right.text);
  CHECK(result.new_tokens == right.stats.new_tokens);
  CHECK(result.stopped == stop_reason_text(right.why));

  // A fork goes on by itself; a rewind forgets.
  anemone_session* other = nullptr;
  REQUIRE(anemone_session_fork(session, &other) == ANEMONE_OK);
  CHECK(anemone_session_rewind(session, 0) == ANEMONE_OK);
  CHECK(anemone_session_position(session) == 0);
  CHECK(anemone_session_position(other) > 0);
  std::vector<float> first(static_cast<size_t>(anemone_bundle_vocabulary(opened.bundle)));
  std::vector<float> second = first;
  REQUIRE(anemone_session_feed(session, ids, count, first.data()) == ANEMONE_OK);
  REQUIRE(anemone_session_rewind(other, 0) == ANEMONE_OK);
  REQUIRE(anemone_session_feed(other, ids, count, second.data()) == ANEMONE_OK);
  CHECK(first == second);
  anemone_session_free(other);
  anemone_session_free(session);
  anemone_free(ids);
}

TEST_CASE("C: what is wrong is said, and nothing is given") {
  anemone_bundle* bundle = reinterpret_cast<anemone_bundle*>(1);
  CHECK(anemone_bundle_open("/no/such/bundle", nullptr, &bundle) == ANEMONE_ERROR);
  CHECK(bundle == nullptr);
  CHECK(std::string(anemone_last_error()).find("/no/such/bundle") != std::string::npos);
  CHECK(anemone_bundle_open(nullptr, nullptr, &bundle) == ANEMONE_ERROR);
  CHECK(std::string(anemone_last_error()) == "the path is null");
  anemone_open_options empty{};
  CHECK(anemone_bundle_open("x", &empty, &bundle) == ANEMONE_ERROR);
  CHECK(std::string(anemone_last_error()).find("_init") != std::string::npos);
  // Another thread has errors of its own.
  std::string there = "?";
  std::thread([&] { there = anemone_last_error(); }).join();
  CHECK(there.empty());

  Opened opened;
  CHECK(anemone_bundle_has_chat(opened.bundle) == 0);
  anemone_session* session = nullptr;
  REQUIRE(anemone_session_new(opened.bundle, &session) == ANEMONE_OK);
  const int32_t bad = 1 << 30;
  CHECK(anemone_session_feed(session, &bad, 1, nullptr) == ANEMONE_ERROR);
  CHECK(anemone_session_feed(session, nullptr, 1, nullptr) == ANEMONE_ERROR);
  CHECK(anemone_session_rewind(session, 5) == ANEMONE_ERROR);
  anemone_session_free(session);
  anemone_session_free(nullptr);
  anemone_bundle_close(nullptr);
  anemone_free(nullptr);
}

TEST_CASE("C: a callback, or another thread, cancels") {
  Opened opened;
  anemone_session* session = nullptr;
  REQUIRE(anemone_session_new(opened.bundle, &session) == ANEMONE_OK);
  int pieces = 0;
  const auto stop = [](void* user, const char*) { return ++*static_cast<int*>(user) == 3 ? 1 : 0; };
  CHECK(anemone_generate_text(session, "Once upon a time", nullptr, stop, &pieces, nullptr) ==
        ANEMONE_CANCELLED);
  CHECK(pieces == 3);
  struct Both {
    anemone_session* session;
    int pieces = 0;
  } both{session};
  const auto elsewhere = [](void* user, const char*) {
    Both& b = *static_cast<Both*>(user);
    if (++b.pieces == 2) std::thread([&] { anemone_session_cancel(b.session); }).join();
    return 0;
  };
  CHECK(anemone_generate_text(session, "Once upon a time", nullptr, elsewhere, &both, nullptr) ==
        ANEMONE_CANCELLED);
  CHECK(both.pieces <= 3);
  // It is usable afterwards.
  std::string said;
  anemone_generate_options options;
  anemone_generate_options_init(&options);
  options.max_new = 5;
  CHECK(anemone_generate_text(session, "Once upon a time", &options, append, &said, nullptr) == ANEMONE_OK);
  CHECK(!said.empty());
  anemone_session_free(session);
}
