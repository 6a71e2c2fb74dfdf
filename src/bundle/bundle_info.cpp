#include "bundle/bundle_info.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/json_problem.h"
#include "base/json_text.h"
#include "base/mapped_file.h"
#include "bundle/check_info.h"
#include "bundle/fields.h"
#include "bundle/version1.h"

namespace anemone {
namespace {

using Json = BundleJson;

constexpr std::pair<BundleKind, std::string_view> kKinds[] = {
    {BundleKind::generate, "generate"}, {BundleKind::embed, "embed"}, {BundleKind::classify, "classify"}};
constexpr std::pair<StageKind, std::string_view> kStageKinds[] = {{StageKind::run, "run"},
                                                                  {StageKind::route, "route"},
                                                                  {StageKind::experts, "experts"},
                                                                  {StageKind::sum, "sum"}};
constexpr std::pair<Experts::Share, std::string_view> kShares[] = {{Experts::Share::of_all, "of_all"},
                                                                   {Experts::Share::of_chosen, "of_chosen"}};
constexpr std::pair<Experts::Skip, std::string_view> kSkips[] = {
    {Experts::Skip::none, "none"}, {Experts::Skip::pass, "pass"}, {Experts::Skip::zero, "zero"}};
constexpr std::pair<Reach::Kind, std::string_view> kReaches[] = {{Reach::Kind::causal, "causal"},
                                                                 {Reach::Kind::window, "window"},
                                                                 {Reach::Kind::full, "full"},
                                                                 {Reach::Kind::band, "band"}};
constexpr std::pair<Pooling, std::string_view> kPoolings[] = {{Pooling::mean, "mean"},
                                                              {Pooling::first, "first"}};
constexpr std::pair<ClassScores, std::string_view> kScores[] = {
    {ClassScores::softmax, "softmax"}, {ClassScores::sigmoid, "sigmoid"}, {ClassScores::plain, "plain"}};

template <class T, size_t N>
std::string_view name_in(const std::pair<T, std::string_view> (&table)[N], T value) {
  for (const auto& [entry, name] : table)
    if (entry == value) return name;
  return "";
}

template <class T, size_t N>
T value_in(const std::pair<T, std::string_view> (&table)[N], const std::string& text, const char* what) {
  std::string known;
  for (const auto& [entry, name] : table) {
    if (name == text) return entry;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw errorf("unknown {} '{}'", what, text).expected(known);
}

Json to_json(const RopeTable& r) {
  Json out = {{"attention_factor", r.attention_factor}, {"frequencies", r.frequencies}};
  if (!r.long_frequencies.empty()) {
    out["original_context"] = r.original_context;
    out["long_frequencies"] = r.long_frequencies;
  }
  return out;
}

RopeTable rope_from(const Fields& j) {
  RopeTable r;
  r.attention_factor = j["attention_factor"];
  r.frequencies = j["frequencies"].get<std::vector<double>>();
  if (j.has("long_frequencies")) {
    r.long_frequencies = j["long_frequencies"].get<std::vector<double>>();
    r.original_context = j["original_context"];
  }
  return r;
}

// Under which key a role's index stands; null: it has none.
const char* index_key(Role::Kind kind) {
  switch (kind) {
    case Role::Kind::cos:
    case Role::Kind::sin: return "rope";
    case Role::Kind::mask: return "mask";
    case Role::Kind::recurrent:
    case Role::Kind::new_recurrent: return "slot";
    case Role::Kind::advance: return "columns";
    default: return nullptr;
  }
}

// Left out where it is 0. Bundles that were written before there could be several have no such key, and mean 0.
bool may_lack_index(Role::Kind kind) {
  return kind == Role::Kind::recurrent || kind == Role::Kind::new_recurrent || kind == Role::Kind::advance;
}

// What the range of a role counts.
const char* range_key(Role::Kind kind) {
  return kind == Role::Kind::router ? "choices" : kind == Role::Kind::shares ? "experts" : "rows";
}

Json to_json(const Port& port) {
  Json out = {{"name", port.name}, {"role", role_name(port.role.kind)}};
  const Role& role = port.role;
  const char* key = index_key(role.kind);
  if (key && (role.index || !may_lack_index(role.kind))) out[key] = role.index;
  if (!role.layers.empty()) out["layers"] = role.layers;
  if (role.last > role.first) out[range_key(role.kind)] = {role.first, role.last};
  return out;
}

Port port_from(const Fields& j) {
  Port port{j["name"], {.kind = role_from_name(j["role"].get<std::string>())}};
  Role& role = port.role;
  if (const char* key = index_key(role.kind); key && j.has(key)) role.index = j[key];
  if (j.has("layers")) role.layers = j["layers"].get<std::vector<int64_t>>();
  if (const char* key = range_key(role.kind); j.has(key)) std::tie(role.first, role.last) = j[key].two();
  return port;
}

Json to_json(const std::vector<Port>& ports) {
  Json out = Json::array();
  for (const Port& port : ports) out.push_back(to_json(port));
  return out;
}

std::vector<Port> ports_from(const Fields& j) {
  std::vector<Port> out;
  for (const Fields& port : j.items()) out.push_back(port_from(port));
  return out;
}

Json to_json(const ExpertRule& r) {
  Json out = {{"experts", r.experts}, {"used", r.used}, {"shares", name_in(kShares, r.share)}};
  if (r.skip != Experts::Skip::none) {
    out["skip"] = name_in(kSkips, r.skip);
    out["skip_scale"] = r.skip_scale;
  }
  if (!r.choice_bias.empty()) out["choice_bias"] = r.choice_bias;
  return out;
}

ExpertRule rule_from(const Fields& j) {
  ExpertRule r;
  r.experts = j["experts"];
  r.used = j["used"];
  r.share = value_in(kShares, j["shares"], "kind of shares");
  if (j.has("skip")) {
    r.skip = value_in(kSkips, j["skip"], "skip");
    r.skip_scale = j["skip_scale"];
  }
  if (j.has("choice_bias")) r.choice_bias = j["choice_bias"].get<std::vector<double>>();
  return r;
}

Json to_json(const Stage& s) {
  Json out = {{"package", s.package}};
  if (s.kind != StageKind::run) out["kind"] = name_in(kStageKinds, s.kind);
  if (s.last_layer > s.first_layer) out["layers"] = {s.first_layer, s.last_layer};
  if (s.rule) out["rule"] = to_json(*s.rule);
  out["functions"] = Json::array();
  for (const StageFunction& f : s.functions) {
    Json entry = {{"name", f.name}, {"tokens", {f.least_tokens, f.most_tokens}}};
    if (f.context) entry["context"] = f.context;
    if (!f.variants.empty()) entry["variants"] = f.variants;
    entry["inputs"] = to_json(f.interface.inputs);
    if (!f.interface.states.empty()) entry["states"] = to_json(f.interface.states);
    entry["outputs"] = to_json(f.interface.outputs);
    out["functions"].push_back(std::move(entry));
  }
  for (const Tap& tap : s.taps) {
    Json entry = {{"value", tap.value}, {"name", tap.name}};
    if (tap.layer >= 0) entry["layer"] = tap.layer;
    if (tap.scale != 1) entry["scale"] = tap.scale;
    out["taps"].push_back(std::move(entry));
  }
  return out;
}

// A host that does not know a kind cannot run the bundle: without the stage the numbers would be wrong.
StageKind stage_kind(const std::string& text, const std::string& package) {
  try {
    return value_in(kStageKinds, text, "kind of stage");
  } catch (Error& e) {
    e.hint("the bundle was made by a newer anemone: use that one");
    e.within(package);
    throw;
  }
}

Stage stage_from(const Fields& j) {
  Stage s;
  s.package = j["package"].get<std::string>();
  if (j.has("kind")) s.kind = stage_kind(j["kind"], s.package);
  if (j.has("layers")) std::tie(s.first_layer, s.last_layer) = j["layers"].two();
  if (j.has("rule")) s.rule = rule_from(j["rule"]);
  for (const Fields& f : j["functions"].items()) {
    StageFunction function;
    function.name = f["name"].get<std::string>();
    std::tie(function.least_tokens, function.most_tokens) = f["tokens"].two();
    function.context = f.value("context", int64_t{0});
    if (f.has("variants")) function.variants = f["variants"].get<std::vector<std::string>>();
    function.interface.inputs = ports_from(f["inputs"]);
    if (f.has("states")) function.interface.states = ports_from(f["states"]);
    function.interface.outputs = ports_from(f["outputs"]);
    s.functions.push_back(std::move(function));
  }
  if (j.has("taps"))
    for (const Fields& tap : j["taps"].items())
      s.taps.push_back({tap["value"], tap["name"], tap.value("layer", int64_t{-1}), tap.value("scale", 1.0)});
  return s;
}

Json to_json(const EmbeddingTable& t) {
  Json out = {{"dtype", t.dtype}, {"rows", t.rows}};
  if (!t.file.empty()) out["file"] = t.file;
  if (!t.scales.empty()) out["scales"] = t.scales;
  return out;
}

EmbeddingTable table_from(const Fields& j) {
  return {j.value("file", std::string()), j["dtype"], j.value("scales", std::string()), j["rows"]};
}

Json embedding_json(const BundleInfo& b) {
  Json out = {{"scale", b.embedding_scale}, {"tokens", to_json(b.tokens)}};
  for (const EmbeddingPart& p : b.embedding_parts) {
    Json part = {{"file", p.file}, {"offset", p.offset}};
    if (p.scales) part["scales"] = p.scales;
    part["first_row"] = p.first_row;
    part["rows"] = p.rows;
    out["tokens"]["parts"].push_back(part);
  }
  if (b.positions) {
    out["positions"] = to_json(b.positions);
    out["positions"]["first"] = b.first_position;
  }
  if (b.types) out["types"] = to_json(b.types);
  return out;
}

void read_embedding(const Fields& j, BundleInfo& b) {
  b.embedding_scale = j["scale"];
  const Fields tokens = j["tokens"];
  b.tokens = table_from(tokens);
  if (tokens.has("parts"))
    for (const Fields& part : tokens["parts"].items())
      b.embedding_parts.push_back(
          {part["file"], part["offset"], part.value("scales", uint64_t{0}), part["first_row"], part["rows"]});
  if (j.has("positions")) {
    b.positions = table_from(j["positions"]);
    b.first_position = j["positions"]["first"];
  }
  if (j.has("types")) b.types = table_from(j["types"]);
}

void read_result(const Fields& j, BundleInfo& b) {
  if (j.has("pooling")) b.pooling = value_in(kPoolings, j["pooling"], "pooling");
  b.normalize = j.value("normalize", false);
  if (j.has("labels")) b.labels = j["labels"].get<std::vector<std::string>>();
  if (j.has("scores"))
    b.scores = value_in(kScores, j["scores"], "kind of scores");
  else if (b.labels.size() == 1)  // of bundles that do not say it
    b.scores = ClassScores::sigmoid;
}

BundleInfo parse(const Json& j, const std::filesystem::path& folder) {
  const Fields all(j, "");
  if (all.value("format", std::string()) != "anemone-bundle")
    throw errorf("is not a bundle's description").expected("\"format\": \"anemone-bundle\"");
  const int version = all["version"];
  if (version == 1) return read_version1(j, folder);
  if (version != kBundleVersion)
    throw errorf("the bundle was written by another version of anemone")
        .found(fmt::format("version {}", version))
        .expected(fmt::format("1 or {}", kBundleVersion))
        .hint("convert the model again");
  BundleInfo b;
  b.kind = value_in(kKinds, all["kind"], "kind of bundle");
  read_common(j, b);
  read_embedding(all["embedding"], b);
  for (const Fields& r : all["ropes"].items()) b.ropes.push_back(rope_from(r));
  for (const Fields& m : all["masks"].items())
    b.masks.push_back({value_in(kReaches, m["reach"], "reach"), m.value("size", int64_t{0})});
  if (all.has("result")) read_result(all["result"], b);
  for (const Fields& s : all["stages"].items()) b.stages.push_back(stage_from(s));
  if (all.has("variants"))
    for (const Fields& v : all["variants"].items())
      b.variants.push_back({v["name"], v.value("kv_write", std::string())});
  return b;
}

Json common_json(const BundleInfo& b) {
  Json j = {{"format", "anemone-bundle"},
            {"version", kBundleVersion},
            {"kind", kind_name(b.kind)},
            {"tool", b.tool}};
  j["source"] = {{"file", b.source},
                 {"name", b.name},
                 {"architecture", b.architecture},
                 {"author", b.author},
                 {"license", b.license}};
  if (!b.inferred.empty()) j["source"]["inferred"] = b.inferred;
  j["model"] = {{"family", b.family}, {"hidden", b.hidden},        {"layers", b.layers},
                {"heads", b.heads},   {"kv_heads", b.kv_heads},    {"head_dim", b.head_dim},
                {"vocab", b.vocab},   {"context", b.model_context}};
  j["choices"] = {{"precision", b.precision}, {"kv", b.kv},         {"kv_write", b.kv_write},
                  {"target", b.target},       {"argmax", b.argmax}, {"residual_scale", b.residual_scale}};
  if (!b.skip.empty()) j["choices"]["skip"] = b.skip;
  if (!b.experts.empty()) j["choices"]["experts"] = b.experts;
  return j;
}

}  // namespace

std::string_view kind_name(BundleKind kind) { return name_in(kKinds, kind); }

const Port* StageFunction::find_input(Role::Kind kind) const { return find_port(interface.inputs, kind); }
const Port* StageFunction::find_output(Role::Kind kind) const { return find_port(interface.outputs, kind); }

bool Stage::has_head() const {
  for (const StageFunction& f : functions)
    for (const Role::Kind role :
         {Role::Kind::logits, Role::Kind::best, Role::Kind::pooled, Role::Kind::classes})
      if (f.find_output(role)) return true;
  return false;
}

bool Stage::behind_experts() const {
  return kind != StageKind::experts && !functions.empty() && functions.front().find_input(Role::Kind::mixed);
}

bool BundleInfo::routes() const {
  return std::ranges::any_of(stages, [](const Stage& s) { return s.kind == StageKind::route; });
}

std::vector<int64_t> BundleInfo::tiers() const {
  std::set<int64_t> out;
  for (const Stage& stage : stages)
    for (const StageFunction& f : stage.functions)
      if (stage.has_layers()) out.insert(f.context ? f.context : f.most_tokens);
  return {out.begin(), out.end()};
}

std::vector<std::string> BundleInfo::packages() const {
  std::vector<std::string> out;
  for (const Stage& stage : stages)
    if (std::find(out.begin(), out.end(), stage.package) == out.end()) out.push_back(stage.package);
  return out;
}

bool BundleInfo::recurrent() const {
  for (const Stage& stage : stages)
    for (const StageFunction& f : stage.functions)
      if (find_port(f.interface.states, Role::Kind::recurrent) || f.find_input(Role::Kind::recurrent))
        return true;
  return false;
}

// What both versions say in the same way.
void read_common(const Json& json, BundleInfo& b) {
  const Fields j(json, "");
  b.tool = j["tool"].get<std::string>();
  const Fields source = j["source"];
  b.source = source["file"].get<std::string>();
  b.name = source["name"].get<std::string>();
  b.architecture = source["architecture"].get<std::string>();
  b.author = source["author"].get<std::string>();
  b.license = source["license"].get<std::string>();
  if (source.has("inferred")) b.inferred = source["inferred"].get<std::vector<std::string>>();
  const Fields model = j["model"];
  b.family = model["family"].get<std::string>();
  b.hidden = model["hidden"];
  b.layers = model["layers"];
  b.heads = model["heads"];
  b.kv_heads = model["kv_heads"];
  b.head_dim = model["head_dim"];
  b.vocab = model["vocab"];
  b.model_context = model["context"];
  const Fields choices = j["choices"];
  b.precision = choices["precision"].get<std::string>();
  b.kv = choices["kv"].get<std::string>();
  b.kv_write = choices["kv_write"].get<std::string>();
  b.target = choices["target"].get<std::string>();
  b.argmax = choices["argmax"];
  b.residual_scale = choices["residual_scale"];
  b.skip = choices.value("skip", std::string());
  b.experts = choices.value("experts", std::string());
  const Fields tokens = j["tokens"];
  if (tokens.has("bos")) b.bos = tokens["bos"].get<int64_t>();
  if (tokens.has("pad")) b.pad = tokens["pad"].get<int64_t>();
  b.eos = tokens["eos"].get<std::vector<int64_t>>();
  b.tokenizer = tokens.value("tokenizer", std::string());
  for (const Fields& f : j["files"].items()) b.files.push_back({f["path"], f["bytes"], f["xxh3"]});
}

std::string BundleInfo::json() const {
  Json j = common_json(*this);
  j["embedding"] = embedding_json(*this);
  j["ropes"] = Json::array();
  for (const RopeTable& r : ropes) j["ropes"].push_back(to_json(r));
  j["masks"] = Json::array();
  for (const Reach& m : masks) {
    Json entry = {{"reach", name_in(kReaches, m.kind)}};
    if (m.size) entry["size"] = m.size;
    j["masks"].push_back(entry);
  }
  if (pooling) j["result"]["pooling"] = name_in(kPoolings, *pooling);
  if (normalize) j["result"]["normalize"] = true;
  if (!labels.empty()) {
    j["result"]["labels"] = labels;
    j["result"]["scores"] = name_in(kScores, scores);
  }
  j["tokens"] = {{"eos", eos}};
  if (bos) j["tokens"]["bos"] = *bos;
  if (pad) j["tokens"]["pad"] = *pad;
  if (!tokenizer.empty()) j["tokens"]["tokenizer"] = tokenizer;
  j["stages"] = Json::array();
  for (const Stage& s : stages) j["stages"].push_back(to_json(s));
  for (const Variant& v : variants) {
    Json entry = {{"name", v.name}};
    if (!v.kv_write.empty()) entry["kv_write"] = v.kv_write;
    j["variants"].push_back(std::move(entry));
  }
  j["files"] = Json::array();
  for (const BundleFile& f : files)
    j["files"].push_back({{"path", f.path}, {"bytes", f.bytes}, {"xxh3", f.xxh3}});
  return json_lines(j) + "\n";
}

BundleInfo BundleInfo::read(const std::filesystem::path& bundle) {
  const std::filesystem::path path = bundle / kBundleFile;
  std::shared_ptr<const MappedFile> file;
  try {
    file = MappedFile::open(path);
    BundleInfo info = parse(Json::parse(file->text()), bundle);
    try {
      check_info(info);
    } catch (Error& e) {
      e.within(path.string());
      throw;
    }
    return info;
  } catch (Error& e) {
    if (e.where().empty()) e.at(path.string());
    throw;
  } catch (const nlohmann::json::exception& e) {
    throw json_error(e, file->text(), "is not a bundle's description")
        .at(path.string())
        .hint("copy the bundle again, or convert the model again");
  }
}

bool is_bundle(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path / kBundleFile, ignored);
}

void expect_kind(const BundleInfo& info, const std::filesystem::path& path,
                 std::initializer_list<BundleKind> kinds) {
  if (std::find(kinds.begin(), kinds.end(), info.kind) != kinds.end()) return;
  const char* verb = info.kind == BundleKind::generate ? "anemone run"
                     : info.kind == BundleKind::embed  ? "anemone embed"
                                                       : "anemone classify";
  const char* what = info.kind == BundleKind::generate ? "writes text"
                     : info.kind == BundleKind::embed  ? "gives a vector for a text"
                                                       : "gives classes for a text";
  std::string wanted;
  for (const BundleKind kind : kinds)
    wanted += fmt::format("{}'{}'", wanted.empty() ? "" : " or ", kind_name(kind));
  throw errorf("this bundle {}: the command does not support that", what)
      .at(path.string())
      .found(fmt::format("kind '{}'", kind_name(info.kind)))
      .expected("kind " + wanted)
      .hint(fmt::format("use {}", verb));
}

}  // namespace anemone
