// Files that verbs read, where "-" is standard input, and what is piped into the program.
//     std::string text = read_text(args.file);
//     if (const auto more = piped_text(common)) prompt += "\n\n" + *more;
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "cli/command.h"

namespace anemone::cli {

// A file, a pipe such as the shell's <(…), or standard input.
std::shared_ptr<const MappedFile> open_input(const std::string& path);
std::string read_text(const std::string& path);
// Its lines, without line ends.
std::vector<std::string> lines_of(const std::string& text);

// Standard input where a pipe or a file stands there; nothing for a terminal, /dev/null and other devices. Says that
// it waits, where nothing comes for a while.
std::optional<std::string> piped_text(const Common& common);

}  // namespace anemone::cli
