// docs/bundle.md is the contract with hosts that do not use our runtime. Here is such a host (doc_host.h): its
// inputs are held against the bytes that the page shows, and what the packages make of them against PyTorch's
// logits. The page's tables of keys and roles are held against the code.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/npy.h"
#include "bundle/bundle_info.h"
#include "convert/convert.h"
#include "convert/doc_host.h"
#include "lower/interface.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

namespace fs = std::filesystem;
using Inputs = std::map<std::string, Array>;

const std::vector<int32_t> kPrompt = {0, 1439, 821, 262, 796};  // "In winter the lighthouse"
constexpr int64_t kNext = 315;                                  // golden.json
constexpr size_t kGoldenRow = 5;

std::string page() { return slurp(source_dir() / "docs/bundle.md"); }

// What the page shows: "t4/mask" → bytes. A line "call function F, …" opens a call, "name dtype [shape]" an array,
// groups of four hex digits are its bytes.
std::map<std::string, std::string> shown_bytes() {
  std::map<std::string, std::string> out;
  std::istringstream lines(page());
  std::string call, key;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("    ")) {
      key.clear();
      continue;
    }
    std::istringstream words(line);
    std::vector<std::string> all;
    for (std::string w; words >> w;) all.push_back(w);
    if (all.size() > 2 && all[0] == "call") call = all[2].substr(0, all[2].find(','));
    const bool hex = std::all_of(all.begin(), all.end(), [](const std::string& w) {
      return w.size() == 4 && w.find_first_not_of("0123456789abcdef") == std::string::npos;
    });
    if (hex && !key.empty()) {
      for (const std::string& w : all)
        for (size_t i = 0; i < 4; i += 2)
          out[key] += static_cast<char>(std::stoi(w.substr(i, 2), nullptr, 16));
    } else if (const size_t bracket = line.find(" ["); bracket != std::string::npos && all.size() > 1) {
      std::string name;
      for (const std::string& w : all) {
        if (w.starts_with('f') || w.starts_with("int")) break;
        name += (name.empty() ? "" : " ") + w;
      }
      key = call + "/" + name;
    }
  }
  return out;
}

// The rows of the tables below a heading, cut into cells.
std::vector<std::vector<std::string>> table_below(const std::string& heading) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(page());
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) inside = line == heading;
    if (!inside || !line.starts_with("| ")) continue;
    std::istringstream cells(line.substr(1));
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '|');) rows.back().push_back(cell);
  }
  REQUIRE(rows.size() > 1);
  rows.erase(rows.begin());  // the names of the columns
  return rows;
}

// The words in `backquotes`.
std::vector<std::string> quoted(const std::string& cell) {
  std::vector<std::string> out;
  for (size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at + 1)) {
    const size_t end = cell.find('`', at + 1);
    out.push_back(cell.substr(at + 1, end - at - 1));
    at = end;
  }
  return out;
}

// "stages[].functions[].name" and so on, of everything below.
void add_paths(const nlohmann::json& j, const std::string& at, std::set<std::string>& out) {
  for (const auto& [key, value] : j.items()) {
    const std::string path = at.empty() ? key : at + "." + key;
    out.insert(path);
    if (value.is_object()) add_paths(value, path, out);
    if (value.is_array())
      for (const auto& item : value)
        if (item.is_object()) add_paths(item, path + "[]", out);
  }
}

