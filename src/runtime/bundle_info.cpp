#include "runtime/bundle_info.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/mapped_file.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const RopeTable& r) {
  Json out = {{"cos", r.cos},
              {"sin", r.sin},
              {"attention_factor", r.attention_factor},
              {"frequencies", r.frequencies}};
  if (!r.long_frequencies.empty()) {
    out["original_context"] = r.original_context;
    out["long_frequencies"] = r.long_frequencies;
  }
  return out;
}

constexpr std::pair<Stage::Kind, const char*> kKinds[] = {
    {Stage::Kind::layers, "layers"}, {Stage::Kind::head, "head"}, {Stage::Kind::whole, "whole"}};

std::string kind_name(Stage::Kind kind) {
  for (const auto& [value, name] : kKinds)
    if (value == kind) return name;
  return "";
}

Stage::Kind kind_from(const std::string& text) {
  for (const auto& [value, name] : kKinds)
    if (name == text) return value;
  throw errorf("unknown stage '{}'", text).expected("layers, head or whole");
}

Json to_json(const Stage& s) {
  Json out = {{"kind", kind_name(s.kind)}, {"package", s.package}};
  if (s.has_layers()) out["layers"] = {s.first_layer, s.last_layer};
  out["functions"] = Json::array();
  for (const StageFunction& f : s.functions) {
    Json entry = {{"name", f.name}, {"tokens", {f.least_tokens, f.most_tokens}}};
    if (s.has_layers()) entry["context"] = f.context;
    out["functions"].push_back(entry);
  }
  for (const HeadPiece& p : s.pieces) {
    Json entry = {{"first_row", p.first_row}, {"rows", p.rows}};
    if (p.logits.empty()) {
      entry["best"] = p.best;
      entry["high"] = p.high;
      entry["low"] = p.low;
    } else {
      entry["logits"] = p.logits;
    }
    out["pieces"].push_back(entry);
  }
  return out;
}

RopeTable rope_from(const Json& j) {
  RopeTable r;
  r.cos = j.at("cos");
  r.sin = j.at("sin");
  r.attention_factor = j.at("attention_factor");
  r.frequencies = j.at("frequencies").get<std::vector<double>>();
  if (j.contains("long_frequencies")) {
    r.long_frequencies = j.at("long_frequencies").get<std::vector<double>>();
    r.original_context = j.at("original_context");
  }
  return r;
}

Stage stage_from(const Json& j) {
  Stage s;
  s.kind = kind_from(j.at("kind"));
  s.package = j.at("package");
  if (s.has_layers()) {
    s.first_layer = j.at("layers").at(0);
    s.last_layer = j.at("layers").at(1);
  }
  for (const Json& f : j.at("functions")) {
    StageFunction function;
    function.name = f.at("name");
    function.least_tokens = f.at("tokens").at(0);
    function.most_tokens = f.at("tokens").at(1);
    function.context = f.value("context", int64_t{0});
    s.functions.push_back(function);
  }
  if (j.contains("pieces"))
    for (const Json& p : j.at("pieces"))
      s.pieces.push_back({p.at("first_row"), p.at("rows"), p.value("logits", ""), p.value("best", ""),
                          p.value("high", ""), p.value("low", "")});
  return s;
}

