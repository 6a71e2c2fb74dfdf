// CompressedProgram: a program whose weights take the forms of a recipe. The program may have been read from a package,
// or just been made: then its weights flow from the checkpoint and lie nowhere as they were.
//     CompressedProgram compressed(package.program, "layers_00", recipe, pool);      // fits tables
//     package.program = compressed.rewritten();
//     write_package(package, path, …);                                               // makes codes
//     compressed.report(path, report);                                               // what was lost
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compress/compress.h"
#include "compress/find.h"
#include "compress/hessian.h"
#include "compress/rewrite.h"
#include "package/package.h"

namespace anemone {

class ThreadPool;

class CompressedProgram {
 public:
  // `package`: its name without ".mlpackage", as recipes say it. `statistics`: empty where there are none. The program,
  // the recipe and the pool must outlive it. Error, before any work is done, where the program's opset does not have a
  // form; Error where a form does not fit a weight.
  CompressedProgram(const Program& program, std::string package, const Recipe& recipe, ThreadPool& pool,
                    const Statistics& statistics = {}, const CompressProgress& progress = {});

  // A copy with the new forms. Their codes are made while it is written, a few rows at a time.
  Program rewritten() const { return rewrite(program_, replacements_); }
  // Shows its weights to what looks after the recipe's patterns.
  void show(PatternUse& patterns) const;
  // Adds what was changed, measured on the package that was written, and what was not.
  void report(const std::filesystem::path& written, CompressReport& report) const;

 private:
  // A weight that gets another form.
  struct Chosen {
    const FoundWeight* found;
    const StorageForm* form;
    std::shared_ptr<const Encoded> encoded;  // empty: it could not be
  };

  void check_opsets() const;
  void choose();
  std::vector<std::vector<size_t>> calibrated_parts(std::vector<size_t>& plain, bool statistics) const;
  void encode_calibrated(const std::vector<size_t>& part, const Statistics& statistics,
                         const CompressProgress& progress);
  void encode_some(const std::vector<size_t>& members, const Hessians* hessians,
                   const CompressProgress& progress);
  void encode_one(Chosen& chosen, const Hessians* hessians);

  const Program& program_;
  std::string package_;
  const Recipe& recipe_;
  ThreadPool& pool_;
  FoundWeights found_;
  std::vector<Chosen> chosen_;
  Replacements replacements_;
  int64_t done_ = 0, untouched_ = 0, again_ = 0, judged_ = 0;
};

// The package with the compressed program in it, and a note of the recipe where it has notes.
Package compressed_package(const Package& original, const CompressedProgram& compressed,
                           const Recipe& recipe);

// The key of that note.
inline constexpr const char* kCompressNote = "anemone.compress";

}  // namespace anemone
