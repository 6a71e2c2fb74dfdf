// Every field of bundle.json, one by one: numbers off by one, texts and entries in each other's place or left out.
#include <map>

#include "base/error.h"
#include "mutation/graph.h"
#include "mutation/mutation.h"

namespace anemone::mutation {
namespace {

using Pointer = Json::json_pointer;

// Of no consequence for what runs: who made the bundle, what verify looks at; and the hashes, which files.cpp breaks.
bool is_outside(const std::string& key) {
  return key == "tool" || key == "source" || key == "files" || key == "taps";
}

// "stages[0].functions[1].name"
std::string readable(const Pointer& at) {
  std::string out;
  const std::string text = at.to_string();
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find('/', i + 1), text.size());
    const std::string part = text.substr(i + 1, end - i - 1);
    if (part.find_first_not_of("0123456789") == std::string::npos)
      out += "[" + part + "]";
    else
      out += (out.empty() ? "" : ".") + part;
    i = end;
  }
  return out;
}

// The words by which a report may name a field.
std::vector<std::string> words_for(const Subject& subject, const Pointer& at) {
  const Json& root = subject.json;
  static const std::map<std::string, std::vector<std::string>> kWords = {
      {"ropes", {"rope", "ropes", "rotation", "frequencies", "frequency", "attention factor"}},
      {"masks", {"mask", "masks", "window", "reach"}},
      {"embedding", {"embedding", "scale", "rows"}},
      {"tokens", {"eos", "bos", "pad", "ends", "begins", "tokenizer", "token"}},
      {"result", {"pooling", "pooled", "labels", "label", "classes", "normalize", "length"}},
      {"model", {"vocabulary", "hidden", "layers", "heads", "context", "family", "model"}},
      {"choices", {"residual", "kv", "cache", "precision", "argmax", "best"}},
      {"kind", {"kind"}},
      {"format", {"format", "bundle"}},
      {"version", {"version"}},
  };
  std::vector<std::string> out{readable(at)};
  Pointer place;
  const std::string text = at.to_string();
  const auto index = static_cast<size_t>(std::atoll(text.substr(std::min<size_t>(7, text.size())).c_str()));
  std::vector<std::string> layers;
  if (text.starts_with("/ropes/")) layers = layers_with(subject, {Role::Kind::cos, Role::Kind::sin}, index);
  if (text.starts_with("/masks/")) layers = layers_with(subject, {Role::Kind::mask}, index);
  out.insert(out.end(), layers.begin(), layers.end());
  bool first = true;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find('/', i + 1), text.size());
    const std::string part = text.substr(i + 1, end - i - 1);
    const Json& holder = root.at(place);
    place = holder.is_array() ? place / static_cast<size_t>(std::stoull(part)) : place / part;
    if (first && kWords.contains(part)) out.insert(out.end(), kWords.at(part).begin(), kWords.at(part).end());
    first = false;
    out.push_back(part);
    // A port, a function, a stage: by its name.
    if (root.contains(place) && root.at(place).is_object())
      for (const char* key : {"name", "package", "role", "file"})
        if (root.at(place).contains(key)) out.push_back(root.at(place).at(key).get<std::string>());
    i = end;
  }
  std::erase_if(out,
                [](const std::string& w) { return w.find_first_not_of("0123456789") == std::string::npos; });
  return out;
}

class Walker {
 public:
  Walker(const Subject& subject, Rng& rng) : subject_(subject), root_(subject.json), rng_(rng) {}

  std::vector<Mutation> walk() {
    collect(root_, Pointer());
    visit(root_, Pointer());
    return std::move(out_);
  }

 private:
  // Texts by their key, so that one can be taken for another.
  void collect(const Json& j, const Pointer& at) {
    if (j.is_string() && !at.empty()) texts_[at.back()].push_back(at);
    if (j.is_object()) {
      for (const auto& [key, value] : j.items())
        if (!is_outside(key)) collect(value, at / key);
    } else if (j.is_array()) {
      for (size_t i = 0; i < j.size(); ++i) collect(j[i], at / i);
    }
  }

  void add(const std::string& kind, const Pointer& at, const std::string& detail,
           const std::function<void(Json&)>& change) {
    Mutation m;
    m.group = "info";
    m.kind = kind;
    m.place = "bundle.json " + readable(at) + (detail.empty() ? "" : " " + detail);
    m.expected = {words_for(subject_, at), 6};
    m.apply = [=](Workspace& w) { w.edit_info(change); };
    out_.push_back(std::move(m));
  }

  void visit(const Json& j, const Pointer& at) {
    if (j.is_object()) {
      for (const auto& [key, value] : j.items())
        if (!is_outside(key)) visit(value, at / key);
      return;
    }
    if (j.is_array()) return list(j, at);
    if (j.is_number_integer()) {
      add("number one more", at, "", [=](Json& r) { r.at(at) = r.at(at).get<int64_t>() + 1; });
      add("number one less", at, "", [=](Json& r) { r.at(at) = r.at(at).get<int64_t>() - 1; });
    } else if (j.is_number_float()) {
      add("number times 1.05", at, "", [=](Json& r) { r.at(at) = r.at(at).get<double>() * 1.05; });
      add("number halved", at, "", [=](Json& r) { r.at(at) = r.at(at).get<double>() * 0.5; });
    } else if (j.is_boolean()) {
      add("flag flipped", at, "", [=](Json& r) { r.at(at) = !r.at(at).get<bool>(); });
    } else if (j.is_string()) {
      std::vector<Pointer> others;
      for (const Pointer& p : texts_[at.back()])
        if (root_.at(p) != j) others.push_back(p);
      if (others.empty()) return;
      const Pointer other = rng_.pick(others);
      add("two texts exchanged", at, "with " + readable(other),
          [=](Json& r) { std::swap(r.at(at), r.at(other)); });
    }
  }

  void list(const Json& j, const Pointer& at) {
    for (size_t i = 0; i < j.size(); ++i) {
      visit(j[i], at / i);
      add("entry left out", at / i, "", [=](Json& r) { r.at(at).erase(i); });
      if (i + 1 < j.size() && j[i] != j[i + 1])
        add("two entries exchanged", at / i, "with the next",
            [=](Json& r) { std::swap(r.at(at).at(i), r.at(at).at(i + 1)); });
    }
  }

  const Subject& subject_;
  const Json& root_;
  Rng& rng_;
  std::map<std::string, std::vector<Pointer>> texts_;
  std::vector<Mutation> out_;
};

}  // namespace

std::vector<Mutation> info_sites(const Subject& subject, Rng& rng) { return Walker(subject, rng).walk(); }

}  // namespace anemone::mutation
