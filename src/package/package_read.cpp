#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/paths.h"
#include "package/blob.h"
#include "package/description_faults.h"
#include "package/manifest.h"
#include "package/mil_codec.h"
#include "package/package_file.h"
#include "package/wire.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

struct ModelKind {
  uint32_t field;
  std::string_view name;
};
// The members of Model's type oneof, but for mlProgram (502).
constexpr ModelKind kKinds[] = {
    {200, "pipeline classifier"},
    {201, "pipeline regressor"},
    {202, "pipeline"},
    {300, "linear regressor"},
    {301, "support vector regressor"},
    {302, "tree ensemble regressor"},
    {303, "neural network regressor"},
    {304, "Bayesian probit regressor"},
    {400, "linear classifier"},
    {401, "support vector classifier"},
    {402, "tree ensemble classifier"},
    {403, "neural network classifier"},
    {404, "nearest neighbors classifier"},
    {500, "neural network"},
    {501, "item similarity recommender"},
    {555, "custom model"},
    {556, "linked model"},
    {560, "class confidence thresholding"},
    {600, "one-hot encoder"},
    {601, "imputer"},
    {602, "feature vectorizer"},
    {603, "dictionary vectorizer"},
    {604, "scaler"},
    {606, "categorical mapping"},
    {607, "normalizer"},
    {609, "array feature extractor"},
    {610, "non-maximum suppression"},
    {900, "identity"},
    {2000, "text classifier"},
    {2001, "word tagger"},
    {2002, "vision feature print"},
    {2003, "sound analysis preprocessing"},
    {2004, "gazetteer"},
    {2005, "word embedding"},
    {2006, "audio feature print"},
    {3000, "serialized model"},
};

constexpr const char* kReadable = "an .mlpackage, .mlmodelc, .mlmodel or .mil";

std::shared_ptr<const MappedFile> open_regular(const fs::path& path) {
  // Before opening: opening a pipe would wait for a writer.
  if (!fs::is_regular_file(path)) throw Error("is not a file").at(path.string()).expected("a regular file");
  return MappedFile::open(path);
}

bool is_compiled(const fs::path& folder) {
  return fs::exists(folder / "model.mil") || folder.extension() == ".mlmodelc";
}

template <class Body>
auto at_path(const fs::path& path, Body body) {
  try {
    return body();
  } catch (const fs::filesystem_error& e) {
    throw errorf("cannot be read: {}", e.code().message())
        .at(e.path1().empty() ? path.string() : e.path1().string());
  }
}

void finish(Package& package, const BlobFiles& files) {
  package.missing_weights.assign(files.missing().begin(), files.missing().end());
  package.moved_weights.assign(files.moved().begin(), files.moved().end());
  for (const std::string& name : package.missing_weights)
    package.notes.push_back(
        fmt::format("the weight file {} is missing: the program can be shown but not run", name));
}

// The program counts here; a note says what Core ML would do.
void compare_description(Package& package) {
  for (const DescriptionFault& fault : description_faults(package))
    package.notes.push_back(fault.text() + "; Core ML would refuse the package");
}

Package read_mlmodel(const fs::path& path) {
  const auto model = open_regular(path);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  BlobFiles files(folder, folder, {});
  Package out = read_model(model->text(), path.string(),
                           [&](const std::string& file, uint64_t offset, const Type& type) {
                             return files.open(file, offset, type);
                           });
  out.path = path;
  out.as_stored = true;
  finish(out, files);
  compare_description(out);
  return out;
}

