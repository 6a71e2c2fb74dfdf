// Token ids as verbs are given them: an .npy file, or a text that the model's own tokenizer reads.
//     std::vector<int32_t> ids = text_ids("bundle", "book.txt");
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace anemone::cli {

// Whole numbers from an .npy file of any shape. Error when there are none.
std::vector<int32_t> read_ids(const std::filesystem::path& path);

// Whole numbers from 0 on, one a token, of one text or of several that are equally long.
struct TokenTable {
  std::vector<int64_t> shape;   // [tokens], or [texts, tokens]
  std::vector<int32_t> values;  // text by text

  size_t texts() const { return shape.size() == 2 ? static_cast<size_t>(shape[0]) : 1; }
  size_t tokens() const { return static_cast<size_t>(shape.back()); }
  std::span<const int32_t> text(size_t index) const {
    return std::span(values).subspan(index * tokens(), tokens());
  }
};

// Error for another shape, or a number above `most`; `what` says in words what the numbers are.
TokenTable read_token_table(const std::filesystem::path& path, const char* what = "token id",
                            int64_t most = INT32_MAX);

// The tokenizer of a bundle or of a checkpoint of any format, or one that stands alone.
std::shared_ptr<const Tokenizer> tokenizer_of(const std::filesystem::path& source);

// A file's text with what the model wants around it (BOS).
std::vector<int32_t> text_ids(const std::filesystem::path& source, const std::filesystem::path& file);

}  // namespace anemone::cli
