#include "families/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/hparams.h"

namespace anemone {
namespace {

// Where the two sizes of a weight come from.
enum class Size { none, hidden, query, key, head, intermediate, vocab };

struct Role {
  const char* name;
  WeightRef Layer::*ref;
  Size rows, columns;
  bool required;
};

constexpr std::array kRoles = {
    Role{"attention norm", &Layer::attention_norm, Size::hidden, Size::none, true},
    Role{"query weight", &Layer::q, Size::query, Size::hidden, true},
    Role{"key weight", &Layer::k, Size::key, Size::hidden, true},
    Role{"value weight", &Layer::v, Size::key, Size::hidden, true},
    Role{"output projection", &Layer::o, Size::hidden, Size::query, true},
    Role{"query bias", &Layer::q_bias, Size::query, Size::none, false},
    Role{"key bias", &Layer::k_bias, Size::key, Size::none, false},
    Role{"value bias", &Layer::v_bias, Size::key, Size::none, false},
    Role{"output projection's bias", &Layer::o_bias, Size::hidden, Size::none, false},
    Role{"norm of the query heads", &Layer::q_norm, Size::head, Size::none, false},
    Role{"norm of the key heads", &Layer::k_norm, Size::head, Size::none, false},
    Role{"norm behind attention", &Layer::post_attention_norm, Size::hidden, Size::none, false},
    Role{"MLP norm", &Layer::mlp_norm, Size::hidden, Size::none, true},
    Role{"gate weight", &Layer::gate, Size::intermediate, Size::hidden, true},
    Role{"up weight", &Layer::up, Size::intermediate, Size::hidden, true},
    Role{"down weight", &Layer::down, Size::hidden, Size::intermediate, true},
    Role{"gate bias", &Layer::gate_bias, Size::intermediate, Size::none, false},
    Role{"up bias", &Layer::up_bias, Size::intermediate, Size::none, false},
    Role{"down bias", &Layer::down_bias, Size::hidden, Size::none, false},
    Role{"norm behind the MLP", &Layer::post_mlp_norm, Size::hidden, Size::none, false},
};

// One use of rows of a tensor.
struct Use {
  std::string role;
  const WeightRef* ref;
  Size rows, columns;
};

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const Model& model) : c_(checkpoint), m_(model), hp_(checkpoint) {}

  void check() {
    collect();
    for (const std::string& name : order_) check_tensor(name, uses_.at(name));
    for (const TensorReader& tensor : c_.tensors())
      if (!uses_.contains(tensor.name()) && !may_be_left(tensor.name())) throw left_over(tensor);
  }

 private:
  void collect() {
    add({"embedding", &m_.embedding, Size::vocab, Size::hidden});
    add({"final norm", &m_.final_norm, Size::hidden, Size::none});
    if (!m_.tied_head) add({"LM head", &m_.lm_head, Size::vocab, Size::hidden});
    for (size_t i = 0; i < m_.layers.size(); ++i)
      for (const Role& role : kRoles) {
        const WeightRef& ref = m_.layers[i].*role.ref;
        ANEMONE_CHECK(ref || !role.required);
        if (ref) add({fmt::format("layer {}: {}", i, role.name), &ref, role.rows, role.columns});
      }
  }

  void add(Use use) {
    ANEMONE_CHECK(use.ref->rows() == value(use.rows));
    ANEMONE_CHECK(use.ref->columns == value(use.columns));
    std::vector<Use>& uses = uses_[use.ref->tensor];
    if (uses.empty()) order_.push_back(use.ref->tensor);
    uses.push_back(std::move(use));
  }

  int64_t value(Size size) const {
    switch (size) {
      case Size::none: return 1;
      case Size::hidden: return m_.hidden;
      case Size::query: return m_.heads * m_.head_dim;
      case Size::key: return m_.kv_heads * m_.head_dim;
      case Size::head: return m_.head_dim;
      case Size::intermediate: return m_.intermediate;
      case Size::vocab: return m_.vocab;
    }
    return 0;
  }