// coremldata.bin, as seen in one bundle: u32 model kind, u32 5, 20 zero bytes, "generic" behind its u64
// length, u64 version, 24 zero bytes, then the description behind its u64 length. Nothing where the bytes are
// otherwise.
std::optional<std::pair<int, std::string_view>> compiled_description(std::string_view bytes) {
  const auto u64 = [&](size_t at) {
    uint64_t value = 0;
    if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  constexpr size_t kName = 28;
  const uint64_t name_bytes = u64(kName);
  if (name_bytes == 0 || name_bytes > 256) return std::nullopt;
  const size_t version_at = kName + 8 + name_bytes;
  const size_t length_at = version_at + 8 + 24;
  const uint64_t length = u64(length_at);
  if (length == 0 || length_at + 8 > bytes.size() || length > bytes.size() - length_at - 8)
    return std::nullopt;
  return std::pair{static_cast<int>(std::min<uint64_t>(u64(version_at), 1000)),
                   bytes.substr(length_at + 8, length)};
}

// A program as text, with its weights under `folder`: a model.mil, alone or in a compiled model.
Package read_text(const fs::path& text_path, const std::string& name, const fs::path& folder,
                  const ReadOptions& options) {
  if (!options.parse_text) throw Error("compiled models cannot be read here").at(name);
  BlobFiles files(folder, folder, {});
  Package out;
  out.program = options.parse_text(open_regular(text_path)->text(), name,
                                   [&](const std::string& file, uint64_t offset, const Type& type) {
                                     return files.open(file, offset, type);
                                   });
  if (out.program.functions.empty()) throw Error("the program has no function").at(name);
  for (const auto& function : out.program.functions)
    out.spec_version = std::max(out.spec_version, opset_info(function->opset).spec_version);
  finish(out, files);
  return out;
}

Package read_mil(const fs::path& path, const ReadOptions& options) {
  Package out =
      read_text(path, path.string(), path.has_parent_path() ? path.parent_path() : fs::path("."), options);
  out.path = path;
  out.description = description_of(out.program);
  out.described = false;
  return out;
}

Package read_mlmodelc(const fs::path& path, const ReadOptions& options) {
  const fs::path text_path = path_inside(path, path, "model.mil");
  if (text_path.empty())
    throw Error("has no model.mil").at(path.string()).hint("only compiled ML Programs can be read");
  Package out = read_text(text_path, (path / "model.mil").string(), path, options);
  out.path = path;
  out.as_stored = true;
  bool described = false;
  if (const fs::path data = path_inside(path, path, "coremldata.bin"); !data.empty()) {
    const auto file = open_regular(data);
    if (const auto found = compiled_description(file->text())) {
      try {
        out.description = decode_description(found->second);
        if (found->first >= 6) out.spec_version = found->first;
        described = true;
      } catch (const Error&) {  // a layout that we do not know: fall back below
      }
    }
  }
  out.described = described;
  if (described) {
    compare_description(out);
  } else {
    out.description = description_of(out.program);
    out.notes.push_back("coremldata.bin could not be read: inputs and outputs are taken from the program");
  }
  return out;
}

}  // namespace

MlPackage::MlPackage(const fs::path& path, BlobUse use) : path_(path) {
  const fs::path manifest_path = path_inside(path, path, "Manifest.json");
  if (manifest_path.empty())
    throw Error("has no Manifest.json").at(path.string()).hint("is this the folder that ends in .mlpackage?");
  manifest_ = wire::at_place([&] { return (path / "Manifest.json").string(); },
                             [&] { return parse_manifest(open_regular(manifest_path)->text()); });
  const fs::path data = path / "Data";
  model_path_ = path_inside(path, data, manifest_.root().path);
  if (model_path_.empty())
    throw errorf("the model file '{}' is missing", manifest_.root().path).at(path.string());
  fs::path weights;
  if (const ManifestItem* item = manifest_.weights()) {
    weights = path_inside(path, data, item->path);
    weights_missing_ = weights.empty();
  }
  files_ = std::make_unique<BlobFiles>(path, model_path_.parent_path(), weights, use);
  model_ = open_regular(model_path_);
}

Package MlPackage::read(std::string_view only) const {
  Package out = read_model(
      model_->text(), model_name(),
      [&](const std::string& file, uint64_t offset, const Type& type) {
        std::lock_guard lock(mutex_);
        return files_->open(file, offset, type);
      },
      only);
  out.path = path_;
  out.as_stored = true;
  out.partial = !only.empty();
  out.weights_folder_missing = weights_missing_;
  std::lock_guard lock(mutex_);
  if (weights_missing_ && files_->missing().empty())
    out.notes.push_back("the manifest names a weights folder that does not exist; nothing refers to it");
  for (const auto& [identifier, item] : manifest_.items) {
    if (identifier == manifest_.root_identifier || &item == manifest_.weights()) continue;
    const fs::path source = path_inside(path_, path_ / "Data", item.path);
    if (source.empty()) throw errorf("the item '{}' is missing", item.path).at(path_.string());
    out.items.push_back({item.author, item.description, item.name, item.path, source});
  }
  finish(out, *files_);
  if (!out.partial) compare_description(out);
  return out;
}

