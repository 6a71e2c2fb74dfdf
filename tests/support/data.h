// Where a test finds its files: the repository, the given data, a folder of its own.
//     if (const auto models = data_folder("models")) …
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anemone {

// The root of the repository.
const std::filesystem::path& source_dir();

// Where the given data is: the folders that ANEMONE_DATA lists, separated by ':'; without it ../shared/data and
// ../shared/data_next beside the sources.
std::vector<std::filesystem::path> data_roots();

// The folder `name` of the first root that has it, or nothing (and a message that says "skipped") where none has.
std::optional<std::filesystem::path> data_folder(const std::string& name);
// The same of every root that has it; none, with that message, where none has.
std::vector<std::filesystem::path> data_folders(const std::string& name);

// Every .mlpackage below the roots, sorted; says "skipped" where there is none.
std::vector<std::filesystem::path> data_packages();

// SmolLM2-135M-Instruct as GGUF: ANEMONE_SMOLLM2, or what tools/fetch_smollm2.sh fetched; else nothing, and a
// message that says "skipped".
std::optional<std::filesystem::path> smollm2_file();

// The files of a folder whose names end so, in order; none when there is no such folder.
std::vector<std::filesystem::path> files_ending(const std::filesystem::path& folder, const std::string& end);

}  // namespace anemone
