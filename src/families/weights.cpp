#include "families/weights.h"

#include "base/error.h"

namespace anemone {
namespace {

void visit_step(const ResidualStep& step, WeightVisitor& v) {
  const bool mlp = !is_mixer(step.block);
  if (step.norm_in)
    v.norm(mlp ? "MLP norm" : "attention norm", mlp ? "bias of the MLP norm" : "bias of the attention norm",
           *step.norm_in, v.hidden());
  std::visit([&](const auto& block) { block.each_weight(v); }, step.block);
  for (const std::optional<Norm>* norm : {&step.norm_out, &step.norm_sum})
    if (*norm)
      v.norm(mlp ? "norm after the MLP" : "norm after attention",
             mlp ? "bias of the norm after the MLP" : "bias of the norm after attention", **norm, v.hidden());
  v.vector("bias of the stream", step.stream_bias, v.hidden());
  v.vector("gain of the stream", step.stream_gain, v.hidden());
  v.vector("bias of what is added", step.bias, v.hidden());
  v.vector("gain of what is added", step.gain, v.hidden());
}

void visit_tables(const Model& model, WeightVisitor& v) {
  const Embedding& e = model.embedding;
  const Extent vocab{{{model.vocab, size_names::kVocabulary}}};
  v.matrix("embedding", e.tokens, vocab, v.hidden());
  v.matrix("position embedding", e.positions, {{{e.positions.rows(), size_names::kPositions}}}, v.hidden());
  v.matrix("type embedding", e.types, {{{e.types.rows(), size_names::kTokenTypes}}}, v.hidden());
}

struct HeadWeights {
  const Model& model;
  WeightVisitor& v;

  void operator()(const VocabularyHead& head) const {
    const Extent vocab{{{model.vocab, size_names::kVocabulary}}};
    v.matrix("LM head", head.weight, vocab, v.hidden(), head.tied);
    v.vector("LM head's bias", head.bias, vocab);
  }
  void operator()(const PooledHead&) const {}
  void operator()(const ClassHead& head) const {
    const Extent classes{{{head.classifier.weight.rows(), "{} classes"}}};
    v.projection("dense layer of the classifier", "bias of the classifier's dense layer", head.dense,
                 v.hidden(), v.hidden());
    if (head.norm) v.norm("norm of the classifier", "bias of the classifier's norm", *head.norm, v.hidden());
    v.projection("classifier", "classifier's bias", head.classifier, classes, v.hidden());
  }
};

}  // namespace

int64_t Extent::value() const {
  int64_t product = 1;
  for (const Factor& f : factors) product *= f.value;
  return product;
}

Extent WeightVisitor::hidden() const { return {{{model_.hidden, size_names::kHidden}}}; }

void WeightVisitor::matrix(std::string_view role, const WeightRef& ref, Extent rows, Extent columns,
                           bool repeated) {
  if (ref) visit_({role, ref, std::move(rows), std::move(columns), place_, layer_, true, repeated});
}

void WeightVisitor::table(std::string_view role, const WeightRef& ref, Extent rows, Extent columns) {
  if (ref) visit_({role, ref, std::move(rows), std::move(columns), place_, layer_, false, false});
}

void WeightVisitor::vector(std::string_view role, const WeightRef& ref, Extent size) {
  if (ref) visit_({role, ref, std::move(size), {}, place_, layer_, false, false});
}

void WeightVisitor::projection(std::string_view role, std::string_view bias_role, const Projection& p,
                               const Extent& rows, const Extent& columns) {
  matrix(role, p.weight, rows, columns);
  vector(bias_role, p.bias, rows);
}

void WeightVisitor::norm(std::string_view role, std::string_view bias_role, const Norm& norm,
                         const Extent& size) {
  vector(role, norm.gain, size);
  vector(bias_role, norm.bias, size);
}

void each_weight(const Model& model, size_t layer, const WeightVisitor::Visit& visit) {
  WeightVisitor v(model, WeightUse::Place::layer, static_cast<int64_t>(layer), visit);
  for (const ResidualStep& step : model.layers.at(layer).steps) visit_step(step, v);
}

void each_weight(const Model& model, const WeightVisitor::Visit& visit) {
  using Place = WeightUse::Place;
  WeightVisitor tables(model, Place::table, -1, visit), front(model, Place::front, -1, visit),
      back(model, Place::back, -1, visit), head(model, Place::head, -1, visit);
  visit_tables(model, tables);
  front.vector("bias of the embedding", model.embedding.bias, front.hidden());
  front.vector("gain of the embedding", model.embedding.gain, front.hidden());
  if (const auto& norm = model.embedding.norm)
    front.norm("norm of the embedding", "bias of the embedding's norm", *norm, front.hidden());
  for (size_t i = 0; i < model.layers.size(); ++i) each_weight(model, i, visit);
  if (model.final_norm) back.norm("final norm", "bias of the final norm", *model.final_norm, back.hidden());
  // Heads without a vocabulary come after the layers, in the same package.
  std::visit(HeadWeights{model, model.generates() ? head : back}, model.head);
}

}  // namespace anemone
