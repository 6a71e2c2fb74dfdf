// safetensors: the tensors of a Hugging Face model, in one file or several with an index, beside its config.json.
#include "checkpoint/safetensors.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/file_format.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/json_file.h"
#include "checkpoint/mxfp4_tensors.h"

namespace anemone::formats {
namespace {

namespace fs = std::filesystem;

class SafetensorsReader : public HuggingFaceReader {
 public:
  using HuggingFaceReader::HuggingFaceReader;
  std::string_view format_name() const override { return "safetensors"; }
};

Claim claim(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return files_with(path, ".safetensors").empty() ? Claim::none : Claim::whole;
  const bool named =
      path.extension() == ".safetensors" || path.filename().string().ends_with(".safetensors.index.json");
  return named ? Claim::whole : Claim::none;
}

bool is_mxfp4(const nlohmann::ordered_json& config) {
  if (!config.is_object()) return false;
  const auto at = config.find("quantization_config");
  if (at == config.end() || !at->is_object()) return false;
  const auto method = at->find("quant_method");
  return method != at->end() && method->is_string() && method->get<std::string>() == "mxfp4";
}

std::shared_ptr<const CheckpointReader> open(const fs::path& path) {
  std::vector<TensorReader> tensors = tensor_readers(SafetensorsFile::open(path));
  const fs::path config = folder_of(path) / "config.json";
  std::error_code ignored;
  if (!fs::exists(config, ignored))
    throw Error("is missing; the weights cannot be used without it")
        .at(config.string())
        .hint("download all files of the model");
  nlohmann::ordered_json values = read_json_file(config);
  if (is_mxfp4(values)) tensors = join_mxfp4(std::move(tensors));
  return std::make_shared<SafetensorsReader>(path, config, std::move(values), std::move(tensors));
}

}  // namespace

extern const FileFormat safetensors{.name = "safetensors",
                                    .accepts =
                                        "a .safetensors file or index, or a folder with one, and config.json "
                                        "beside it",
                                    .claim = claim,
                                    .open = open};

}  // namespace anemone::formats
