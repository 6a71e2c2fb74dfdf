// LoopContext: the variable `loop` inside a for.
//     while (loop->advance(item)) …
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/interpreter.h"

namespace anemone::jinja {

class LoopContext : public Object {
 public:
  using Source = std::function<bool(Value&)>;
  // `length` where it is known before the end; `recurse` runs the loop again over other items.
  LoopContext(Source source, std::optional<size_t> length, int depth,
              std::function<Value(const Value&)> recurse)
      : source_(std::move(source)), length_(length), depth_(depth), recurse_(std::move(recurse)) {}

  bool advance(Value& item);
  void finish();  // the loop has ended: it releases what it held

  std::string_view type_name() const override { return "LoopContext"; }
  std::string repr(Runtime& rt) const override;
  std::optional<Value> attribute(Runtime& rt, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Runtime& rt, const Args& args) override;

 private:
  size_t length(Runtime& rt);
  bool peek();
  bool pull(Value& out);
  Value changed(Runtime& rt, const Args& args);

  Source source_;
  std::optional<size_t> length_;
  int depth_;
  std::function<Value(const Value&)> recurse_;
  int64_t index0_ = -1;
  std::optional<Value> after_, current_, before_;
  std::optional<std::vector<Value>> rest_;  // read ahead to learn the length
  size_t rest_at_ = 0;
  std::optional<Value> last_changed_;
};

}  // namespace anemone::jinja
