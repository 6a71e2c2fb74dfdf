// Columns behind the last token: what they may hold, and what must not come out of them.
#include "base/error.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

// A part of every column is the mean of all columns.
Value* mixed(Builder& b, Value* old) {
  const Type& type = old->type;
  if (type.rank() != 4 || (type.dim(2).known() && type.dim(2).size() == 1)) return nullptr;
  Value* mean =
      b.op("reduce_mean", {{"x", old}, {"axes", Constant::ints({2})}, {"keep_dims", Constant::boolean(true)}},
           "columns_mean");
  Value* part = b.op("mul", {{"x", mean}, {"y", Constant::number(0.25f, type.dtype)}}, "columns_part");
  return b.op("add", {{"x", old}, {"y", part}}, "columns_mixed");
}

// Every column but the first takes its neighbour's place.
Value* turned(Builder& b, Value* old) {
  const Type& type = old->type;
  if (type.rank() != 4 || !type.fixed() || type.dim(2).size() < 2) return nullptr;
  std::vector<int64_t> dims = type.dims(), most = dims, one = dims;
  const int64_t tokens = dims[2];
  most[2] = tokens - 1;
  one[2] = 1;
  const auto part = [&](int64_t begin, const std::vector<int64_t>& size, const char* name) {
    return b.op("slice_by_size",
                {{"x", old}, {"begin", Constant::ints({0, 0, begin, 0})}, {"size", Constant::ints(size)}},
                name);
  };
  Value* first = part(tokens - 1, one, "columns_last");
  Value* rest = part(0, most, "columns_rest");
  return b.op("concat",
              {{"values", std::vector<Value*>{first, rest}},
               {"axis", Constant::integer(2)},
               {"interleave", Constant::boolean(false)}},
              "columns_turned");
}

Change behind(const std::string& name, const Make& make) {
  return [=](Function& f) { return put_behind(f, find_value(f, name), make); };
}

}  // namespace

std::vector<GraphSite> padding_graph_sites(const Subject& subject, Rng&) {
  std::vector<GraphSite> out;
  const std::vector<std::string> words = {"padding", "padded", "chunks"};
  each_op(subject, [&](const std::string& package, const Function&, const Operation& op) {
    if (op.outputs.size() != 1) return;
    const std::string name = op.name();
    if (op.type == "maximum") {
      out.push_back({"floor of a norm left out", package, name, "",
                     [=](Function& f) {
                       Operation* found = find_op(f, name);
                       return found && drop(*found, "x");
                     },
                     words});
      out.push_back({"floor of a norm is zero", package, name, "",
                     [=](Function& f) {
                       Operation* found = find_op(f, name);
                       Value* floor = found ? found->value("y") : nullptr;
                       if (!floor || !floor->constant() || !floor->producer) return false;
                       floor->producer->attributes.at("val") = Constant::number(0, floor->type.dtype);
                       return true;
                     },
                     words});
    }
    const bool block = name.starts_with("attn_out") || name.starts_with("mlp_out") ||
                       name.starts_with("layer_out") || name.starts_with("v_");
    if (!block || !op.outputs[0]->type.is_float()) return;
    out.push_back({"columns mixed", package, name, "", behind(name, mixed), words});
    out.push_back({"columns turned", package, name, "", behind(name, turned), words});
  });
  return out;
}

std::vector<Mutation> padding_sites(const Subject& subject, Rng& rng) {
  return mutations_of("padding", subject, padding_graph_sites(subject, rng));
}

}  // namespace anemone::mutation
