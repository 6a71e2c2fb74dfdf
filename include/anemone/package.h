// Package: a Core ML program with its weights, opened from an .mlpackage, .mlmodelc or .mlmodel.
//     auto package = anemone::open_package("model.mlpackage");
//     for (const anemone::Signature& f : anemone::signatures(*package)) std::cout << f.function << "\n";
// Weights are mapped, not read: opening gigabytes takes milliseconds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "anemone/array.h"

namespace anemone {

struct Package;  // opaque

// An input, output or state of a function.
struct TensorInfo {
  std::string name;
  DType dtype = DType::none;
  std::vector<int64_t> shape;                      // -1 where it is flexible or not known
  std::vector<std::pair<int64_t, int64_t>> range;  // flexible inputs: the sizes allowed per dimension
  std::vector<std::vector<int64_t>> enumerated;    // flexible inputs: the shapes allowed
  bool optional = false;                           // an input that has a default
};

struct Signature {
  std::string function;
  std::vector<TensorInfo> inputs, outputs, states;
};

// Throws Error when the path holds no ML Program.
std::shared_ptr<const Package> open_package(const std::filesystem::path& path);
// One entry a function; the default one first.
std::vector<Signature> signatures(const Package& package);

}  // namespace anemone
