// Tokenizer: text to token ids and back, for every model family; made from tokenizer.json, tokenizer.model or GGUF.
//     auto tokenizer = Tokenizer::load("model/tokenizer.json");
//     std::vector<int32_t> ids = tokenizer->encode("Hello!", {.add_special = true});
//     std::string text = tokenizer->decode(ids);
// Immutable once made: any number of threads may share one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/spec.h"

namespace anemone {

struct EncodeOptions {
  bool add_special = false;   // add what the model wants around a text: BOS, EOS, [CLS] …
  bool parse_special = true;  // special tokens written in the text become their ids; off for text from users
};

// What Tokenizer::load() reads, before it is made ready.
TokenizerSpec load_tokenizer_spec(const std::filesystem::path& path);

class Tokenizer : public std::enable_shared_from_this<Tokenizer> {
 public:
  // A tokenizer.json, a tokenizer.model or a GGUF file; a checkpoint of any format that has a tokenizer; or a folder
  // with one of the first two. Error when there is none.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& path);
  static std::shared_ptr<const Tokenizer> make(TokenizerSpec spec);
  ~Tokenizer();

  // Malformed UTF-8 in the text counts as U+FFFD.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Always valid UTF-8: bytes that make no character become U+FFFD. Ids without a token are left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // How it cuts words, for people: "BPE", "Unigram", "WordPiece" …
  std::string_view model_name() const;
  int32_t vocabulary_size() const;  // highest id + 1
  // The token as its file writes it; empty when the id has none.
  std::string_view piece(int32_t id) const;
  // The id of a token, added ones included; kNoToken when there is none.
  int32_t find(std::string_view piece) const;
  bool is_special(int32_t id) const;
  bool is_added(int32_t id) const;  // it is found in a text before anything else
  // What the token adds to a text that goes on, perhaps a part of a character. Error where that depends on its
  // neighbours.
  std::string bytes(int32_t id) const;

  int32_t bos() const { return spec().bos; }
  int32_t eos() const { return spec().eos; }
  int32_t unk() const { return spec().unk; }
  int32_t pad() const { return spec().pad; }
  // Ids that end a generation: eos, the end of a turn and the like.
  const std::vector<int32_t>& end_of_generation() const { return spec().end_of_generation; }
  // The chat template that came with the tokenizer; empty when there was none.
  const std::string& chat_template() const { return spec().chat_template; }

  class Stream;

 private:
  struct Parts;
  struct Scratch;
  class ScratchPool;

  explicit Tokenizer(TokenizerSpec spec);
  const TokenizerSpec& spec() const;
  void encode_plain(std::string_view text, bool at_start, bool parse_special, Scratch& scratch,
                    std::vector<int32_t>& ids) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;
  void encode_uncached(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;
  // The text of a token for decoding; false when the id is unknown or is skipped.
  bool token_text(int32_t id, bool skip_special, std::string_view& text) const;

  std::unique_ptr<Parts> parts_;
};

// Decodes ids as they come, holding back the bytes of a character until it is whole.
//     Tokenizer::Stream stream(tokenizer);
//     for (int32_t id : ids) std::cout << stream.feed(id);
//     std::cout << stream.finish();
// All that it gave out equals decode() of the same ids, except where byte tokens make no character. There decode()
// replaces the whole run of byte tokens, and the stream only the malformed part.
class Tokenizer::Stream {
 public:
  explicit Stream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = false);

  // The text that this id completes; may be empty.
  std::string feed(int32_t id);
  // What was held back; incomplete characters become U+FFFD. The stream then starts anew.
  std::string finish();

 private:
  std::string release(bool all);

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  bool first_ = true;
  size_t to_strip_ = 0;
  std::string pending_;       // bytes not given out yet
  std::vector<int32_t> ids_;  // all so far, where the detokenizer looks at more than one token
  std::string given_;         // … and what was given out
};

}  // namespace anemone
