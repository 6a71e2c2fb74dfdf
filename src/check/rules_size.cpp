// Z: sizes, shards, compiling.
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "check/rule.h"

namespace anemone {
namespace {

constexpr uint64_t kLargestBlob = uint64_t{1} << 31;
constexpr uint64_t kResident = 3'000'000'000;
constexpr size_t kManyPackages = 40;

double mb(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void large_package(const PackageSubject& s, Findings& out) {
  const uint64_t most = most_shard_bytes(s.bundle.target.device);
  if (s.weight_bytes > most)
    out.add(
        Level::warning,
        fmt::format("{:.0f} MB of weights; nothing above {:.0f} MB was seen to stay on the engine of an {}",
                    mb(s.weight_bytes), mb(most), device_name(s.bundle.target.device)));
  else if (s.weight_bytes > kSafeShardBytes)
    out.add(Level::hint, fmt::format("{:.0f} MB of weights, above the {:.0f} MB that are safe everywhere",
                                     mb(s.weight_bytes), mb(kSafeShardBytes)));
}

void large_file(const PackageSubject& s, Findings& out) {
  if (s.weight_bytes > kLargestBlob)
    out.add(Level::error,
            fmt::format("the weight file has {:.0f} MB, more than 2^31 bytes", mb(s.weight_bytes)));
}

void too_small(const FunctionSubject& s, Findings& out) {
  const auto missing = placement::missing_savings(s.placed);
  if (missing && small_model(s.package))
    out.add(
        Level::hint,
        fmt::format("goes to the CPU, by its size and not by its form: {:.3f} ms more must be saved before "
                    "the engine pays, of {:.3f} ms in all",
                    *missing, s.placed.ms));
}

void all_together(const BundleSubject& s, Findings& out) {
  if (s.weight_bytes > kResident && s.packages.size() > 1)
    out.add(Level::hint,
            fmt::format("{:.0f} MB in {} packages; about 3 GB were mapped at once where somebody looked",
                        mb(s.weight_bytes), s.packages.size()));
}

// The most 1x1 convolutions behind one another.
int conv_depth(const FunctionSubject& s) {
  std::unordered_map<const Value*, int> depth;
  int most = 0;
  for (const auto& op : s.placed.ops) {
    int here = 0;
    for (const Input& input : op.op->inputs)
      for (const Binding& binding : input.bindings)
        if (const auto it = depth.find(binding.value); it != depth.end()) here = std::max(here, it->second);
    here += op.op->type == "conv";
    most = std::max(most, here);
    for (const auto& output : op.op->outputs) depth[output.get()] = here;
  }
  return most;
}

void deep(const FunctionSubject& s, Findings& out) {
  const int depth = conv_depth(s), limit = s.package.bundle.target.chip->generation >= 18 ? 386 : 448;
  if (depth > limit)
    out.add(Level::error,
            fmt::format("{} convolutions behind one another; {} are known to compile", depth, limit));
}

void many_packages(const BundleSubject& s, Findings& out) {
  if (s.packages.size() > kManyPackages)
    out.add(Level::hint,
            fmt::format("{} packages: each leaves its own compiled copy on the disk", s.packages.size()));
}

void reloaded(const BundleSubject& s, Findings& out) {
  if (s.packages.size() > kManyPackages)
    out.add(Level::warning,
            fmt::format("{} packages, {} calls a token", s.packages.size(), s.packages.size()));
}

constexpr Rule kRules[] = {
    {.id = "Z01",
     .grade = Grade::X,
     .level = Level::warning,
     .title = "Weights of one package: 250 MB is safe; the maximum is 2,000 MB (Mac) and 1,000 MB (iPhone)",
     .why = "Seen on the engine: 223 to 2,016 MB. Seen refused: 364 MB halves (GPU), 1.5 and 1.7 GB (-14), "
            "2.3 GB (CPU), "
            "more than 1.0 to 1.4 GB on iPhones (GPU, silently).",
     .cost = "CPU or GPU, -14, or a killed app",
     .fix = "--shard-mb; fewer packages are faster, so no smaller than needed.",
     .sources = "AB ch4, e26, j055, j109; JR; AN; ct#1807",
     .in_package = large_package},
    {.id = "Z02",
     .grade = Grade::B,
     .level = Level::error,
     .title = "A weight file may have 2^31 bytes at most",
     .why = "\"Error in declaring network\".",
     .cost = "load failure",
     .fix = "Split the package.",
     .sources = "ct#1807",
     .targets = "older systems for certain; nobody showed a larger one on the engine",
     .in_package = large_file},
    {.id = "Z03",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "A package needs enough work to go to the engine",
     .why = "Core ML compares its estimates (P02). If too little time is saved, everything runs on the CPU, "
            "without an error. In one project the limit was about 14 MB of int8 transformer.",
     .cost = "CPU speed, which is fine for so little work",
     .fix = "Merge packages. A model that is small as a whole has nothing to merge: it runs on the CPU, "
            "correctly.",
     .sources = "AB e27; M6 5.2",
     .in_function = too_small},
    {.id = "Z04",
     .grade = Grade::C,
     .level = Level::hint,
     .title = "A process maps about 3 GB for the engine",
     .why = "Reported when two sets of shards were loaded together; about 4 GB a model on M1.",
     .cost = "-14",
     .fix = "One set of packages; functions that share weights.",
     .sources = "AB e26; SM",
     .in_bundle = all_together},
    {.id = "Z05",
     .grade = Grade::B,
     .level = Level::error,
     .title = "At most 386 convolutions may follow one another (448 on M4)",
     .why = "The compiler crashes on longer chains of 1x1 convolutions.",
     .cost = "CPU",
     .fix = "Split the package.",
     .sources = "M6 5.10",
     .targets = "M6: 386; M4: 448 at least",
     .in_function = deep},
    {.id = "Z06",
     .grade = Grade::C,
     .level = Level::hint,
     .title = "The private interface takes about 100 to 119 kernels a process",
     .why = "226 loaded programs have been seen. Core ML does not have this limit.",
     .cost = "",
     .fix = "None needed.",
     .sources = "MAD via JR; SK",
     .targets = "private interface"},
    {.id = "Z07",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "The first load compiles for the chip and the system",
     .why = "Once per binary name and system build.",
     .cost = "20 s (a speech encoder), 77 to 113 s (Llama 2 7B), 440 to 560 s (Whisper large), 80 min (4 B "
             "on M6)",
     .fix = "Warm up with progress shown; keep the binary's name; ship .mlpackage, not .mlmodelc.",
     .sources = "argmaxinc/argmax-oss-swift#309; SM; M6 14.4; ggml-org/whisper.cpp#1278; AB j111"},
    {.id = "Z08",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "Compiled copies need much disk space",
     .why = "32 GB for one binary name (270 shards), 86 GB stale after an update, 178 GiB held by the "
            "compiler service, "
            "274 GB in the engine's own folder.",
     .cost = "a full disk, purged caches, compiling again",
     .fix = "Few packages; look at ~/Library/Caches and free space "
            "(anemone doctor).",
     .sources = "AB j111, e35; CAD; ct#2549",
     .in_bundle = many_packages},
    {.id = "Z09",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "A system update invalidates compiled plans",
     .why = "-14 until they are compiled again.",
     .cost = "",
     .fix = "Compile again from the .mlpackage.",
     .sources = "AB e35"},
    {.id = "Z10",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "Packages should be few, and all kept loaded",
     .why = "Every package is one call per token, and reloading a package is very slow.",
     .cost = "28.9 s per token with 270 reloaded shards",
     .fix = "Larger shards, fewer bits.",
     .sources = "AB j110",
     .in_bundle = reloaded},
};

}  // namespace

std::span<const Rule> size_rules() { return kRules; }

}  // namespace anemone
