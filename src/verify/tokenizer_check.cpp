// The tokenizer of a bundle against its source's: the same text must become the same tokens and come back the same.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>

#include "base/error.h"
#include "base/thread_pool.h"
#include "text/tokenizer_export.h"
#include "verify/climber.h"
#include "verify/prompt.h"

namespace anemone {
namespace {

std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The bundle holds the very files that the source gives.
bool same_files(const TokenizerSource& source, const std::filesystem::path& bundle) {
  return std::ranges::all_of(source.files, [&](const TokenizerFile& file) {
    const std::string expected = file.from.empty() ? file.made : file_bytes(file.from);
    return expected == file_bytes(bundle / file.name);
  });
}

// What other programs read beside our own tokenizer, as convert makes it of the source.
std::string export_problem(const Climber& c) {
  std::vector<TokenizerFile> expected;
  try {
    expected = exported_tokenizer(*c.checkpoint);
  } catch (const Error&) {
    return "";  // convert says why it writes none
  }
  for (const TokenizerFile& file : expected)
    if (const std::string found = file_bytes(c.path / file.name); !found.empty() && found != file.made)
      return fmt::format("{}, which other programs read, is not what the source's tokenizer gives",
                         file.name);
  return "";
}

// A template in a file of its own goes before the one in tokenizer_config.json.
std::string added_file(const Climber& c, const TokenizerSource& source) {
  for (const char* name : {"chat_template.jinja", "chat_template.json", "added_tokens.json"}) {
    const auto has = [&](const TokenizerFile& file) { return file.name == name; };
    if (std::filesystem::exists(c.path / name) && std::ranges::none_of(source.files, has)) return name;
  }
  return "";
}

constexpr std::string_view kTexts[] = {
    "Hello, world!  Two  spaces,\ttabs\nand\n\n lines.",
    "1234567890 3.14 x+=1; // a comment",
    "Grüße, naïve façade — «œuvre» …",
    "你好，世界。 こんにちは 안녕하세요",
    "Привет, мир! مرحبا بالعالم שלום",
    "👩‍👩‍👧 🏳️‍🌈 ✓ \u200b\u00a0",
    "I'm don't WE'LL they've",
};

std::string ids_text(std::span<const int32_t> ids) {
  constexpr size_t kMost = 8;
  return fmt::format("[{}{}]", fmt::join(ids.first(std::min(kMost, ids.size())), ", "),
                     ids.size() > kMost ? ", …" : "");
}

class TokenizerComparison {
 public:
  TokenizerComparison(const Tokenizer& got, const Tokenizer& expected) : got_(got), expected_(expected) {}

  std::string problem(ThreadPool& pool) const {
    if (got_.vocabulary_size() != expected_.vocabulary_size())
      return fmt::format("it has {} tokens, and the source's {}", got_.vocabulary_size(),
                         expected_.vocabulary_size());
    const std::pair<const char*, std::pair<int32_t, int32_t>> special[] = {
        {"bos", {got_.bos(), expected_.bos()}},
        {"eos", {got_.eos(), expected_.eos()}},
        {"unk", {got_.unk(), expected_.unk()}},
        {"pad", {got_.pad(), expected_.pad()}}};
    for (const auto& [name, ids] : special)
      if (ids.first != ids.second)
        return fmt::format("its {} token is {}, and the source's {}", name, ids.first, ids.second);
    if (got_.end_of_generation() != expected_.end_of_generation())
      return fmt::format("the tokens that end a text are {}, and the source's {}",
                         ids_text(got_.end_of_generation()), ids_text(expected_.end_of_generation()));
    for (const std::string_view text : kTexts)
      if (std::string wrong = text_problem(text); !wrong.empty()) return wrong;
    if (std::string wrong = text_problem(kOrdinaryText); !wrong.empty()) return wrong;
    return token_problem(pool);
  }

