// bundle.json, version 2: read back as it was written, and refused with one sentence whatever is wrong with it.
#include "bundle/bundle_info.h"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/session.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;
using lower::KvKind;
using lower::KvWrite;

// Layer 0 is a short convolution, layer 1 attends; functions for one token and for four.
MadeModel& model() {
  static MadeModel made(small_decoder(2, 1));
  return made;
}

const std::vector<int32_t> kIds = {5, 2, 9, 40, 3, 8};

class Broken {
 public:
  explicit Broken(ConvertOptions options = {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .shard_bytes = 1})
      : path_(model().write(std::move(options))), good_(Json::parse(slurp(path_ / kBundleFile))) {}

  // What is said when the bundle is opened and run with this change; empty where all goes well.
  std::string error(const std::function<void(Json&)>& change) const {
    Json j = good_;
    change(j);
    return error_of_text(j.dump());
  }
  std::string error_of_text(const std::string& text) const {
    spill(path_ / kBundleFile, text);
    return error_of([&] {
      Session session(Bundle::open(path_, cpu_backend({.threads = 1})));
      session.forward(kIds);
      Session(session.bundle()).forward_best(kIds);
    });
  }

  const fs::path& path() const { return path_; }
  const Json& good() const { return good_; }

 private:
  fs::path path_;
  Json good_;
};

Json& function(Json& j, size_t stage, size_t index = 0) { return j["stages"][stage]["functions"][index]; }

// Every function of a stage.
void each_function(Json& j, size_t stage, const std::function<void(Json&)>& change) {
  for (Json& f : j["stages"][stage]["functions"]) change(f);
}

Json& port(Json& f, const char* side, const char* role) {
  for (Json& p : f[side])
    if (p["role"] == role) return p;
  FAIL("no such role: " << role);
  return f;
}

void drop(Json& f, const char* side, const char* role) {
  Json kept = Json::array();
  for (const Json& p : f[side])
    if (p["role"] != role) kept.push_back(p);
  f[side] = kept;
}

struct Fault {
  std::string name;
  std::function<void(Json&)> change;
  std::string said;
};

