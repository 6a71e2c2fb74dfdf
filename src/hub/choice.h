// Which files of a repository are needed: what our readers open, and no copies in other formats.
//     Choice c = choose_files(listing, "", Need::everything, "Qwen/Qwen3-0.6B");
//     // small: config.json, tokenizer.json …; weights: model.safetensors
#pragma once

#include <string>
#include <vector>

#include "hub/listing.h"

namespace anemone::hub {

// What the caller will open. Where a repository has no small files for it (GGUF holds all in one), the weights come
// too.
enum class Need { everything, config, tokenizer };

// Several models, of which one must be named.
class Ambiguous : public Error {
 public:
  using Error::Error;
};

struct Choice {
  std::string folder;                // in the repository; "" or "sub/"
  std::vector<std::string> small;    // with their folder
  std::string index;                 // one of the small files that names the weights; empty: they are known
  std::vector<std::string> weights;  // safetensors, or the parts of one GGUF file
  std::string file;                  // the file to open; empty: the folder
  // Where the folder holds a GGUF file as well, the one to open instead of it.
  std::string instead_of_folder;
};

// `path`: of a file or folder in the repository; empty: its root. Error, with the files to choose from, where it is not
// clear which is meant. `name`: the repository as it was named, for messages.
Choice choose_files(const Listing& listing, const std::string& path, Need need, const RepoName& name);

// The files that model.safetensors.index.json names, with `folder`. Error for paths that could leave it.
std::vector<std::string> indexed_files(const std::string& json, const std::string& folder,
                                       const std::string& where);

// All parts of "model-00001-of-00003.gguf", in order; the file itself where it has none.
std::vector<std::string> parts_of_file(const std::string& path);

}  // namespace anemone::hub
