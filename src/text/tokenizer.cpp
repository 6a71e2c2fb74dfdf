#include "text/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/word_cache.h"
#include "text/tokenizer/word_models.h"
#include "text/unicode.h"

namespace anemone {

// What one call needs for itself. Kept between calls, so that the word cache stays warm.
struct Tokenizer::Scratch {
  WordCache cache;
  BpeScratch bpe;
};

// Lends each call a Scratch: as many as calls have run at once.
class Tokenizer::ScratchPool {
 public:
  std::unique_ptr<Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Scratch>();
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give(std::unique_ptr<Scratch> scratch) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

struct Tokenizer::Parts {
  TokenizerSpec spec;
  std::unordered_map<int32_t, uint32_t> added_by_id;  // place in spec.added
  std::unordered_map<std::string_view, int32_t> added_by_text;
  std::vector<std::string> added_text;  // as decoding sees it: normalised ones in their normal form
  std::vector<bool> skipped;            // by skip_special: what decoding sees is a special token's own text
  int32_t size = 0;
  bool raw_bytes = false;
  std::optional<Normalizer> normalizer;
  AddedTokens raw, normalized;
  bool any_normalized = false;
  std::optional<PreTokenizer> cutter;
  std::optional<Bpe> bpe;
  std::optional<Unigram> unigram;
  TokenTrie trie;
  std::optional<Detokenizer> detokenizer;
  mutable ScratchPool pool;
};

Tokenizer::Tokenizer(TokenizerSpec given) : parts_(std::make_unique<Parts>()) {
  using Kind = TokenModelSpec::Kind;
  Parts& p = *parts_;
  p.spec = std::move(given);
  TokenizerSpec& s = p.spec;
  const TokenModelSpec& model = s.model;
  const bool is_bpe = model.kind == Kind::bpe || model.kind == Kind::score_bpe;
  p.raw_bytes = model.kind == Kind::bpe && PreTokenizer::ends_in_bytes(s.pre_tokenizer);
  p.cutter.emplace(s.pre_tokenizer, p.raw_bytes);
  std::vector<std::string> as_is;  // what normalising must not touch
  for (const AddedToken& token : s.added) {
    if (!token.normal_form.empty()) as_is.push_back(token.content);
  }
  p.normalizer.emplace(s.normalizer, std::move(as_is));
  p.detokenizer.emplace(s.detokenizer, s.join_with_spaces);
  if (is_bpe) p.bpe.emplace(model, s.vocabulary, p.raw_bytes);
  if (model.kind == Kind::unigram) p.unigram.emplace(model, s.vocabulary);
  if (model.kind == Kind::longest) {
    std::vector<std::pair<std::string_view, int32_t>> tokens;
    for (int32_t id = 0; id < s.vocabulary.size(); ++id) tokens.emplace_back(s.vocabulary.text(id), id);
    p.trie = TokenTrie(std::move(tokens));
  }
  p.size = s.vocabulary.size();
  std::vector<AddedToken> raw, normalized;
  for (uint32_t i = 0; i < s.added.size(); ++i) {
    AddedToken token = s.added[i];
    p.size = std::max(p.size, token.id + 1);
    p.added_by_id[token.id] = i;
    p.added_by_text[s.added[i].content] = token.id;
    if (!token.normal_form.empty())
      token.content = token.normal_form;
    else if (token.normalized && (token.content = p.normalizer->run(token.content)).empty())
      throw errorf("added token '{}' is empty after normalization", s.added[i].content);
    p.added_text.push_back(token.content);
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  std::unordered_set<std::string_view> special;
  for (const AddedToken& token : s.added) {
    if (token.special) special.insert(token.content);
  }
  for (size_t i = 0; i < s.added.size(); ++i) {
    const AddedToken& token = s.added[i];
    p.skipped.push_back(token.normal_form.empty() ? special.contains(p.added_text[i]) : token.special);
  }
  p.any_normalized = !normalized.empty();
  p.raw = AddedTokens(std::move(raw), s.longest_first);
  p.normalized = AddedTokens(std::move(normalized), s.longest_first);
  s.model.merges = {};  // the model has its own table now
  s.model.scores = {};
}

Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::make(TokenizerSpec spec) {
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(spec)));
}

const TokenizerSpec& Tokenizer::spec() const { return parts_->spec; }

std::string_view Tokenizer::model_name() const {
  switch (spec().model.kind) {
    case TokenModelSpec::Kind::bpe: return "BPE";
    case TokenModelSpec::Kind::score_bpe: return "SentencePiece BPE";
    case TokenModelSpec::Kind::unigram: return "Unigram";
    case TokenModelSpec::Kind::word_piece: return "WordPiece";
    case TokenModelSpec::Kind::word_level: return "word level";
    case TokenModelSpec::Kind::longest: return "longest match";
  }
  return "";
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::string valid;
  if (!is_valid_utf8(text)) text = valid = to_valid_utf8(text);
  struct Lease {  // gives the scratch back also when a call throws
    ScratchPool& pool;
    std::unique_ptr<Scratch> scratch;
    ~Lease() { pool.give(std::move(scratch)); }
  } lease{parts_->pool, parts_->pool.take()};
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  const auto encode_text = [&] {
    for (const AddedTokens::Part& part : parts_->raw.split(text, options.parse_special)) {
      if (part.id != kNoToken)
        ids.push_back(part.id);
      else
        encode_plain(part.text, part.text.data() == text.data(), options.parse_special, *lease.scratch, ids);
    }
  };
  if (!options.add_special) {
    encode_text();
    return ids;
  }
  for (int32_t id : spec().post) {
    if (id == TokenizerSpec::kSequence)
      encode_text();
    else
      ids.push_back(id);
  }
  return ids;
}

void Tokenizer::encode_plain(std::string_view text, bool at_start, bool parse_special, Scratch& scratch,
                             std::vector<int32_t>& ids) const {
  const Parts& p = *parts_;
  std::string normal;
  if (!p.normalizer->empty()) {
    normal = p.normalizer->run(text);
    at_start = at_start && p.normalizer->keeps_start(text);
    text = normal;
  }
  if (text.empty()) return;
  const auto word = [&](std::string_view w) { encode_word(w, scratch, ids); };
  if (!p.any_normalized) return p.cutter->run(text, at_start, word);
  for (const AddedTokens::Part& part : p.normalized.split(text, parse_special)) {
    if (part.id != kNoToken)
      ids.push_back(part.id);
    else
      p.cutter->run(part.text, at_start && part.text.data() == text.data(), word);
  }
}

void Tokenizer::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  const uint64_t hash = word.size() <= WordCache::kMaxBytes ? hash_bytes(word) : 0;
  const auto known = scratch.cache.find(word, hash);
  if (!known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  const size_t before = ids.size();
  if (parts_->bpe && parts_->bpe->can_cut()) {
    const size_t first = parts_->bpe->safe_prefix(word);
    if (first < word.size() && !(spec().model.ignore_merges && spec().vocabulary.find(word) != kNoToken)) {
      for (size_t n = first; !word.empty(); n = parts_->bpe->safe_prefix(word)) {
        const std::string_view part = word.substr(0, n);
        const size_t start = ids.size();
        const uint64_t key = n <= WordCache::kMaxBytes ? hash_bytes(part) : 0;
        const auto cached = scratch.cache.find(part, key);
        ids.insert(ids.end(), cached.begin(), cached.end());
        if (cached.empty()) {
          encode_uncached(part, scratch, ids);
          scratch.cache.store(part, key, {ids.data() + start, ids.size() - start});
        }
        word.remove_prefix(n);
      }
      return;
    }
  }
  encode_uncached(word, scratch, ids);
  scratch.cache.store(word, hash, {ids.data() + before, ids.size() - before});
}

void Tokenizer::encode_uncached(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  const Parts& p = *parts_;
  switch (p.spec.model.kind) {
    case TokenModelSpec::Kind::bpe:
    case TokenModelSpec::Kind::score_bpe: return p.bpe->encode(word, scratch.bpe, ids);
    case TokenModelSpec::Kind::unigram: return p.unigram->encode(word, ids);
    case TokenModelSpec::Kind::word_piece: return word_piece(p.spec.model, p.spec.vocabulary, word, ids);
    case TokenModelSpec::Kind::word_level: return word_level(p.spec.model, p.spec.vocabulary, word, ids);
    case TokenModelSpec::Kind::longest: return longest_tokens(p.trie, p.spec.model.unk_id, word, ids);
  }
}

int32_t Tokenizer::vocabulary_size() const { return parts_->size; }

std::string_view Tokenizer::piece(int32_t id) const {
  const auto added = parts_->added_by_id.find(id);
  if (added != parts_->added_by_id.end()) return spec().added[added->second].content;
  return spec().vocabulary.text(id);
}

int32_t Tokenizer::find(std::string_view piece) const {
  const auto added = parts_->added_by_text.find(piece);
  return added != parts_->added_by_text.end() ? added->second : spec().vocabulary.find(piece);
}

bool Tokenizer::is_added(int32_t id) const { return parts_->added_by_id.contains(id); }

bool Tokenizer::is_special(int32_t id) const {
  const auto added = parts_->added_by_id.find(id);
  return added != parts_->added_by_id.end() && spec().added[added->second].special;
}

bool Tokenizer::token_text(int32_t id, bool skip_special, std::string_view& text) const {
  const auto added = parts_->added_by_id.find(id);
  if (added != parts_->added_by_id.end()) {
    text = parts_->added_text[added->second];
    return !(skip_special && parts_->skipped[added->second]);
  }
  text = spec().vocabulary.text(id);
  return spec().vocabulary.has(id);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  std::string_view text;
  for (int32_t id : ids) {
    if (token_text(id, skip_special, text)) tokens.emplace_back(text);
  }
  std::string out = parts_->detokenizer->run(std::move(tokens));
  return is_valid_utf8(out) ? out : to_valid_utf8(out);
}

std::string Tokenizer::bytes(int32_t id) const {
  if (!parts_->detokenizer->piecewise())
    throw errorf("a token of this tokenizer has no bytes of its own: its text depends on its neighbors");
  std::string out;
  std::string_view text;
  if (token_text(id, false, text)) parts_->detokenizer->append(text, false, out);
  return out;
}

Tokenizer::Stream::Stream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {
  to_strip_ = tokenizer_->parts_->detokenizer->strip_start();
}

std::string Tokenizer::Stream::feed(int32_t id) {
  const Detokenizer& detokenizer = *tokenizer_->parts_->detokenizer;
  std::string_view text;
  if (!tokenizer_->token_text(id, skip_special_, text)) return {};
  if (detokenizer.piecewise()) {
    detokenizer.append(text, first_, pending_);
    first_ = false;
    return release(false);
  }
  ids_.push_back(id);
  const std::string all = tokenizer_->decode(ids_, skip_special_);
  if (all.size() <= given_.size() || !all.starts_with(given_) || all.ends_with("\xef\xbf\xbd")) return {};
  std::string fresh = all.substr(given_.size());
  given_ = all;
  return fresh;
}

std::string Tokenizer::Stream::release(bool all) {
  std::string mark;
  append_utf8(mark, tokenizer_->parts_->detokenizer->strip_character());
  for (; to_strip_ > 0 && !pending_.empty(); --to_strip_) {
    if (pending_.starts_with(mark)) {
      pending_.erase(0, mark.size());
    } else if (!all && std::string_view(mark).starts_with(pending_)) {
      return {};  // may become what is stripped
    } else {
      to_strip_ = 0;
      break;
    }
  }
  const size_t hold = all ? 0 : incomplete_tail(pending_);
  std::string out = pending_.substr(0, pending_.size() - hold);
  pending_.erase(0, pending_.size() - hold);
  return is_valid_utf8(out) ? out : to_valid_utf8(out);
}

std::string Tokenizer::Stream::finish() {
  std::string out;
  if (tokenizer_->parts_->detokenizer->piecewise()) {
    out = release(true);
  } else {
    const std::string all = tokenizer_->decode(ids_, skip_special_);
    if (all.size() > given_.size() && all.starts_with(given_)) out = all.substr(given_.size());
  }
  first_ = true;
  to_strip_ = tokenizer_->parts_->detokenizer->strip_start();
  pending_.clear();
  ids_.clear();
  given_.clear();
  return out;
}

}  // namespace anemone
