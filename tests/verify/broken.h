// Bundles with one thing wrong, made by changing what convert wrote.
//     BundleEditor bundle(model, folder / "b", {.context = {64}, .precision = Precision::fp16});
//     bundle.edit([](Function& f) { drop_head_norm(f, 0, "k", false); });
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/npy.h"
#include "base/thread_pool.h"
#include "bundle/files.h"
#include "convert/convert.h"
#include "mil/builder.h"
#include "mil/stored.h"
#include "package/package.h"
#include "support/temp_folder.h"

namespace anemone::test {

class BundleEditor {
 public:
  BundleEditor(const std::filesystem::path& model, std::filesystem::path path, ConvertOptions options)
      : path_(std::move(path)) {
    options.overwrite = true;
    info_ = convert(model, path_, options).info;
  }

  const std::filesystem::path& path() const { return path_; }
  const BundleInfo& info() const { return info_; }

  // Every function of every package, or the one of that name.
  void edit(const std::function<void(Function&)>& change, const std::string& only = "") {
    for (const Stage& stage : info_.stages) {
      Package package = read_package(path_ / stage.package);
      for (const auto& f : package.program.functions)
        if (only.empty() || f->name == only) change(*f);
      const std::filesystem::path changed = path_ / ("changed_" + stage.package);
      write_package(package, changed);
      package = {};
      std::filesystem::remove_all(path_ / stage.package);
      std::filesystem::rename(changed, path_ / stage.package);
    }
    save();
  }

  void edit_info(const std::function<void(BundleInfo&)>& change) {
    change(info_);
    save();
  }

  // The bytes of a file, with a hash that fits afterwards, or with the old one.
  void edit_file(const std::string& name, const std::function<void(std::string&)>& change,
                 bool rehash = true) {
    std::string bytes = slurp(path_ / name);
    change(bytes);
    spill(path_ / name, bytes);
    if (rehash) save();
  }

 private:
  void save() {
    // As a converter with that fault would have written it.
    ThreadPool pool(1);
    std::filesystem::remove(path_ / kBundleFile);
    info_.files = hash_files(path_, pool);
    std::ofstream(path_ / kBundleFile) << info_.json();
  }

