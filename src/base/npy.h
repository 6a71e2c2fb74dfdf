// NumPy files: .npy (one array) and .npz (a zip of them).
//     Array x = read_npy("x.npy");
//     for (auto& [name, array] : read_npz("io.npz")) …
// Reads booleans, integers of 8 to 64 bits and fp16, fp32, fp64, in both byte orders and both memory orders;
// arrays come out native and row-major. Objects, structures, text and complex numbers are an Error.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "anemone/array.h"
#include "base/zip.h"

namespace anemone {

using NamedArrays = std::vector<std::pair<std::string, Array>>;

Array read_npy(const std::filesystem::path& path);
// `name` is for messages.
Array parse_npy(std::span<const std::byte> bytes, const std::string& name);
void write_npy(const std::filesystem::path& path, const Array& array);

// In the order of the file, names without ".npy".
NamedArrays read_npz(const std::filesystem::path& path);
NamedArrays parse_npz(std::span<const std::byte> bytes, const std::string& name);
void write_npz(const std::filesystem::path& path, const NamedArrays& arrays, bool compress = false);

// Writes an .npz member by member; also labels, as a vector of unicode strings ('<U').
class NpzWriter {
 public:
  explicit NpzWriter(const std::filesystem::path& path, bool compress = false)
      : zip_(path), compress_(compress) {}

  void add(const std::string& name, const Array& array);
  void add_strings(const std::string& name, std::span<const std::string> values);
  void finish() { zip_.finish(); }

 private:
  ZipWriter zip_;
  bool compress_;
};

}  // namespace anemone
