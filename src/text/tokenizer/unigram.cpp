#include "text/tokenizer/unigram.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {

Unigram::Unigram(const TokenModelSpec& model, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      scores_(model.scores),
      unk_score_(model.unk_score),
      unk_id_(model.unk_id),
      byte_fallback_(model.byte_fallback),
      single_precision_(model.single_precision) {
  if (scores_.size() < static_cast<size_t>(vocabulary.size())) {
    throw errorf("the vocabulary has {} tokens but only {} scores", vocabulary.size(), scores_.size());
  }
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const bool hidden = static_cast<size_t>(id) < model.hidden.size() && model.hidden[id];
    if (vocabulary.has(id) && !hidden) tokens.emplace_back(vocabulary.text(id), id);
  }
  trie_ = TokenTrie(std::move(tokens));
  for (int b = 0; b < 256; ++b) fallback_ids_[b] = vocabulary.find(fmt::format("<0x{:02X}>", b));
}

void Unigram::encode(std::string_view word, std::vector<int32_t>& ids) const {
  struct Best {  // of the cuts that end here
    double score = 0;
    int32_t start = -1;
    int32_t id = kNoToken;
  };
  if (word.size() >= 0x7fffffffu)
    throw errorf("a text of {} bytes is too long for this tokenizer", word.size());
  std::vector<Best> best(word.size() + 1);
  const auto offer = [&](size_t at, double score, size_t start, int32_t id) {
    Best& b = best[at];
    if (single_precision_) score = static_cast<float>(score);
    if (b.start < 0 || score > b.score) b = {score, static_cast<int32_t>(start), id};
  };
  for (size_t at = 0; at < word.size();) {
    const double till_here = best[at].score;
    const size_t length = std::min<size_t>(static_cast<size_t>(utf8_length(word[at])), word.size() - at);
    bool single = false;
    trie_.for_each_prefix(word.substr(at), [&](size_t bytes, int32_t id) {
      offer(at + bytes, till_here + scores_[id], at, id);
      single = single || bytes == length;
    });
    if (!single) {
      if (unk_id_ == kNoToken) throw errorf("an unknown character, and the tokenizer has no unknown token");
      offer(at + length, till_here + unk_score_, at, unk_id_);
    }
    at += length;
  }
  // Back from the end; unknown characters in a row are one.
  std::vector<std::pair<size_t, size_t>> cuts;
  for (size_t end = word.size(); end > 0;) {
    auto start = static_cast<size_t>(best[end].start);
    const bool unknown = best[end].id == unk_id_;
    while (unknown && start > 0 && best[start].id == unk_id_) start = static_cast<size_t>(best[start].start);
    cuts.emplace_back(start, end);
    end = start;
  }
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    const Best& b = best[cut->second];
    if (b.id != unk_id_)
      ids.push_back(b.id);
    else
      emit_unknown(word.substr(cut->first, cut->second - cut->first), ids);
  }
}

void Unigram::emit_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  const bool bytes = byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char b) {
                       return fallback_ids_[static_cast<unsigned char>(b)] != kNoToken;
                     });
  if (const int32_t id = vocabulary_.find(text); id != kNoToken) return ids.push_back(id);
  if (!bytes) return ids.push_back(unk_id_);
  for (char b : text) ids.push_back(fallback_ids_[static_cast<unsigned char>(b)]);
}

}  // namespace anemone
