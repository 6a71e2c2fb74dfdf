#include "mutation/workspace.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "bundle/files.h"
#include "mil/verify.h"
#include "support/temp_folder.h"

namespace anemone::mutation {
namespace {

void link_or_copy(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  std::error_code why;
  fs::create_hard_link(from, to, why);
  if (why) fs::copy_file(from, to);  // another file system
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

void Workspace::put(const std::string& file, const std::string& bytes) {
  fs::remove(folder_ / file);  // the link; the subject's file stays
  spill(folder_ / file, bytes);
  changed_.insert(file);
}

void Workspace::edit_bytes(const std::string& file, const std::function<void(std::string&)>& change) {
  const std::string before = slurp(folder_ / file);
  std::string bytes = before;
  change(bytes);
  if (bytes == before) throw NotApplicable{"the bytes stay the same"};
  put(file, bytes);
}

void Workspace::edit_json(const std::string& file, const std::function<void(Json&)>& change) {
  const Json before = Json::parse(slurp(folder_ / file));
  Json json = before;
  change(json);
  if (json == before) throw NotApplicable{"the values stay the same"};
  put(file, json.dump(1) + "\n");
}

void Workspace::replace_file(const std::string& file, const fs::path& by) {
  edit_bytes(file, [&](std::string& bytes) { bytes = slurp(by); });
}

void Workspace::edit_package(const std::string& package, const std::function<void(Package&)>& change) {
  ThreadPool pool(1);
  Package opened = read_package(folder_ / package);
  change(opened);
  const fs::path changed = folder_ / ("changed_" + package);
  write_package(opened, changed, {.pool = &pool});
  opened = {};
  fs::remove_all(folder_ / package);
  fs::rename(changed, folder_ / package);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / package))
    if (entry.is_regular_file()) changed_.insert(fs::relative(entry.path(), folder_).generic_string());
}

void Workspace::edit_program(const std::string& package, const std::function<void(Program&)>& change) {
  edit_package(package, [&](Package& p) {
    change(p.program);
    const std::vector<Fault> faults = verify(p.program, 1);
    if (!faults.empty()) throw NotApplicable{faults.front().text()};
  });
}

void Workspace::finish(bool rehash) {
  changed_.erase(kBundleFile);
  if (!rehash || changed_.empty()) return;
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
