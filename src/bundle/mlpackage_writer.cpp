#include "base/error.h"
#include "bundle/artifact.h"
#include "package/description.h"

namespace anemone {
namespace {

// Ranges go into the description, with the least sizes as the default.
void set_ranges(Package& package, const Artifact& artifact) {
  for (Feature& feature : package.description.main.inputs) {
    const auto ranges = artifact.ranges.find(feature.name);
    if (ranges == artifact.ranges.end()) continue;
    ArrayFeature& array = feature.type.array;
    array.range = ranges->second;
    array.shape.clear();
    for (const SizeRange& r : array.range) array.shape.push_back(static_cast<int64_t>(r.lower));
  }
}

class MlpackageWriter : public ArtifactWriter {
 public:
  std::string file_name(const std::string& name) const override { return name + ".mlpackage"; }

  WriteReport write(Artifact artifact, const std::filesystem::path& folder, ThreadPool& pool) const override {
    Package package;
    package.program = std::move(artifact.program);
    package.spec_version = opset_info(package.program.functions.at(0)->opset).spec_version;
    package.description = description_of(package.program);
    set_ranges(package, artifact);
    Metadata meta;
    meta.description = artifact.description;
    meta.author = artifact.author;
    meta.license = artifact.license;
    for (const auto& [key, value] : artifact.notes) meta.user[key] = value;
    package.description.metadata = meta;
    return write_package(package, folder / file_name(artifact.name), {.pool = &pool});
  }
};

}  // namespace

const ArtifactWriter& mlpackage_writer() {
  static const MlpackageWriter writer;
  return writer;
}

}  // namespace anemone
