// Weights that are parts of tensors: slices of a stack, transposed matrices, ranges of columns. Every element of a
// tensor belongs to one weight. Sizes are worked out by hand for the tiny Llama: hidden 8, queries of 16, MLP 12.
#include "families/check.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "families/coverage.h"
#include "families/family.h"
#include "families/tiny_model.h"

using namespace anemone;
using test::TinyModel;

namespace {

GatedMlp& mlp_of(Model& m, size_t layer) { return std::get<GatedMlp>(m.layers[layer].steps[1].block); }
Attention& attention_of(Model& m, size_t layer) { return *find_attention(m.layers[layer]); }

// A tiny Llama whose tensors and weights a test moves around.
struct Parts {
  TinyModel tiny = TinyModel::llama_safetensors();
  Model model;

  Parts() {
    const TempFolder folder;
    model = describe(tiny.safetensors(folder));
  }

  std::string error() const {
    const TempFolder folder;
    const Checkpoint c = tiny.safetensors(folder);
    return error_of([&] { check_model(c, model); });
  }
};

// The MLP of layer e is expert e of two stacks: gate and up side by side [2, in 8, out 24], and down [2, in 12, out 8].
Parts experts() {
  Parts p;
  for (const char* name : {"gate_proj", "up_proj", "down_proj"})
    p.tiny.replace(std::string("mlp.") + name + ".weight", "", {});
  p.tiny.tensors["experts.gate_up"] = {2, 8, 24};
  p.tiny.tensors["experts.down"] = {2, 12, 8};
  for (const size_t layer : {0, 1}) {
    const auto expert = static_cast<int64_t>(layer);
    GatedMlp& mlp = mlp_of(p.model, layer);
    mlp.gate.weight = {
        .tensor = "experts.gate_up", .row_end = 12, .columns = 8, .slice = expert, .transposed = true};
    mlp.up.weight = mlp.gate.weight;
    mlp.up.weight.row_begin = 12, mlp.up.weight.row_end = 24;
    mlp.down.weight = {
        .tensor = "experts.down", .row_end = 8, .columns = 12, .slice = expert, .transposed = true};
  }
  return p;
}

// Output projection and down weight of layer 0 are columns of one tensor [8, 16 + 12].
Parts columns() {
  Parts p;
  p.tiny.replace_in("0", "self_attn.o_proj.weight", "", {});
  p.tiny.replace_in("0", "mlp.down_proj.weight", "", {});
  p.tiny.tensors["back"] = {8, 28};
  attention_of(p.model, 0).o.weight = {.tensor = "back", .row_end = 8, .columns = 16};
  mlp_of(p.model, 0).down.weight = {.tensor = "back", .row_end = 8, .columns = 12, .column_begin = 16};
  return p;
}

void check_says(const std::string& message, std::initializer_list<const char*> parts) {
  INFO(message);
  for (const char* part : parts) CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("a stack of transposed experts is held against its shape [experts, in, out]") {
  CHECK(experts().error() == "");

  Parts more = experts();
  more.tiny.tensors["experts.gate_up"] = {3, 8, 24};
  check_says(more.error(), {"layer 0: gate weight", "'experts.gate_up' [3, 8, 24]", "expected [2, 8, 24]",
                            "2 slices; hidden size 8 ('hidden_size' of config.json)",
                            "MLP size 12 ('intermediate_size' of config.json) + MLP size 12"});
  Parts turned = experts();
  turned.tiny.tensors["experts.down"] = {2, 8, 12};
  check_says(turned.error(), {"layer 0: down weight", "'experts.down' [2, 8, 12]", "expected [2, 12, 8]"});
  Parts gone = experts();
  gone.tiny.tensors.erase("experts.down");
  check_says(gone.error(), {"missing", "'experts.down' [2, 12, 8]"});
}

TEST_CASE("two weights that share elements, and elements without a weight, are errors that name the part") {
  Parts twice = experts();
  mlp_of(twice.model, 1).down.weight.slice = 0;
  twice.tiny.tensors["experts.down"] = {1, 12, 8};
  check_says(twice.error(),
             {"layer 1: down weight: takes a part", "[0, 0:12, 0:8] of 'experts.down' [1, 12, 8]",
              "[0, 0:12, 0:8] is the layer 0: down weight"});

  Parts skipped = experts();
  mlp_of(skipped.model, 1).down.weight.slice = 2;
  skipped.tiny.tensors["experts.down"] = {3, 12, 8};
  check_says(skipped.error(), {"belongs to no weight", "[1, 0:12, 0:8] of 'experts.down' [3, 12, 8]",
                               "layer 0: down weight and 1 others"});

  Parts shifted = experts();
  mlp_of(shifted.model, 1).up.weight.row_begin = 8, mlp_of(shifted.model, 1).up.weight.row_end = 20;
  check_says(shifted.error(), {"layer 1: up weight: takes a part", "[1, 0:8, 8:20]",
                               "[1, 0:8, 0:12] is the layer 1: gate weight"});

  Parts whole = experts();
  mlp_of(whole.model, 0).down.weight.slice = -1;
  CHECK(whole.error() != "");
}

TEST_CASE("a tensor may be split by columns, and one matrix may be stored transposed") {
  CHECK(columns().error() == "");
  Parts gap = columns();
  gap.tiny.tensors["back"] = {8, 30};
  mlp_of(gap.model, 0).down.weight.column_begin = 18;
  check_says(gap.error(), {"belongs to no weight", "[0:8, 16:18] of 'back' [8, 30]"});
  Parts overlap = columns();
  overlap.tiny.tensors["back"] = {8, 26};
  mlp_of(overlap.model, 0).down.weight.column_begin = 14;
  check_says(overlap.error(), {"layer 0: down weight: takes a part", "[0:8, 14:26] of 'back' [8, 26]",
                               "[0:8, 0:16] is the layer 0: output projection"});
  Parts wide = columns();
  wide.tiny.tensors["back"] = {8, 29};
  check_says(wide.error(), {"'back' [8, 29]", "expected [8, 28]", "4 query heads", "+ MLP size 12"});

  Parts turned;
  turned.tiny.tensors["model.layers.1.self_attn.q_proj.weight"] = {8, 16};
  check_says(turned.error(), {"[8, 16], expected [16, 8]"});
  attention_of(turned.model, 1).q.weight.transposed = true;
  CHECK(turned.error() == "");
}

TEST_CASE("biases of experts are slices of a matrix") {
  Parts p;
  p.tiny.tensors["experts.bias"] = {2, 8};
  for (const size_t layer : {0, 1})
    mlp_of(p.model, layer).down.bias = {
        .tensor = "experts.bias", .row_end = 8, .columns = 1, .slice = static_cast<int64_t>(layer)};
  CHECK(p.error() == "");
  p.tiny.tensors["experts.bias"] = {2, 9};
  check_says(p.error(), {"'experts.bias' [2, 9]", "expected [2, 8]: 2 slices; hidden size 8"});
}

TEST_CASE("parts of a tensor: what they span, share and leave") {
  const StoredPart left{.line_end = 4, .end = 3}, right{.line_end = 2, .begin = 3, .end = 5};
  const std::vector<StoredPart> parts = {left, right};
  CHECK(least_shape(parts, false) == std::vector<int64_t>{4, 5});
  CHECK(!find_overlap(parts));
  REQUIRE(find_gap(parts));
  CHECK(find_gap(parts)->text() == "[2:4, 3:5]");
  const std::vector<StoredPart> filled = {
      left, right, {.line_begin = 2, .line_end = 4, .begin = 3, .end = 5}};
  CHECK(!find_gap(filled));
  CHECK(!find_overlap(filled));
  const std::vector<StoredPart> shared = {
      left, right, {.line_begin = 1, .line_end = 4, .begin = 3, .end = 5}};
  CHECK(find_overlap(shared) == std::pair<size_t, size_t>(1, 2));
  const std::vector<StoredPart> vectors = {{.slice = 0, .line_end = 4, .end = 1},
                                           {.slice = 2, .line_end = 4, .end = 1}};
  CHECK(least_shape(vectors, true) == std::vector<int64_t>{3, 4});
  CHECK(find_gap(vectors)->text(true) == "[1, 0:4]");
}
