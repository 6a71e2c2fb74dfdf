// FileFormat: one way to store a checkpoint. A format is one file in checkpoint/formats; CMake makes the table of all
// of them from the file names.
//     extern const FileFormat gguf{.name = "GGUF", .accepts = "a GGUF file or …", .claim = claim, .open = open};
//     const FileFormat& format = choose_format(path, all_file_formats());
//
// A new one is a file formats/<name>.cpp that ends with the line above and derives a CheckpointReader: from the one of
// hugging_face.h when a config.json stands beside its weights, and else with a Naming of its own (naming.h), for which
// the compiler then asks at every table of names. Its bytes are read by a class of their own (gguf.h, safetensors.h)
// with a fuzzer in tests/fuzz.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_reader.h"

namespace anemone {

// How far a path belongs to a format. The strongest claim wins: a folder as Hugging Face publishes it may hold GGUF
// files as well, and is still one model in safetensors.
enum class Claim {
  none,
  holds_one,  // a folder that holds a file of the format, among others
  whole,      // a file of the format, or a folder that as a whole is one checkpoint
};

struct FileFormat {
  std::string_view name;     // for people
  std::string_view accepts;  // what can be opened: "a GGUF file, or a folder with one"
  Claim (*claim)(const std::filesystem::path& path);
  std::shared_ptr<const CheckpointReader> (*open)(const std::filesystem::path& path);
};

// All of them, sorted by name.
std::span<const FileFormat* const> all_file_formats();

// The format that claims a path. Error, listing the formats, when none or more than one does.
const FileFormat& choose_format(const std::filesystem::path& path,
                                std::span<const FileFormat* const> formats);

// The files of a folder with this extension (".gguf"), sorted; none where the folder cannot be read.
std::vector<std::filesystem::path> files_with(const std::filesystem::path& folder,
                                              std::string_view extension);

// The folder that the files of a checkpoint lie in: the path itself, or where it lies.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace anemone