// A bundle in which everything that may be left out is there.
BundleInfo full_info() {
  BundleInfo b;
  b.tokens = {"embedding.bin", "int8", "embedding_scales.bin", 2};
  b.embedding_parts = {{"head_00.mlpackage/weight.bin", 64, 128, 0, 2}};
  b.positions = {"positions.bin", "fp16", "", 2};
  b.types = {"types.bin", "fp16", "", 2};
  b.ropes = {{{1}, {1}, 8, 1}};
  b.masks = {{Reach::Kind::window, 4}};
  b.pooling = Pooling::mean;
  b.normalize = true;
  b.labels = {"A"};
  b.bos = b.pad = 0;
  b.eos = {1};
  b.tokenizer = "tokenizer.json";
  StageFunction f{.name = "main", .context = 8};
  f.interface.inputs = {{"cos", {.kind = Role::Kind::cos}},
                        {"mask", {.kind = Role::Kind::mask}},
                        {"advance", {.kind = Role::Kind::advance, .index = 2}},
                        {"k_cache_0", {.kind = Role::Kind::keys, .layers = {0}}},
                        {"state_0_2", {.kind = Role::Kind::recurrent, .index = 2, .layers = {0}}},
                        {"shares", {.kind = Role::Kind::shares, .first = 0, .last = 2}}};
  f.interface.states = {{"state_0", {.kind = Role::Kind::recurrent, .layers = {0}}},
                        {"state_0_1", {.kind = Role::Kind::recurrent, .index = 1, .layers = {0}}}};
  f.interface.outputs = {{"k_new_0", {.kind = Role::Kind::new_keys, .layers = {0}}},
                         {"state_new_0_2", {.kind = Role::Kind::new_recurrent, .index = 2, .layers = {0}}},
                         {"router", {.kind = Role::Kind::router, .first = 0, .last = 3}},
                         {"logits_0", {.kind = Role::Kind::logits, .first = 0, .last = 2}}};
  Stage stage{.package = "whole.mlpackage", .functions = {f}, .first_layer = 0, .last_layer = 1};
  stage.taps = {{"attn_out_0", "attn_out", 0, 0.5}};
  stage.kind = StageKind::route;
  stage.rule = {.experts = 2, .used = 1, .skip = Experts::Skip::pass, .choice_bias = {0, 0, 0.5}};
  b.experts = "host";
  b.stages = {stage};
  b.stages[0].functions[0].variants = {"mask"};
  b.variants = {{"mask", "mask"}};
  b.files = {{"embedding.bin", 1, "0"}};
  return b;
}

std::string bytes_of(const Array& a) {
  return {reinterpret_cast<const char*>(a.bytes().data()), a.bytes().size()};
}

fs::path demo() { return source_dir() / "examples/demo_model"; }

double cosine(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// Column t of [1, C, T, 1].
std::vector<float> column(const Array& a, int64_t t) {
  const std::vector<float> all = a.to_float();
  const int64_t width = a.shape()[2];
  std::vector<float> out;
  for (int64_t c = 0; c < a.shape()[1]; ++c) out.push_back(all[static_cast<size_t>(c * width + t)]);
  return out;
}

std::vector<float> row(const Array& a, int64_t index) {
  const std::vector<float> all = a.to_float();
  const auto width = static_cast<size_t>(a.shape().back()), at = static_cast<size_t>(index) * width;
  return {all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(at + width)};
}

// After the last token of the prompt, against PyTorch's logits.
void check_logits(const DocHost& host) {
  const std::vector<float> expected = row(read_npy(demo() / "golden_logits.npy"), kGoldenRow);
  const std::vector<float> logits = column(host.outputs("logits").at(0), 0);
  CHECK(cosine(logits, expected) > 0.99999);
  CHECK(std::max_element(logits.begin(), logits.end()) - logits.begin() == kNext);
}

void check_shown(const std::map<std::string, std::string>& shown, const std::string& call, const Inputs& in) {
  for (const auto& [name, array] : in) {
    if (name == "y") continue;  // a head's: what the layers gave
    CAPTURE(call + "/" + name);
    const auto it = shown.find(call + "/" + name);
    REQUIRE(it != shown.end());
    const std::string whole = bytes_of(array);
    // A long array is shown by its beginning, which its title says.
    CHECK(it->second == whole.substr(0, call == "t4" && name == "x" ? 128 : whole.size()));
  }
}

// The prompt's first tokens, one by one.
void feed(DocHost& host, int64_t count, int64_t context) {
  for (int64_t p = 0; p < count; ++p)
    host.call(std::span(kPrompt).subspan(static_cast<size_t>(p), 1), p, {.context = context});
}

std::vector<int32_t> golden_ids(const fs::path& folder) {
  const std::vector<int64_t> ids = read_npy(folder / "golden/input_ids.npy").to_int();
  return {ids.begin(), ids.end()};
}

}  // namespace

