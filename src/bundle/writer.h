// BundleWriter: puts a bundle together, file by file, and finishes it with bundle.json.
//     BundleWriter writer(staged.path(), pool);
//     const std::string file = writer.file_name(artifact.name);        // "head_00.mlpackage"
//     WriteReport r = writer.add(std::move(artifact));
//     r.find("main", "head_0_weight", "data")->offset;                 // where a weight lies
//     writer.finish(info);
#pragma once

#include <filesystem>

#include "bundle/artifact.h"
#include "bundle/bundle_info.h"
#include "package/package.h"

namespace anemone {

class BundleWriter {
 public:
  // `folder` exists and is empty. `format`: of the artifacts; it must outlive the writer.
  BundleWriter(std::filesystem::path folder, ThreadPool& pool,
               const ArtifactWriter& format = mlpackage_writer())
      : folder_(std::move(folder)), pool_(pool), format_(format) {}

  const std::filesystem::path& folder() const { return folder_; }
  // What bundle.json calls an artifact of that name.
  std::string file_name(const std::string& name) const { return format_.file_name(name); }
  WriteReport add(Artifact artifact) { return format_.write(std::move(artifact), folder_, pool_); }
  // Writes a package of another bundle that was changed, under its name there.
  WriteReport add(const Package& package, const std::string& name);
  // Copies what another bundle holds beside its packages and bundle.json: tables, the tokenizer.
  void copy_rest(const std::filesystem::path& bundle, const BundleInfo& info);
  // Hashes what is there and writes bundle.json; `info` gets the list of files.
  void finish(BundleInfo& info);

 private:
  std::filesystem::path folder_;
  ThreadPool& pool_;
  const ArtifactWriter& format_;
};

}  // namespace anemone
