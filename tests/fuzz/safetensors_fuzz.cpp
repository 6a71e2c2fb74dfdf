// Any bytes as a safetensors file, or as the config.json beside one: an Error or a checkpoint whose every tensor and
// key can be read.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_file.h"
#include "checkpoint/safetensors.h"
#include "families/hparams.h"

namespace {

using namespace anemone;
namespace fs = std::filesystem;

template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const Error&) {
  }
}

// A folder with a sound half of a checkpoint: what comes in is the other half.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("anemone_fuzz_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }
  void write(const char* name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  fs::path path_;
};

void read_keys(const Checkpoint& checkpoint, const nlohmann::ordered_json& config) {
  const Hparams hp(checkpoint);
  for (const auto& [name, value] : config.items()) {
    if (!checkpoint.value(name)) __builtin_trap();
    const Key key{name.c_str(), ""};
    attempt([&] { hp.find_integer(key); });
    attempt([&] { hp.find_number(key); });
    attempt([&] { hp.find_flag(key); });
    attempt([&] { hp.find_text(key); });
    attempt([&] { hp.find_object(key); });
    attempt([&] { hp.find_layer_integers(key, 2); });
    attempt([&] { hp.find_integers(key); });
    attempt([&] { hp.find_layer_flags(key, 2); });
    attempt([&] { hp.find_layer_texts(key, 2); });
    attempt([&] { hp.find_token_ids(key, 10); });
  }
}

void read_tensors(std::span<const TensorReader> tensors) {
  for (const TensorReader& reader : tensors) {
    std::vector<float> floats(static_cast<size_t>(reader.elements()));
    try {
      reader.read_rows(0, reader.rows(), std::span(floats));
      reader.read_elements(0, reader.elements(), std::span(floats));
    } catch (const Error&) {
      if (reader.decodes()) __builtin_trap();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const bool json = !bytes.empty() && (bytes[0] == '{' || bytes[0] == '[');
  attempt([&] {
    if (json) {
      folder.write("model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
      folder.write("config.json", bytes);
      const Checkpoint checkpoint = Checkpoint::open(folder.path());
      if (checkpoint.naming() != Naming::hugging_face) __builtin_trap();
      read_keys(checkpoint, parse_json(bytes, "fuzz.json"));
      return;
    }
    const SafetensorsFile weights =
        SafetensorsFile::from_file(MappedFile::from_bytes("fuzz.safetensors", bytes));
    for (const SafeTensor& tensor : weights.tensors())
      if (weights.tensor(tensor.name) != &tensor) __builtin_trap();
    folder.write("model.safetensors", bytes);
    folder.write("config.json", "{}");
    read_tensors(Checkpoint::open(folder.path()).tensors());
  });
  return 0;
}
