// Artifact: a program before it is written in some format, with its interfaces and metadata. It does not know bundles:
// any graph can be one.
//     Artifact a{.name = "layers_00", .program = std::move(program)};
//     mlpackage_writer().file_name(a.name);                    // "layers_00.mlpackage"
//     mlpackage_writer().write(std::move(a), folder, pool);
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lower/interface.h"
#include "mil/program.h"
#include "package/package.h"

namespace anemone {

class ThreadPool;

struct Artifact {
  std::string name;  // "layers_00": without what a format appends
  Program program;
  std::map<std::string, FunctionInterface> interfaces;  // by function; none where roles are not known
  // By input, the sizes that each of its dimensions may have: for inputs whose sizes are not fixed. The least are the
  // default.
  std::map<std::string, std::vector<SizeRange>> ranges;
  std::string description, author, license;
  std::map<std::string, std::string> notes;  // "anemone.tool" …
};

// Writes artifacts in one format.
class ArtifactWriter {
 public:
  virtual ~ArtifactWriter() = default;
  // What an artifact of that name is called as a file or folder.
  virtual std::string file_name(const std::string& name) const = 0;
  // Writes it below `folder`, and says where each weight went.
  virtual WriteReport write(Artifact artifact, const std::filesystem::path& folder,
                            ThreadPool& pool) const = 0;
};

// Core ML packages.
const ArtifactWriter& mlpackage_writer();

}  // namespace anemone
