#include "text/jinja/loop.h"

#include "base/error.h"
#include "text/jinja/objects.h"

namespace anemone::jinja {

bool LoopContext::pull(Value& out) {
  if (!rest_) return source_ && source_(out);
  if (rest_at_ >= rest_->size()) return false;
  out = (*rest_)[rest_at_++];
  return true;
}

bool LoopContext::advance(Value& item) {
  if (after_) {
    item = *std::exchange(after_, std::nullopt);
  } else if (!pull(item)) {
    return false;
  }
  ++index0_;
  before_ = std::exchange(current_, item);
  return true;
}

void LoopContext::finish() {
  source_ = nullptr;
  recurse_ = nullptr;
}

bool LoopContext::peek() {
  if (after_) return true;
  Value v;
  if (!pull(v)) return false;
  after_ = std::move(v);
  return true;
}

size_t LoopContext::length(Runtime& rt) {
  if (!length_) {
    std::vector<Value> rest;
    for (Value v; pull(v);) rt.push(rest, v);
    length_ = rest.size() + static_cast<size_t>(index0_ + 1) + (after_ ? 1 : 0);
    rest_ = std::move(rest);
    rest_at_ = 0;
  }
  return *length_;
}

std::string LoopContext::repr(Runtime&) const {
  return length_ ? fmt::format("<LoopContext {}/{}>", index0_ + 1, *length_) : "<LoopContext>";
}

Value LoopContext::changed(Runtime& rt, const Args& args) {
  Value now = rt.tuple(args.positional);
  const bool is_new = !last_changed_ || !rt.equal(*last_changed_, now);
  if (is_new) last_changed_ = std::move(now);
  return Value(is_new);
}

std::optional<Value> LoopContext::attribute(Runtime& rt, std::string_view name) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!peek());
  if (name == "length") return Value(static_cast<int64_t>(length(rt)));
  if (name == "revindex") return Value(static_cast<int64_t>(length(rt)) - index0_);
  if (name == "revindex0") return Value(static_cast<int64_t>(length(rt)) - index0_ - 1);
  if (name == "depth") return Value(depth_ + 1);
  if (name == "depth0") return Value(depth_);
  if (name == "previtem") return index0_ > 0 ? *before_ : Value::undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *after_ : Value::undefined("there is no next item");
  if (name == "cycle") {
    return Value(rt.make<Function>("cycle", [this](Runtime&, const Args& args) {
      if (args.positional.empty()) throw errorf("loop.cycle: no items given");
      return args.positional[static_cast<size_t>(index0_) % args.positional.size()];
    }));
  }
  if (name == "changed") {
    return Value(
        rt.make<Function>("changed", [this](Runtime& r, const Args& args) { return changed(r, args); }));
  }
  return std::nullopt;
}

Value LoopContext::call(Runtime&, const Args& args) {
  if (!recurse_) throw errorf("a loop can only be called again if it is marked 'recursive'");
  if (args.positional.size() != 1 || !args.named.empty())
    throw errorf("loop(…) takes the items to go through");
  return recurse_(args.positional[0]);
}

}  // namespace anemone::jinja
