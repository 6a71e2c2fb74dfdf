// The demo model of the repository, converted for a test; each form once a process.
//     const auto bundle = demo_bundle({.context = {64}, .tokens = {{1, 4}}});
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "runtime/bundle.h"
#include "support/data.h"
#include "support/temp_folder.h"

namespace anemone::test {

inline std::filesystem::path demo_model() { return source_dir() / "examples/demo_model/demo.gguf"; }

inline std::shared_ptr<const Bundle> demo_bundle(ConvertOptions options,
                                                 const PredictOptions& run = {.threads = 1}) {
  static const TempFolder folder;
  static std::map<std::string, std::filesystem::path> made;
  std::string key = std::to_string(options.kv ? static_cast<int>(*options.kv) : -1) +
                    std::to_string(options.argmax) + std::to_string(options.shard_bytes);
  for (const lower::KvWrite w : options.kv_write) key += "_w" + std::to_string(static_cast<int>(w));
  for (const int64_t c : options.context) key += "_c" + std::to_string(c);
  for (const auto& t : options.tokens) key += "_t" + std::to_string(t.least) + "-" + std::to_string(t.most);
  auto& path = made[key];
  if (path.empty()) {
    path = folder / key;
    convert(demo_model(), path, options);
  }
  return Bundle::open(path, cpu_backend(run));
}

// What PyTorch made of the demo model's prompts (examples/demo_model/golden.py).
struct DemoCase {
  std::string prompt, text;
  std::vector<int32_t> prompt_ids, greedy_ids;
  std::vector<double> margins;
};

inline std::vector<DemoCase> demo_cases() {
  std::vector<DemoCase> out;
  const auto golden = nlohmann::json::parse(slurp(source_dir() / "examples/demo_model/golden.json"));
  for (const auto& c : golden.at("cases"))
    out.push_back({c.at("prompt"), c.at("text"), c.at("prompt_ids"), c.at("greedy_ids"), c.at("margins")});
  return out;
}

}  // namespace anemone::test
