// The tokenizer, the chat template and the tokens that end or begin a text.
#include <algorithm>

#include "base/error.h"
#include "mutation/mutation.h"
#include "support/gguf_text.h"
#include "support/temp_folder.h"

namespace anemone::mutation {
namespace {

class Sites {
 public:
  Sites(const Subject& subject, Rng& rng) : subject_(subject), rng_(rng) {}

  std::vector<Mutation> find() {
    ends();
    for (const std::string& file : subject_.files) {
      if (file == "tokenizer.json") tokenizer(Json::parse(slurp(subject_.bundle / file)));
      if (file == "tokenizer_config.json") config(Json::parse(slurp(subject_.bundle / file)));
      if (file == "chat_template.jinja")
        add("chat template changed", file, "a letter", {"template"},
            bytes_of(file, [](std::string& b) { b[b.size() / 2] = b[b.size() / 2] == 'x' ? 'y' : 'x'; }));
      if (file.ends_with(".gguf")) gguf(file);
    }
    return std::move(out_);
  }

 private:
  using Apply = std::function<void(Workspace&)>;

  static Apply json_of(const std::string& file, const std::function<void(Json&)>& change) {
    return [=](Workspace& w) { w.edit_json(file, change); };
  }
  static Apply bytes_of(const std::string& file, const std::function<void(std::string&)>& change) {
    return [=](Workspace& w) { w.edit_bytes(file, change); };
  }

  void add(const std::string& kind, const std::string& file, const std::string& where,
           std::vector<std::string> words, const Apply& apply) {
    Mutation m;
    m.group = "text";
    m.kind = kind;
    m.place = file + " " + where;
    m.expected = {std::move(words), 6};
    m.expected.places.insert(m.expected.places.end(), {"tokenizer", file});
    m.apply = apply;
    out_.push_back(std::move(m));
  }

  void ends() {
    if (!subject_.generates()) return;
    const std::string file = kBundleFile;
    add("no token ends a text", file, "tokens.eos", {"eos", "ends"},
        json_of(file, [](Json& j) { j.at("tokens").at("eos") = Json::array(); }));
    add("another token ends a text", file, "tokens.eos", {"eos", "ends"},
        json_of(file, [](Json& j) { j.at("tokens").at("eos") = {7}; }));
    add("another token begins a text", file, "tokens.bos", {"bos", "begins"},
        json_of(file, [](Json& j) { j.at("tokens")["bos"] = 9; }));
  }

  void tokenizer(const Json& j) {
    const std::string file = "tokenizer.json";
    if (j.contains("model") && j.at("model").contains("vocab")) vocabulary(file, j.at("model").at("vocab"));
    if (j.contains("model") && j.at("model").contains("merges"))
      merges(file, j.at("model").at("merges").size());
    if (j.contains("added_tokens")) added(file, j.at("added_tokens"));
    for (const char* part : {"normalizer", "pre_tokenizer", "decoder", "post_processor"})
      if (j.contains(part) && !j.at(part).is_null())
        add(fmt::format("{} left out", part), file, part, {part},
            json_of(file, [=](Json& t) { t.at(part) = nullptr; }));
  }

  void vocabulary(const std::string& file, const Json& vocab) {
    const auto n = static_cast<int64_t>(vocab.size());
    const std::vector<std::string> words = {"vocabulary", "token"};
    if (n < 3) return;
    if (vocab.is_array()) {
      add("vocabulary moved by one", file, "model.vocab", words, json_of(file, [](Json& t) {
            Json& all = t.at("model").at("vocab");
            std::rotate(all.begin(), all.begin() + 1, all.end());
          }));
    } else {
      add("vocabulary moved by one", file, "model.vocab", words, json_of(file, [=](Json& t) {
            for (auto& [key, id] : t.at("model").at("vocab").items()) id = (id.get<int64_t>() + 1) % n;
          }));
    }
    for (int i = 0; i < 4; ++i) {
      const int64_t a = rng_.below(n), b = rng_.below(n);
      if (a == b) continue;
      add("two tokens exchanged", file, fmt::format("model.vocab entries {} and {}", a, b), words,
          json_of(file, [=](Json& t) {
            Json& all = t.at("model").at("vocab");
            std::swap(*std::next(all.begin(), a), *std::next(all.begin(), b));
          }));
    }
  }

  void merges(const std::string& file, size_t count) {
    if (count < 4) return;
    const std::vector<std::string> words = {"merge", "merges"};
    for (int i = 0; i < 4; ++i) {
      const auto a = static_cast<size_t>(rng_.below(static_cast<int64_t>(count))),
                 b = static_cast<size_t>(rng_.below(static_cast<int64_t>(count)));
      add("two merges exchanged", file, fmt::format("merges {} and {}", a, b), words,
          json_of(file, [=](Json& t) {
            std::swap(t.at("model").at("merges").at(a), t.at("model").at("merges").at(b));
          }));
      add("a merge left out", file, fmt::format("merge {}", a), words,
          json_of(file, [=](Json& t) { t.at("model").at("merges").erase(a); }));
    }
  }

