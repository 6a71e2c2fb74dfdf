// Artifact: one stage of a bundle before it is written in some format: a program, what its functions take and give, and
// what is said of it.
//     Artifact a = build_stage(…);                             // convert/stages.h
//     BundleWriter writer(folder, pool);
//     writer.add(a);                                           // as an .mlpackage
#pragma once

#include <map>
#include <string>

#include "bundle/bundle_info.h"
#include "mil/program.h"

namespace anemone {

struct Artifact {
  std::string name;  // "layers_00": without what a format appends
  Program program;
  Stage stage;  // functions with their interfaces; the package's name is the writer's to say
  std::string description, author, license;
  std::map<std::string, std::string> notes;  // "anemone.tool" …
};

}  // namespace anemone
