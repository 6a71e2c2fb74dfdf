// Token ids as verbs are given them: an .npy file, or a text that the model's own tokenizer reads.
//     std::vector<int32_t> ids = text_ids("bundle", "book.txt");
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace anemone::cli {

// Whole numbers from an .npy file of any shape. Error when there are none.
std::vector<int32_t> read_ids(const std::filesystem::path& path);

// The tokenizer of a bundle or of a checkpoint of any format, or one that stands alone.
std::shared_ptr<const Tokenizer> tokenizer_of(const std::filesystem::path& source);

// A file's text with what the model wants around it (BOS).
std::vector<int32_t> text_ids(const std::filesystem::path& source, const std::filesystem::path& file);

}  // namespace anemone::cli
