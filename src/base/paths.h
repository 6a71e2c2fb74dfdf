// Paths that people give: what is said where nothing stands, and which may not be written.
//     if (!fs::exists(path)) throw missing_path(path.string());
//     expect_apart("demo", "demo/sub");                          // Error: demo/sub lies inside of demo
#pragma once

#include <filesystem>
#include <string>

#include "anemone/error.h"

namespace anemone {

// Nothing stands at a path that should be read; said alike everywhere.
Error missing_path(const std::string& path);

// Error where writing `output` would change `input`: they are the same, or one lies inside of the other. Links are
// followed. What is written need not exist, nor its folder.
void expect_apart(const std::filesystem::path& input, const std::filesystem::path& output);

}  // namespace anemone
