#include "lower/kv_cache.h"

#include <algorithm>

#include "base/error.h"
#include "lower/ops.h"

namespace anemone::lower {

void KvCache::declare(Function& f, const Model& model, const LayersSpec& spec, FunctionInterface& interface) {
  spec_ = spec;
  for (size_t i = spec.first_whole(); i < spec.last; ++i)
    if (const Attention* a = find_attention(model.layers[i])) {
      layers_.push_back(i);
      widths_.push_back(cache_width(*a));
    }
  if (layers_.empty()) return;
  const auto add = [&](Side& side, const std::string& name, const Type& type, Role role) {
    side.inputs.push_back(add_input(f, name, type));
    (type.kind == Type::Kind::state ? interface.states : interface.inputs).push_back({name, std::move(role)});
  };
  if (spec.kv == KvKind::packed) {
    const Attention& a = *find_attention(model.layers[layers_[0]]);
    const Shape all{static_cast<int64_t>(layers_.size()), a.kv_heads, spec.context, widths_[0]};
    const std::vector<int64_t> which(layers_.begin(), layers_.end());
    add(keys_, "k_cache" + spec.state_suffix, Type::state(kHalf, all),
        {.kind = Role::Kind::keys, .layers = which});
    add(values_, "v_cache" + spec.state_suffix, Type::state(kHalf, all),
        {.kind = Role::Kind::values, .layers = which});
    return;
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Attention& a = *find_attention(model.layers[layers_[i]]);
    const Shape one{1, a.kv_heads, spec.context, widths_[i]};
    const Type type = spec.kv == KvKind::state ? Type::state(kHalf, one) : Type::tensor(kHalf, one);
    const auto layer = static_cast<int64_t>(layers_[i]);
    add(keys_, fmt::format("k_cache_{}{}", layer, spec.state_suffix), type,
        {.kind = Role::Kind::keys, .layers = {layer}});
    add(values_, fmt::format("v_cache_{}{}", layer, spec.state_suffix), type,
        {.kind = Role::Kind::values, .layers = {layer}});
  }
}

size_t KvCache::index_of(size_t layer) const {
  return static_cast<size_t>(std::find(layers_.begin(), layers_.end(), layer) - layers_.begin());
}

void KvCache::begin(Builder& b, Value* write, Value* position) {
  if (write) {
    write_ = write;
    Value* sum = b.op("reduce_sum",
                      {{"x", write}, {"axes", Constant::ints({3})}, {"keep_dims", Constant::boolean(true)}},
                      "written");
    keep_ = b.op("sub", {{"x", half(1)}, {"y", sum}}, "kept");
  }
  if (position) {
    // All of them here, once: int32 runs on the CPU, and between the layers it would split the segment on the ANE.
    Value* end = b.op("add", {{"x", position}, {"y", Constant::ints({spec_.tokens.least})}}, "position_end");
    const size_t entries = spec_.kv == KvKind::packed ? layers_.size() : 1;
    for (size_t i = 0; i < entries; ++i) {
      const auto entry = static_cast<int64_t>(i);
      begins_.push_back(bound(b, position, entry, fmt::format("begin_{}", i)));
      ends_.push_back(bound(b, end, entry + 1, fmt::format("end_{}", i)));
    }
  }
  for (Side* side : {&keys_, &values_})
    if (spec_.kv == KvKind::packed && !layers_.empty())
      side->packed = b.op("read_state", {{"input", side->inputs[0]}}, side->inputs[0]->name + "_old");
}

CachePair KvCache::update(Builder& b, size_t layer, Value* key, Value* value) {
  return {update(b, keys_, "k", layer, key), update(b, values_, "v", layer, value)};
}

// old * keep + write * rows: rows land where the one-hot says, everything else stays.
Value* KvCache::blend(Builder& b, Value* old, Value* rows, const std::string& name) {
  Value* placed = b.op("matmul",
                       {{"x", write_},
                        {"y", rows},
                        {"transpose_x", Constant::boolean(false)},
                        {"transpose_y", Constant::boolean(false)}},
                       name + "_placed");
  return add(b, mul(b, old, keep_, name + "_kept"), placed, name + "_full");
}

// [entry, 0, row, 0]
Value* KvCache::bound(Builder& b, Value* row, int64_t entry, const std::string& name) {
  Value* lead = b.constant(Constant::ints({entry, 0}), name + "_lead");
  Value* tail = b.constant(Constant::ints({0}), name + "_tail");
  return b.op("concat",
              {{"values", std::vector<Value*>{lead, row, tail}},
               {"axis", Constant::integer(0)},
               {"interleave", Constant::boolean(false)}},
              name);
}

// Rows position … position + T of entry `index` of the first axis.
Value* KvCache::insert(Builder& b, Value* old, Value* rows, size_t index, const std::string& name) {
  Constant::Bytes begin_mask(4, std::byte{0}), end_mask(4, std::byte{0});
  end_mask[1] = end_mask[3] = std::byte{1};
  const Type mask = Type::tensor(DType::boolean, {4});
  return b.op("slice_update",
              {{"x", old},
               {"update", rows},
               {"begin", begins_[index]},
               {"end", ends_[index]},
               {"stride", Constant::ints({1, 1, 1, 1})},
               {"begin_mask", Constant::from_bytes(mask, begin_mask)},
               {"end_mask", Constant::from_bytes(mask, end_mask)},
               {"squeeze_mask", Constant::from_bytes(mask, begin_mask)}},
              name + "_full");
}

Value* KvCache::update(Builder& b, Side& side, const char* letter, size_t layer, Value* rows) {
  const std::string name = fmt::format("{}_{}", letter, layer);
  const size_t index = index_of(layer);
  const auto entry = static_cast<int64_t>(index);
  if (spec_.kv == KvKind::io) side.rows.push_back(rows);
  rows = pad_last(b, rows, widths_[index], name + "_padded");
  if (spec_.kv == KvKind::packed) {
    if (spec_.write == KvWrite::slice) {
      side.packed = insert(b, side.packed, rows, index, name);
      return slice_axis(b, side.packed, 0, entry, entry + 1, name + "_layer");
    }
    Value* old = slice_axis(b, side.packed, 0, entry, entry + 1, name + "_old");
    side.updated.push_back(blend(b, old, rows, name));
    return side.updated.back();
  }
  Value* store = side.inputs[index];
  Value* old = spec_.kv == KvKind::state ? b.op("read_state", {{"input", store}}, name + "_old") : store;
  Value* full = spec_.write == KvWrite::slice ? insert(b, old, rows, 0, name) : blend(b, old, rows, name);
  if (spec_.kv == KvKind::state) b.op("write_state", {{"input", store}, {"data", full}}, name + "_write");
  return full;
}

void KvCache::end(Builder& b, FunctionInterface& interface) {
  int number = 0;
  for (Side* side : {&keys_, &values_}) {
    const char* letter = number++ == 0 ? "k" : "v";
    if (spec_.kv == KvKind::packed && !layers_.empty()) {
      Value* all = side->packed;
      if (spec_.write == KvWrite::mask && side->updated.size() > 1)
        all = b.op("concat",
                   {{"values", side->updated},
                    {"axis", Constant::integer(0)},
                    {"interleave", Constant::boolean(false)}},
                   fmt::format("{}_all", letter));
      else if (spec_.write == KvWrite::mask)
        all = side->updated[0];
      b.op("write_state", {{"input", side->inputs[0]}, {"data", all}}, fmt::format("{}_write", letter));
    }
    for (size_t i = 0; i < side->rows.size(); ++i) {
      const std::string name = fmt::format("{}_new_{}", letter, layers_[i]);
      b.output(b.op("identity", {{"x", side->rows[i]}}, name));
      interface.outputs.push_back({name,
                                   {.kind = side == &keys_ ? Role::Kind::new_keys : Role::Kind::new_values,
                                    .layers = {static_cast<int64_t>(layers_[i])}}});
    }
  }
}

}  // namespace anemone::lower
