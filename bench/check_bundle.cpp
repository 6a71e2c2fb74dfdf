// How long `check` takes for a bundle of a 4 B model.
//     bench_check_bundle FOLDER      FOLDER: on a disk with 5 GB of room
// The bundle has the shapes of Qwen3 4B (36 layers, 2560 hidden, 32 heads over 8, 9728, 151936 rows) in int8, as
// convert cuts it: packages of up to 250 MB, with noise for weights. Every run is a fresh look, files in the system's
// cache.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "bundle/bundle_info.h"
#include "check/check.h"
#include "check/report.h"
#include "lower/functions.h"
#include "noise.h"
#include "package/package.h"

using namespace anemone;
using namespace anemone::bench;
namespace fs = std::filesystem;

namespace {

class NoiseWeights : public lower::Weights {
 public:
  Value* projection(Builder& b, const WeightRef& ref, double, std::string_view name) override {
    const auto make = [&](DType dtype, Shape shape) {
      return Constant::from_source(std::make_shared<Noise>(Type::tensor(dtype, std::move(shape)), ++count_));
    };
    return b.op("constexpr_blockwise_shift_scale",
                {{"data", make(DType::int8, {ref.rows(), ref.columns, 1, 1})},
                 {"scale", make(DType::fp16, {ref.rows(), 1, 1, 1})}},
                name);
  }
  Value* vector(Builder& b, const WeightRef&, Shape shape, double, double, std::string_view name) override {
    return b.constant(
        Constant::from_source(std::make_shared<Noise>(Type::tensor(DType::fp16, std::move(shape)), ++count_)),
        name);
  }

 private:
  uint64_t count_ = 0;
};

Model shapes() {
  Model m;
  m.family = m.architecture = "qwen3";
  m.hidden = 2560, m.vocab = 151936, m.context = 2048;
  m.ropes = {{.dims = 128}};
  const auto ref = [](const char* name, int64_t rows, int64_t columns) {
    WeightRef r;
    r.tensor = name, r.row_end = rows, r.columns = columns;
    return r;
  };
  const Norm norm{.gain = ref("norm", 2560, 1), .eps = 1e-6},
      of_heads{.gain = ref("head_norm", 128, 1), .eps = 1e-6};
  Attention a;
  a.heads = 32, a.kv_heads = 8, a.head_dim = 128, a.rope = 0, a.scale = 0.08838834764;
  a.q.weight = ref("q", 4096, 2560), a.k.weight = ref("k", 1024, 2560), a.v.weight = ref("v", 1024, 2560);
  a.o.weight = ref("o", 2560, 4096);
  a.qk_norm = {.q = of_heads, .k = of_heads};
  GatedMlp mlp;
  mlp.width = 9728;
  mlp.gate.weight = ref("gate", 9728, 2560), mlp.up.weight = ref("up", 9728, 2560);
  mlp.down.weight = ref("down", 2560, 9728);
  m.layers.assign(36, {.steps = {{.norm_in = norm, .block = a}, {.norm_in = norm, .block = mlp}}});
  m.final_norm = norm;
  m.embedding.tokens = ref("embedding", 151936, 2560);
  m.head = VocabularyHead{.weight = m.embedding.tokens, .tied = true};
  return m;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void write(Program program, const fs::path& path) {
  Package package;
  package.spec_version = 9;
  package.program = std::move(program);
  package.description = description_of(package.program);
  write_package(package, path, {.overwrite = true});
}

uint64_t write_bundle(const fs::path& folder) {
  const Model model = shapes();
  NoiseWeights weights;
  BundleInfo info;
  info.tool = "bench", info.family = "qwen3", info.name = "4 B", info.precision = "int8", info.kv = "state";
  info.kv_write = "mask", info.target = "macos15";
  info.hidden = model.hidden, info.layers = 36, info.heads = 32, info.kv_heads = 8, info.head_dim = 128;
  info.vocab = model.vocab, info.model_context = model.context;
  info.tokens = {"embedding.bin", "fp16", "", model.vocab};
  info.ropes = {{.frequencies = std::vector<double>(64, 1.0)}};
  info.masks = lower::masks_of(model);
  const auto add = [&](int64_t first, int64_t last, Program program, FunctionInterface interface) {
    Stage stage;
    stage.package = fmt::format("{}_{:02}.mlpackage", last ? "layers" : "head", info.stages.size());
    stage.functions = {{.name = "main", .context = last ? 2048 : 0, .interface = std::move(interface)}};
    stage.first_layer = first, stage.last_layer = last;
    write(std::move(program), folder / stage.package);
    info.stages.push_back(std::move(stage));
  };
  for (size_t first = 0; first < 36; first += 2) {
    Program p;
    FunctionInterface interface =
        lower::build_layers(p, "main", model, weights,
                            {.first = first, .last = first + 2, .context = 2048, .last_stage = first == 34});
    add(static_cast<int64_t>(first), static_cast<int64_t>(first) + 2, std::move(p), std::move(interface));
  }
  for (int64_t row = 0; row < model.vocab; row += 81920) {
    Program p;
    FunctionInterface interface = lower::build_head(
        p, "main", model, weights, {.first_row = row, .last_row = std::min(model.vocab, row + 81920)});
    add(0, 0, std::move(p), std::move(interface));
  }
  std::ofstream(folder / kBundleFile) << info.json();
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_check_bundle FOLDER\n");
    return 2;
  }
  const fs::path folder = fs::path(argv[1]) / "anemone-bench-check";
  try {
    fs::create_directories(folder);
    const uint64_t bytes = write_bundle(folder);
    std::vector<double> checks, pages;
    size_t ops = 0, packages = 0, page_bytes = 0;
    for (int i = 0; i < 7; ++i) {
      const double start = seconds();
      const CheckReport report = check(folder, {});
      const double checked = seconds();
      page_bytes = report_html(report, false).size() + report_text(report).size();
      checks.push_back(checked - start);
      pages.push_back(seconds() - checked);
      packages = report.packages.size();
      ops = 0;
      for (const PackageReport& p : report.packages)
        for (const FunctionReport& f : p.functions) ops += f.placed.ops.size();
    }
    std::sort(checks.begin(), checks.end());
    std::sort(pages.begin(), pages.end());
    fmt::print("{:.2f} GB in {} packages, {} operations\n\n{:<28} {:>9} {:>10}\n",
               static_cast<double>(bytes) / 1e9, packages, ops, "", "best", "median");
    fmt::print("{:<28} {:>6.0f} ms {:>7.0f} ms\n", "open and check", 1e3 * checks[0], 1e3 * checks[3]);
    fmt::print("{:<28} {:>6.0f} ms {:>7.0f} ms   ({:.1f} MB)\n", "page and text", 1e3 * pages[0],
               1e3 * pages[3], static_cast<double>(page_bytes) / 1e6);
    fs::remove_all(folder);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    fs::remove_all(folder);
    return 2;
  }
}