void check_faults(const Broken& bundle, const std::vector<Fault>& faults) {
  REQUIRE(bundle.error([](Json&) {}) == "");
  for (const Fault& fault : faults) {
    CAPTURE(fault.name);
    const std::string error = bundle.error(fault.change);
    INFO(error);
    CHECK(error.find(fault.said) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
}

}  // namespace

TEST_CASE("bundle.json is read back as it was written") {
  for (const ConvertOptions& options :
       {ConvertOptions{.context = {16}},
        ConvertOptions{.context = {8, 16}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::io},
        ConvertOptions{.context = {16}, .kv_write = {KvWrite::mask, KvWrite::slice}},
        ConvertOptions{
            .context = {16}, .kv = KvKind::packed, .whole = true, .argmax = true, .head_rows = 20}}) {
    const fs::path path = model().write(options);
    const std::string text = slurp(path / kBundleFile);
    const BundleInfo info = BundleInfo::read(path);
    CHECK(info.json() == text);
    CHECK(info.recurrent());
    CHECK(Json::parse(text)["version"] == kBundleVersion);
  }
}

TEST_CASE("a stage is run where nothing else is said, and an unknown kind of stage is refused by name") {
  const Broken bundle;
  CHECK(bundle.error([](Json& j) { j["stages"][0]["kind"] = "run"; }) == "");
  CHECK_FALSE(
      Json::parse(slurp(model().write({.context = {16}}) / kBundleFile))["stages"][0].contains("kind"));
  const std::string error = bundle.error([](Json& j) { j["stages"][1]["kind"] = "solve"; });
  CHECK(error.find("unknown kind of stage 'solve'") != std::string::npos);
  CHECK(error.find("newer anemone") != std::string::npos);
  CHECK(bundle.error([](Json& j) { j["stages"][1]["kind"] = 3; }) != "");
}

TEST_CASE("variants: each has its own functions, and what is wrong with one is said with its name") {
  const Broken bundle({.context = {16},
                       .tokens = {{1, 1}, {4, 4}},
                       .kv_write = {KvWrite::mask, KvWrite::slice},
                       .shard_bytes = 1});
  const BundleInfo all = BundleInfo::read(bundle.path());
  REQUIRE(all.variants.size() == 2);
  CHECK(all.stages[1].functions.size() == 4);
  for (const char* name : {"mask", "slice"}) {
    const BundleInfo one = all.chosen(name);
    CHECK(one.kv_write == name);
    CHECK(one.stages.size() == all.stages.size());
    CHECK(one.stages[1].functions.size() == 2);
    CHECK(one.stages[2].functions.size() == 2);  // the head is everybody's
    for (const StageFunction& f : one.stages[1].functions)
      CHECK((f.find_input(Role::Kind::position) != nullptr) == (one.kv_write == "slice"));
  }
  CHECK(all.chosen("").kv_write == "mask");
  const auto slice_only = [](Json& j, size_t index) -> Json& { return function(j, 1, 2 + index); };
  check_faults(
      bundle, {{"unknown", [&](Json& j) { slice_only(j, 0)["variants"] = {"ring"}; },
                "is of a variant 'ring', which the bundle does not have"},
               {"twice", [](Json& j) { j["variants"][1]["name"] = "mask"; }, "there are two variants 'mask'"},
               {"no name", [](Json& j) { j["variants"][1]["name"] = ""; }, "a variant has no name"},
               {"another write", [](Json& j) { j["variants"][1]["kv_write"] = "ring"; },
                "writes the cache by 'ring'"},
               {"same function", [&](Json& j) { slice_only(j, 0)["name"] = function(j, 1)["name"]; },
                "has two functions"},
               {"a role is missing in one", [&](Json& j) { drop(slice_only(j, 0), "inputs", "position"); },
                "variant 'slice'"},
               {"a list of numbers", [&](Json& j) { slice_only(j, 0)["variants"] = {3}; }, "bundle.json"}});
}

TEST_CASE("a bundle that was written before `advance` said its columns still runs") {
  const Broken bundle;
  CHECK(bundle.good()["stages"][0]["functions"][1].dump().find("\"columns\":2") != std::string::npos);
  CHECK(bundle.error([](Json& j) { port(function(j, 0, 1), "inputs", "advance").erase("columns"); }) == "");
}

TEST_CASE("a bundle.json without roles that a host needs is refused") {
  // Stage 0: the convolution; stage 1: attention; stage 2: the head. Function 1 takes four tokens.
  check_faults(
      Broken(),
      {{"no stream", [](Json& j) { drop(function(j, 1), "inputs", "stream"); },
        "no input has the role 'stream'"},
       {"no stream out", [](Json& j) { drop(function(j, 0), "outputs", "stream"); }, "no output has a role"},
       {"no mask", [](Json& j) { drop(function(j, 1), "inputs", "mask"); }, "no input has the role 'mask'"},
       {"nowhere to write", [](Json& j) { drop(function(j, 1), "inputs", "write"); },
        "'write' or 'position'"},
       {"no advance", [](Json& j) { drop(function(j, 0, 1), "inputs", "advance"); },
        "no input has the role 'advance'"},
       {"an advance for others", [](Json& j) { port(function(j, 0, 1), "inputs", "advance")["columns"] = 3; },
        "'advance' has another shape than bundle.json says; found [1, 1, 2, 6], expected [1, 1, 3, 7]"},
       {"keys alone", [](Json& j) { drop(function(j, 1), "states", "values"); }, "keys without values"},
       {"no cache", [](Json& j) { function(j, 1).erase("states"); }, "no role for the state 'k_cache_1'"},
       {"no cos", [](Json& j) { drop(function(j, 1), "inputs", "cos"); }, "no role for the input 'cos'"},
       {"no logits", [](Json& j) { each_function(j, 2, [](Json& f) { drop(f, "outputs", "logits"); }); },
        "no output has a role"},
       {"no recurrent state", [](Json& j) { each_function(j, 0, [](Json& f) { f.erase("states"); }); },
        "no role for the state 'state_0'"}});
}

TEST_CASE("a bundle.json with roles that are none, or stand in the wrong place, is refused") {
  check_faults(
      Broken(),
      {{"unknown", [](Json& j) { port(function(j, 1), "inputs", "mask")["role"] = "veil"; },
        "there is no role 'veil'"},
       {"a number", [](Json& j) { port(function(j, 1), "inputs", "mask")["role"] = 3; },
        "inputs[3].role' is of another kind"},
       {"input as output", [](Json& j) { port(function(j, 0), "outputs", "stream")["role"] = "mask"; },
        "is in a list where its role is not allowed"},
       {"output as input", [](Json& j) { port(function(j, 1), "inputs", "write")["role"] = "logits"; },
        "is in a list where its role is not allowed"},
       {"a state of rope", [](Json& j) { port(function(j, 1), "states", "keys")["role"] = "cos"; },
        "is in a list where its role is not allowed"},
       {"twice", [](Json& j) { port(function(j, 1), "inputs", "sin")["role"] = "cos"; },
        "has the same role as another one"},
       {"a name twice", [](Json& j) { port(function(j, 1), "inputs", "sin")["name"] = "cos"; },
        "occurs twice"},
       {"no name", [](Json& j) { port(function(j, 1), "inputs", "sin")["name"] = ""; }, "has no name"},
       {"a host's cache",
        [](Json& j) {
          port(function(j, 1), "inputs", "write") = {{"name", "write"}, {"role", "keys"}, {"layers", {1}}};
        },
        "nothing has the role 'new_keys'"},
       {"pool",
        [](Json& j) { each_function(j, 1, [](Json& f) { port(f, "inputs", "sin")["role"] = "pool"; }); },
        "another shape"},
       {"swapped cos and mask",
        [](Json& j) {
          each_function(j, 1, [](Json& f) {
            std::swap(port(f, "inputs", "cos")["name"], port(f, "inputs", "mask")["name"]);
          });
        },
        "another shape"}});
}

TEST_CASE("a bundle.json with wrong indexes, layers, rows and sizes is refused") {
  check_faults(
      Broken(),
      {{"rope", [](Json& j) { port(function(j, 1), "inputs", "cos")["rope"] = 1; }, "is for rope 1 of 1"},
       {"negative rope", [](Json& j) { port(function(j, 1), "inputs", "cos")["rope"] = -1; }, "of 1"},
       {"no ropes", [](Json& j) { j["ropes"] = Json::array(); }, "is for rope 0 of 0"},
       {"mask", [](Json& j) { port(function(j, 1), "inputs", "mask")["mask"] = 7; }, "is for mask 7 of 1"},
       {"no masks", [](Json& j) { j["masks"] = Json::array(); }, "is for mask 0 of 0"},
       {"layer of another stage", [](Json& j) { port(function(j, 1), "states", "keys")["layers"] = {0}; },
        "is for layer 0"},
       {"layer beyond", [](Json& j) { port(function(j, 1), "states", "keys")["layers"] = {1, 2}; },
        "is for layer 2"},
       {"negative layer", [](Json& j) { port(function(j, 1), "states", "keys")["layers"] = {-1}; },
        "is for layer -1"},
       {"no layer", [](Json& j) { port(function(j, 1), "states", "keys").erase("layers"); },
        "does not name its layers"},
       {"layers of a mask", [](Json& j) { port(function(j, 1), "inputs", "mask")["layers"] = {1}; },
        "names layers"},
       {"stage of no layers", [](Json& j) { j["stages"][1]["layers"] = {2, 1}; }, "has layers 2 to 1"},
       {"stages apart", [](Json& j) { j["stages"][1]["layers"] = {2, 3}; }, "layers from 1 on"},
       {"endless layers", [](Json& j) { j["stages"][1]["layers"] = {1, int64_t{1} << 60}; },
        "has layers 1 to"},
       {"more layers than stages", [](Json& j) { j["model"]["layers"] = 3; }, "the stages have 2 layers"},
       {"rows beyond",
        [](Json& j) { each_function(j, 2, [](Json& f) { port(f, "outputs", "logits")["rows"] = {0, 49}; }); },
        "rows 0 to 49 of a vocabulary of 48"},
       {"rows backwards", [](Json& j) { port(function(j, 2), "outputs", "logits")["rows"] = {10, 4}; },
        "rows 10 to 4"},
       {"rows left out",
        [](Json& j) { each_function(j, 2, [](Json& f) { port(f, "outputs", "logits")["rows"] = {0, 40}; }); },
        "40 of the 48 rows"},
       {"rows not from 0",
        [](Json& j) { each_function(j, 2, [](Json& f) { port(f, "outputs", "logits")["rows"] = {8, 48}; }); },
        "rows from 0 on"},
       {"a larger vocabulary",
        [](Json& j) {
          j["model"]["vocab"] = j["embedding"]["tokens"]["rows"] = 64;
          each_function(j, 2, [](Json& f) { port(f, "outputs", "logits")["rows"] = {0, 64}; });
        },
        "'logits_0' has another shape than bundle.json says"},
       {"hidden", [](Json& j) { j["model"]["hidden"] = 8; }, "found [1, 16, 1, 1], expected [1, 8, 1, 1]"},
       {"no hidden", [](Json& j) { j["model"]["hidden"] = 0; }, "the hidden size is 0"},
       {"huge", [](Json& j) { j["model"]["hidden"] = int64_t{1} << 60; }, "the hidden size is"},
       {"embedding rows", [](Json& j) { j["embedding"]["tokens"]["rows"] = 12; },
        "12 rows for a vocabulary of 48"},
       {"embedding type", [](Json& j) { j["embedding"]["tokens"]["dtype"] = "fp8"; }, "fp16 or int8"},
       {"int8 without scales", [](Json& j) { j["embedding"]["tokens"]["dtype"] = "int8"; },
        "no file of scales"},
       {"embedding nowhere", [](Json& j) { j["embedding"]["tokens"].erase("file"); }, "is missing"},
       {"frequencies", [](Json& j) { j["ropes"][0]["frequencies"] = {1.0}; }, "another shape"},
       {"no frequencies", [](Json& j) { j["ropes"][0]["frequencies"] = Json::array(); }, "no frequencies"},
       {"long frequencies",
        [](Json& j) {
          j["ropes"][0]["long_frequencies"] = {1.0};
          j["ropes"][0]["original_context"] = 4;
        },
        "1 long frequencies"},
       {"window of nothing", [](Json& j) { j["masks"][0] = {{"reach", "window"}, {"size", 0}}; },
        "a mask has the size 0"},
       {"unknown reach", [](Json& j) { j["masks"][0]["reach"] = "far"; }, "unknown reach 'far'"},
       {"no tokens", [](Json& j) { function(j, 1)["tokens"] = {0, 0}; }, "least number of tokens is 0"},
       {"tokens backwards", [](Json& j) { function(j, 1)["tokens"] = {4, 1}; }, "most number of tokens is 1"},
       {"context", [](Json& j) { each_function(j, 1, [](Json& f) { f["context"] = -4; }); },
        "the context is -4"},
       {"no context", [](Json& j) { function(j, 1).erase("context"); }, "has a cache but no context"}});
}

TEST_CASE("a context longer than the package's cache is refused at once") {
  const Broken bundle;
  const std::string error = bundle.error([](Json& j) {
    for (const size_t s : {0, 1}) each_function(j, s, [](Json& f) { f["context"] = 4096; });
  });
  CHECK(error.find("found [1, 1, 1, 16], expected [1, 1, 1, 4096]") != std::string::npos);
}

TEST_CASE("a state that is taken for another kind of memory is refused at once") {
  // Keys of the attention layer, and the columns of the convolution.
  check_faults(Broken(),
               {{"swapped",
                 [](Json& j) {
                   each_function(j, 1, [](Json& f) {
                     port(f, "states", "keys")["role"] = "recurrent";
                     port(f, "states", "values")["role"] = "keys";
                   });
                 },
                 "keys without values"},
                {"of two slots", [](Json& j) { port(function(j, 0, 1), "states", "recurrent")["slot"] = 1; },
                 "another role, layer or slot"}});
}

TEST_CASE("a bundle.json that names what its packages do not have is refused") {
  check_faults(
      Broken(),
      {{"input", [](Json& j) { port(function(j, 1), "inputs", "cos")["name"] = "cosine"; },
        "no input 'cosine'"},
       {"output", [](Json& j) { port(function(j, 0), "outputs", "stream")["name"] = "z"; }, "no output 'z'"},
       {"state", [](Json& j) { port(function(j, 0), "states", "recurrent")["name"] = "memory"; },
        "no state 'memory'"},
       {"function", [](Json& j) { function(j, 0)["name"] = "t2"; }, "no function 't2'"},
       {"function twice", [](Json& j) { function(j, 0)["name"] = "t4"; }, "two functions 't4'"},
       {"no functions", [](Json& j) { j["stages"][0]["functions"] = Json::array(); }, "has no functions"},
       {"no stages", [](Json& j) { j["stages"] = Json::array(); }, "the stages have 0 layers"},
       {"package", [](Json& j) { j["stages"][0]["package"] = "nothing.mlpackage"; },
        "'nothing.mlpackage' is missing"},
       {"package outside", [](Json& j) { j["stages"][0]["package"] = "../../etc"; },
        "'../../etc' leaves the package"},
       {"file", [](Json& j) { j["files"][0]["path"] = "gone"; }, "the file 'gone' is missing"},
       {"file size", [](Json& j) { j["files"][0]["bytes"] = 1; }, "another size than when it was written"},
       {"tokens that the package does not take", [](Json& j) { function(j, 0, 1)["tokens"] = {8, 8}; },
        "another shape"},
       {"kind", [](Json& j) { j["kind"] = "embed"; },
        "a bundle of the kind 'embed' has no cache and no state"},
       {"unknown kind", [](Json& j) { j["kind"] = "paint"; }, "unknown kind of bundle 'paint'"},
       {"version", [](Json& j) { j["version"] = 3; }, "expected 1 or 2"},
       {"format", [](Json& j) { j["format"] = "zip"; }, "is not a bundle's description"},
       {"residual scale", [](Json& j) { j["choices"]["residual_scale"] = 0; }, "the residual scale is 0"}});
}

TEST_CASE("every key of bundle.json that is gone or of another kind is an Error, never a crash") {
  const Broken bundle;
  // Every value in turn: taken away, and replaced by one of each kind.
  std::vector<Json::json_pointer> places;
  const std::function<void(const Json&, const Json::json_pointer&)> walk = [&](const Json& j,
                                                                               const Json::json_pointer& at) {
    if (!at.empty()) places.push_back(at);
    if (j.is_object())
      for (const auto& [key, value] : j.items()) walk(value, at / key);
    if (j.is_array())
      for (size_t i = 0; i < std::min<size_t>(j.size(), 3); ++i) walk(j[i], at / i);
  };
  walk(bundle.good(), Json::json_pointer());
  CHECK(places.size() > 150);
  int refused = 0, taken = 0;
  for (const Json::json_pointer& place : places)
    for (const Json& value :
         {Json(), Json(-7), Json(int64_t{1} << 61), Json("x"), Json::array(), Json::object()}) {
      CAPTURE(place.to_string());
      CAPTURE(value.dump());
      // Anything but an Error ends the test.
      (bundle.error([&](Json& j) { j[place] = value; }).empty() ? taken : refused)++;
    }
  CHECK(refused > 500);
  MESSAGE(refused << " changes refused, " << taken << " that change nothing that runs");
  for (const char* text : {"", "[]", "{", "null", "{\"format\": \"anemone-bundle\"}", "\"\""})
    CHECK(bundle.error_of_text(text) != "");
}

TEST_CASE("a cache that the host keeps is refused where its parts do not fit each other") {
  check_faults(
      Broken({.context = {16}, .tokens = {{4, 4}}, .kv = KvKind::io, .shard_bytes = 1}),
      {{"new keys of another layer",
        [](Json& j) { port(function(j, 1), "outputs", "new_keys")["layers"] = {0}; }, "is for layer 0"},
       {"no new keys", [](Json& j) { drop(function(j, 1), "outputs", "new_keys"); },
        "nothing has the role 'new_keys'"},
       {"no keys", [](Json& j) { drop(function(j, 1), "inputs", "keys"); }, "nothing has the role 'keys'"},
       {"no new state", [](Json& j) { drop(function(j, 0), "outputs", "new_recurrent"); },
        "nothing has the role 'new_recurrent'"},
       {"another slot", [](Json& j) { port(function(j, 0), "outputs", "new_recurrent")["slot"] = 1; },
        "nothing has the role 'new_recurrent'"},
       {"a slot too far", [](Json& j) { port(function(j, 0), "inputs", "recurrent")["slot"] = 256; },
        "is for slot 256, and a layer has at most 256"},
       {"another length",
        [](Json& j) {
          for (const size_t s : {0, 1}) function(j, s)["context"] = 12;
        },
        "found [1, 1, 4, 16], expected [1, 1, 4, 12]"},
       {"swapped",
        [](Json& j) {
          std::swap(port(function(j, 1), "inputs", "keys")["name"],
                    port(function(j, 1), "inputs", "mask")["name"]);
        },
        "has another shape than bundle.json says"}});
}