std::vector<Signature> MlPackage::signatures() const {
  return wire::at_place([&] { return model_name(); },
                        [&] {
                          Description description;
                          std::vector<FunctionOutline> outlines;
                          for (wire::Fields f(model_->text()); f.next();) {
                            if (f.key() == wire::bytes(2))
                              description = decode_description(f.view());
                            else if (f.key() == wire::bytes(502))
                              outlines = outline_program(f.view());
                            else
                              f.skip();
                          }
                          return outlined_signatures(outlines, description);
                        });
}

std::vector<std::shared_ptr<const MappedFile>> MlPackage::weight_files() const {
  std::lock_guard lock(mutex_);
  const std::string name(kWeightFileName);
  const std::string_view inside = std::string_view(kWeightFileName).substr(kWeightFileName.find('/') + 1);
  if (fs::exists(model_path_.parent_path() / inside)) files_->open_file(name);
  return files_->opened();
}

Package read_model(std::string_view model, const std::string& name, const BlobOpener& blobs,
                   std::string_view only) {
  return wire::at_place(
      [&] { return name; },
      [&] {
        Package out;
        bool has_program = false;
        for (wire::Fields f(model); f.next();) {
          if (f.key() == wire::varint(1)) {
            const int64_t version = f.integer();
            if (version < 1 || version > 1000)
              throw errorf("the specification version {} does not exist", version);
            out.spec_version = static_cast<int>(version);
          } else if (f.key() == wire::bytes(2)) {
            out.description = decode_description(f.view());
          } else if (f.key() == wire::bytes(502)) {
            if (has_program) throw Error("the model has two programs");
            out.program = decode_program(f.view(), blobs, only);
            has_program = true;
          } else {
            for (const ModelKind& kind : kKinds)
              if (f.key() == wire::bytes(kind.field))
                throw Error("the model is not an ML Program")
                    .found(fmt::format("a {}", kind.name))
                    .hint("convert it again with a newer converter, target iOS 15 or later");
            f.keep(out.extra);
          }
        }
        if (!has_program) throw Error("holds no ML Program").hint("is this a Core ML model?");
        return out;
      });
}

Package read_package(const fs::path& path, const ReadOptions& options) {
  return at_path(path, [&] {
    if (path.empty()) throw Error("the package has no name").expected(kReadable);
    if (!fs::exists(path)) throw missing_path(path.string());
    if (!fs::is_directory(path)) {
      if (path.extension() == ".mil") return read_mil(path, options);
      try {
        return read_mlmodel(path);
      } catch (Error& e) {  // more likely another kind of file than a broken model
        if (path.extension() != ".mlmodel") e.expected(kReadable).hint("");
        throw;
      }
    }
    // A trailing slash leaves no file name.
    const fs::path named = path.has_filename() ? path : path.parent_path();
    if (is_compiled(named)) return read_mlmodelc(named, options);
    return MlPackage(named).read();
  });
}

std::shared_ptr<const PackageFile> PackageFile::open(const fs::path& path) {
  return at_path(path, [&] {
    auto out = std::make_shared<PackageFile>();
    const fs::path named = path.has_filename() ? path : path.parent_path();
    if (fs::is_directory(named) && !is_compiled(named)) {
      out->stored_ = std::make_unique<const MlPackage>(named, BlobUse::run);
      out->signatures_ = out->stored_->signatures();
      out->stored_
          ->weight_files();  // open from now on: whoever replaces the package does not change this one
    } else {
      out->whole_ = open_package(path);
      out->signatures_ = anemone::signatures(*out->whole_);
    }
    return out;
  });
}

std::shared_ptr<const Package> PackageFile::whole() const {
  std::lock_guard lock(mutex_);
  if (!whole_)
    whole_ = at_path(stored_->path(), [&] { return std::make_shared<const Package>(stored_->read()); });
  return whole_;
}

std::vector<std::shared_ptr<const MappedFile>> PackageFile::weight_files() const {
  if (!stored_) return {};
  return at_path(stored_->path(), [&] { return stored_->weight_files(); });
}

std::shared_ptr<const Package> PackageFile::function(const std::string& name) const {
  if (signatures_.size() == 1) return whole();
  {
    std::lock_guard lock(mutex_);
    if (whole_) return whole_;
  }
  return at_path(stored_->path(), [&] { return std::make_shared<const Package>(stored_->read(name)); });
}

}  // namespace anemone
