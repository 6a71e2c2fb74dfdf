// Package: a Core ML package as a description and a program.
//     Package p = read_package("model.mlpackage");       // reads the program, maps the weights
//     WriteReport r = write_package(p, "copy.mlpackage");
//     r.find("main", "head_0_weight", "scale")->offset;   // where its bytes lie in weight.bin
// Reads .mlpackage folders, bare .mlmodel files that hold an ML Program, and compiled .mlmodelc folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mil/program.h"
#include "package/description.h"
#include "package/value_codec.h"

namespace anemone {

class ThreadPool;

// Anything else that the manifest of a package lists; copied along.
struct PackageItem {
  std::string author, description, name, path;
  std::filesystem::path source;
};

struct Package {
  std::filesystem::path path;  // where it was read from
  bool as_stored = false;      // the files there say the same: nothing was changed since
  bool partial = false;        // only one of the functions that are stored there was read: not to be written
  int spec_version = 0;        // Model.specificationVersion
  Description description;
  bool described = true;  // false: the file has no description, and it was taken from the program
  Program program;
  std::vector<PackageItem> items;
  std::string extra;  // fields of the Model message that we do not know

  bool weights_folder_missing = false;       // the manifest names one that is not there
  std::vector<std::string> missing_weights;  // weight files that the program names and that are not there
  std::vector<std::string> moved_weights;    // found in the manifest's folder, and not where the program says
  std::vector<std::string> notes;            // notes for the user, one sentence each
};

struct ReadOptions {
  // Parses the model.mil of a compiled model, which messages call `name`; `blobs` opens what BLOBFILE names.
  std::function<Program(std::string_view text, const std::string& name, const BlobOpener& blobs)> parse_text;
};

Package read_package(const std::filesystem::path& path, const ReadOptions& options = {});

// Reads the bytes of a model.mlmodel. Messages call it `name`.
// `only`: that function alone; empty: all.
Package read_model(std::string_view model, const std::string& name, const BlobOpener& blobs,
                   std::string_view only = {});

struct WriteOptions {
  bool overwrite = false;      // replace what stands under the final name
  ThreadPool* pool = nullptr;  // empty: one is made
};

// The weight file inside a package that we write.
inline constexpr std::string_view kWeightFile = "Data/com.apple.CoreML/weights/weight.bin";

// Where a constant of the program lies in the package that was written.
struct WeightPlace {
  std::string function;
  std::string value;  // the first result of the operation that holds it; empty: an attribute of the function
  std::string param;  // empty for the value of a const; "data", "scale" … of a constexpr operation
  std::string file;   // inside the package
  uint64_t offset = 0;  // of the first byte of its data
  uint64_t bytes = 0;
};

// What was written.
struct WriteReport {
  uint64_t weight_bytes = 0;  // size of weight.bin
  uint64_t blobs = 0;         // records in it
  uint64_t shared = 0;        // constants that use a record of another one
  // Every constant that went into weight.bin. Small ones lie in the program itself.
  std::vector<WeightPlace> places;

  // Empty when it is not in a weight file. A parameter that takes several values gives the first.
  const WeightPlace* find(std::string_view function, std::string_view value,
                          std::string_view param = "") const;
};

// Writes beside `path` and renames when whole. Same program, same bytes. `path` must end in .mlpackage.
WriteReport write_package(const Package& package, const std::filesystem::path& path,
                          const WriteOptions& options = {});

}  // namespace anemone
