// Filters on sequences and dicts.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

Value ignore_case(Runtime& rt, const Value& v) { return v.is_string() ? rt.str(lower(v.text())) : v; }

// What sort, unique, min, max and groupby compare: an attribute of each item, in lower case by default.
struct KeyGetter {
  std::vector<Value> path;
  bool case_sensitive = false;
  Value fallback{};  // for what is undefined on the way; none: stays undefined

  Value operator()(Runtime& rt, Value v) const {
    for (const Value& part : path) {
      v = rt.item(v, part);
      if (!fallback.is_none() && v.is_undefined()) v = fallback;
    }
    return case_sensitive ? v : ignore_case(rt, v);
  }
};

// Stable order of `keys`, ascending or descending.
std::vector<size_t> sorted_order(Runtime& rt, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? rt.less(keys[b], keys[a]) : rt.less(keys[a], keys[b]);
  });
  return order;
}

std::vector<Value> in_order(const std::vector<Value>& items, const std::vector<size_t>& order) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

Value filter_length(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "length", {});
  return Value(static_cast<int64_t>(rt.need_length(v)));
}

Value filter_list(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "list", {});
  return rt.list(rt.to_vector(v));
}

Value filter_first(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "first", {});
  Value out;
  return Iter(rt, v).next(out) ? out : Value::undefined("No first item, sequence was empty.");
}

Value filter_last(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "last", {});
  if (!rt.is_iterable(v) || !rt.length(v)) throw errorf("'{}' object is not reversible", v.type_name());
  const size_t n = rt.need_length(v);
  if (n == 0) return Value::undefined("No last item, sequence was empty.");
  if (v.is_string()) return rt.item(v, Value(-1));
  return rt.to_vector(v).back();
}

Value filter_reverse(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "reverse", {});
  if (v.is_string()) return rt.slice(v, Value(), Value(), Value(-1));
  std::vector<Value> items = rt.to_vector(v);
  std::reverse(items.begin(), items.end());
  if (!rt.length(v)) return rt.list(std::move(items));
  return rt.generator([items = std::move(items), i = size_t{0}](Value& out) mutable {
    if (i >= items.size()) return false;
    out = items[i++];
    return true;
  });
}

Value filter_join(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "join", {"d", "attribute"});
  const std::string separator = p.has(0) ? rt.text(p[0]) : "";
  const std::vector<Value> path = p.given(1) ? attribute_path(p[1]) : std::vector<Value>();
  std::string out;
  bool first = true;
  Iter it(rt, v);
  for (Value item; it.next(item); first = false) {
    if (!first) out += separator;
    out += rt.text(follow_path(rt, item, path));
    rt.check_size(out.size());
    rt.step(separator.size() / 64);
  }
  return rt.str(std::move(out));
}

// A lazy map or selection over v. As in Python, nothing happens or fails before the first item is asked for.
template <class F>
Value lazily(Runtime& rt, const Value& v, F step) {
  return rt.generator([&rt, v, step = std::move(step), it = std::optional<Iter>()](Value& out) mutable {
    if (!it) {
      if (!rt.truth(v)) return false;
      it.emplace(rt, v);
    }
    for (Value item; it->next(item);) {
      if (step(item, out)) return true;
    }
    return false;
  });
}

Value filter_map(Runtime& rt, const Value& v, const Args& args) {
  if (args.positional.empty()) {
    const Params p(args, "map", {"attribute", "default"}, 1);
    const KeyGetter get{attribute_path(p[0]), true, p.get(1)};
    return lazily(rt, v, [&rt, get](const Value& item, Value& out) {
      out = get(rt, item);
      return true;
    });
  }
  const std::string name = Params({{args.positional[0]}, {}}, "map", {"name"}).string(0);
  Args rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
  return lazily(rt, v, [&rt, name, rest](const Value& item, Value& out) {
    const Filter filter = find_filter(name);
    if (!filter) throw errorf("there is no filter named '{}'", name);
    const Runtime::Deeper deeper(rt);
    out = filter(rt, item, rest);
    return true;
  });
}

