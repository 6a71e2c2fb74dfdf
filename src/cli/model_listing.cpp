#include "cli/model_listing.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "check/bundle_packages.h"
#include "checkpoint/checkpoint.h"
#include "families/family.h"
#include "package/summary.h"
#include "text/tokenizer.h"

namespace anemone::cli {
namespace {

namespace fs = std::filesystem;

void add_tokenizer(const fs::path& path, ModelListing& out) {
  try {
    const auto tokenizer = Tokenizer::load(path);
    out.tokenizer = tokenizer->model_name();
    out.tokens = tokenizer->vocabulary_size();
    out.chat_template = !tokenizer->chat_template().empty();
  } catch (const Error& e) {
    out.notes.push_back(fmt::format("the tokenizer cannot be read: {}", e.what()));
  }
}

// The first of these keys that holds a number, in the metadata itself or in the part of config.json about text.
int64_t number(const Checkpoint& c, std::initializer_list<std::string> keys) {
  const auto text = c.value("text_config");
  for (const std::string& key : keys) {
    auto value = c.value(key);
    if (!value && text && text->is_object() && text->contains(key)) value = text->at(key);
    if (value && value->is_number_integer()) return std::max<int64_t>(0, value->get<int64_t>());
  }
  return 0;
}

// Of a family that we do not know: both formats have keys that all models share.
void read_common_keys(const Checkpoint& c, ModelListing& out) {
  const std::string& a = c.architecture();
  out.layers = number(c, {a + ".block_count", "num_hidden_layers", "n_layer"});
  out.hidden = number(c, {a + ".embedding_length", "hidden_size", "n_embd"});
  out.context = number(c, {a + ".context_length", "max_position_embeddings", "n_positions"});
  out.heads = number(c, {a + ".attention.head_count", "num_attention_heads", "n_head"});
  out.kv_heads = number(c, {a + ".attention.head_count_kv", "num_key_value_heads"});
  out.head_dim = number(c, {a + ".attention.key_length", "head_dim"});
  out.vocab = number(c, {a + ".vocab_size", "vocab_size"});
}

void describe_model(const Checkpoint& c, ModelListing& out) {
  try {
    const Model m = describe(c);
    const ModelSizes sizes = sizes_of(m);
    out.family = m.family;
    out.layers = static_cast<int64_t>(m.layers.size());
    out.hidden = m.hidden;
    out.context = m.context;
    out.heads = sizes.heads;
    out.kv_heads = sizes.kv_heads;
    out.head_dim = sizes.head_dim;
    out.vocab = m.vocab;
  } catch (const Error& e) {
    read_common_keys(c, out);
    out.notes.push_back(fmt::format("convert cannot take it: {}", e.what()));
  }
}

uint64_t bytes_of_file(const BundleInfo& info, const std::string& path) {
  for (const BundleFile& f : info.files)
    if (f.path == path) return f.bytes;
  return 0;
}

void add_table(const BundleInfo& info, const std::string& name, const EmbeddingTable& table,
               ModelListing& out) {
  if (!table) return;
  const uint64_t bytes =
      bytes_of_file(info, table.file) + (table.scales.empty() ? 0 : bytes_of_file(info, table.scales));
  out.weights.push_back(
      {name, table.file, {table.rows, info.hidden}, table.dtype, table.rows * info.hidden, bytes});
}

}  // namespace

double ListedWeight::bits() const {
  return elements ? 8.0 * static_cast<double>(bytes) / static_cast<double>(elements) : 0;
}

int64_t ModelListing::parameters() const {
  int64_t total = 0;
  for (const ListedWeight& w : weights) total += w.elements;
  return total;
}

uint64_t ModelListing::weight_bytes() const {
  uint64_t total = 0;
  for (const ListedWeight& w : weights) total += w.bytes;
  return total;
}

ModelListing list_checkpoint(const std::string& path) {
  const Checkpoint c = Checkpoint::open(path);
  ModelListing out;
  out.format = c.format_name();
  out.name = c.source_name();
  out.architecture = c.architecture();
  out.author = c.author();
  out.license = c.license();
  describe_model(c, out);
  if (!c.tokenizer().main.empty()) add_tokenizer(path, out);
  for (const TensorReader& t : c.tensors())
    out.weights.push_back(
        {t.name(), "", t.shape(), std::string(t.type_name()), t.elements(), t.stored_bytes()});
  return out;
}

ModelListing list_bundle(const std::string& path, const BundleInfo& info) {
  ModelListing out;
  out.format = "bundle";
  out.name = info.name.empty() ? info.source : info.name;
  out.architecture = info.architecture;
  out.family = info.family;
  out.author = info.author;
  out.license = info.license;
  out.context = info.model_context;
  out.layers = info.layers;
  out.hidden = info.hidden;
  out.heads = info.heads;
  out.kv_heads = info.kv_heads;
  out.head_dim = info.head_dim;
  out.vocab = info.vocab;
  if (!info.tokenizer.empty()) add_tokenizer(fs::path(path) / info.tokenizer, out);
  add_table(info, "tokens", info.tokens, out);
  add_table(info, "positions", info.positions, out);
  add_table(info, "types", info.types, out);
  const std::vector<std::string> names = info.packages();
  const auto packages = open_packages(info, path);
  for (size_t i = 0; i < packages.size(); ++i) {
    for (const WeightInfo& w : summarize(*packages[i]).weights)
      out.weights.push_back({w.name, names[i], w.type.dims(), w.form, w.type.size(), w.bytes});
    for (const std::string& note : packages[i]->notes)
      out.notes.push_back(fmt::format("{}: {}", names[i], note));
  }
  return out;
}

}  // namespace anemone::cli