  // "4 heads ('num_attention_heads' of config.json) x 32 ('head_dim' of config.json)"
  std::string origin(Size size) const {
    const auto head = [&] {
      if (hp_.find_integer(keys::kHeadDim))
        return fmt::format("head size {} ({})", m_.head_dim, hp_.named(keys::kHeadDim));
      return fmt::format("head size {} ({} is not there)", m_.head_dim, hp_.named(keys::kHeadDim));
    };
    switch (size) {
      case Size::none: return "";
      case Size::hidden: return fmt::format("hidden size {} ({})", m_.hidden, hp_.named(keys::kHidden));
      case Size::query: return fmt::format("{} heads ({}) x {}", m_.heads, hp_.named(keys::kHeads), head());
      case Size::key:
        return fmt::format("{} key heads ({}) x {}", m_.kv_heads, hp_.named(keys::kKvHeads), head());
      case Size::head: return head();
      case Size::intermediate:
        return fmt::format("MLP size {} ({})", m_.intermediate, hp_.named(keys::kIntermediate));
      case Size::vocab:
        if (hp_.is_gguf() && !hp_.find_integer(keys::kVocab))
          return fmt::format("{} tokens ('tokenizer.ggml.tokens')", m_.vocab);
        return fmt::format("vocabulary {} ({})", m_.vocab, hp_.named(keys::kVocab));
    }
    return "";
  }

  // The shape that all uses of a tensor make together, and why.
  std::vector<int64_t> expected_shape(const std::vector<Use>& uses) const {
    int64_t rows = 0;
    for (const Use& use : uses) rows += use.ref->rows();
    std::vector<int64_t> shape = {rows};
    if (uses.front().columns != Size::none) shape.push_back(uses.front().ref->columns);
    return shape;
  }
  std::string reasons(const std::vector<Use>& uses) const {
    std::string text;
    for (const Use& use : uses) text += (text.empty() ? "" : " + ") + origin(use.rows);
    if (uses.front().columns != Size::none) text += "; " + origin(uses.front().columns);
    return text;
  }

  void check_tensor(const std::string& name, const std::vector<Use>& uses) const {
    const std::vector<int64_t> shape = expected_shape(uses);
    const TensorReader* tensor = c_.find(name);
    if (!tensor)
      throw errorf("{}: the tensor is missing", uses.front().role)
          .at(c_.path().string())
          .found(fmt::format("{} other tensors", c_.tensors().size()))
          .expected(fmt::format("'{}' {}, for family {} with {} layers ({})", printable(name),
                                shape_text(shape), m_.family, m_.layers.size(), hp_.named(keys::kLayers)));
    if (tensor->shape() != shape)
      throw errorf("{}: the tensor's shape contradicts the sizes of the model", uses.front().role)
          .at(c_.path().string())
          .found(fmt::format("'{}' {}", printable(name), shape_text(tensor->shape())))
          .expected(fmt::format("{}: {}", shape_text(shape), reasons(uses)));
    if (!tensor->info().decodes)
      throw errorf("{}: the tensor holds no floating-point numbers", uses.front().role)
          .at(c_.path().string())
          .found(fmt::format("'{}' of type {}", printable(name), tensor->info().name))
          .expected("a floating-point or block type");
    int64_t next = 0;  // the rows of the uses follow each other
    for (const Use& use : uses) {
      ANEMONE_CHECK(use.ref->row_begin == next);
      next = use.ref->row_end;
    }
  }

  // What may lie in a file without being a weight: tables that are computed from the keys, rope factors
  // (which the description holds as numbers), a head that repeats the embedding, the other halves of a model
  // that sees.
  bool may_be_left(std::string_view name) const {
    if (hp_.is_gguf())
      return name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
             name == "rope_factors_short.weight" || name.ends_with(".attn_rot_embd.weight");
    if (name.ends_with("rotary_emb.inv_freq")) return true;
    if (m_.tied_head && (name == "lm_head.weight" || name == "language_model.lm_head.weight")) return true;
    for (const std::string_view part : {"vision_tower.", "multi_modal_projector."})
      if (name.starts_with(part) || name.starts_with("model." + std::string(part)))
        return hp_.has_text_part();
    return false;
  }

  Error left_over(const TensorReader& tensor) const {
    return errorf("a tensor belongs to no weight of the model")
        .at(c_.path().string())
        .found(fmt::format("'{}' {}", printable(tensor.name()), shape_text(tensor.shape())))
        .expected(fmt::format("only the weights of family {} with {} layers ({})", m_.family,
                              m_.layers.size(), hp_.named(keys::kLayers)))
        .hint("leaving it out would change what the model computes");
  }

  const Checkpoint& c_;
  const Model& m_;
  Hparams hp_;
  std::map<std::string, std::vector<Use>> uses_;
  std::vector<std::string> order_;  // of the model, so that the first thing wrong is named first
};

}  // namespace

void check_model(const Checkpoint& checkpoint, const Model& model) { Checker(checkpoint, model).check(); }

}  // namespace anemone