Value select(Runtime& rt, const Value& v, const Args& args, bool wanted, bool by_attribute) {
  return lazily(rt, v, [&rt, args, wanted, by_attribute](const Value& item, Value& out) {
    const size_t offset = by_attribute ? 1 : 0;
    if (by_attribute && args.positional.empty())
      throw errorf("selectattr and rejectattr need the attribute's name");
    const Value tested = by_attribute ? follow_path(rt, item, attribute_path(args.positional[0])) : item;
    bool holds = false;
    if (args.positional.size() > offset) {
      const Value& name = args.positional[offset];
      const Test* test = name.is_string() ? find_test(name.text()) : nullptr;
      if (!test) throw errorf("there is no test named {}", rt.repr(name));
      const Args rest{
          {args.positional.begin() + static_cast<std::ptrdiff_t>(offset) + 1, args.positional.end()},
          args.named};
      holds = (*test)(rt, tested, rest);
    } else {
      holds = rt.truth(tested);
    }
    out = item;
    return holds == wanted;
  });
}

Value filter_select(Runtime& rt, const Value& v, const Args& args) {
  return select(rt, v, args, true, false);
}
Value filter_reject(Runtime& rt, const Value& v, const Args& args) {
  return select(rt, v, args, false, false);
}
Value filter_selectattr(Runtime& rt, const Value& v, const Args& args) {
  return select(rt, v, args, true, true);
}
Value filter_rejectattr(Runtime& rt, const Value& v, const Args& args) {
  return select(rt, v, args, false, true);
}

Value filter_sort(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "sort", {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = p.flag(rt, 1);
  std::vector<std::vector<Value>> paths;
  if (p.given(2) && p[2].is_string()) {
    const std::string& s = p[2].text();
    for (size_t begin = 0; begin <= s.size();) {
      const size_t end = std::min(s.find(',', begin), s.size());
      paths.push_back(attribute_path(Value(s.substr(begin, end - begin))));
      begin = end + 1;
    }
  } else {
    paths.push_back(attribute_path(p.get(2)));
  }
  const std::vector<Value> items = rt.to_vector(v);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const auto& path : paths) key.push_back(KeyGetter{path, case_sensitive}(rt, item));
    keys.push_back(rt.list(std::move(key)));
  }
  return rt.list(in_order(items, sorted_order(rt, keys, p.flag(rt, 0))));
}

Value filter_dictsort(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = p.has(1) ? p.string(1) : "key";
  if (by != "key" && by != "value") throw errorf("dictsort: can only sort by key or value, not '{}'", by);
  refuse_undefined(v);
  if (!v.is_dict()) throw errorf("dictsort needs a dict, not {}", v.type_name());
  std::vector<Value> pairs, keys;
  for (const auto& [key, value] : v.dict().entries) {
    pairs.push_back(rt.tuple({key, value}));
    const Value& sorted_by = by == "key" ? key : value;
    keys.push_back(p.flag(rt, 0) ? sorted_by : ignore_case(rt, sorted_by));
  }
  return rt.list(in_order(pairs, sorted_order(rt, keys, p.flag(rt, 2))));
}

struct KeyHash {
  size_t operator()(const Value& v) const { return hash(v); }
};
struct KeyEqual {
  bool operator()(const Value& a, const Value& b) const { return same_key(a, b); }
};

Value filter_unique(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "unique", {"case_sensitive", "attribute"});
  const KeyGetter get{attribute_path(p.get(1)), p.flag(rt, 0)};
  auto seen = std::make_shared<std::unordered_set<Value, KeyHash, KeyEqual>>();
  return rt.generator([&rt, v, get, seen, it = std::optional<Iter>()](Value& out) mutable {
    if (!it) it.emplace(rt, v);
    for (Value item; it->next(item);) {
      const Value key = get(rt, item);
      if (!hashable(key)) throw errorf("unique: a {} cannot be hashed", key.type_name());
      rt.charge(64);
      if (!seen->insert(key).second) continue;
      out = item;
      return true;
    }
    return false;
  });
}

Value extreme(Runtime& rt, const Value& v, const Args& args, bool want_max) {
  const Params p(args, want_max ? "max" : "min", {"case_sensitive", "attribute"});
  const KeyGetter get{attribute_path(p.get(1)), p.flag(rt, 0)};
  Iter it(rt, v);
  Value best;
  if (!it.next(best)) return Value::undefined("No aggregated item, sequence was empty.");
  Value best_key = get(rt, best);
  for (Value item; it.next(item);) {
    Value key = get(rt, item);
    if (want_max ? rt.less(best_key, key, ">") : rt.less(key, best_key)) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

Value filter_min(Runtime& rt, const Value& v, const Args& args) { return extreme(rt, v, args, false); }
Value filter_max(Runtime& rt, const Value& v, const Args& args) { return extreme(rt, v, args, true); }

Value filter_sum(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "sum", {"attribute", "start"});
  const std::vector<Value> path = attribute_path(p.get(0));
  Value total = p.has(1) ? p[1] : Value(0);
  if (total.is_string()) throw errorf("sum: cannot sum strings").hint("use join");
  Iter it(rt, v);
  for (Value item; it.next(item);) total = rt.binary(Op::add, total, follow_path(rt, item, path));
  return total;
}

Value filter_items(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "items", {});
  return rt.generator([&rt, v, i = size_t{0}](Value& out) mutable {
    if (v.is_undefined()) return false;
    if (!v.is_dict()) throw errorf("can only get item pairs from a mapping, not from a {}", v.type_name());
    if (i >= v.dict().entries.size()) return false;
    const auto& [key, value] = v.dict().entries[i++];
    out = rt.tuple({key, value});
    return true;
  });
}

