// How fast a package of 1 GB opens, and how fast it is read and written back beside a plain copy of its
// bytes.
//     bench_open_package FOLDER [megabytes]      FOLDER: on the disk to measure; takes three times the size
// Opening and summing up: in a fresh process each time, with the most memory it ever held. Writing back: in
// turns with `cp -r` of the same package. No sync for either: both end in the system's cache.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "mil/builder.h"
#include "noise.h"
#include "package/package.h"
#include "package/summary.h"

using namespace anemone;
using namespace anemone::bench;
namespace fs = std::filesystem;

namespace {

// A chain of 1x1 convolutions of 2048 channels, 8.4 MB each.
Package chain(int64_t megabytes) {
  constexpr int64_t kChannels = 2048;
  const int64_t layers = std::max<int64_t>(1, megabytes * 1'000'000 / (2 * kChannels * kChannels));
  Package package;
  package.spec_version = 9;
  Function& f = add_function(package.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, kChannels, 1, 1}));
  Builder b(f);
  for (int64_t i = 0; i < layers; ++i) {
    auto source = std::make_shared<Noise>(Type::tensor(DType::fp16, {kChannels, kChannels, 1, 1}),
                                          static_cast<uint64_t>(i + 1));
    x = b.op("conv", {{"x", x}, {"weight", Constant::from_source(source)}}, fmt::format("layer_{}", i));
  }
  b.output(x);
  package.description = description_of(package.program);
  return package;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The most memory that this process ever held, from the kernel's own figures; 0 where there are none.
double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) * 1024e-6;
  return 0;
}

template <class Run>
double timed(Run run) {
  const double start = seconds();
  run();
  return seconds() - start;
}

// What the other process does.
void open_here(const fs::path& path) {
  const double took = timed([&] {
    if (summarize(read_package(path)).weights.empty()) throw errorf("the package has no weights");
  });
  fmt::print("{} {}\n", 1e3 * took, peak_mb());
}

// Milliseconds and megabytes.
std::pair<double, double> open_in_a_process(const std::string& self, const fs::path& path) {
  FILE* child = ::popen(fmt::format("'{}' --open '{}'", self, path.string()).c_str(), "r");
  double ms = 0, mb = 0;
  const int read = child ? std::fscanf(child, "%lf %lf", &ms, &mb) : 0;
  if (!child || ::pclose(child) != 0 || read != 2) throw errorf("{} --open failed", self);
  return {ms, mb};
}

void measure(const std::string& self, const fs::path& folder, int64_t megabytes) {
  const fs::path path = folder / "bench.mlpackage", back = folder / "back.mlpackage",
                 copy = folder / "copy.mlpackage";
  const double made = timed([&] { write_package(chain(megabytes), path, {.overwrite = true}); });
  const double gigabytes =
      1e-9 * static_cast<double>(fs::file_size(path / "Data/com.apple.CoreML/weights/weight.bin"));
  fmt::print("a package of {:.2f} GB, made in {:.1f} s\n\n", gigabytes, made);
  fmt::print("{:<34} {:>10} {:>12} {:>10}\n", "", "best", "median", "memory");

  std::vector<double> opens;
  double memory = 0;
  for (int i = 0; i < 15; ++i) {
    const auto [ms, mb] = open_in_a_process(self, path);
    opens.push_back(ms);
    memory = std::max(memory, mb);
  }
  std::sort(opens.begin(), opens.end());
  fmt::print("{:<34} {:>7.1f} ms {:>9.1f} ms {:>7.1f} MB\n", "open and sum up", opens[0], opens[7], memory);

  std::vector<double> writes, copies;
  const std::string command = fmt::format("cp -r '{}' '{}'", path.string(), copy.string());
  for (int i = 0; i < 5; ++i) {
    fs::remove_all(copy);
    copies.push_back(timed([&] {
      if (std::system(command.c_str()) != 0) throw errorf("cp failed");
    }));
    fs::remove_all(back);
    writes.push_back(timed([&] { write_package(read_package(path), back); }));
  }
  std::sort(writes.begin(), writes.end());
  std::sort(copies.begin(), copies.end());
  fmt::print("{:<34} {:>7.2f} s  {:>9.2f} s\n", "read and write back", writes[0], writes[2]);
  fmt::print("{:<34} {:>7.2f} s  {:>9.2f} s\n", "cp -r of the same package", copies[0], copies[2]);
  fmt::print("{:<34} {:>7.2f} x  {:>9.2f} x\n", "write back / cp", writes[0] / copies[0],
             writes[2] / copies[2]);
  for (const fs::path& p : {path, back, copy}) fs::remove_all(p);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_open_package FOLDER [megabytes]\n");
    return 2;
  }
  try {
    if (argv[1] == std::string("--open") && argc == 3) return open_here(argv[2]), 0;
    const fs::path folder = fs::path(argv[1]) / "anemone-bench";
    fs::create_directories(folder);
    measure(argv[0], folder, argc > 2 ? std::atoll(argv[2]) : 1000);
    fs::remove_all(folder);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
