// Plain text and Markdown: all of it may be replaced. The document is one unit, or each of its lines is.
#include "redact/walker.h"

namespace anemone::redact {
namespace {

class TextWalker : public Walker {
 public:
  explicit TextWalker(bool lines) : lines_(lines) {}

  void feed(std::span<const SourceChar> chars, UnitSink& sink) override {
    for (const SourceChar& c : chars) {
      sink.unit().put(Part::open, c);
      if (lines_ && c.code == '\n') sink.end_unit();
    }
  }
  void finish(UnitSink& sink) override { sink.end_unit(); }

 private:
  bool lines_;
};

}  // namespace

std::unique_ptr<Walker> make_text_walker(const WalkerSettings& settings) {
  return std::make_unique<TextWalker>(settings.lines);
}

}  // namespace anemone::redact
