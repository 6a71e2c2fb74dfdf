// Any bytes as a GGUF file: an Error or a checkpoint whose every value and tensor can be read.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "families/hparams.h"

namespace {

using namespace anemone;

template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const Error&) {
  }
}

void read_values(const GgufFile& gguf, size_t size) {
  for (const GgufValue& value : gguf.values()) {
    attempt([&] { gguf.integer(value.key); });
    attempt([&] { gguf.number(value.key); });
    attempt([&] { gguf.boolean(value.key); });
    attempt([&] { gguf.string(value.key); });
    attempt([&] { gguf.integers(value.key); });
    attempt([&] { gguf.numbers(value.key); });
    attempt([&] { gguf.booleans(value.key); });
    attempt([&] {
      size_t total = 0;
      for (const auto s : gguf.strings(value.key)) total += s.size();
      if (total > size) __builtin_trap();
    });
  }
}

void read_tensors(std::span<const TensorReader> tensors) {
  for (const TensorReader& reader : tensors) {
    const int64_t count = reader.elements();
    std::vector<float> floats(static_cast<size_t>(count));
    std::vector<uint16_t> halves(floats.size());
    attempt([&] { reader.read_rows(0, reader.rows(), std::span(floats)); });
    attempt([&] { reader.read_rows(0, reader.rows(), std::span(halves)); });
    const int64_t begin = count / 3, end = count - count / 5;
    attempt(
        [&] { reader.read_elements(begin, end, std::span(floats).first(static_cast<size_t>(end - begin))); });
  }
}

// What families ask, under keys that the first inputs have.
void read_hparams(const Checkpoint& checkpoint) {
  const Hparams hp(checkpoint);
  for (const Key key : {keys::kLayers, keys::kHeads, keys::kKvHeads, Key{"", "x"}}) {
    attempt([&] { hp.find_integer(key); });
    attempt([&] { hp.find_number(key); });
    attempt([&] { hp.find_flag(key); });
    attempt([&] { hp.find_text(key); });
    attempt([&] { hp.find_object(key); });
    attempt([&] { hp.find_layer_integers(key, 2); });
    attempt([&] { hp.find_layer_flags(key, 2); });
    attempt([&] { hp.find_layer_texts(key, 2); });
    attempt([&] { hp.find_integers(key); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // As people give it: by its path.
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("anemone_fuzz_" + std::to_string(::getpid()) + ".gguf");
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(size));
  std::optional<Checkpoint> checkpoint;
  attempt([&] { checkpoint.emplace(Checkpoint::open(path)); });
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (checkpoint) {
    read_tensors(checkpoint->tensors());
    read_hparams(*checkpoint);
    for (const TokenizerFile& file : checkpoint->tokenizer().files)  // what is made must be sound
      GgufFile::from_parts({MappedFile::from_bytes(file.name, file.made)});
  }
  attempt([&] {
    const GgufFile gguf = GgufFile::from_parts({MappedFile::from_bytes("fuzz.gguf", bytes)});
    read_values(gguf, size);
    for (const GgufTensor& tensor : gguf.tensors())
      if (gguf.tensor(tensor.name) != &tensor) __builtin_trap();
    if (!checkpoint) return;
    for (const GgufValue& value : gguf.values()) {
      attempt([&] { checkpoint->value(value.key); });
      if (checkpoint->list_size(value.key).has_value() != value.is_array) __builtin_trap();
    }
  });
  return 0;
}
