// What the families of encoders share: sizes, the head that the files ask for, token ids.
//     Model m = begin_encoder(hp, "embeddings.word_embeddings.weight", 512);        // its layers are empty
//     m.head = pooled_head(hp, m.hidden);                                           // as modules.json says
#pragma once

#include <string>
#include <vector>

#include "families/hparams.h"
#include "families/model.h"

namespace anemone {

// Names, hidden size, vocabulary, context, special tokens, the embedding's tensor `embedding`, and empty layers.
Model begin_encoder(const Hparams& hp, const std::string& embedding, int64_t default_context);

// Mean or the first token, normalised or not: from the files of a sentence transformer (families/sentence.h), or GGUF's
// pooling type; the plain mean where nothing is said. Error for whatever a bundle cannot do.
PooledHead pooled_head(const Hparams& hp, int64_t hidden);

// The labels of a classifier, by class: "id2label", or LABEL_0 … for as many rows as `tensor` has.
std::vector<std::string> class_labels(const Hparams& hp, const std::string& tensor);

// By "problem_type". If it is absent, a single class is yes or no, and exactly one of several classes is right.
ClassScores class_scores(const Hparams& hp, size_t classes);

// A norm with mean: "<name>.weight" and, if the model has biases there, "<name>.bias"; old files say gamma and beta. A
// bias that the model has and the file lacks is an error of the checks, and so is one that only the file has.
Norm layer_norm_of(const Checkpoint& checkpoint, const std::string& name, int64_t width, double eps,
                   bool has_bias);

// Marks the matrices that lose most with int8: the value projections and the MLP's down projections. Their outliers
// meet the largest activations. With all matrices in int8, MiniLM's vectors have a cosine of 0.9985 with those of
// transformers on ordinary sentences and 0.996 on the shortest ones. With these two kinds in fp16 it is at least 0.9995
// on all of 100.
void mark_sensitive(Model& model);

// "<name>.weight" and, if the model has biases there, "<name>.bias".
Projection linear_of(const std::string& name, int64_t rows, int64_t columns, bool has_bias);

}  // namespace anemone
