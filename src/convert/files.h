// Files of a bundle beside its packages.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "families/model.h"
#include "runtime/bundle_info.h"

namespace anemone {

class ThreadPool;

void write_text(const std::filesystem::path& path, const std::string& text);

// Rows in fp16, or in int8 with a file of fp32 scales, as `info` says.
void write_embedding_table(const TensorReader& tensor, const WeightRef& ref,
                           const std::filesystem::path& folder, const BundleInfo& info, ThreadPool& pool);

// Copies tokenizer.json and its companions, or writes the vocabulary of a GGUF file as a GGUF file without
// tensors. The name of the main file; empty when the checkpoint has no tokenizer.
std::string write_tokenizer(const Checkpoint& checkpoint, const std::filesystem::path& folder);

// What Tokenizer::load takes for a checkpoint.
std::filesystem::path tokenizer_source(const Checkpoint& checkpoint);

// Every file below the folder with its size and XXH3, sorted by path.
std::vector<BundleFile> hash_files(const std::filesystem::path& folder, ThreadPool& pool);

}  // namespace anemone