// A generator whose items are all computed when the first is asked for.
Value deferred(Runtime& rt, std::function<std::vector<Value>()> compute) {
  return rt.generator([&rt, compute = std::move(compute), it = std::optional<Iter>()](Value& out) mutable {
    if (!it) it.emplace(rt, rt.list(compute()));
    return it->next(out);
  });
}

std::vector<Value> batches(Runtime& rt, const Value& v, int64_t size, const Value& fill) {
  std::vector<Value> rows, row;
  Iter it(rt, v);
  for (Value item; it.next(item);) {
    if (static_cast<int64_t>(row.size()) == size) rt.push(rows, rt.list(std::exchange(row, {})));
    rt.push(row, std::move(item));
  }
  if (!row.empty()) {
    while (!fill.is_none() && static_cast<int64_t>(row.size()) < size) rt.push(row, fill);
    rt.push(rows, rt.list(std::move(row)));
  }
  return rows;
}

Value filter_batch(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "batch", {"linecount", "fill_with"}, 1);
  return deferred(rt,
                  [&rt, v, size = p.integer(0, 1), fill = p.get(1)] { return batches(rt, v, size, fill); });
}

std::vector<Value> slices_of(Runtime& rt, const Value& v, int64_t slices, const Value& fill) {
  const std::vector<Value> items = rt.to_vector(v);
  if (slices == 0) throw errorf("slice: division by zero");
  std::vector<Value> rows;
  const auto n = static_cast<int64_t>(items.size());
  int64_t at = 0;
  for (int64_t k = 0; k < slices; ++k) {
    const int64_t size = n / slices + (k < n % slices ? 1 : 0);
    std::vector<Value> row(items.begin() + at, items.begin() + at + size);
    at += size;
    if (!fill.is_none() && k >= n % slices) row.push_back(fill);
    rt.push(rows, rt.list(std::move(row)));
  }
  return rows;
}

Value filter_slice(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "slice", {"slices", "fill_with"}, 1);
  return deferred(rt, [&rt, v, n = p.integer(0, 1), fill = p.get(1)] { return slices_of(rt, v, n, fill); });
}

Value filter_groupby(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  const KeyGetter get{attribute_path(p[0]), p.flag(rt, 2), p.get(1)};
  const KeyGetter original{get.path, true, get.fallback};
  const std::vector<Value> items = rt.to_vector(v);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(get(rt, item));
  std::vector<Value> groups;
  const std::vector<size_t> order = sorted_order(rt, keys, false);
  for (size_t begin = 0; begin < order.size();) {
    std::vector<Value> members;
    size_t end = begin;
    while (end < order.size() && rt.equal(keys[order[begin]], keys[order[end]]))
      rt.push(members, items[order[end++]]);
    if (end == begin) rt.push(members, items[order[end++]]);  // NaN equals nothing, not even itself
    const Value grouper = original(rt, items[order[begin]]);
    groups.push_back(rt.sequence({grouper, rt.list(std::move(members))}, Sequence::Kind::group));
    begin = end;
  }
  return rt.list(std::move(groups));
}

constexpr Named<Filter> kFilters[] = {
    {"length", filter_length},
    {"count", filter_length},
    {"list", filter_list},
    {"first", filter_first},
    {"last", filter_last},
    {"reverse", filter_reverse},
    {"join", filter_join},
    {"map", filter_map},
    {"select", filter_select},
    {"reject", filter_reject},
    {"selectattr", filter_selectattr},
    {"rejectattr", filter_rejectattr},
    {"sort", filter_sort},
    {"dictsort", filter_dictsort},
    {"unique", filter_unique},
    {"min", filter_min},
    {"max", filter_max},
    {"sum", filter_sum},
    {"items", filter_items},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"groupby", filter_groupby},
};

}  // namespace

std::span<const Named<Filter>> sequence_filters() { return kFilters; }

}  // namespace anemone::jinja
