// What genai_config.json and config.json say, against what the graph is. Both must agree: a contradiction shows both.
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "checkpoint/byte_reader.h"
#include "families/hparams.h"
#include "families/recover/recover.h"
#include "families/rope_params.h"
#include "families/size_names.h"

namespace anemone::recover {
namespace {

using Json = nlohmann::ordered_json;

struct Said {
  Json value;
  std::string where;  // "'hidden_size' of genai_config.json"
};

const Json* down(const Json& from, std::initializer_list<const char*> path) {
  const Json* at = &from;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return at->is_null() ? nullptr : at;
}

// All that the two files say under these names.
std::vector<Said> said(const Context& c, const char* genai, const char* config) {
  const OnnxBundle& b = c.graph.bundle();
  std::vector<Said> out;
  if (b.genai && *genai)
    for (const Json* at : {down(*b.genai, {"model", "decoder", genai}), down(*b.genai, {"model", genai})})
      if (at) {
        out.push_back({*at, fmt::format("'{}' of genai_config.json", genai)});
        break;
      }
  if (b.config && *config)
    for (const Json* at : {down(*b.config, {"text_config", config}), down(*b.config, {config})})
      if (at) {
        out.push_back({*at, fmt::format("'{}' of config.json", config)});
        break;
      }
  return out;
}

int64_t integer_of(const Context& c, const Said& s) {
  if (!s.value.is_number_integer() || s.value.get<double>() < 0 || s.value.get<double>() > 0x1p40)
    throw errorf("{} is no number of its kind", s.where)
        .at(c.checkpoint.folder().string())
        .found(printable(s.value.dump()));
  return s.value.get<int64_t>();
}

std::optional<int64_t> first_integer(const Context& c, const char* genai, const char* config) {
  const std::vector<Said> all = said(c, genai, config);
  return all.empty() ? std::nullopt : std::optional(integer_of(c, all[0]));
}

// A size of the graph, and what the files say it is.
struct Size {
  const char *genai, *config;
  std::string_view text;  // size_names.h
  int64_t found;
};

Error contradiction(const Context& c, std::string both) {
  return Error("the config and the graph contradict each other")
      .at(c.graph.model().path())
      .found(std::move(both))
      .hint("take the config that was made with this file, or correct the value");
}

void check_sizes(const Context& c, Model& m) {
  const ModelSizes sizes = sizes_of(m);
  const Size all[] = {
      {"hidden_size", "hidden_size", size_names::kHidden, m.hidden},
      {"num_hidden_layers", "num_hidden_layers", size_names::kLayers, std::ssize(m.layers)},
      {"num_attention_heads", "num_attention_heads", size_names::kHeads, sizes.heads},
      {"num_key_value_heads", "num_key_value_heads", size_names::kKeyHeads, sizes.kv_heads},
      {"head_size", "head_dim", size_names::kHeadSize, sizes.head_dim},
      {"vocab_size", "vocab_size", size_names::kVocabulary, m.vocab},
      {"", "intermediate_size", size_names::kMlp, sizes.intermediate},
  };
  const bool experts = !m.layers.empty() && std::holds_alternative<Experts>(m.layers[0].steps.back().block);
  for (const Size& size : all) {
    if (experts && size.text == size_names::kMlp) continue;  // the key is another one
    for (const Said& s : said(c, size.genai, size.config)) {
      const int64_t value = integer_of(c, s);
      if (value != size.found)
        throw contradiction(c, fmt::format("{} in the graph; {} is {}",
                                           fmt::format(fmt::runtime(size.text), size.found), s.where, value));
      m.origins.emplace(size.text, s.where);
    }
  }
  if (m.embedding.tokens.rows() != m.vocab)
    throw Error("the embedding and the head have different vocabularies")
        .at(c.graph.model().path())
        .found(fmt::format("{} rows of the embedding, {} logits", m.embedding.tokens.rows(), m.vocab));
}

void check_eps(const Context& c, const Model& m) {
  for (const Said& s : said(c, "", "rms_norm_eps")) {
    if (!s.value.is_number()) continue;
    const double value = s.value.get<double>(), found = m.final_norm->eps;
    const double half = round_to_half(static_cast<float>(value));  // as fp16 graphs hold it
    if (std::abs(found - value) > 1e-3 * value && found != half)
      throw contradiction(
          c, fmt::format("norms with epsilon {:.6g} in the graph; {} is {:.6g}", found, s.where, value));
  }
}

// One plain rope in config.json must be the graph's. Others are described by the tables alone.
void check_rope(const Context& c, const Model& m) {
  const auto& config = c.graph.bundle().config;
  const Attention* a = first_attention(m);
  if (!config || m.ropes.size() != 1 || m.ropes[0].scaling != RopeScaling::none || !a ||
      !config->contains("model_type"))
    return;
  if (!config->contains("rope_theta") && !config->contains("rope_parameters")) return;
  Rope rope;
  try {
    const Checkpoint alone = Checkpoint::from_config(*config, "config.json");
    rope = read_rope(Hparams(alone), {.head_dim = a->head_dim, .context = m.context});
  } catch (const Error&) {
    return;
  }
  if (rope.scaling == RopeScaling::none && std::abs(rope.base - m.ropes[0].base) > 1e-3 * rope.base)
    throw contradiction(c, fmt::format("a rope of base {:.6g} in the graph; config.json says {:.6g}",
                                       m.ropes[0].base, rope.base));
}

std::vector<int64_t> ids_of(const Context& c, const Said& s, int64_t vocab) {
  std::vector<int64_t> out;
  for (const Json& one : s.value.is_array() ? s.value : Json::array({s.value})) {
    if (one.is_number_integer() && one.get<double>() == -1) continue;  // none
    const int64_t id = integer_of(c, {one, s.where});
    if (id >= vocab)
      throw errorf("{} is no token of the vocabulary", s.where)
          .at(c.checkpoint.folder().string())
          .found(std::to_string(id))
          .expected(fmt::format("below {}", vocab));
    out.push_back(id);
  }
  return out;
}

void read_tokens(const Context& c, Model& m) {
  for (const Said& s : said(c, "bos_token_id", "bos_token_id"))
    if (const auto ids = ids_of(c, s, m.vocab); !ids.empty() && !m.bos) m.bos = ids[0];
  for (const Said& s : said(c, "pad_token_id", "pad_token_id"))
    if (const auto ids = ids_of(c, s, m.vocab); !ids.empty() && !m.pad) m.pad = ids[0];
  std::vector<Said> ends = said(c, "eos_token_id", "eos_token_id");
  if (const auto file = c.checkpoint.companion("generation_config.json"); file && !c.graph.bundle().genai)
    if (const Json* at = down(*file, {"eos_token_id"}))
      ends.insert(ends.begin(), {*at, "'eos_token_id' of generation_config.json"});
  for (const Said& s : ends)
    for (const int64_t id : ids_of(c, s, m.vocab))
      if (std::find(m.eos.begin(), m.eos.end(), id) == m.eos.end()) m.eos.push_back(id);
}

std::string text_of(const Context& c, const char* genai, const char* config) {
  for (const Said& s : said(c, genai, config))
    if (s.value.is_string()) return s.value.get<std::string>();
  return "";
}

// What no config says and the graph does.
void note_graph(Context& c, const Model& m) {
  const ModelSizes sizes = sizes_of(m);
  const auto note = [&](std::string text) { c.inferred.push_back(std::move(text)); };
  note(fmt::format(
      "{} layers, hidden size {}, {} query heads, {} KV heads of {}, MLP size {} (from the graph)",
      m.layers.size(), m.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.intermediate));
  if (m.final_norm) note(fmt::format("norms: epsilon {:.6g} (from the graph)", m.final_norm->eps));
  if (const Attention* a = first_attention(m)) {
    note(fmt::format("scores: times {:.6g}{} (from the graph)", a->scale,
                     a->softcap > 0 ? fmt::format(", soft-cap {:.6g}", a->softcap) : ""));
    size_t windowed = 0;
    int64_t window = 0;
    for (const Layer& layer : m.layers)
      if (const Attention* own = find_attention(layer); own && own->reach.kind == Reach::Kind::window)
        ++windowed, window = own->reach.size;
    if (windowed)
      note(fmt::format("{} of {} layers see a window of {} (from the graph)", windowed, m.layers.size(),
                       window));
  }
  if (m.embedding.scale != 1)
    note(fmt::format("embedding: times {:.6g} (from the graph)", m.embedding.scale));
  if (m.vocabulary_head().tied) note("head: the embedding's rows (the same constant of the graph)");
}

}  // namespace

void read_context(Context& c) {
  c.context = first_integer(c, "context_length", "max_position_embeddings").value_or(0);
  if (c.context == 0) c.context = first_integer(c, "", "n_positions").value_or(0);
  if (c.context < 2 || c.context > Hparams::kMost)
    throw Error("the config does not say for how many positions the model was made")
        .at(c.checkpoint.folder().string())
        .found(std::to_string(c.context))
        .expected("'context_length' of genai_config.json or 'max_position_embeddings' of config.json")
        .hint("add it; a network that is no decoder goes op by op: -o NAME.mlpackage");
  const int64_t heads = first_integer(c, "num_attention_heads", "num_attention_heads").value_or(1);
  c.kv_heads = first_integer(c, "num_key_value_heads", "num_key_value_heads").value_or(heads);
  const int64_t hidden = first_integer(c, "hidden_size", "hidden_size").value_or(heads);
  c.head_dim = first_integer(c, "head_size", "head_dim").value_or(heads > 0 ? hidden / heads : 1);
}

void apply_config(Context& c, Model& m) {
  m.context = c.context;
  m.name = c.checkpoint.source_name();
  m.architecture = text_of(c, "type", "model_type");
  check_sizes(c, m);
  check_eps(c, m);
  check_rope(c, m);
  read_tokens(c, m);
  if (m.embedding.positions) {
    m.context = std::min(m.context, m.embedding.positions.rows() - m.embedding.first_position);
    m.origins.emplace(size_names::kPositions, "the table of positions in the graph");
  }
  note_graph(c, m);
}

}  // namespace anemone::recover
