// docs/bundle.md is the contract with hosts that do not use our runtime. This test is such a host: it makes every
// input by the page's rules from bundle.json and the files alone, holds its bytes against those that the page shows,
// and runs the packages with them; the logits expected are PyTorch's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "anemone/predictor.h"
#include "base/half.h"
#include "base/npy.h"
#include "convert/convert.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

namespace fs = std::filesystem;
using Inputs = std::map<std::string, Array>;

const std::vector<int32_t> kPrompt = {0, 1439, 821, 262, 796};  // "In winter the lighthouse"
constexpr int64_t kNext = 315;                                  // golden.json
constexpr size_t kGoldenRow = 5;

// What the page shows: "t4/mask" → bytes. A line "call function F, …" opens a call, "name dtype [shape]" an array,
// groups of four hex digits are its bytes.
std::map<std::string, std::string> shown_bytes() {
  std::map<std::string, std::string> out;
  std::istringstream page(slurp(source_dir() / "docs/bundle.md"));
  std::string call, key;
  for (std::string line; std::getline(page, line);) {
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

Array halves(std::vector<int64_t> shape) { return Array(DType::fp16, std::move(shape)); }

void put(Array& a, int64_t at, double value) {
  const uint16_t bits = half_from_float(static_cast<float>(value));
  std::memcpy(a.bytes().data() + at * 2, &bits, 2);
}

std::string bytes_of(const Array& a) {
  return {reinterpret_cast<const char*>(a.bytes().data()), a.bytes().size()};
}

// A host: bundle.json, the embedding and the packages, nothing of runtime/.
class Host {
 public:
  explicit Host(const fs::path& bundle)
      : folder_(bundle),
        info_(nlohmann::json::parse(slurp(bundle / "bundle.json"))),
        table_(slurp(bundle / info_["embedding"]["tokens"]["file"].get<std::string>())) {}

  // The inputs of a call: ids at `position`, in a function for `width` tokens over `context` rows.
  Inputs inputs(std::span<const int32_t> ids, int64_t position, int64_t width, int64_t context) const {
    const int64_t hidden = info_["model"]["hidden"], count = static_cast<int64_t>(ids.size());
    Inputs in;
    Array x = halves({1, hidden, width, 1});
    for (int64_t t = 0; t < count; ++t)
      for (int64_t c = 0; c < hidden; ++c) {
        uint16_t bits;
        std::memcpy(&bits, &table_[static_cast<size_t>((ids[static_cast<size_t>(t)] * hidden + c) * 2)], 2);
        put(x, c * width + t, half_to_float(bits) * info_["embedding"]["scale"].get<double>());
      }
    in.emplace("x", x);
    for (const auto& port : ports(0, "inputs")) {
      if (port["role"] != "cos" && port["role"] != "sin") continue;
      const auto& rope = info_["ropes"][port["rope"].get<size_t>()];
      const auto f = rope["frequencies"].get<std::vector<double>>();
      const auto pairs = static_cast<int64_t>(f.size());
      Array turned = halves({1, 1, width, pairs});
      for (int64_t t = 0; t < width; ++t)
        for (int64_t i = 0; i < pairs; ++i) {
          const double angle = static_cast<double>(position + t) * f[static_cast<size_t>(i)];
          put(turned, t * pairs + i,
              (port["role"] == "cos" ? std::cos(angle) : std::sin(angle)) * rope["attention_factor"].get<double>());
        }
      in.emplace(port["name"], turned);
    }
    Array mask = halves({1, 1, width, context}), write = halves({1, 1, context, width});
    for (int64_t t = 0; t < width; ++t)
      for (int64_t j = 0; j < context; ++j)
        if (j > position + std::min(t, count - 1)) put(mask, t * context + j, -10000);
    for (int64_t t = 0; t < count; ++t) put(write, (position + t) * width + t, 1);
    in.emplace("mask", mask);
    if (info_["choices"]["kv_write"] == "mask")
      in.emplace("write", write);
    else
      in.emplace("position", Array::from<int32_t>({1}, {static_cast<int32_t>(position)}));
    return in;
  }

  // Runs a call through all stages; the head's outputs.
  Prediction call(const std::string& layers_function, const std::string& head_function, Inputs in) {
    Prediction result;
    for (size_t s = 0; s < info_["stages"].size(); ++s) {
      const auto& stage = info_["stages"][s];
      const auto package = open_package(folder_ / stage["package"].get<std::string>());
      if (!stage.contains("layers")) {
        Inputs y;
        y.emplace(named(s, "inputs", "stream"), result.at(named(s - 1, "outputs", "stream")));
        result = make_predictor(package, head_function)->predict(y);
        continue;
      }
      const auto predictor = make_predictor(package, layers_function);
      if (!states_.contains(s)) states_[s] = predictor->make_state();
      result = predictor->predict(in, states_[s].get());
      if (const std::string y = named(s, "outputs", "stream"); !y.empty()) in.insert_or_assign("x", result.at(y));
    }
    return result;
  }

  // Rows 0 … rows-1 of every head into the states of another tier, byte by byte as the page counts them.
  void move_rows(const std::string& function, const std::string& from, const std::string& to, int64_t rows) {
    for (auto& [s, state] : states_) {
      auto next =
          make_predictor(open_package(folder_ / info_["stages"][s]["package"].get<std::string>()), function)
              ->make_state();
      for (const std::string& name : state->names()) {
        const std::string other = name.substr(0, name.size() - from.size()) + to;
        const Array old = state->get(name);
        Array fresh = next->get(other);
        const int64_t width = old.shape()[3], heads = old.shape()[1];
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < rows * width; ++i)
            fresh.values<float>()[static_cast<size_t>(h * fresh.shape()[2] * width + i)] =
                old.values<float>()[static_cast<size_t>(h * old.shape()[2] * width + i)];
        next->set(other, fresh);
      }
      state = std::move(next);
    }
  }

 private:
  const nlohmann::json& ports(size_t stage, const char* side) const {
    return info_["stages"][stage]["functions"][0][side];
  }
  // The one that has this role; empty where none has.
  std::string named(size_t stage, const char* side, const std::string& role) const {
    for (const auto& port : ports(stage, side))
      if (port["role"] == role) return port["name"];
    return "";
  }

  fs::path folder_;
  nlohmann::json info_;
  std::string table_;
  std::map<size_t, std::unique_ptr<State>> states_;
};

fs::path demo() { return source_dir() / "examples/demo_model"; }

// Of the first column against PyTorch's logits after the prompt.
void check_logits(const Prediction& result, size_t columns) {
  const Array golden = read_npy(demo() / "golden_logits.npy");
  const auto vocab = static_cast<size_t>(golden.shape().back());
  const auto expected = golden.values<float>().subspan(kGoldenRow * vocab, vocab);
  const std::vector<float> logits = result.at("logits_0").to_float();
  REQUIRE(logits.size() == vocab * columns);
  double ab = 0, aa = 0, bb = 0;
  size_t best = 0;
  for (size_t i = 0; i < vocab; ++i) {
    const double a = logits[i * columns], b = expected[i];
    ab += a * b;
    aa += a * a;
    bb += b * b;
    if (logits[i * columns] > logits[best * columns]) best = i;
  }
  CHECK(ab / std::sqrt(aa * bb) > 0.99999);
  CHECK(best == kNext);
}

void check_shown(const std::map<std::string, std::string>& shown, const std::string& call, const Inputs& in) {
  for (const auto& [name, array] : in) {
    CAPTURE(call + "/" + name);
    const auto it = shown.find(call + "/" + name);
    REQUIRE(it != shown.end());
    const std::string whole = bytes_of(array);
    // A long array is shown by its beginning, which its title says.
    CHECK(it->second == whole.substr(0, call == "t4" && name == "x" ? 128 : whole.size()));
  }
}

}  // namespace

