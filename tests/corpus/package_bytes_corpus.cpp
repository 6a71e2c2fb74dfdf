// Packages stay byte for byte what they are: bundles of many forms against a table of their files' XXH3. A change
// that is meant to write other bytes comes with a new table (make_package_bytes.py) in the same commit.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "convert/convert.h"
#include "corpus/corpus.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

namespace fs = std::filesystem;

// The source is a file of the repository, or lies below a root of the test data.
std::optional<fs::path> find_source(const std::string& name) {
  if (fs::exists(source_dir() / name)) return source_dir() / name;
  return data_folder(name);
}

std::vector<std::string> parts(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

// What the command makes of a flag.
using Setter = void (*)(ConvertOptions& o, const std::string& value);
const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> table = {
      {"--context",
       [](ConvertOptions& o, const std::string& v) {
         for (const std::string& n : parts(v, ',')) o.context.push_back(std::stoll(n));
       }},
      {"--tokens",
       [](ConvertOptions& o, const std::string& v) {
         for (const std::string& n : parts(v, ',')) {
           const auto ends = parts(n, '-');
           o.tokens.push_back({std::stoll(ends.front()), std::stoll(ends.back())});
         }
       }},
      {"--layers",
       [](ConvertOptions& o, const std::string& v) {
         o.first_layer = std::stoull(parts(v, '-').at(0));
         o.last_layer = std::stoull(parts(v, '-').at(1)) + 1;
       }},
      {"--precision",
       [](ConvertOptions& o, const std::string& v) {
         o.precision = v == "fp16" ? Precision::fp16 : v == "int8" ? Precision::int8 : Precision::int8_tensor;
       }},
      {"--kv",
       [](ConvertOptions& o, const std::string& v) {
         o.kv = v == "io" ? lower::KvKind::io : v == "packed" ? lower::KvKind::packed : lower::KvKind::state;
       }},
      {"--kv-write",
       [](ConvertOptions& o, const std::string& v) {
         o.kv_write = {v == "slice" ? lower::KvWrite::slice : lower::KvWrite::mask};
       }},
      {"--embedding",
       [](ConvertOptions& o, const std::string& v) {
         o.embedding_int8 = v == "int8";
         o.embedding_in_head = v == "head";
       }},
      {"--shard-mb", [](ConvertOptions& o,
                        const std::string& v) { o.shard_bytes = static_cast<uint64_t>(std::stod(v) * 1e6); }},
      {"--head-rows", [](ConvertOptions& o, const std::string& v) { o.head_rows = std::stoll(v); }},
      {"--residual-scale", [](ConvertOptions& o, const std::string& v) { o.residual_scale = std::stod(v); }},
      {"--target", [](ConvertOptions& o, const std::string& v) { o.target = v; }},
  };
  return table;
}

ConvertOptions options_of(const std::vector<std::string>& flags) {
  ConvertOptions o;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == "--whole") {
      o.whole = true;
    } else if (flags[i] == "--argmax-output") {
      o.argmax = true;
    } else {
      REQUIRE_MESSAGE(setters().contains(flags[i]), "this test does not know " << flags[i]);
      setters().at(flags[i])(o, flags.at(i + 1));
      ++i;
    }
  }
  return o;
}

// Empty when the files are those of the table; else the first that is not.
std::string difference(const std::vector<BundleFile>& files, std::map<std::string, std::string> expected) {
  for (const BundleFile& f : files) {
    const auto it = expected.find(f.path);
    if (it == expected.end()) return fmt::format("the file {} is new", f.path);
    if (it->second != f.xxh3)
      return fmt::format("{} has the XXH3 {}, expected {}", f.path, f.xxh3, it->second);
    expected.erase(it);
  }
  return expected.empty() ? "" : fmt::format("the file {} is gone", expected.begin()->first);
}

}  // namespace

TEST_CASE("corpus_package_bytes: packages are byte for byte what they were") {
  const TempFolder folder;
  Tally tally("package bytes");
  for (const auto& entry : read_json(source_dir() / "tests/corpus/package_bytes.json")) {
    const auto name = entry.at("name").get<std::string>();
    const auto source = find_source(entry.at("source").get<std::string>());
    if (!source) continue;  // it was said
    ConvertOptions options = options_of(entry.at("flags").get<std::vector<std::string>>());
    options.tool = entry.at("tool");
    options.overwrite = true;
    const BundleInfo info = convert(*source, folder / "b", options).info;
    tally.add(name, difference(info.files, entry.at("files").get<std::map<std::string, std::string>>()));
  }
}
