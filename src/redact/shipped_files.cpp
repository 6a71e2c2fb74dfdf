#include "redact/shipped_files.h"

extern "C" {
extern const char anemone_file_config[], anemone_file_config_end[];
extern const char anemone_file_weights[], anemone_file_weights_end[];
extern const char anemone_file_tokenizer[], anemone_file_tokenizer_end[];
extern const char anemone_file_tokenizer_config[], anemone_file_tokenizer_config_end[];
}

namespace anemone::redact {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::array<ShippedFile, 4> shipped_files() {
  return {
      {{"config.json", between(anemone_file_config, anemone_file_config_end)},
       {"model.safetensors", between(anemone_file_weights, anemone_file_weights_end)},
       {"tokenizer.json", between(anemone_file_tokenizer, anemone_file_tokenizer_end)},
       {"tokenizer_config.json", between(anemone_file_tokenizer_config, anemone_file_tokenizer_config_end)}}};
}

}  // namespace anemone::redact
