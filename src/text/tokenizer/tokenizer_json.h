// Reads Hugging Face's tokenizer.json.
//     TokenizerSpec spec = read_tokenizer_json(*MappedFile::open("tokenizer.json"));
// The file is one JSON object: normalizer, pre_tokenizer, model (with vocab and merges), post_processor, decoder,
// added_tokens (tokenizers 0.23). Truncation and padding are left aside. A component that we do not know is an Error
// that names it.
#pragma once

#include <filesystem>

#include "base/mapped_file.h"
#include "text/tokenizer/spec.h"

namespace anemone {

TokenizerSpec read_tokenizer_json(const MappedFile& file);

// Adds what lies beside a tokenizer in a Hugging Face folder: tokenizer_config.json (bos, eos, chat template),
// chat_template.jinja, generation_config.json (eos ids). Files that are not there are passed over.
void read_companions(const std::filesystem::path& folder, TokenizerSpec& spec);

}  // namespace anemone
