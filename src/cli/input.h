// Files that verbs read, where "-" is standard input, and what is piped into the program.
//     std::string text = read_text(args.file);
//     std::string text = given_text(args.text, args.file, common);   // an argument, a file, what is piped in
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

// A text as an argument is the same as one from a file, which editors and echo end with a line break: without one.
std::string without_last_break(std::string text);

// Standard input where a pipe or a file stands there; nothing for a terminal, /dev/null and other devices. Says that
// it waits, where nothing comes for a while.
std::optional<std::string> piped_text(const Common& common);

// The one text of a verb, without its last line break: of a file, of standard input for "-" or where nothing is given,
// or an argument, with what is piped into the program behind it. Error for an argument and a file.
std::string given_text(const std::string& argument, const std::string& file, const Common& common);
// Two texts as one prompt: a line is left empty between them. An empty one does not count.
std::string joined_texts(const std::string& first, const std::string& second);

}  // namespace anemone::cli
