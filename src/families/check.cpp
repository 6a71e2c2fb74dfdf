#include "families/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/hparams.h"
#include "families/weights.h"

namespace anemone {
namespace {

// One use of rows of a tensor.
struct Use {
  std::string role;
  WeightRef ref;
  Extent rows, columns;
};

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// A convolution's [channels, 1, taps] counts as the matrix that it is.
bool same_matrix(std::vector<int64_t> found, const std::vector<int64_t>& expected) {
  if (found.size() == 3 && expected.size() == 2 && found[1] == 1) found.erase(found.begin() + 1);
  return found == expected;
}

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const Model& model) : c_(checkpoint), m_(model), hp_(checkpoint) {
    const auto* head = std::get_if<VocabularyHead>(&model.head);
    tied_ = head && head->tied;
  }

  void check() {
    collect();
    for (const std::string& name : order_) check_tensor(name, uses_.at(name));
    for (const TensorReader& tensor : c_.tensors())
      if (!uses_.contains(tensor.name()) && !may_be_left(tensor.name())) throw left_over(tensor);
  }

 private:
  void collect() {
    each_weight(m_, [&](const WeightUse& w) {
      if (w.repeated) return;
      ANEMONE_CHECK(w.ref.rows() == w.rows.value());
      ANEMONE_CHECK(w.ref.columns == w.columns.value());
      std::vector<Use>& uses = uses_[w.ref.tensor];
      if (uses.empty()) order_.push_back(w.ref.tensor);
      uses.push_back({w.layer < 0 ? std::string(w.role) : fmt::format("layer {}: {}", w.layer, w.role), w.ref,
                      w.rows, w.columns});
    });
  }

  // "4 heads ('num_attention_heads' of config.json) x head size 32 ('head_dim' of config.json)"
  std::string origin(const Extent& extent) const {
    std::string text;
    for (const Extent::Factor& f : extent.factors) text += (text.empty() ? "" : " x ") + origin(f);
    return text;
  }

  std::string origin(const Extent::Factor& f) const {
    const std::string size = fmt::format(fmt::runtime(f.text), f.value);
    if (!f.key) return size;
    if (f.key == &keys::kVocab && hp_.is_gguf() && !hp_.find_integer(*f.key))
      return fmt::format("{} tokens ('tokenizer.ggml.tokens')", f.value);
    if (f.key == &keys::kHeadDim && !hp_.find_integer(*f.key))
      return fmt::format("{} ({} is not there)", size, hp_.named(*f.key));
    return fmt::format("{} ({})", size, hp_.named(*f.key));
  }

  // The shape that all uses of a tensor make together, and why.
  std::vector<int64_t> expected_shape(const std::vector<Use>& uses) const {
    int64_t rows = 0;
    for (const Use& use : uses) rows += use.ref.rows();
    std::vector<int64_t> shape = {rows};
    if (!uses.front().columns.factors.empty()) shape.push_back(uses.front().ref.columns);
    return shape;
  }
  std::string reasons(const std::vector<Use>& uses) const {
    std::string text;
    for (const Use& use : uses) text += (text.empty() ? "" : " + ") + origin(use.rows);
    if (!uses.front().columns.factors.empty()) text += "; " + origin(uses.front().columns);
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
    if (!same_matrix(tensor->shape(), shape))
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
      ANEMONE_CHECK(use.ref.row_begin == next);
      next = use.ref.row_end;
    }
  }

  // What may lie in a file without being a weight: tables that are computed from the keys, rope factors
  // (which the description holds as numbers), a head that repeats the embedding, the other halves of a model
  // that sees.
  bool may_be_left(std::string_view name) const {
    if (std::find(m_.unused.begin(), m_.unused.end(), name) != m_.unused.end()) return true;
    if (hp_.is_gguf())
      return name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
             name == "rope_factors_short.weight" || name.ends_with(".attn_rot_embd.weight");
    if (name.ends_with("rotary_emb.inv_freq")) return true;
    if (tied_ && (name == "lm_head.weight" || name == "language_model.lm_head.weight")) return true;
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
  bool tied_ = false;
  std::map<std::string, std::vector<Use>> uses_;
  std::vector<std::string> order_;  // of the model, so that the first thing wrong is named first
};

}  // namespace

void check_model(const Checkpoint& checkpoint, const Model& model) { Checker(checkpoint, model).check(); }

}  // namespace anemone