 private:
  std::string text_problem(std::string_view text) const {
    for (const bool special : {false, true}) {
      const EncodeOptions options{.add_special = special, .parse_special = special};
      const std::vector<int32_t> got = got_.encode(text, options), expected = expected_.encode(text, options);
      if (got != expected)
        return fmt::format("it makes {} of '{}', and the source's {}", ids_text(got), text,
                           ids_text(expected));
      if (got_.decode(got) != expected_.decode(expected))
        return fmt::format("it writes '{}' for {}, and the source's '{}'", got_.decode(got), ids_text(got),
                           expected_.decode(expected));
    }
    return "";
  }

  // Every token by itself: its piece, its kind, its text, and what becomes of that text, which is where merges show.
  std::string one_token(int32_t id) const {
    if (got_.piece(id) != expected_.piece(id))
      return fmt::format("token {} is '{}', and the source's '{}'", id, got_.piece(id), expected_.piece(id));
    if (got_.is_special(id) != expected_.is_special(id))
      return fmt::format("token {} '{}' is {}special", id, got_.piece(id), got_.is_special(id) ? "" : "not ");
    const std::string got = got_.decode(std::span(&id, 1)), expected = expected_.decode(std::span(&id, 1));
    if (got != expected)
      return fmt::format("token {} is written '{}', and by the source's '{}'", id, got, expected);
    // Text on both sides shows what an added token takes along, and whether it must stand alone.
    const std::string piece = expected.empty() ? std::string(expected_.piece(id)) : expected;
    std::vector<std::string> texts = {expected, " " + expected};
    if (expected_.is_added(id)) texts.insert(texts.end(), {"a " + piece + " b", "a" + piece + "b"});
    for (const std::string& text : texts) {
      const std::vector<int32_t> a = got_.encode(text), b = expected_.encode(text);
      if (a != b)
        return fmt::format("it makes {} of '{}', and the source's {}", ids_text(a), text, ids_text(b));
    }
    return "";
  }

  std::string token_problem(ThreadPool& pool) const {
    std::mutex mutex;
    std::pair<int32_t, std::string> first{INT32_MAX, ""};
    pool.parallel_for(got_.vocabulary_size(), 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::string wrong = one_token(static_cast<int32_t>(i));
        if (wrong.empty()) continue;
        const std::lock_guard lock(mutex);
        if (i < first.first) first = {static_cast<int32_t>(i), std::move(wrong)};
        return;
      }
    });
    return first.second;
  }

  const Tokenizer& got_;
  const Tokenizer& expected_;
};

}  // namespace

std::string tokenizer_problem(const Climber& c) {
  const TokenizerSource source = c.checkpoint->tokenizer();
  const std::string& own = c.bundle->info().tokenizer;
  if (source.main.empty() && own.empty()) return "";
  if (source.main.empty())
    return fmt::format("the bundle has a tokenizer ({}), and the source has none", own);
  if (own.empty()) return "the source has a tokenizer, and the bundle has none";
  if (std::string wrong = export_problem(c); !wrong.empty()) return wrong;
  if (const std::string name = added_file(c, source); !name.empty())
    return fmt::format("the bundle has a {}, and the source has none", name);
  if (own == source.main && same_files(source, c.path)) return "";
  const std::shared_ptr<const Tokenizer> expected = Tokenizer::load(source.load);
  ThreadPool pool(c.options.threads);
  const std::string wrong = TokenizerComparison(*c.tokenizer, *expected).problem(pool);
  if (!wrong.empty()) return fmt::format("the tokenizer {} is not the source's: {}", own, wrong);
  const std::string &got = c.tokenizer->chat_template(), &wanted = expected->chat_template();
  if (got == wanted) return "";
  const auto at = static_cast<size_t>(
      std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end()).first - got.begin());
  return fmt::format(
      "the chat template in {} is not the source's: it has {} characters instead of {}, and differs "
      "from character {} on",
      own, got.size(), wanted.size(), at);
}

}  // namespace anemone
