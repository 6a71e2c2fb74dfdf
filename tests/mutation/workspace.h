// Workspace: a copy of a subject's bundle that mutations may change, one after the other. Files are hard links until
// they are changed. Of a large file one copy is made; a change writes the pages that differ, and restore() puts
// them back.
//     Workspace w(subject, folder);
//     w.edit_package("layers_00.mlpackage", [](Package& p) { … });
//     w.finish(true);                       // sizes and hashes in bundle.json as a faulty converter would write them
//     w.restore();                          // as the subject is
#pragma once

#include <functional>
#include <map>
#include <set>

#include "mutation/subject.h"

namespace anemone::mutation {

// Thrown by a change that finds nothing to do: the mutant is no mutant and is left out.
struct NotApplicable {
  std::string why;
};

class Workspace {
 public:
  Workspace(const Subject& subject, fs::path folder);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  const Subject& subject() const { return subject_; }
  const fs::path& path() const { return folder_; }

  // NotApplicable when the changed program breaks a rule of MIL: no converter would write it.
  void edit_program(const std::string& package, const std::function<void(Program&)>& change);
  void edit_package(const std::string& package, const std::function<void(Package&)>& change);
  void edit_bytes(const std::string& file, const std::function<void(std::string&)>& change);
  void edit_json(const std::string& file, const std::function<void(Json&)>& change);
  void edit_info(const std::function<void(Json&)>& change) { edit_json(kBundleFile, change); }
  void replace_file(const std::string& file, const fs::path& by);
  // With `rehash`, bundle.json gets the sizes and hashes of what was changed.
  void finish(bool rehash);
  void restore();

 private:
  void put(const std::string& file, const std::string& before, const std::string& bytes);
  void patch(const std::string& file, const std::string& before, const std::string& bytes);

  const Subject& subject_;
  fs::path folder_;
  std::set<std::string> changed_;                // since the last restore()
  std::map<std::string, std::set<size_t>> own_;  // large files that are no links: the pages that differ now
};

}  // namespace anemone::mutation
