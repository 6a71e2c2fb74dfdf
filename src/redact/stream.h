// Stream: something that is redacted while it is read. Document and Records are the two.
//     stream.feed(bytes);
//     while (stream.step(redactor.busy())) {}                 // writes what is settled
//     stream.finish();
//     while (stream.step(true)) {}
#pragma once

#include <string_view>

#include "redact/report.h"

namespace anemone::redact {

class Stream {
 public:
  virtual ~Stream() = default;
  // More bytes of it.
  virtual void feed(std::string_view bytes) = 0;
  // None come for now: what was read should not wait for more than it must.
  virtual void pause() {}
  // There are no more.
  virtual void finish() = 0;
  // Takes the next result, and writes what it settles; waits for it if `wait`. False: there was none to take.
  virtual bool step(bool wait) = 0;
  // All is written.
  virtual bool done() const = 0;
  virtual FileFacts facts() const = 0;
};

}  // namespace anemone::redact
