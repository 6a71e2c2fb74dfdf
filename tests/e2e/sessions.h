// Pages that show commands and what they print: the commands are run and must print that.
//     check_sessions(source_dir() / "README.md", folder);
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace anemone::e2e {

struct ShownSession {
  std::string command;
  std::vector<std::string> lines;  // "…": some that are printed are not shown
};

// "    $ command", "    > its next line", then what it prints, up to the end of the indented block.
std::vector<ShownSession> shown_sessions(const std::string& text);

// Runs the sessions of a page one after the other in `folder`, where examples/, build/release/anemone (also on the
// PATH) and, if there is one, SmolLM2 stand; how many. A command that names a model which is not there is left out,
// and so are those about the bundle it would have made. Times and free disks may differ.
size_t check_sessions(const std::filesystem::path& page, const std::filesystem::path& folder);

}  // namespace anemone::e2e
