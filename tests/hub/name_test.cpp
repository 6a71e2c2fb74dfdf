#include "hub/name.h"

#include <doctest/doctest.h>

#include "hub/cache.h"
#include "hub/url.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::hub;

namespace {

constexpr const char* kHub = "https://huggingface.co";

// "id|revision|path", "url" or "path".
std::string read(const std::string& text, const std::string& endpoint = kHub) {
  const auto name = parse_name(text, endpoint);
  if (!name) return "path";
  if (const auto* url = std::get_if<FileUrl>(&*name)) return url->url;
  const auto& repo = std::get<RepoName>(*name);
  return repo.id + "|" + repo.revision + "|" + repo.path;
}

}  // namespace

TEST_CASE("names of models are read as people write them") {
  const std::pair<const char*, const char*> kNames[] = {
      {"Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct||"},
      {"owner/repo@v1.0", "owner/repo|v1.0|"},
      {"owner/repo/model.Q8_0.gguf", "owner/repo||model.Q8_0.gguf"},
      {"owner/repo@abc/sub/model.gguf", "owner/repo|abc|sub/model.gguf"},
      {"owner/repo/", "owner/repo||"},
      {"hf:owner/repo", "owner/repo||"},
      {"hf://owner/repo/file.gguf", "owner/repo||file.gguf"},
      {"hf:gpt2", "gpt2||"},
      {"hf:gpt2@main", "gpt2|main|"},
      {"https://huggingface.co/owner/repo", "owner/repo||"},
      {"https://huggingface.co/owner/repo/tree/main", "owner/repo|main|"},
      {"https://huggingface.co/owner/repo/resolve/main/a%20b.gguf?download=true", "owner/repo|main|a b.gguf"},
      {"https://huggingface.co/owner/repo/blob/refs%2Fpr%2F1/x.gguf", "owner/repo|refs/pr/1|x.gguf"},
      {"https://hf.co/owner/repo", "owner/repo||"},
      {"https://example.com/owner/repo/resolve/main/x.gguf",
       "https://example.com/owner/repo/resolve/main/x.gguf"},
      {"https://example.com/model.gguf", "https://example.com/model.gguf"},
      {"http://127.0.0.1:8000/model.gguf", "http://127.0.0.1:8000/model.gguf"},
      // Paths, whether they exist or not.
      {"demo", "path"},
      {"demo.gguf", "path"},
      {"models/tiny.gguf", "path"},
      {"./owner/repo", "path"},
      {"../owner/repo", "path"},
      {"/owner/repo", "path"},
      {"~/owner/repo", "path"},
      {"a b/c", "path"},
      {"owner/-repo", "path"},
      {"owner//repo", "path"},
      {"owner--x/repo", "path"},
      {"", "path"}};
  for (const auto& [text, expected] : kNames) {
    CAPTURE(text);
    CHECK(read(text) == expected);
  }
  CHECK(read("http://hub.local/hf/a/b/resolve/main/c.gguf", "http://hub.local/hf") == "a/b|main|c.gguf");
}

TEST_CASE("a folder called like the owner makes a path of a name") {
  const TempFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directories(folder / "owner");
  std::filesystem::current_path(folder.path());
  const std::string found = read("owner/repo"), forced = read("hf:owner/repo");
  std::filesystem::current_path(before);
  CHECK(found == "path");
  CHECK(forced == "owner/repo||");
}

TEST_CASE("broken names are errors that say what is expected") {
  const auto why = [](const std::string& text) { return error_of([&] { read(text); }); };
  CHECK(why("hf:").find("owner/repo") != std::string::npos);
  CHECK(why("hf:a b/c").find("owner/repo") != std::string::npos);
  CHECK(why("owner/repo@").find("revision is missing") != std::string::npos);
  CHECK(why("owner/repo/../x").find("refused") != std::string::npos);
  CHECK(why("owner/repo@../../x").find("refused") != std::string::npos);
  CHECK(why("https://huggingface.co/owner/repo/resolve/main/%2e%2e/x").find("refused") != std::string::npos);
  CHECK(why("http://example.com/model.gguf").find("unprotected") != std::string::npos);
  CHECK(why("https://me:secret@example.com/model.gguf").find("password") != std::string::npos);
  CHECK(why("https://me:secret@example.com/model.gguf").find("secret") == std::string::npos);
  CHECK(why("https://exa mple.com/x").find("no address") != std::string::npos);
}

TEST_CASE("paths from the net stay inside their folder") {
  for (const std::string good : {"a", "a/b.c", ".gitattributes", "a..b", "1_Pooling/config.json"})
    CHECK(error_of([&] { expect_inner_path(good, "here"); }) == "");
  for (const std::string& bad :
       {std::string("../x"), std::string("a/../b"), std::string(".."), std::string("/etc/passwd"),
        std::string("a//b"), std::string("a/"), std::string("./a"), std::string("a\0b", 3),
        std::string("a\nb"), std::string("a\\b"), std::string(), std::string(300, 'x')})
    CHECK(error_of([&] { expect_inner_path(bad, "here"); }).find("refused") != std::string::npos);
}

TEST_CASE("https never leads to http, and http is for this machine or the hub that was named") {
  const auto why = [](const char* from, const char* to, const char* endpoint) {
    return error_of([&] { expect_protected_redirect(Url::parse(from), Url::parse(to), endpoint); });
  };
  CHECK(why("https://a.com/x", "https://b.com/x", kHub) == "");
  CHECK(why("https://a.com/x", "http://a.com/x", kHub) != "");
  CHECK(why("https://a.com/x", "http://127.0.0.1/x", kHub) != "");
  CHECK(why("http://127.0.0.1/x", "http://localhost:99/x", kHub) == "");
  CHECK(why("http://127.0.0.1/x", "http://a.com/x", kHub) != "");
  CHECK(why("http://hub.local/x", "http://hub.local/y", "http://hub.local") == "");
  CHECK(error_of([] { Url::parse("file:///etc/passwd"); }) != "");
  CHECK(!Url::parse("http://127.evil.com/").loopback());
  CHECK(Url::parse("http://[::1]:80/").loopback());
}

TEST_CASE("a path in the cache is shown as the name that people type") {
  const TempFolder folder;
  const std::string commit(40, 'a'), other(40, 'b');
  const auto repo = folder / "models--Qwen--Qwen3-0.6B";
  spill(repo / "refs/main", commit);
  CHECK(shown_name(repo / "snapshots" / commit) == "Qwen/Qwen3-0.6B");
  CHECK(shown_name(repo / "snapshots" / commit / "sub" / "x.gguf") == "Qwen/Qwen3-0.6B/sub/x.gguf");
  CHECK(shown_name(repo / "snapshots" / other) == "Qwen/Qwen3-0.6B@" + other);
  CHECK(shown_name("demo.gguf") == "demo.gguf");
}
