#include "redact/finder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone::redact {
namespace {

constexpr size_t kBlock = 1 << 14;      // bytes that are waited for before a text is cut
constexpr size_t kMostBlock = 1 << 16;  // bytes after which it is cut anywhere, between two characters

bool is_space(char c) { return kAsciiClasses[static_cast<unsigned char>(c) & 0x7f] & kSpace && !(c & 0x80); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_plain(char c) { return !(c & 0x80) && !is_space(c); }
bool starts_without_space(std::string_view text) {
  const char* p = text.data();
  return !(class_of(decode_utf8(p, p + text.size())) & kSpace);
}

}  // namespace

size_t safe_cut(std::string_view text) {
  for (size_t at = text.size(); at-- > 1;)
    if (text[at - 1] == '\n' && starts_without_space(text.substr(at))) return at;
  for (size_t at = text.size(); at-- > 2;)
    if (text[at - 1] == ' ' && is_letter(text[at]) && is_plain(text[at - 2])) return at - 1;
  return 0;
}

Finder::Finder(WindowPool* pool, const Transitions* transitions, const Patterns& patterns,
               const std::vector<bool>& kinds)
    : pool_(pool),
      patterns_(patterns),
      kinds_(kinds),
      cut_(pool ? pool->model().longest() : 0, pool ? pool->model().sight() : 0) {
  if (!pool_) return;
  viterbi_ = std::make_unique<Viterbi>(*transitions);
  builder_ = std::make_unique<SpanBuilder>(pool_->model().scheme());
}

Finder::~Finder() {
  if (pool_) pool_->forget(jobs_.size());
}

void Finder::feed(const Unit& unit) {
  while (read_ < unit.view_end()) {
    const std::string_view text = unit.view(read_, unit.view_end());
    size_t size = text.size() <= kMostBlock && unit.ended() ? text.size() : 0;
    if (size == 0 && text.size() >= kBlock) size = safe_cut(text.substr(0, kMostBlock));
    if (size == 0) {
      if (text.size() < kMostBlock) break;
      size = kMostBlock;
      while (size > 1 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
    }
    read_block(text.substr(0, size), read_);
    read_ += size;
  }
  if (unit.ended() && !ended_) {
    ended_ = true;
    send_windows();
  }
}

void Finder::read_block(std::string_view text, uint64_t begin) {
  patterns_.find(text, begin, matched_);
  if (!pool_) return;
  std::vector<int32_t> ids;
  std::vector<uint32_t> bytes;
  pool_->model().tokens(text, ids, bytes);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  send_windows();
}

void Finder::send_windows() {
  if (!pool_) return;
  const auto tokens = [&] { return first_id_ + static_cast<int64_t>(ids_.size()); };
  while (const auto w = cut_.next(tokens(), ended_)) {
    const auto from = ids_.begin() + static_cast<ptrdiff_t>(w->first - first_id_);
    jobs_.push_back(pool_->send({from, from + static_cast<ptrdiff_t>(w->count)},
                                static_cast<size_t>(w->keep - w->first), static_cast<size_t>(w->kept)));
    const int64_t keep_from = std::min(cut_.needed_from(), tokens());
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(keep_from - first_id_));
    first_id_ = keep_from;
  }
}

bool Finder::take(const Unit& unit, bool wait, std::vector<Span>& spans) {
  if (done_) return false;
  if (jobs_.empty()) {
    if (pool_ && !ended_) return false;
    const uint64_t before = settled_;
    done_ = ended_;
    release(unit, spans);
    return done_ || settled_ > before;
  }
  const std::shared_ptr<WindowJob> job = jobs_.front();
  if (!job->done) {
    if (!wait) return false;
    pool_->wait(*job);
  }
  jobs_.pop_front();
  pool_->forget(1);
  if (job->problem) std::rethrow_exception(job->problem);
  collect(*job);
  done_ = ended_ && jobs_.empty();
  release(unit, spans);
  return true;
}

void Finder::collect(const WindowJob& job) {
  const LabelScheme& scheme = pool_->model().scheme();
  std::vector<float> kinds(scheme.kinds().size());
  for (size_t t = 0; t < job.count; ++t) {
    std::fill(kinds.begin(), kinds.end(), 0.0f);
    for (size_t label = 0; label < scheme.size(); ++label)
      if (scheme.kind(label) >= 0)
        kinds[static_cast<size_t>(scheme.kind(label))] += std::exp(job.scores[t * scheme.size() + label]);
    builder_->add_token(bytes_.front(), kinds);
    bytes_.pop_front();
  }
  viterbi_->add(job.scores);
  const bool last = ended_ && jobs_.empty();
  for (const int label : last ? viterbi_->finish() : viterbi_->decided()) builder_->label(label, found_);
  if (last) builder_->finish(found_);
}

// How far no word and no span is cut, and nothing new can begin.
uint64_t Finder::releasable(const Unit& unit) const {
  if (done_) return unit.view_end();
  uint64_t upto = word_start(unit, pool_ ? builder_->settled() : read_);
  for (bool moved = true; moved;) {
    moved = false;
    for (const std::vector<Span>* spans : {&found_, &matched_})
      for (const Span& s : *spans)
        if (s.begin < upto && s.end > upto) {
          upto = word_start(unit, s.begin);
          moved = true;
        }
  }
  return std::max(upto, settled_);
}

void Finder::release(const Unit& unit, std::vector<Span>& spans) {
  const uint64_t upto = releasable(unit);
  const auto before = [&](const Span& s) { return s.end <= upto; };
  const auto taken = [&](std::vector<Span>& from) {
    const auto end = std::find_if_not(from.begin(), from.end(), before);
    std::vector<Span> out(from.begin(), end);
    from.erase(from.begin(), end);
    return out;
  };
  std::vector<Span> model = tidy(unit, taken(found_), settled_);
  std::erase_if(model, [&](const Span& s) { return !kinds_[static_cast<size_t>(s.kind)]; });
  for (const Span& s : overlaid(taken(matched_), model))
    if (!patterns_.keeps(unit.view(s.begin, s.end))) spans.push_back(s);
  settled_ = upto;
}

}  // namespace anemone::redact
