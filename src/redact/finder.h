// Finder: the spans of one unit, found while its text still comes in.
//     Finder finder(&pool, &transitions, patterns, kinds);
//     finder.feed(unit);                                      // sends what can be computed
//     finder.take(unit, true, spans);                         // waits for the next result
//     … until finder.done()
// The text is cut into blocks where no tokenizer would put a token across: after a line break, or before a space and a
// word. Tokens of all blocks go through windows (windows.h) and one Viterbi.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "redact/patterns.h"
#include "redact/spans.h"
#include "redact/viterbi.h"
#include "redact/window_pool.h"
#include "redact/windows.h"

namespace anemone::redact {

// The most bytes from the start of `text` that are tokenized alike with or without what follows; 0: none that is known.
size_t safe_cut(std::string_view text);

class Finder {
 public:
  // Without a pool only patterns are looked for. `kinds`: those that are wanted.
  Finder(WindowPool* pool, const Transitions* transitions, const Patterns& patterns,
         const std::vector<bool>& kinds);
  ~Finder();

  // Reads what was added to the unit.
  void feed(const Unit& unit);
  // Takes a window that is computed; waits for it if `wait`. Spans that are final are appended, in order and apart.
  // False: there was none to take.
  bool take(const Unit& unit, bool wait, std::vector<Span>& spans);
  // No span that is still to come begins before this place of the view.
  uint64_t settled() const { return settled_; }
  // All of an ended unit was taken.
  bool done() const { return done_; }

 private:
  void read_block(std::string_view text, uint64_t begin);
  void send_windows();
  void collect(const WindowJob& job);
  uint64_t releasable(const Unit& unit) const;
  void release(const Unit& unit, std::vector<Span>& spans);

  WindowPool* pool_;
  const Patterns& patterns_;
  const std::vector<bool>& kinds_;
  WindowCut cut_;
  std::unique_ptr<Viterbi> viterbi_;
  std::unique_ptr<SpanBuilder> builder_;
  std::deque<std::shared_ptr<WindowJob>> jobs_;
  std::deque<int32_t> ids_;     // from token first_id_ on
  std::deque<uint32_t> bytes_;  // of tokens whose window was not taken
  int64_t first_id_ = 0;
  uint64_t read_ = 0, settled_ = 0;    // of the view
  std::vector<Span> matched_, found_;  // by patterns and by the model, not given out yet
  bool ended_ = false, done_ = false;
};

}  // namespace anemone::redact
