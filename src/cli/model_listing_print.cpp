#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json_text.h"
#include "base/shape.h"
#include "base/words.h"
#include "check/wrap.h"
#include "cli/format.h"
#include "cli/model_listing.h"
#include "cli/weight_table.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumns = 100, kNameLength = 200;

std::string count_text(int64_t count) {
  const auto n = static_cast<double>(count);
  return count < 1'000'000       ? fmt::format("{}", count)
         : count < 1'000'000'000 ? fmt::format("{:.1f} M", n / 1e6)
                                 : fmt::format("{:.2f} B", n / 1e9);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "blk.*.attn_q.weight" for the tensors of all layers: a number that is a part of the name by itself, or that follows
// an l at its start ("l3_q_weight"), is left open.
std::string layer_pattern(const std::string& name) {
  std::string out;
  for (size_t i = 0; i < name.size();) {
    const bool opens = i == 0 || name[i - 1] == '.' || name[i - 1] == '_' || (i == 1 && name[0] == 'l');
    size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const bool closes = end == name.size() || name[end] == '.' || name[end] == '_';
    if (end > i && opens && closes) {
      out += '*';
      i = end;
    } else {
      out += name[i++];
    }
  }
  return out;
}

struct Fold {
  const ListedWeight* first = nullptr;
  std::string name;
  int count = 0;
  uint64_t bytes = 0;
};

std::vector<Fold> folded(const std::vector<ListedWeight>& weights, bool each) {
  std::vector<Fold> out;
  std::map<std::tuple<std::string, std::vector<int64_t>, std::string>, size_t> places;
  for (const ListedWeight& w : weights) {
    const std::string pattern = each ? w.name : layer_pattern(w.name);
    const auto [it, fresh] = places.try_emplace({pattern, w.shape, w.type}, out.size());
    if (fresh || each) {
      out.push_back({&w, w.name, 1, w.bytes});
      continue;
    }
    Fold& fold = out[it->second];
    fold.name = pattern;
    ++fold.count;
    fold.bytes += w.bytes;
  }
  return out;
}

std::string sizes_text(const ModelListing& m) {
  std::string out;
  const auto add = [&](int64_t value, const char* text) {
    if (value > 0) out += (out.empty() ? "" : ", ") + fmt::format(fmt::runtime(text), value);
  };
  add(m.layers, "{} layers");
  add(m.hidden, "hidden {}");
  add(m.heads, "{} query heads");
  add(m.kv_heads, "{} KV heads");
  add(m.head_dim, "head size {}");
  add(m.vocab, "vocabulary {}");
  add(m.context, "context {}");
  return out.empty() ? "not said" : out;
}

double bits_in_all(const ModelListing& m) {
  return m.parameters() ? 8.0 * static_cast<double>(m.weight_bytes()) / static_cast<double>(m.parameters())
                        : 0;
}

}  // namespace

void print_facts(const ModelListing& m) {
  fmt::print("  {:<11} {}, {}, {:.2f} bits per weight\n", "parameters", count_text(m.parameters()),
             size_text(m.weight_bytes()), bits_in_all(m));
  fmt::print("{}", wrap("  sizes       ", sizes_text(m), kColumns));
  fmt::print("  {:<11} {}\n", "tokenizer",
             m.tokenizer.empty() ? "none" : fmt::format("{}, {} tokens", m.tokenizer, m.tokens));
  fmt::print("  {:<11} {}\n", "template", m.chat_template ? "yes" : "no");
  fmt::print("  {:<11} {}\n", "license", m.license.empty() ? "not said" : one_line(m.license, 80));
}

void print_weights(const ModelListing& m, bool each) {
  std::vector<WeightLine> lines = {{"weight", "shape", "size", "bits", "stored as"}};
  for (const Fold& fold : folded(m.weights, each)) {
    const ListedWeight& w = *fold.first;
    lines.push_back({one_line(fold.name, kNameLength), shape_text(w.shape), size_text(fold.bytes),
                     fmt::format("{:.2f}", w.elements ? 8.0 * static_cast<double>(fold.bytes) /
                                                            static_cast<double>(w.elements * fold.count)
                                                      : 0.0),
                     w.type + (fold.count > 1 ? fmt::format(", {} of them", fold.count) : "")});
  }
  lines.push_back({"all", fmt::format("{} weights", m.weights.size()), size_text(m.weight_bytes()),
                   fmt::format("{:.2f}", bits_in_all(m)), ""});
  print_weight_table(lines);
}

void add_listing(const ModelListing& m, Json& out) {
  out["parameters"] = m.parameters();
  out["weight_bytes"] = m.weight_bytes();
  out["bits_per_weight"] = bits_in_all(m);
  for (const auto& [key, value] :
       {std::pair("context", m.context), std::pair("layers", m.layers), std::pair("hidden", m.hidden),
        std::pair("heads", m.heads), std::pair("kv_heads", m.kv_heads), std::pair("head_dim", m.head_dim),
        std::pair("vocabulary", m.vocab)})
    out[key] = value > 0 ? Json(value) : Json();
  out["tokenizer"] = m.tokenizer.empty() ? Json() : Json{{"kind", m.tokenizer}, {"tokens", m.tokens}};
  out["chat_template"] = m.chat_template;
  out["license"] = m.license.empty() ? Json() : Json(m.license);
  out["weights"] = Json::array();
  for (const ListedWeight& w : m.weights) {
    Json row = {{"name", w.name}};
    if (!w.place.empty()) row["place"] = w.place;
    row.update(Json{{"shape", w.shape},
                    {"type", w.type},
                    {"elements", w.elements},
                    {"bytes", w.bytes},
                    {"bits_per_weight", w.bits()}});
    out["weights"].push_back(std::move(row));
  }
  out["notes"] = m.notes;
}

int inspect_checkpoint(const std::string& path, bool each_weight, bool json, bool quiet) {
  const ModelListing m = list_checkpoint(path);
  if (json) {
    Json out = {{"path", path},
                {"format", m.format},
                {"name", m.name},
                {"architecture", m.architecture},
                {"family", m.family.empty() ? Json() : Json(m.family)},
                {"author", m.author}};
    add_listing(m, out);
    fmt::print("{}\n", json_text(out, 2));
    return 0;
  }
  fmt::print(
      "{}\n  a {} checkpoint: {}{}{}\n", path, m.format, m.name.empty() ? "" : one_line(m.name, 60) + ", ",
      m.architecture.empty() ? "architecture not said" : "architecture " + one_line(m.architecture, 60),
      m.author.empty() ? "" : ", by " + one_line(m.author, 60));
  print_facts(m);
  print_weights(m, each_weight);
  if (quiet) return 0;
  for (const std::string& note : m.notes) fmt::print("\n{}", wrap("note: ", one_line(note, 1000), kColumns));
  return 0;
}

}  // namespace anemone::cli
