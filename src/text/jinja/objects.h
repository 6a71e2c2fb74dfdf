// The objects a template can hold besides plain values.
//     Value r(rt.make<Range>(0, 3, 1, …));
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/builtins.h"

namespace anemone::jinja {

// text.upper without a call: the method with its value.
class BoundMethod : public Object {
 public:
  BoundMethod(Value self, std::string name, Method method)
      : self_(std::move(self)), name_(std::move(name)), method_(method) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool is_callable() const override { return true; }
  Value call(Runtime& rt, const Args& args) override { return method_(rt, self_, args); }

 private:
  Value self_;
  std::string name_;
  Method method_;
};

class Function : public Object {
 public:
  using Body = std::function<Value(Runtime&, const Args&)>;
  Function(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  std::string_view type_name() const override { return "function"; }
  std::string repr(Runtime&) const override { return "<function " + name_ + ">"; }
  bool is_callable() const override { return true; }
  Value call(Runtime& rt, const Args& args) override { return body_(rt, args); }

 private:
  std::string name_;
  Body body_;
};

class Generator : public Object {
 public:
  explicit Generator(std::function<bool(Value&)> next) : next_(std::move(next)) {}
  std::string_view type_name() const override { return "generator"; }
  bool is_iterator() const override { return true; }
  bool next(Runtime&, Value& out) override {
    if (next_ && next_(out)) return true;
    next_ = nullptr;
    return false;
  }

 private:
  std::function<bool(Value&)> next_;
};

// dict.items(), dict.keys(), dict.values().
class DictView : public Object {
 public:
  DictView(std::string_view type, std::vector<Value> items) : type_(type), items_(std::move(items)) {}
  std::string_view type_name() const override { return type_; }
  std::string repr(Runtime& rt) const override;
  const std::vector<Value>* elements() const override { return &items_; }
  bool is_hashable() const override { return type_ == "dict_values"; }

 private:
  std::string_view type_;
  std::vector<Value> items_;
};

class Range : public Object {
 public:
  Range(int64_t start, int64_t stop, int64_t step, std::vector<Value> items)
      : start_(start), stop_(stop), step_(step), items_(std::move(items)) {}
  std::string_view type_name() const override { return "range"; }
  std::string repr(Runtime&) const override;
  const std::vector<Value>* elements() const override { return &items_; }
  bool is_subscriptable() const override { return true; }
  // range[from:to:by], which holds these items.
  Range* part(Runtime& rt, int64_t from, int64_t to, int64_t by, std::vector<Value> items) const;

 private:
  int64_t start_, stop_, step_;
  std::vector<Value> items_;
};

class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::string repr(Runtime& rt) const override;
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  // Names must not begin with "_", as in transformers.
  void set(Runtime& rt, const Value& name, Value value);

 private:
  Dict attributes_;
};

class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Runtime& rt, std::string_view name) override;

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Value call(Runtime& rt, const Args& args) override;

 private:
  Value separator_;
  bool used_ = false;
};

}  // namespace anemone::jinja
