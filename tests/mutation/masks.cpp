// What tokens see: masks in the program and in bundle.json.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

// Adds numbers to the mask, the same for every row, or for one.
Make more_on_mask(const std::function<float(int64_t row, int64_t column)>& more) {
  return [=](Builder& b, Value* old) -> Value* {
    const Shape& shape = old->type.shape;
    if (shape.size() != 4 || !shape[3].known()) return nullptr;
    const int64_t rows = shape[2].known() ? shape[2].size() : 1, columns = shape[3].size();
    std::vector<float> values;
    bool any = false;
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t j = 0; j < columns; ++j) {
        values.push_back(more(t, j));
        any = any || values.back() != 0;
      }
    if (!any) return nullptr;
    Value* added = b.constant(Constant::numbers(values, old->type.dtype, {1, 1, rows, columns}), "mask_more");
    return b.op("add", {{"x", old}, {"y", added}}, "mask_wrong");
  };
}

Make mask_times(float factor) {
  return [=](Builder& b, Value* old) {
    return b.op("mul", {{"x", old}, {"y", Constant::number(factor, old->type.dtype)}}, "mask_weak");
  };
}

// Every row sees one position more: the columns move left by one.
Value* shifted_left(Builder& b, Value* old) {
  const Shape& shape = old->type.shape;
  if (shape.size() != 4 || !shape[3].known() || !shape[2].known() || shape[3].size() < 2) return nullptr;
  const int64_t rows = shape[2].size(), columns = shape[3].size();
  const auto part = [&](int64_t begin, int64_t count, const char* name) {
    return b.op("slice_by_size",
                {{"x", old},
                 {"begin", Constant::ints({0, 0, 0, begin})},
                 {"size", Constant::ints({1, 1, rows, count})}},
                name);
  };
  Value* most = part(1, columns - 1, "mask_tail");
  Value* last = part(columns - 1, 1, "mask_last");
  return b.op("concat",
              {{"values", std::vector<Value*>{most, last}},
               {"axis", Constant::integer(3)},
               {"interleave", Constant::boolean(false)}},
              "mask_shifted");
}

// The operations that take a mask as it comes in, one for each layer.
struct MaskUse {
  std::string package, function, input, op;
  int64_t layer;
};
std::vector<MaskUse> mask_uses(const Subject& subject) {
  std::vector<MaskUse> out;
  for (const Stage& stage : subject.info.stages)
    for (const StageFunction& f : stage.functions)
      for (const Port& port : f.interface.inputs) {
        if (port.role.kind != Role::Kind::mask) continue;
        const Function* function = subject.packages.at(stage.package)->program.find_function(f.name);
        if (!function || &f != &stage.functions.front()) continue;
        for (const auto& op : function->body.ops)
          for (const Input& in : op->inputs)
            for (const Binding& b : in.bindings)
              if (b.value && b.value->name == port.name)
                out.push_back({stage.package, f.name, port.name, op->name(), layer_of(op->name())});
      }
  return out;
}

Change on_mask(const std::string& input, const Make& make, const std::string& only_user) {
  return [=](Function& f) {
    const Operation* user = only_user.empty() ? nullptr : find_op(f, only_user);
    if (!only_user.empty() && !user) return false;
    return put_behind(f, find_value(f, input), make, user);
  };
}

struct MaskKind {
  std::string name;
  Make make;
};

std::vector<MaskKind> mask_kinds(int64_t context, Rng& rng) {
  constexpr float kHidden = -10000;
  const int64_t one = rng.below(context);
  std::vector<MaskKind> out = {
      {"last position invisible",
       [=](Builder& b, Value* old) {
         const int64_t last = old->type.shape.back().known() ? old->type.shape.back().size() - 1 : 0;
         return more_on_mask([=](int64_t, int64_t j) { return j == last ? kHidden : 0; })(b, old);
       }},
      {"one position invisible", more_on_mask([=](int64_t, int64_t j) { return j == one ? kHidden : 0; })},
      {"last row sees no first position",
       [=](Builder& b, Value* old) {
         const Shape& s = old->type.shape;
         const int64_t last = s.size() == 4 && s[2].known() ? s[2].size() - 1 : 0;
         return more_on_mask([=](int64_t t, int64_t j) { return t == last && j == 0 ? kHidden : 0; })(b, old);
       }},
      {"mask too weak", mask_times(0.0005f)},
      {"mask left out", mask_times(0)},
      {"one position too many visible", shifted_left},
      {"a bias on far positions",
       more_on_mask([](int64_t, int64_t j) { return -0.02f * static_cast<float>(j); })},
  };
  if (context > 64)
    out.push_back({"positions from 64 on invisible",
                   more_on_mask([=](int64_t, int64_t j) { return j >= 64 ? kHidden : 0; })});
  return out;
}

void info_mask_sites(const Subject& subject, std::vector<Mutation>& out) {
  const auto add = [&](const std::string& kind, size_t index, const std::function<void(Json&)>& change) {
    Mutation m;
    m.group = "masks";
    m.kind = kind;
    m.place = fmt::format("bundle.json masks[{}]", index);
    m.expected = {layers_with(subject, {Role::Kind::mask}, index), 4};
    m.expected.places.insert(m.expected.places.end(), {"mask", "masks", "window", "reach", "sees"});
    m.apply = [=](Workspace& w) { w.edit_info([&](Json& info) { change(info.at("masks").at(index)); }); };
    out.push_back(std::move(m));
  };
  for (size_t i = 0; i < subject.info.masks.size(); ++i) {
    const Reach& mask = subject.info.masks[i];
    const bool causal = mask.causal();
    if (mask.size > 0) {
      for (const int64_t by : {1, -1})
        if (mask.size + by > 0)
          add(by > 0 ? "window one wider" : "window one narrower", i,
              [=](Json& m) { m["size"] = mask.size + by; });
      add("window left out", i, [=](Json& m) { m = {{"reach", causal ? "causal" : "full"}}; });
    } else {
      for (const int64_t size : {4, 32, 64})
        add(fmt::format("window of {} added", size), i,
            [=](Json& m) { m = {{"reach", causal ? "window" : "band"}, {"size", size}}; });
    }
  }
}

}  // namespace

std::vector<GraphSite> mask_graph_sites(const Subject& subject, Rng& rng) {
  std::vector<GraphSite> out;
  const std::vector<int64_t> tiers = subject.info.tiers();
  for (const MaskUse& use : mask_uses(subject)) {
    const std::vector<std::string> words = {fmt::format("layer {}", use.layer), "mask"};
    for (const MaskKind& kind : mask_kinds(rng.pick(tiers), rng))
      out.push_back({kind.name + " in one layer", use.package, use.op, "",
                     on_mask(use.input, kind.make, use.op), words});
  }
  for (const MaskUse& use : mask_uses(subject)) {
    const bool first = std::none_of(out.begin(), out.end(), [&](const GraphSite& s) {
      return s.package == use.package && s.detail == use.input;
    });
    if (!first) continue;
    const std::vector<std::string> words = {fmt::format("layer {}", use.layer), "mask"};
    for (const MaskKind& kind : mask_kinds(rng.pick(tiers), rng))
      out.push_back({kind.name, use.package, use.op, use.input, on_mask(use.input, kind.make, ""), words});
  }
  return out;
}

std::vector<Mutation> mask_sites(const Subject& subject, Rng& rng) {
  std::vector<Mutation> out = mutations_of("masks", subject, mask_graph_sites(subject, rng));
  info_mask_sites(subject, out);
  return out;
}

}  // namespace anemone::mutation
