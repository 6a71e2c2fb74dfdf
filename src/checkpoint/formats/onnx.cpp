// ONNX: a graph whose nodes hold the weights, as ONNX Runtime and Hugging Face publish it. Its keys and tensors have no
// names to go by: families/recover reads the graph.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/file_format.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/onnx_bundle.h"

namespace anemone::formats {
namespace {

namespace fs = std::filesystem;

CheckpointFacts onnx_facts(const fs::path& path, const OnnxBundle& bundle) {
  const fs::path folder = bundle.place.folder;
  CheckpointFacts facts{
      .path = path,
      .folder = folder,
      .metadata_file = (folder / (bundle.genai ? "genai_config.json" : "config.json")).string()};
  const fs::path whole = fs::absolute(path).lexically_normal();
  facts.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  if (!bundle.place.note.empty()) facts.notes.push_back(bundle.place.note);
  return facts;
}

class OnnxReader : public HuggingFaceReader {
 public:
  OnnxReader(CheckpointFacts facts, std::shared_ptr<OnnxBundle> bundle)
      : HuggingFaceReader(std::move(facts), bundle->genai ? *bundle->genai : *bundle->config,
                          bundle->weights.take_tensors()),
        bundle_(std::move(bundle)) {}

  std::string_view format_name() const override { return "ONNX"; }
  std::optional<Naming> naming() const override { return std::nullopt; }
  const OnnxBundle* graph() const override { return bundle_.get(); }

 private:
  std::shared_ptr<const OnnxBundle> bundle_;
};

Claim claim(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path.extension() == ".onnx" ? Claim::whole : Claim::none;
  try {
    const std::optional<OnnxPlace> place = find_onnx(path);
    if (!place) return Claim::none;
    return place->folder == path && place->model.parent_path() == path ? Claim::whole : Claim::holds_one;
  } catch (const Error&) {
    return Claim::holds_one;  // several: opening it says which
  }
}

std::shared_ptr<const CheckpointReader> open(const fs::path& path) {
  std::optional<OnnxPlace> place = find_onnx(path);
  if (!place) throw Error("there is no ONNX model").at(path.string());
  return onnx_checkpoint(std::make_shared<OnnxBundle>(std::move(*place)), path);
}

}  // namespace

extern const FileFormat onnx{.name = "ONNX",
                             .accepts =
                                 "a folder with model.onnx and genai_config.json or config.json, a folder of "
                                 "versions of it, or a .onnx file in one",
                             .claim = claim,
                             .open = open};

}  // namespace anemone::formats

namespace anemone {

std::shared_ptr<const CheckpointReader> onnx_checkpoint(std::shared_ptr<OnnxBundle> bundle,
                                                        const std::filesystem::path& path) {
  CheckpointFacts facts = formats::onnx_facts(path, *bundle);
  return std::make_shared<formats::OnnxReader>(std::move(facts), std::move(bundle));
}

}  // namespace anemone
