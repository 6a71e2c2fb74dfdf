// `anemone compress`: a package or bundle with smaller weights.
#include <fmt/format.h>

#include <chrono>

#include "base/error.h"
#include "cli/command.h"
#include "cli/compress_flags.h"
#include "cli/source.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string input, output;
  bool overwrite = false;
  CompressFlags flags;
};

int run_compress(const Args& args, const Common& common) {
  if (!args.flags.any())
    throw errorf("there is nothing to do")
        .hint("give one of --palettize, --quantize, --prune, --decompress, --search, --recipe");
  if (is_bundle(args.input) && std::filesystem::path(args.output).extension() == ".mlpackage")
    throw errorf("the input is a bundle, and so is what compress makes of it: a folder with packages in it")
        .at(args.output)
        .hint("leave out .mlpackage, or name one of the bundle's packages as the input");
  const auto start = std::chrono::steady_clock::now();
  const CompressReport report = args.flags.run(args.input, args.output, args.overwrite, common);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_report(report, args.output, common);
  if (!common.json && !common.quiet) fmt::print("{} written in {:.2f} s\n", args.output, seconds);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone compress model.mlpackage -o small.mlpackage --palettize 4 --group 16\n"
    "  anemone compress bundle -o bundle-int8 --quantize int8 --skip 'head_*/*'";

}  // namespace

extern const Command kCompress{
    "compress", "Store the weights of a package or bundle in fewer bits", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("INPUT", args->input, "an .mlpackage, or a bundle").takes(kPackage | kBundle);
      o.text("-o,--output", "OUTPUT", args->output, "the package or bundle to write").writes().must();
      o.flag("--overwrite", args->overwrite, "replace the output if it exists");
      args->flags.declare(o);
      return [args](const Common& common) { return run_compress(*args, common); };
    }};

}  // namespace anemone::cli
