// Subject: a clean bundle that mutations are made of, with the model that it was converted from.
//     Subject s = open_subject("llama-tiny", "state mask", "int8", bundle, model);
//     for (const auto& [name, package] : s.packages) …
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bundle/bundle_info.h"
#include "package/package.h"

namespace anemone::mutation {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Subject {
  std::string family, form, storage;  // "llama-tiny", "state mask", "int8"
  fs::path bundle, source;
  bool large = false;  // a real model: fewer probes, so that a mutant takes seconds

  BundleInfo info;
  Json json;                       // bundle.json
  std::vector<std::string> files;  // all of them, relative, sorted
  std::map<std::string, std::shared_ptr<const Package>> packages;

  std::string name() const { return family + ", " + form + ", " + storage; }
  // The stage that a package belongs to.
  const Stage& stage_of(const std::string& package) const;
  bool generates() const { return info.kind == BundleKind::generate; }
};

Subject open_subject(std::string family, std::string form, std::string storage, fs::path bundle,
                     fs::path source);

}  // namespace anemone::mutation