BundleInfo parse(const Json& j) {
  if (j.value("format", "") != "anemone-bundle")
    throw errorf("is not a bundle's description").expected("\"format\": \"anemone-bundle\"");
  const int version = j.at("version");
  if (version != kBundleVersion)
    throw errorf("the bundle was written by another version of anemone")
        .found(fmt::format("version {}", version))
        .expected(fmt::format("{}", kBundleVersion))
        .hint("convert the model again");
  BundleInfo b;
  b.tool = j.at("tool");
  const Json& source = j.at("source");
  b.source = source.at("file");
  b.name = source.at("name");
  b.architecture = source.at("architecture");
  b.author = source.at("author");
  b.license = source.at("license");
  const Json& model = j.at("model");
  b.family = model.at("family");
  b.hidden = model.at("hidden");
  b.layers = model.at("layers");
  b.heads = model.at("heads");
  b.kv_heads = model.at("kv_heads");
  b.head_dim = model.at("head_dim");
  b.cache_width = model.at("cache_width");
  b.vocab = model.at("vocab");
  b.model_context = model.at("context");
  const Json& choices = j.at("choices");
  b.precision = choices.at("precision");
  b.kv = choices.at("kv");
  b.kv_write = choices.at("kv_write");
  b.target = choices.at("target");
  b.argmax = choices.at("argmax");
  b.residual_scale = choices.at("residual_scale");
  const Json& embedding = j.at("embedding");
  if (embedding.contains("parts"))
    for (const Json& part : embedding.at("parts"))
      b.embedding_parts.push_back({part.at("file"), part.at("offset"), part.value("scales", uint64_t{0}),
                                   part.at("first_row"), part.at("rows")});
  else
    b.embedding_file = embedding.at("file");
  b.embedding_dtype = embedding.at("dtype");
  b.embedding_scales = embedding.value("scales", "");
  b.embedding_scale = embedding.at("scale");
  for (const Json& r : j.at("ropes")) b.ropes.push_back(rope_from(r));
  for (const Json& m : j.at("masks")) b.masks.push_back({m.at("name"), m.at("window")});
  const Json& tokens = j.at("tokens");
  if (tokens.contains("bos")) b.bos = tokens.at("bos").get<int64_t>();
  b.eos = tokens.at("eos").get<std::vector<int64_t>>();
  b.tokenizer = tokens.value("tokenizer", "");
  for (const Json& s : j.at("stages")) b.stages.push_back(stage_from(s));
  for (const Json& f : j.at("files")) b.files.push_back({f.at("path"), f.at("bytes"), f.at("xxh3")});
  return b;
}

}  // namespace

std::string BundleInfo::json() const {
  Json j = {{"format", "anemone-bundle"}, {"version", kBundleVersion}, {"tool", tool}};
  j["source"] = {{"file", source},
                 {"name", name},
                 {"architecture", architecture},
                 {"author", author},
                 {"license", license}};
  j["model"] = {
      {"family", family},        {"hidden", hidden},     {"layers", layers},           {"heads", heads},
      {"kv_heads", kv_heads},    {"head_dim", head_dim}, {"cache_width", cache_width}, {"vocab", vocab},
      {"context", model_context}};
  j["choices"] = {{"precision", precision}, {"kv", kv},         {"kv_write", kv_write},
                  {"target", target},       {"argmax", argmax}, {"residual_scale", residual_scale}};
  j["embedding"] = {{"dtype", embedding_dtype}, {"scale", embedding_scale}};
  if (!embedding_file.empty()) j["embedding"]["file"] = embedding_file;
  if (!embedding_scales.empty()) j["embedding"]["scales"] = embedding_scales;
  for (const EmbeddingPart& p : embedding_parts) {
    Json part = {{"file", p.file}, {"offset", p.offset}};
    if (p.scales) part["scales"] = p.scales;
    part["first_row"] = p.first_row;
    part["rows"] = p.rows;
    j["embedding"]["parts"].push_back(part);
  }
  j["ropes"] = Json::array();
  for (const RopeTable& r : ropes) j["ropes"].push_back(to_json(r));
  j["masks"] = Json::array();
  for (const MaskInfo& m : masks) j["masks"].push_back({{"name", m.name}, {"window", m.window}});
  j["tokens"] = {{"eos", eos}};
  if (bos) j["tokens"]["bos"] = *bos;
  if (!tokenizer.empty()) j["tokens"]["tokenizer"] = tokenizer;
  j["stages"] = Json::array();
  for (const Stage& s : stages) j["stages"].push_back(to_json(s));
  j["files"] = Json::array();
  for (const BundleFile& f : files)
    j["files"].push_back({{"path", f.path}, {"bytes", f.bytes}, {"xxh3", f.xxh3}});
  return json_text(j, 1) + "\n";
}

BundleInfo BundleInfo::read(const std::filesystem::path& bundle) {
  const std::filesystem::path path = bundle / kBundleFile;
  try {
    const auto file = MappedFile::open(path);
    return parse(Json::parse(file->text()));
  } catch (Error& e) {
    if (e.where().empty()) e.at(path.string());
    throw;
  } catch (const nlohmann::json::exception& e) {
    throw Error("is not a bundle's description").at(path.string()).found(e.what());
  }
}

}  // namespace anemone
