// The one list of a model's weights: what each is for, its shape, the order, and what is left out.
#include "families/weights.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "families/check.h"
#include "families/encoder.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// "0 query weight [32, 16] matrix": layer, role, shape as the sizes give it, kind.
std::string text(const WeightUse& w) {
  std::string out = w.layer < 0 ? "" : fmt::format("{} ", w.layer);
  out += fmt::format("{} [{}", w.role, w.rows.value());
  if (!w.columns.factors.empty()) out += fmt::format(", {}", w.columns.value());
  out += w.is_matrix ? "] matrix" : "]";
  return w.repeated ? out + " repeated" : out;
}

std::vector<std::string> listed(const Model& model) {
  std::vector<std::string> out;
  each_weight(model, [&](const WeightUse& w) { out.push_back(text(w)); });
  return out;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("weights come in the order of the computation, with role, layer and shape") {
  const Texts expected = {"embedding [48, 16] matrix",
                          "0 attention norm [16]",
                          "0 inner gate of the convolution [16, 16] matrix",
                          "0 outer gate of the convolution [16, 16] matrix",
                          "0 input of the convolution [16, 16] matrix",
                          "0 taps of the convolution [16, 3]",
                          "0 output projection [16, 16] matrix",
                          "0 MLP norm [16]",
                          "0 gate weight [24, 16] matrix",
                          "0 up weight [24, 16] matrix",
                          "0 down weight [16, 24] matrix",
                          "1 attention norm [16]",
                          "1 query weight [32, 16] matrix",
                          "1 key weight [16, 16] matrix",
                          "1 value weight [16, 16] matrix",
                          "1 output projection [16, 32] matrix",
                          "1 MLP norm [16]",
                          "1 gate weight [24, 16] matrix",
                          "1 up weight [24, 16] matrix",
                          "1 down weight [16, 24] matrix",
                          "final norm [16]",
                          "LM head [48, 16] matrix"};
  CHECK(listed(small_decoder(2, 1)) == expected);
}

TEST_CASE("what a model does not have is passed over, what it has more comes in its place") {
  Model model = small_decoder(1);
  Attention& a = *find_attention(model.layers[0]);
  a.q = projection("q", 32, kHidden, true);
  a.qk_norm = {.q = rms_norm_of("q_norm", 8), .k = rms_norm_of("k_norm", 8)};
  a.sinks = weight("sinks", 4);
  ResidualStep& mixer = model.layers[0].steps[0];
  mixer.norm_in.reset();
  mixer.norm_out = rms_norm_of("behind");
  mixer.norm_sum = layer_norm_of("sum");
  mixer.stream_bias = weight("stream_bias", kHidden), mixer.stream_gain = weight("stream_gain", kHidden);
  mixer.bias = weight("added_bias", kHidden), mixer.gain = weight("added_gain", kHidden);
  PlainMlp plain;
  plain.width = 24;
  plain.up = projection("up", 24, kHidden, true), plain.down = projection("down", kHidden, 24);
  model.layers[0].steps[1].block = plain;
  model.final_norm.reset();
  model.embedding.norm = layer_norm_of("embedding_norm");
  auto& head = std::get<VocabularyHead>(model.head);
  head.bias = weight("head.bias", kVocab);
  const Texts expected = {"embedding [48, 16] matrix",
                          "norm of the embedding [16]",
                          "bias of the embedding's norm [16]",
                          "0 query weight [32, 16] matrix",
                          "0 query bias [32]",
                          "0 key weight [16, 16] matrix",
                          "0 value weight [16, 16] matrix",
                          "0 output projection [16, 32] matrix",
                          "0 norm of the query heads [8]",
                          "0 norm of the key heads [8]",
                          "0 attention sinks [4]",
                          "0 norm after attention [16]",
                          "0 norm after attention [16]",
                          "0 bias of the norm after attention [16]",
                          "0 bias of the stream [16]",
                          "0 gain of the stream [16]",
                          "0 bias of what is added [16]",
                          "0 gain of what is added [16]",
                          "0 MLP norm [16]",
                          "0 up weight [24, 16] matrix",
                          "0 up bias [24]",
                          "0 down weight [16, 24] matrix",
                          "LM head [48, 16] matrix",
                          "LM head's bias [48]"};
  CHECK(listed(model) == expected);
  a.qk_norm = {.q = rms_norm_of("q_norm", 32), .k = rms_norm_of("k_norm", 16), .over_width = true};
  const Texts wide = listed(model);
  CHECK(std::count(wide.begin(), wide.end(), "0 norm of the query [32]") == 1);
  CHECK(std::count(wide.begin(), wide.end(), "0 norm of the key [16]") == 1);
}

TEST_CASE("a tied head is the embedding's tensor once more, and says so") {
  Model model = small_decoder(1);
  std::get<VocabularyHead>(model.head).tied = true;
  const Texts all = listed(model);
  CHECK(all.front() == "embedding [48, 16] matrix");
  CHECK(all.back() == "LM head [48, 16] matrix repeated");
}

TEST_CASE("each weight says what kind of file it goes to") {
  using Place = WeightUse::Place;
  const auto places = [](const Model& model) {
    std::map<Place, Texts> out;
    each_weight(model, [&](const WeightUse& w) { out[w.place].emplace_back(w.role); });
    return out;
  };
  Model model = small_decoder(1);
  model.embedding.positions = weight("positions", 32, kHidden);
  model.embedding.norm = rms_norm_of("embedding_norm");
  std::get<VocabularyHead>(model.head).bias = weight("bias", kVocab);
  auto found = places(model);
  CHECK(found[Place::table] == Texts{"embedding", "position embedding"});
  CHECK(found[Place::front] == Texts{"norm of the embedding"});
  CHECK(found[Place::back] == Texts{"final norm"});
  CHECK(found[Place::head] == Texts{"LM head", "LM head's bias"});
  CHECK(found[Place::layer].size() == 9);  // two norms, q, k, v, o, gate, up, down
  // A head that is no vocabulary's stands in the last package of layers.
  model.head = ClassHead{.classifier = projection("classifier", 3, kHidden)};
  found = places(model);
  CHECK(found[Place::back] == Texts{"final norm", "classifier"});
  CHECK(found[Place::head].empty());
}

TEST_CASE("a text head has its dense layer, norm and classifier") {
  Model model = small_decoder(1);
  ClassHead head;
  head.dense = projection("dense", kHidden, kHidden, true);
  head.norm = layer_norm_of("dense_norm");
  head.classifier = projection("classifier", 3, kHidden, true);
  model.head = head;
  const Texts all = listed(model);
  const Texts expected = {"dense layer of the classifier [16, 16] matrix",
                          "bias of the classifier's dense layer [16]",
                          "norm of the classifier [16]",
                          "bias of the classifier's norm [16]",
                          "classifier [3, 16] matrix",
                          "classifier's bias [3]"};
  CHECK(Texts(all.end() - 6, all.end()) == expected);
  model.head = PooledHead{};
  CHECK(listed(model).back() == "final norm [16]");
}

TEST_CASE("one layer's weights are those that the whole list has for it; elements are counted by the part") {
  const Model model = small_decoder(3, 1);
  for (size_t layer = 0; layer < 3; ++layer) {
    Texts of_all, alone;
    each_weight(model, [&](const WeightUse& w) {
      if (w.layer == static_cast<int64_t>(layer)) of_all.push_back(text(w));
    });
    each_weight(model, layer, [&](const WeightUse& w) {
      alone.push_back(text(w));
      CHECK(w.elements() == w.ref.rows() * w.ref.columns);
    });
    CHECK(alone == of_all);
  }
}

TEST_CASE("a description is held against the tensors it names, and every left-over tensor is an error") {
  const MadeModel made(small_decoder(2, 1));
  CHECK_NOTHROW(check_model(*made.checkpoint, made.model));
  Model fewer = made.model;
  fewer.layers[0].steps.pop_back();
  CHECK_THROWS_WITH_AS(check_model(*made.checkpoint, fewer), doctest::Contains("belongs to no weight"),
                       Error);
  Model more = made.model;
  more.layers[1].steps[0].gain = weight("1.gain", kHidden);
  CHECK_THROWS_WITH_AS(check_model(*made.checkpoint, more),
                       doctest::Contains("layer 1: gain of what is added"), Error);
  Model other = made.model;
  std::get<ShortConv>(other.layers[0].steps[0].block).kernel = 4;
  std::get<ShortConv>(other.layers[0].steps[0].block).taps.columns = 4;
  CHECK_THROWS_WITH_AS(check_model(*made.checkpoint, other), doctest::Contains("[16, 3], expected [16, 4]"),
                       Error);
}

TEST_CASE(
    "of an encoder the values and the MLPs' ways back are sensitive; where a weight lies stays the same") {
  const Model before = small_decoder(2, 1);
  Model model = before;
  mark_sensitive(model);
  Texts sensitive;
  each_weight(model, [&](const WeightUse& w) {
    if (w.ref.sensitive) sensitive.push_back(text(w));
  });
  CHECK(sensitive == Texts{"0 down weight [16, 24] matrix", "1 value weight [16, 16] matrix",
                           "1 down weight [16, 24] matrix"});
  CHECK(find_attention(model.layers[1])->v.weight == find_attention(before.layers[1])->v.weight);
}