  void added(const std::string& file, const Json& tokens) {
    const auto n = static_cast<int64_t>(tokens.size());
    if (n == 0) return;
    const auto i = static_cast<size_t>(rng_.below(n)), k = static_cast<size_t>(rng_.below(n));
    const std::vector<std::string> words = {"added token", "added_tokens", "token", "special"};
    add("an added token of another text", file, fmt::format("added_tokens[{}]", i), words,
        json_of(file, [=](Json& t) {
          Json& content = t.at("added_tokens").at(i).at("content");
          content = content.get<std::string>() + "x";
        }));
    add("an added token not special", file, fmt::format("added_tokens[{}]", i), words,
        json_of(file, [=](Json& t) {
          Json& special = t.at("added_tokens").at(i).at("special");
          special = !special.get<bool>();
        }));
    if (i != k)
      add("two added tokens exchanged", file, fmt::format("added_tokens {} and {}", i, k), words,
          json_of(file, [=](Json& t) {
            std::swap(t.at("added_tokens").at(i).at("content"), t.at("added_tokens").at(k).at("content"));
          }));
  }

  void config(const Json& j) {
    const std::string file = "tokenizer_config.json";
    if (j.contains("chat_template") && j.at("chat_template").is_string()) {
      const std::vector<std::string> words = {"template", "chat_template"};
      const auto at = static_cast<size_t>(
          rng_.below(static_cast<int64_t>(j.at("chat_template").get<std::string>().size())));
      add("chat template changed", file, fmt::format("letter {}", at), words, json_of(file, [=](Json& t) {
            std::string text = t.at("chat_template");
            text[at] = text[at] == 'x' ? 'y' : 'x';
            t.at("chat_template") = text;
          }));
      add("chat template left out", file, "", words,
          json_of(file, [](Json& t) { t.erase("chat_template"); }));
      add("roles exchanged in the chat template", file, "", words, json_of(file, [](Json& t) {
            std::string text = t.at("chat_template");
            const size_t role = text.find("assistant");
            if (role == std::string::npos) throw NotApplicable{"no role in it"};
            t.at("chat_template") = text.replace(role, 9, "user");
          }));
    }
    for (const char* key : {"eos_token", "bos_token"})
      if (j.contains(key) && j.at(key).is_string())
        add(fmt::format("{} is another", key), file, key, {key, "eos", "bos"},
            json_of(file, [=](Json& t) { t.at(key) = "!"; }));
    for (const char* key :
         {"add_bos_token", "add_eos_token", "add_prefix_space", "clean_up_tokenization_spaces"})
      if (j.contains(key) && j.at(key).is_boolean())
        add(fmt::format("{} flipped", key), file, key, {key},
            json_of(file, [=](Json& t) { t.at(key) = !t.at(key).get<bool>(); }));
  }

  void gguf(const std::string& file) {
    const auto list = [&](const std::string& kind, const char* key, const std::vector<std::string>& words,
                          const std::function<void(std::vector<std::string>&)>& change) {
      add(kind, file, key, words, bytes_of(file, [=](std::string& bytes) {
            if (!edit_gguf_strings(bytes, key, change)) throw NotApplicable{"the file has no such list"};
          }));
    };
    const auto a = static_cast<size_t>(rng_.below(1000)), b = static_cast<size_t>(rng_.below(1000));
    const auto swap = [=](std::vector<std::string>& all) {
      std::swap(all.at(a % all.size()), all.at(b % all.size()));
    };
    list("vocabulary moved by one", "tokenizer.ggml.tokens", {"vocabulary", "token"},
         [](std::vector<std::string>& all) { std::rotate(all.begin(), all.begin() + 1, all.end()); });
    list("two tokens exchanged", "tokenizer.ggml.tokens", {"vocabulary", "token"}, swap);
    list("two merges exchanged", "tokenizer.ggml.merges", {"merge", "merges"}, swap);
    list("a merge left out", "tokenizer.ggml.merges", {"merge", "merges"},
         [=](std::vector<std::string>& all) {
           all.erase(all.begin() + static_cast<ptrdiff_t>(a % all.size()));
         });
    add("chat template changed", file, "tokenizer.chat_template", {"template"},
        bytes_of(file, [](std::string& bytes) {
          if (!edit_gguf_string(bytes, "tokenizer.chat_template",
                                [](std::string& text) { text[text.size() / 2] ^= 1; }))
            throw NotApplicable{"the file has no template"};
        }));
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.bos_token_id"})
      add("a special token's id one more", file, key, {"eos", "bos", "token"},
          bytes_of(file, [=](std::string& bytes) {
            if (!add_to_gguf_number(bytes, key, 1)) throw NotApplicable{"the file has no such id"};
          }));
  }

  const Subject& subject_;
  Rng& rng_;
  std::vector<Mutation> out_;
};

}  // namespace

std::vector<Mutation> text_sites(const Subject& subject, Rng& rng) { return Sites(subject, rng).find(); }

}  // namespace anemone::mutation
