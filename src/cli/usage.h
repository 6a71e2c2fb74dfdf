// What is wrong with a command line, in our words: which flag or argument, and what was meant perhaps.
//     catch (const CLI::ParseError& e) { print("error: {}", usage_error(app, e)); }
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace anemone::cli {

// After a parse that failed.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// The name that is at most a third of its letters away from `given`; empty when there is none.
std::string nearest_name(std::string_view given, const std::vector<std::string>& names);

}  // namespace anemone::cli
