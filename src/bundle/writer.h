// BundleWriter: puts a bundle together, file by file, and finishes it with bundle.json.
//     BundleWriter writer(staged.path(), pool);
//     WriteReport r = writer.add(artifact);                    // artifact.stage.package is its name now
//     r.find("main", "head_0_weight", "data")->offset;         // where a weight lies
//     writer.finish(info);
#pragma once

#include <filesystem>

#include "bundle/artifact.h"
#include "package/package.h"

namespace anemone {

class ThreadPool;

class BundleWriter {
 public:
  // `folder` exists and is empty.
  BundleWriter(std::filesystem::path folder, ThreadPool& pool) : folder_(std::move(folder)), pool_(pool) {}

  const std::filesystem::path& folder() const { return folder_; }
  // Writes a stage as a Core ML package.
  WriteReport add(Artifact& artifact);
  // Writes a package of another bundle that was changed, under its name there.
  WriteReport add(const Package& package, const std::string& name);
  // Copies what another bundle holds beside its packages and bundle.json: tables, the tokenizer.
  void copy_rest(const std::filesystem::path& bundle, const BundleInfo& info);
  // Hashes what is there and writes bundle.json; `info` gets the list of files.
  void finish(BundleInfo& info);

 private:
  std::filesystem::path folder_;
  ThreadPool& pool_;
};

}  // namespace anemone
