// range, namespace, dict, cycler, joiner and what transformers adds: raise_exception, strftime_now.
#include <array>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/objects.h"

namespace anemone::jinja {
namespace {

constexpr uint64_t kMaxRange = 100'000;  // Jinja's own limit in a sandbox

Value make_range(Runtime& rt, const Args& args) {
  const Params p(args, "range", {"start", "stop", "step"}, 1);
  const bool only_stop = !p.has(1);
  const int64_t start = only_stop ? 0 : p.integer(0, 0);
  const int64_t stop = only_stop ? p.integer(0, 0) : p.integer(1, 0);
  const int64_t step = p.integer(2, 1);
  if (step == 0) throw errorf("range: the step must not be zero");
  const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(stop);
  const bool empty = step > 0 ? stop <= start : stop >= start;
  const uint64_t span = empty ? 0 : step > 0 ? to - from : from - to;
  const uint64_t width = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t count = empty ? 0 : (span - 1) / width + 1;
  if (count > kMaxRange) {
    throw errorf("the template hit the limit on the length of a range ({})", kMaxRange);
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) rt.push(items, Value(start + i * step));
  return Value(rt.make<Range>(start, stop, step, std::move(items)));
}

// What dict(…) and namespace(…) take: a mapping or pairs, then names.
Dict read_dict(Runtime& rt, const Args& args, const char* function) {
  Dict out;
  if (args.positional.size() > 1) throw errorf("{}() takes at most one positional argument", function);
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is_dict()) {
      for (const auto& [key, value] : from.dict().entries) rt.set(out, key, value);
    } else {
      Iter it(rt, from);
      for (Value item; it.next(item);) {
        const std::vector<Value> pair = rt.to_vector(item);
        if (pair.size() != 2) throw errorf("{}() needs pairs, not {} values", function, pair.size());
        rt.set(out, pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) rt.set(out, rt.str(name), value);
  return out;
}

Value make_dict(Runtime& rt, const Args& args) { return rt.dict(read_dict(rt, args, "dict")); }

Value make_namespace(Runtime& rt, const Args& args) {
  auto* ns = rt.make<Namespace>();
  for (const auto& [key, value] : read_dict(rt, args, "namespace").entries) ns->set(rt, key, value);
  return Value(ns);
}

Value make_cycler(Runtime& rt, const Args& args) {
  if (args.positional.empty() || !args.named.empty()) throw errorf("cycler() needs at least one item");
  return Value(rt.make<Cycler>(args.positional));
}

Value make_joiner(Runtime& rt, const Args& args) {
  const Params p(args, "joiner", {"sep"});
  return Value(rt.make<Joiner>(p.has(0) ? p[0] : rt.str(", ")));
}

Value raise_exception(Runtime& rt, const Args& args) {
  const Params p(args, "raise_exception", {"message"}, 1);
  throw Error(rt.text(p[0]));
}

Value strftime_now(Runtime& rt, const Args& args) {
  const Params p(args, "strftime_now", {"format"}, 1);
  const std::string& format = p.string(0);
  const std::tm now = rt.clock()();
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    std::string directive = "%";
    while (i + 1 < format.size() && directive.size() < 8) {
      directive += format[++i];
      if (std::string_view("-_0^#EO123456789").find(format[i]) == std::string_view::npos) break;
    }
    if (directive == "%f") {
      out += "000000";
    } else if (directive != "%z" && directive != "%Z") {  // a time without a zone
      std::array<char, 256> buffer{};
      out.append(buffer.data(), std::strftime(buffer.data(), buffer.size(), directive.c_str(), &now));
    }
    rt.check_size(out.size());
    rt.step();
  }
  return rt.str(std::move(out));
}

Value lipsum(Runtime&, const Args&) {
  throw errorf("the function 'lipsum' is not supported: a prompt is the same at every rendering");
}

}  // namespace

std::vector<std::pair<std::string_view, Value>> make_globals(Runtime& rt) {
  static constexpr std::pair<std::string_view, Value (*)(Runtime&, const Args&)> kGlobals[] = {
      {"range", make_range},
      {"dict", make_dict},
      {"namespace", make_namespace},
      {"cycler", make_cycler},
      {"joiner", make_joiner},
      {"raise_exception", raise_exception},
      {"lipsum", lipsum},
      {"strftime_now", strftime_now},
  };
  std::vector<std::pair<std::string_view, Value>> out;
  for (const auto& [name, function] : kGlobals) {
    out.emplace_back(name, Value(rt.make<Function>(std::string(name), function)));
  }
  return out;
}

std::string DictView::repr(Runtime& rt) const {
  return fmt::format("{}({})", type_, rt.repr(Value::list(items_)));
}

Range* Range::part(Runtime& rt, int64_t from, int64_t to, int64_t by, std::vector<Value> items) const {
  // Positions past an end may leave 64 bits; only the printed bounds would show it.
  const auto at = [&](int64_t i) {
    return static_cast<int64_t>(static_cast<uint64_t>(start_) +
                                static_cast<uint64_t>(i) * static_cast<uint64_t>(step_));
  };
  const auto step = static_cast<int64_t>(static_cast<uint64_t>(step_) * static_cast<uint64_t>(by));
  return rt.make<Range>(at(from), at(to), step, std::move(items));
}

std::string Range::repr(Runtime&) const {
  return step_ == 1 ? fmt::format("range({}, {})", start_, stop_)
                    : fmt::format("range({}, {}, {})", start_, stop_, step_);
}

std::string Namespace::repr(Runtime& rt) const {
  return fmt::format("<Namespace {}>", rt.repr(Value(std::make_shared<const Dict>(attributes_))));
}

void Namespace::set(Runtime& rt, const Value& name, Value value) {
  if (name.is_string() && name.text().starts_with('_')) {
    throw errorf("a namespace cannot hold '{}': names that begin with an underscore are not allowed",
                 name.text());
  }
  rt.set(attributes_, name, std::move(value));
}

std::optional<Value> Namespace::attribute(Runtime&, std::string_view name) {
  const Value* found = attributes_.find(name);
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<Value> Cycler::attribute(Runtime& rt, std::string_view name) {
  if (name == "current") return items_[at_];
  if (name == "pos") return Value(static_cast<int64_t>(at_));
  if (name == "items") return rt.tuple(items_);
  if (name == "next") {
    return Value(rt.make<Function>("next", [this](Runtime&, const Args&) {
      const size_t i = at_;
      at_ = (at_ + 1) % items_.size();
      return items_[i];
    }));
  }
  if (name == "reset") {
    return Value(rt.make<Function>("reset", [this](Runtime&, const Args&) {
      at_ = 0;
      return Value();
    }));
  }
  return std::nullopt;
}

Value Joiner::call(Runtime& rt, const Args&) {
  if (std::exchange(used_, true)) return separator_;
  return rt.str("");
}

}  // namespace anemone::jinja
