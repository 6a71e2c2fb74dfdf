#include "bundle/writer.h"

#include <algorithm>

#include "base/error.h"
#include "bundle/files.h"
#include "package/description.h"

namespace anemone {
namespace {

// A flexible token count is written as a range, with the fewest as the default.
void set_token_ranges(Package& package, const StageFunction& function) {
  if (function.least_tokens == function.most_tokens) return;
  for (const auto& input : package.program.functions[0]->inputs)
    for (Feature& feature : package.description.main.inputs) {
      if (feature.name != input->name || input->type.fixed()) continue;
      ArrayFeature& array = feature.type.array;
      array.shape.clear();
      array.range.clear();
      for (const Dim d : input->type.shape) {
        const int64_t low = d.known() ? d.size() : function.least_tokens,
                      high = d.known() ? d.size() : function.most_tokens;
        array.shape.push_back(low);
        array.range.push_back({static_cast<uint64_t>(low), high});
      }
    }
}

}  // namespace

WriteReport BundleWriter::add(Artifact& artifact) {
  artifact.stage.package = artifact.name + ".mlpackage";
  Package package;
  package.program = std::move(artifact.program);
  package.spec_version = opset_info(package.program.functions[0]->opset).spec_version;
  package.description = description_of(package.program);
  set_token_ranges(package, artifact.stage.functions.front());
  Metadata meta;
  meta.description = artifact.description;
  meta.author = artifact.author;
  meta.license = artifact.license;
  for (const auto& [key, value] : artifact.notes) meta.user[key] = value;
  package.description.metadata = meta;
  return add(package, artifact.stage.package);
}

WriteReport BundleWriter::add(const Package& package, const std::string& name) {
  return write_package(package, folder_ / name, {.pool = &pool_});
}

void BundleWriter::copy_rest(const std::filesystem::path& bundle, const BundleInfo& info) {
  const std::vector<std::string> packages = info.packages();
  for (const auto& entry : std::filesystem::directory_iterator(bundle)) {
    const std::string name = entry.path().filename().string();
    if (name == kBundleFile || std::find(packages.begin(), packages.end(), name) != packages.end()) continue;
    std::filesystem::copy(entry.path(), folder_ / name, std::filesystem::copy_options::recursive);
  }
}

void BundleWriter::finish(BundleInfo& info) {
  info.files = hash_files(folder_, pool_);
  write_text(folder_ / kBundleFile, info.json());
}

}  // namespace anemone
