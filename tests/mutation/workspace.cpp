#include "mutation/workspace.h"

#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "bundle/files.h"
#include "mil/verify.h"
#include "package/mil_codec.h"
#include "package/wire.h"
#include "support/temp_folder.h"

namespace anemone::mutation {
namespace {

constexpr size_t kLarge = size_t{1} << 20, kPage = 4096;

void link_or_copy(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  std::error_code why;
  fs::create_hard_link(from, to, why);
  if (why) fs::copy_file(from, to);  // another file system
}

// The model.mlmodel of a package whose weight file stays as it is. New constants stand in the program itself.
std::string model_bytes(const Package& package) {
  wire::Message out;
  out.integer(1, package.spec_version);
  out.data(2, encode_description(package.description));
  out.data(502, encode_program(package.program, [](const Constant& c) -> std::optional<uint64_t> {
             if (const auto* blob = std::get_if<Blob>(&c.data)) return blob->record_offset;
             return std::nullopt;
           }));
  out.raw(package.extra);
  return std::move(out).bytes();
}

std::fstream opened_to_patch(const fs::path& path) {
  return std::fstream(path, std::ios::in | std::ios::out | std::ios::binary);
}

void write_page(std::fstream& out, size_t page, std::string_view bytes) {
  out.seekp(static_cast<std::streamoff>(page * kPage));
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string_view page_of(const std::string& bytes, size_t page) {
  return std::string_view(bytes).substr(page * kPage, kPage);
}

}  // namespace

Workspace::Workspace(const Subject& subject, fs::path folder)
    : subject_(subject), folder_(std::move(folder)) {
  fs::remove_all(folder_);
  for (const std::string& file : subject.files) link_or_copy(subject.bundle / file, folder_ / file);
}

Workspace::~Workspace() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Workspace::put(const std::string& file, const std::string& before, const std::string& bytes) {
  changed_.insert(file);
  if (bytes.size() >= kLarge && bytes.size() == before.size()) return patch(file, before, bytes);
  own_.erase(file);
  fs::remove(folder_ / file);  // the link; the subject's file stays
  spill(folder_ / file, bytes);
}

void Workspace::patch(const std::string& file, const std::string& before, const std::string& bytes) {
  if (!own_.contains(file)) {
    fs::remove(folder_ / file);
    fs::copy_file(subject_.bundle / file, folder_ / file);
  }
  std::set<size_t>& pages = own_[file];
  std::fstream out = opened_to_patch(folder_ / file);
  for (size_t page = 0; page * kPage < bytes.size(); ++page) {
    const std::string_view next = page_of(bytes, page);
    if (next == page_of(before, page)) continue;
    write_page(out, page, next);
    pages.insert(page);
  }
  out.close();
  if (!out) throw errorf("cannot be written").at((folder_ / file).string());
}

void Workspace::restore() {
  for (const std::string& file : changed_) {
    const auto own = own_.find(file);
    if (own == own_.end()) {
      fs::remove(folder_ / file);
      link_or_copy(subject_.bundle / file, folder_ / file);
      continue;
    }
    const auto clean = MappedFile::open(subject_.bundle / file);
    const std::string_view bytes(reinterpret_cast<const char*>(clean->bytes().data()), clean->bytes().size());
    std::fstream out = opened_to_patch(folder_ / file);
    for (const size_t page : own->second) write_page(out, page, bytes.substr(page * kPage, kPage));
    out.close();
    if (!out) throw errorf("cannot be written").at((folder_ / file).string());
    own->second.clear();
  }
  changed_.clear();
}

void Workspace::edit_bytes(const std::string& file, const std::function<void(std::string&)>& change) {
  const std::string before = slurp(folder_ / file);
  std::string bytes = before;
  change(bytes);
  if (bytes == before) throw NotApplicable{"the bytes stay the same"};
  put(file, before, bytes);
}

void Workspace::edit_json(const std::string& file, const std::function<void(Json&)>& change) {
  const std::string text = slurp(folder_ / file);
  const Json before = Json::parse(text);
  Json json = before;
  change(json);
  if (json == before) throw NotApplicable{"the values stay the same"};
  put(file, text, json.dump(1) + "\n");
}

void Workspace::replace_file(const std::string& file, const fs::path& by) {
  edit_bytes(file, [&](std::string& bytes) { bytes = slurp(by); });
}

void Workspace::edit_package(const std::string& package, const std::function<void(Package&)>& change) {
  const std::string file = package + "/Data/com.apple.CoreML/model.mlmodel";
  Package opened = read_package(folder_ / package);
  change(opened);
  put(file, slurp(folder_ / file), model_bytes(opened));
}

void Workspace::edit_program(const std::string& package, const std::function<void(Program&)>& change) {
  edit_package(package, [&](Package& p) {
    change(p.program);
    const std::vector<Fault> faults = verify(p.program, 1);
    if (!faults.empty()) throw NotApplicable{faults.front().text()};
  });
}

void Workspace::finish(bool rehash) {
  const bool others = changed_.size() > changed_.count(kBundleFile);
  if (!rehash || !others) return;
  ThreadPool pool(1);
  const std::vector<BundleFile> hashed = hash_files(folder_, pool);
  edit_info([&](Json& info) {
    for (Json& entry : info.at("files"))
      for (const BundleFile& file : hashed)
        if (entry.at("path") == file.path && changed_.contains(file.path)) {
          entry["bytes"] = file.bytes;
          entry["xxh3"] = file.xxh3;
        }
  });
}

}  // namespace anemone::mutation
