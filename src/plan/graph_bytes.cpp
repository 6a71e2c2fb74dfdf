#include "plan/graph_bytes.h"

#include <fmt/format.h>

#include <algorithm>

#include "lower/weights.h"
#include "package/description.h"
#include "package/mil_codec.h"
#include "plan/shards.h"

namespace anemone {
namespace {

uint64_t layers_bytes(const Model& model, bool packed, bool prompts, size_t layers) {
  Program program;
  lower::HollowWeights weights(packed);
  lower::LayersSpec spec;
  spec.last = layers;
  spec.first_stage = spec.last_stage = true;
  for (const int64_t tokens : function_tokens(model, prompts)) {
    spec.tokens = {tokens, tokens};
    lower::build_layers(program, fmt::format("t{}", tokens), model, weights, spec);
  }
  return encoded_bytes(program);
}

uint64_t head_bytes(const Model& model, bool packed, bool prompts, int64_t pieces) {
  Program program;
  lower::HollowWeights weights(packed);
  lower::HeadSpec spec;
  spec.piece_rows = std::max<int64_t>(1, model.vocab / pieces);
  spec.last_row = spec.piece_rows * pieces;
  for (const int64_t tokens : function_tokens(model, prompts)) {
    spec.tokens = {tokens, tokens};
    lower::build_head(program, fmt::format("t{}", tokens), model, weights, spec);
  }
  return encoded_bytes(program);
}

}  // namespace

uint64_t encoded_bytes(const Program& program) {
  // Constants lie somewhere in a weight file; offsets of real size, for the bytes that they take.
  const uint64_t somewhere = uint64_t{1} << 24;
  const auto place = [&](const Constant& c) -> std::optional<uint64_t> {
    if (!std::holds_alternative<Constant::Source>(c.data)) return std::nullopt;
    return somewhere;
  };
  return encode_program(program, place).size() + encode_description(description_of(program)).size();
}

std::vector<int64_t> function_tokens(const Model& model, bool prompts) {
  if (!model.generates()) return text_lengths(model);
  return prompts ? std::vector<int64_t>{1, 64} : std::vector<int64_t>{1};
}

GraphBytes graph_bytes(const Model& model, bool packed, bool prompts) {
  GraphBytes g;
  // Layers may differ (windows): the slope is taken over all of them where they are few, else over the first ones.
  // Every expert is a part of such a graph: two layers of many experts are enough.
  constexpr int64_t kManyExperts = 16;
  const bool large = std::ranges::any_of(model.layers, [](const Layer& l) {
    const Experts* experts = find_experts(l);
    return experts && experts->count() > kManyExperts;
  });
  const size_t most = std::min<size_t>(model.layers.size(), large ? 2 : 12);
  const uint64_t one = layers_bytes(model, packed, prompts, 1),
                 many = layers_bytes(model, packed, prompts, most);
  g.layer = most > 1 ? (many - one) / (most - 1) : one;
  // A first layer that is smaller than the others leaves nothing for the package itself.
  if (one < g.layer) g.layer = many / most;
  g.layers = one - std::min(one, g.layer);
  if (!model.generates()) return g;
  const uint64_t head1 = head_bytes(model, packed, prompts, 1),
                 head2 = head_bytes(model, packed, prompts, model.vocab > 1 ? 2 : 1);
  g.piece = head2 > head1 ? head2 - head1 : head1;
  g.head = head1 - std::min(head1, g.piece);
  return g;
}

}  // namespace anemone