TEST_CASE("docs/bundle.md lists every key of bundle.json and no other") {
  std::set<std::string> written, listed;
  add_paths(nlohmann::json::parse(full_info().json()), "", written);
  written.insert("choices.skip");     // only if --skip was given
  written.insert("source.inferred");  // only of an ONNX bundle
  for (const auto& cells : table_below("## bundle.json")) {
    std::vector<std::string> paths = quoted(cells.at(0));
    if (paths.empty()) paths = {""};
    for (const std::string& path : paths)
      for (const std::string& key : quoted(cells.at(1))) listed.insert(path.empty() ? key : path + "." + key);
  }
  for (const std::string& path : written) CHECK_MESSAGE(listed.contains(path), "not in the page: ", path);
  for (const std::string& path : listed) CHECK_MESSAGE(written.contains(path), "not in bundle.json: ", path);
}

TEST_CASE("docs/bundle.md lists every role and no other") {
  std::set<std::string> known, listed;
  for (int kind = 0; !role_name(static_cast<Role::Kind>(kind)).empty(); ++kind)
    known.emplace(role_name(static_cast<Role::Kind>(kind)));
  for (const auto& cells : table_below("## Roles"))
    for (const std::string& name : quoted(cells.at(0))) listed.insert(name);
  CHECK(known.size() >= 20);
  CHECK(known == listed);
}

TEST_CASE("the bytes that docs/bundle.md shows run a bundle") {
  const auto shown = shown_bytes();
  const TempFolder folder;
  convert(demo() / "demo.gguf", folder / "b",
          {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .precision = Precision::fp16});
  const std::span<const int32_t> ids(kPrompt);
  // Whatever the page allows in the padding, the result is the same.
  for (const DocPadding padding : {DocPadding::zeros, DocPadding::repeated, DocPadding::rubbish}) {
    CAPTURE(static_cast<int>(padding));
    DocHost host(folder / "b");
    feed(host, 1, 16);
    host.call(ids.subspan(1, 3), 1, {.width = 4, .context = 16, .padding = padding});
    if (padding == DocPadding::zeros) check_shown(shown, "t4", host.inputs());
    host.call(ids.subspan(4, 1), 4, {.context = 16});
    check_shown(shown, "t1", host.inputs());
    check_logits(host);
  }
}

TEST_CASE("docs/bundle.md: a host's own cache, writes by slice, tiers, and heads that give the best token") {
  const auto shown = shown_bytes();
  const TempFolder folder;
  const ConvertOptions plain{.context = {16}, .precision = Precision::fp16, .overwrite = true};
  const auto made = [&](const ConvertOptions& options) {
    convert(demo() / "demo.gguf", folder / "b", options);
    return DocHost(folder / "b");
  };
  {
    ConvertOptions options = plain;
    options.kv_write = {lower::KvWrite::slice};
    options.whole = true;
    options.tokens = {{1, 1}, {4, 4}};
    DocHost host = made(options);
    feed(host, 1, 16);
    host.call(std::span(kPrompt).subspan(1, 3), 1,
              {.width = 4, .context = 16, .padding = DocPadding::rubbish});
    host.call(std::span(kPrompt).subspan(4, 1), 4, {.context = 16});
    check_shown(shown, "t1", host.inputs());
    check_logits(host);
  }
  for (const lower::KvKind kv : {lower::KvKind::io, lower::KvKind::packed}) {
    ConvertOptions options = plain;
    options.kv = kv;
    DocHost host = made(options);
    feed(host, 5, 16);
    check_logits(host);
  }
  {
    ConvertOptions options = plain;
    options.context = {4, 16};
    DocHost host = made(options);
    feed(host, 4, 4);
    host.move_to(16, 1, 4);
    host.call(std::span(kPrompt).subspan(4, 1), 4, {.context = 16});
    check_logits(host);
  }
  {
    ConvertOptions options = plain;
    options.argmax = true;
    DocHost host = made(options);
    feed(host, 5, 16);
    for (const auto& [role, name] : {std::pair{"best_high", "high_0"}, std::pair{"best_low", "low_0"}}) {
      Array half(DType::fp16, {1});
      put_half(half, 0, host.outputs(role).at(0).to_float()[0]);
      CHECK(bytes_of(half) == shown.at(std::string("t1/") + name));
    }
  }
}

