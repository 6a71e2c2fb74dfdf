// Changes of values in the metadata of a GGUF file that holds a tokenizer and no tensors, byte by byte.
//     edit_gguf_strings(bytes, "tokenizer.ggml.tokens", [](std::vector<std::string>& all) { … });
// A value stands behind its key as u32 type and content; a string is u64 length and bytes; a list is u32 type of its
// elements, u64 count and the elements. False where the file has no such value.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace anemone {

bool edit_gguf_strings(std::string& bytes, const std::string& key,
                       const std::function<void(std::vector<std::string>&)>& change);
bool edit_gguf_string(std::string& bytes, const std::string& key,
                      const std::function<void(std::string&)>& change);
bool add_to_gguf_number(std::string& bytes, const std::string& key, uint32_t more);

}  // namespace anemone