  std::filesystem::path path_;
  BundleInfo info_;
};

inline Operation* find_op(Function& f, const std::string& output) {
  for (const auto& op : f.body.ops)
    for (const auto& value : op->outputs)
      if (value->name == output) return op.get();
  return nullptr;
}

inline Value* find_value(Function& f, const std::string& name) {
  Operation* op = find_op(f, name);
  return op ? op->outputs[0].get() : nullptr;
}

inline Value* find_input(Function& f, const std::string& name) {
  for (const auto& input : f.inputs)
    if (input->name == name) return input.get();
  return nullptr;
}

inline void bind(Operation& op, const std::string& name, Constant constant) {
  Input* in = op.input(name);
  if (!in) {
    op.inputs.push_back({name, {}, ""});
    in = &op.inputs.back();
  }
  in->bindings = {Binding{nullptr, std::make_shared<Constant>(std::move(constant)), ""}};
}

// Puts a value made from `old`, which is an input or stands inside, in its place everywhere.
inline void replace_by(Function& f, Value* old, const std::function<Value*(Builder&, Value*)>& make) {
  const size_t before = f.body.ops.size();
  Builder b(f);
  Value* fresh = make(b, old);
  std::vector<std::unique_ptr<Operation>>& ops = f.body.ops;
  std::vector<Operation*> own;
  for (size_t i = before; i < ops.size(); ++i) own.push_back(ops[i].get());
  replace_uses(f.body, old, fresh);
  for (Operation* op : own)
    for (Input& in : op->inputs)
      for (Binding& binding : in.bindings)
        if (binding.value == fresh) binding.value = old;
  auto behind = ops.begin();
  if (old->producer)
    behind = std::next(std::ranges::find_if(ops, [&](const auto& op) { return op.get() == old->producer; }));
  std::rotate(behind, ops.begin() + static_cast<ptrdiff_t>(before), ops.end());
}

inline std::string at_layer(int layer, const std::string& rest) {
  return "l" + std::to_string(layer) + "_" + rest;
}

// The last step of q or k before attention is called as goldens call it, "q_1"; an earlier one after what it does.
inline Operation* find_step(Function& f, int layer, const std::string& side, const std::string& step) {
  Operation* op = find_op(f, at_layer(layer, side + step));
  return op ? op : find_op(f, side + "_" + std::to_string(layer));
}

// The norm of each head of q or k is left out; its weight too, or not.
inline void drop_head_norm(Function& f, int layer, const std::string& side, bool weight_too) {
  const Operation* first = find_op(f, at_layer(layer, side + "_norm_abs"));
  if (!first) return;
  replace_uses(f.body, find_step(f, layer, side, "_norm")->outputs[0].get(), first->value("x"));
  if (weight_too) remove_dead_ops(f);
}

// Neighbours are rotated against each other instead of halves.
inline void swap_rope_pairs(Function& f, int layer, int64_t rotated) {
  for (const std::string side : {"q", "k"}) {
    const std::string name = at_layer(layer, side + "_rope");
    if (!find_op(f, name + "_first")) return;
    int64_t begin = 0;
    for (const char* half : {"_first", "_second"}) {
      Operation& slice = *find_op(f, name + half);
      bind(slice, "begin", Constant::ints({0, 0, 0, begin++}));
      bind(slice, "end", Constant::ints({0, 0, 0, rotated}));
      bind(slice, "stride", Constant::ints({1, 1, 1, 2}));
    }
    bind(*find_step(f, layer, side, "_rope"), "interleave", Constant::boolean(true));
  }
}

// The channels of the keys are taken for [dim, heads] instead of [heads, dim].
inline void misread_kv_heads(Function& f, int layer, int64_t heads, int64_t dim) {
  const std::string name = at_layer(layer, "k_heads");
  Operation* split = find_op(f, name + "_split");
  if (!split) return;
  bind(*split, "shape", Constant::ints({1, dim, heads, -1}));
  Shape& shape = split->outputs[0]->type.shape;
  std::swap(shape[1], shape[2]);
  bind(*find_op(f, name), "perm", Constant::ints({0, 2, 3, 1}));
}

// Every token's row goes one further.
inline void shift_cache_rows(Function& f) {
  if (Value* position = find_input(f, "position"))
    replace_by(f, position, [](Builder& b, Value* old) {
      return b.op("add", {{"x", old}, {"y", Constant::ints({1})}}, "position_shifted");
    });
  if (Value* write = find_input(f, "write"))
    replace_by(f, write, [](Builder& b, Value* old) {
      const int64_t rows = old->type.shape[2].size(), tokens = old->type.shape[3].size();
      Value* head = b.op("slice_by_size",
                         {{"x", old},
                          {"begin", Constant::ints({0, 0, 0, 0})},
                          {"size", Constant::ints({1, 1, rows - 1, tokens})}},
                         "write_head");
      Value* zero = b.constant(
          Constant::numbers(std::vector<float>(static_cast<size_t>(tokens)), DType::fp16, {1, 1, 1, tokens}),
          "write_zero");
      return b.op("concat",
                  {{"values", std::vector<Value*>{zero, head}},
                   {"axis", Constant::integer(2)},
                   {"interleave", Constant::boolean(false)}},
                  "write_shifted");
    });
}

// A mask hides [first, last) from row `row`, or from all rows where that is negative.
inline void hide_positions(Function& f, int64_t row, int64_t first, int64_t last) {
  for (const char* name : {"mask", "mask_local"}) {
    Value* mask = find_input(f, name);
    if (!mask) continue;
    replace_by(f, mask, [&](Builder& b, Value* old) {
      const int64_t tokens = old->type.shape[2].size(), context = old->type.shape[3].size();
      std::vector<float> hidden(static_cast<size_t>(tokens * context));
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t p = first; p < std::min(last, context); ++p)
          if (row < 0 || row == t) hidden[static_cast<size_t>(t * context + p)] = -10000;
      Value* more = b.constant(Constant::numbers(hidden, DType::fp16, {1, 1, tokens, context}),
                               std::string(name) + "_hidden");
      return b.op("add", {{"x", old}, {"y", more}}, std::string(name) + "_wrong");
    });
  }
}

// Whoever uses `name` uses `instead`, a value that stands before it.
inline void use_instead(Function& f, const std::string& name, const std::string& instead) {
  Value *old = find_value(f, name), *other = find_value(f, instead);
  if (old && other) replace_uses(f.body, old, other);
}

inline void multiply(Function& f, Value* value, float factor) {
  if (value)
    replace_by(f, value, [&](Builder& b, Value* old) {
      return b.op("mul", {{"x", old}, {"y", Constant::number(factor, DType::fp16)}}, old->name + "_times");
    });
}

// A weight in fp16, times a factor.
inline void scale_weight(Function& f, const std::string& name, float factor) {
  Operation* op = find_op(f, name);
  if (!op) return;
  Constant& old = op->attributes.at("val");
  std::vector<float> values = decode_floats(*stored_constant(old));
  for (float& v : values) v *= factor;
  old = Constant::numbers(values, DType::fp16, old.type.shape);
}

}  // namespace anemone::test