TEST_CASE("docs/bundle.md: every variant of a bundle runs by the rules of the page") {
  const TempFolder folder;
  convert(demo() / "demo.gguf", folder / "b",
          {.context = {16},
           .tokens = {{1, 1}, {4, 4}},
           .kv_write = {lower::KvWrite::mask, lower::KvWrite::slice},
           .precision = Precision::fp16,
           .whole = true,
           .head_apart = true});
  const auto json = nlohmann::json::parse(slurp(folder / "b" / "bundle.json"));
  REQUIRE(json["variants"].size() == 4);
  for (const auto& variant : json["variants"]) {
    CAPTURE(variant["name"].get<std::string>());
    DocHost host(folder / "b", variant["name"]);
    feed(host, 1, 16);
    host.call(std::span(kPrompt).subspan(1, 3), 1, {.width = 4, .context = 16});
    host.call(std::span(kPrompt).subspan(4, 1), 4, {.context = 16});
    check_logits(host);
  }
}

TEST_CASE("docs/bundle.md: a row of an int8 embedding and its scale") {
  const auto shown = shown_bytes();
  const TempFolder folder;
  convert(demo() / "demo.gguf", folder / "b", {.context = {16}, .embedding_int8 = true});
  CHECK(slurp(folder / "b" / "embedding.bin").substr(796 * 256, 256) == shown.at("t1/embedding row 796"));
  CHECK(slurp(folder / "b" / "embedding_scales.bin").substr(796 * 4, 4) ==
        shown.at("t1/embedding scale 796"));
}

// Inputs are rounded to half, as on the device, so the bar is the error of fp16 in cos and sin.
TEST_CASE("docs/bundle.md: a recurrent state moves on by the real tokens alone") {
  const auto source = data_folder("models/lfm2-tiny");
  if (!source) return;
  const std::vector<int32_t> ids = golden_ids(*source);
  const Array golden = read_npy(*source / "golden/logits.npy");
  const TempFolder folder;
  for (const lower::KvKind kv : {lower::KvKind::state, lower::KvKind::packed, lower::KvKind::io})
    for (const DocPadding padding : {DocPadding::zeros, DocPadding::repeated, DocPadding::rubbish}) {
      CAPTURE(static_cast<int>(kv));
      CAPTURE(static_cast<int>(padding));
      convert(
          *source, folder / "b",
          {.context = {32}, .tokens = {{4, 4}}, .kv = kv, .precision = Precision::fp16, .overwrite = true});
      DocHost host(folder / "b");
      for (int64_t p = 0; p + 3 <= 15; p += 3) {
        host.call(std::span(ids).subspan(static_cast<size_t>(p), 3), p,
                  {.width = 4, .context = 32, .padding = padding});
        for (int64_t t = 0; t < 3; ++t)
          CHECK(cosine(column(host.outputs("logits").at(0), t), row(golden, p + t)) > 0.9999);
      }
    }
}

TEST_CASE("docs/bundle.md: vectors and classes of texts that are seen whole") {
  const TempFolder folder;
  for (const DocPadding padding : {DocPadding::zeros, DocPadding::repeated, DocPadding::rubbish}) {
    CAPTURE(static_cast<int>(padding));
    if (const auto source = data_folder("models/modernbert-tiny")) {
      convert(*source, folder / "b", {.tokens = {{64, 64}}, .precision = Precision::fp16, .overwrite = true});
      DocHost host(folder / "b");
      CHECK(host.info()["kind"] == "embed");
      for (const auto& [pooling, file] :
           {std::pair{"mean", "mean_pooled"}, std::pair{"first", "cls_pooled"}}) {
        host.call(golden_ids(*source), 0, {.width = 64, .padding = padding, .pooling = pooling});
        const Array golden = read_npy(*source / "golden" / (std::string(file) + ".npy"));
        CHECK(cosine(host.outputs("pooled").at(0).to_float(), golden.to_float()) > 0.9999);
      }
    }
    if (const auto source = data_folder("models/bert-tokcls-tiny")) {
      convert(*source, folder / "b", {.tokens = {{64, 64}}, .precision = Precision::fp16, .overwrite = true});
      DocHost host(folder / "b");
      CHECK(host.info()["kind"] == "classify");
      const std::vector<int32_t> ids = golden_ids(*source);
      host.call(ids, 0, {.width = 64, .padding = padding});
      const Array golden = read_npy(*source / "golden/logits.npy");
      for (int64_t t = 0; t < static_cast<int64_t>(ids.size()); ++t)
        CHECK(cosine(column(host.outputs("classes").at(0), t), row(golden, t)) > 0.9999);
    }
  }
}
