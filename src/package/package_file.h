// PackageFile: a package on the disk, opened: what it offers is known, and functions are decoded when asked for.
//     auto file = PackageFile::open("layers.mlpackage");
//     file->signatures();                       // no operation is decoded for this
//     auto package = file->function("t64");     // alone; the mapped weights are shared with all others
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "anemone/package.h"
#include "package/blob.h"
#include "package/manifest.h"
#include "package/package.h"

namespace anemone {

// An .mlpackage folder: its manifest read, its model and weights mapped. Safe from several threads.
class MlPackage {
 public:
  explicit MlPackage(const std::filesystem::path& path, BlobUse use = BlobUse::look);

  const std::filesystem::path& path() const { return path_; }
  // `only`: that function alone, and Package::partial says so; empty: all.
  Package read(std::string_view only = {}) const;
  std::vector<Signature> signatures() const;
  // The weight file where packages have it, and others that functions read so far refer to.
  std::vector<std::shared_ptr<const MappedFile>> weight_files() const;

 private:
  std::string model_name() const { return (path_ / "Data" / manifest_.root().path).string(); }

  std::filesystem::path path_, model_path_;
  Manifest manifest_;
  std::shared_ptr<const MappedFile> model_;
  bool weights_missing_ = false;
  mutable std::mutex mutex_;  // of files_
  mutable std::unique_ptr<BlobFiles> files_;
};

class PackageFile {
 public:
  // Forms other than .mlpackage are read as a whole at once.
  static std::shared_ptr<const PackageFile> open(const std::filesystem::path& path);

  const std::vector<Signature>& signatures() const { return signatures_; }
  // All functions, decoded when first asked for.
  std::shared_ptr<const Package> whole() const;
  // One of them as if there were no others; the whole where that is there already.
  std::shared_ptr<const Package> function(const std::string& name) const;
  // The weight file where packages have it, and others that what was decoded refers to.
  std::vector<std::shared_ptr<const MappedFile>> weight_files() const;

 private:
  std::vector<Signature> signatures_;
  std::unique_ptr<const MlPackage> stored_;
  mutable std::mutex mutex_;  // of whole_
  mutable std::shared_ptr<const Package> whole_;
};

}  // namespace anemone