TEST_CASE("the bytes that docs/bundle.md shows run a bundle") {
  const auto shown = shown_bytes();
  const TempFolder folder;
  convert(demo() / "demo.gguf", folder / "b",
          {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .precision = Precision::fp16});
  Host host(folder / "b");
  const std::span<const int32_t> ids(kPrompt);
  host.call("t1", "t1", host.inputs(ids.first(1), 0, 1, 16));
  const Inputs chunk = host.inputs(ids.subspan(1, 3), 1, 4, 16);
  check_shown(shown, "t4", chunk);
  host.call("t4", "t4", chunk);
  const Inputs step = host.inputs(ids.subspan(4, 1), 4, 1, 16);
  check_shown(shown, "t1", step);
  check_logits(host.call("t1", "t1", step), 1);
}

TEST_CASE("docs/bundle.md: writes by slice, tiers, and heads that give the best token") {
  const auto shown = shown_bytes();
  const TempFolder folder;
  const std::span<const int32_t> ids(kPrompt);
  const ConvertOptions plain{.context = {16}, .precision = Precision::fp16, .overwrite = true};
  {
    ConvertOptions options = plain;
    options.kv_write = lower::KvWrite::slice;
    options.whole = true;
    convert(demo() / "demo.gguf", folder / "b", options);
    Host host(folder / "b");
    for (int64_t p = 0; p < 4; ++p)
      host.call("main", "", host.inputs(ids.subspan(static_cast<size_t>(p), 1), p, 1, 16));
    const Inputs step = host.inputs(ids.subspan(4, 1), 4, 1, 16);
    check_shown(shown, "t1", step);
    check_logits(host.call("main", "", step), 1);
  }
  {
    ConvertOptions options = plain;
    options.context = {4, 16};
    convert(demo() / "demo.gguf", folder / "b", options);
    Host host(folder / "b");
    for (int64_t p = 0; p < 4; ++p)
      host.call("c4", "main", host.inputs(ids.subspan(static_cast<size_t>(p), 1), p, 1, 4));
    host.move_rows("c16", "_c4", "_c16", 4);
    check_logits(host.call("c16", "main", host.inputs(ids.subspan(4, 1), 4, 1, 16)), 1);
  }
  {
    ConvertOptions options = plain;
    options.argmax = true;
    convert(demo() / "demo.gguf", folder / "b", options);
    Host host(folder / "b");
    Prediction last;
    for (int64_t p = 0; p < 5; ++p)
      last = host.call("main", "main", host.inputs(ids.subspan(static_cast<size_t>(p), 1), p, 1, 16));
    for (const std::string name : {"high_0", "low_0"}) {
      Array half = halves({1});
      put(half, 0, last.at(name).to_float()[0]);
      CHECK(bytes_of(half) == shown.at("t1/" + name));
    }
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
