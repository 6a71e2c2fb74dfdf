// ExternalData: the files beside an ONNX model that hold data of its tensors, each mapped once.
//     ExternalData data("net.onnx", "folder");
//     OnnxTensor::Place place = data.open({.location = "net.onnx.data", .offset = 4096, .length = 64});
// A location stays inside the model's folder: absolute paths, "..", and links that lead out of it are refused. If the
// model itself is a link (as in the cache of Hugging Face's tools), its data may also lie beside its target.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/tensor.h"

namespace anemone {

struct ExternalPlace {
  std::string_view location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;  // to the end of the file
};

class ExternalData {
 public:
  ExternalData(std::filesystem::path model, std::filesystem::path folder)
      : model_(std::move(model)), folder_(std::move(folder)) {}

  // The bytes; nothing when the file does not exist, which missing() then reports.
  std::optional<OnnxTensor::Place> open(const ExternalPlace& place);
  // Names of files that were asked for and are not there.
  const std::vector<std::string>& missing() const { return missing_; }
  const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  std::filesystem::path resolve(std::string_view location) const;

  std::filesystem::path model_, folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> open_;
  std::vector<std::string> missing_;
  std::vector<std::filesystem::path> files_;
};

}  // namespace anemone
