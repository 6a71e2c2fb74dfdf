#include "families/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/byte_reader.h"
#include "families/coverage.h"
#include "families/weights.h"

namespace anemone {
namespace {

// One use of a part of a tensor.
struct Use {
  std::string role;
  StoredPart part;
  Extent lines, elements;  // of the part; elements: empty for a vector
};

// A * at either end of a pattern stands for anything.
bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

// A convolution's [channels, inputs, taps] counts as the matrix that it is, and a vector as one of a column.
bool same_matrix(std::vector<int64_t> found, const std::vector<int64_t>& expected) {
  if (found.size() == 1 && expected.size() == 2) found.push_back(1);
  if (found.size() == 3 && expected.size() == 2) found = {found[0], found[1] * found[2]};
  return found == expected;
}

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const Model& model) : c_(checkpoint), m_(model) {}

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
      if (m_.shared_tensors && !taken_.insert(w.ref).second) return;  // the same part again
      Use use{w.layer < 0 ? std::string(w.role) : fmt::format("layer {}: {}", w.layer, w.role),
              stored_part(w.ref), w.rows, w.columns};
      if (w.ref.transposed) std::swap(use.lines, use.elements);
      uses.push_back(std::move(use));
    });
  }

  // "4 heads ('num_attention_heads' of config.json) x head size 32 ('head_dim' of config.json)"
  std::string origin(const Extent& extent) const {
    std::string text;
    for (const Extent::Factor& f : extent.factors)
      text += (text.empty() ? "" : " x ") + size_text(f.text, f.value);
    return text;
  }

  std::string size_text(std::string_view size, int64_t value) const {
    std::string text = fmt::format(fmt::runtime(size), value);
    const auto at = m_.origins.find(size);
    return at == m_.origins.end() ? text : text + " (" + at->second + ")";
  }
  std::string layers_text() const { return size_text(size_names::kLayers, std::ssize(m_.layers)); }

  static bool are_vectors(const std::vector<Use>& uses) {
    return std::all_of(uses.begin(), uses.end(), [](const Use& use) { return use.elements.factors.empty(); });
  }

  // Why a tensor must have its shape: what lies one behind the other in its lines and in its elements.
  std::string reasons(const std::vector<Use>& uses) const {
    std::map<int64_t, std::string> lines, elements;  // by where they begin
    int64_t slices = 0;
    for (const Use& use : uses) {
      slices = std::max(slices, use.part.slice + 1);
      lines.emplace(use.part.line_begin, origin(use.lines));
      elements.emplace(use.part.begin, origin(use.elements));
    }
    std::string text = slices > 0 ? fmt::format("{} slices; ", slices) : "";
    text += joined(lines);
    return are_vectors(uses) ? text : text + "; " + joined(elements);
  }
  static std::string joined(const std::map<int64_t, std::string>& texts) {
    std::string out;
    for (const auto& [begin, text] : texts) out += (out.empty() ? "" : " + ") + text;
    return out;
  }

  void check_tensor(const std::string& name, const std::vector<Use>& uses) const {
    std::vector<StoredPart> parts;
    for (const Use& use : uses) parts.push_back(use.part);
    const std::vector<int64_t> shape = least_shape(parts, are_vectors(uses));
    const TensorReader* tensor = c_.find(name);
    if (!tensor)
      throw errorf("{}: the tensor is missing", uses.front().role)
          .at(c_.path().string())
          .found(fmt::format("{} other tensors", c_.tensors().size()))
          .expected(fmt::format("'{}' {}, for family {} with {}", printable(name), shape_text(shape),
                                m_.family, layers_text()));
    if (!same_matrix(tensor->shape(), shape))
      throw errorf("{}: the shape of the tensor contradicts the sizes of the model", uses.front().role)
          .at(c_.path().string())
          .found(fmt::format("'{}' {}", printable(name), shape_text(tensor->shape())))
          .expected(fmt::format("{}: {}", shape_text(shape), reasons(uses)));
    if (!tensor->decodes())
      throw errorf("{}: the tensor holds no floating-point numbers", uses.front().role)
          .at(c_.path().string())
          .found(fmt::format("'{}' of type {}", printable(name), tensor->type_name()))
          .expected("a floating-point or block type");
    check_parts(*tensor, uses, parts);
  }

  // Every element of the tensor belongs to one weight.
  void check_parts(const TensorReader& tensor, const std::vector<Use>& uses,
                   const std::vector<StoredPart>& parts) const {
    const bool vectors = are_vectors(uses);
    const std::string name = printable(tensor.name()), shape = shape_text(tensor.shape());
    if (const auto both = find_overlap(parts))
      throw errorf("{}: takes a part of the tensor that belongs to another weight", uses[both->second].role)
          .at(c_.path().string())
          .found(fmt::format("{} of '{}' {}; {} is the {}", parts[both->second].text(vectors), name, shape,
                             parts[both->first].text(vectors), uses[both->first].role))
          .expected("one weight for each element of the tensor");
    if (const auto gap = find_gap(parts))
      throw errorf("a part of a tensor belongs to no weight of the model")
          .at(c_.path().string())
          .found(fmt::format("{} of '{}' {}", gap->text(vectors), name, shape))
          .expected(fmt::format("one weight for each element of the tensor, which holds the {}{}",
                                uses.front().role,
                                uses.size() == 1 ? "" : fmt::format(" and {} others", uses.size() - 1)))
          .hint("leaving it out would change what the model computes");
  }

  bool may_be_left(std::string_view name) const {
    return std::any_of(m_.unused.begin(), m_.unused.end(),
                       [&](std::string_view pattern) { return matches(name, pattern); });
  }

  Error left_over(const TensorReader& tensor) const {
    return errorf("a tensor belongs to no weight of the model")
        .at(c_.path().string())
        .found(fmt::format("'{}' {}", printable(tensor.name()), shape_text(tensor.shape())))
        .expected(fmt::format("only the weights of family {} with {}", m_.family, layers_text()))
        .hint("leaving it out would change what the model computes");
  }

  const Checkpoint& c_;
  const Model& m_;
  std::map<std::string, std::vector<Use>> uses_;
  std::set<WeightRef> taken_;
  std::vector<std::string> order_;  // of the model, so that the first thing wrong is named first
};

}  // namespace

void check_model(const Checkpoint& checkpoint, const Model& model) { Checker(checkpoint, model).check(); }

}  // namespace anemone
