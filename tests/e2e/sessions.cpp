#include "e2e/sessions.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

namespace anemone::e2e {

namespace fs = std::filesystem;

namespace {

// Word by word; numbers may differ as sums in another order do: logits reach 8, and 64 products are added.
bool alike(const std::string& shown, const std::string& printed) {
  std::istringstream a(shown), b(printed);
  for (std::string x, y;;) {
    const bool more_x = static_cast<bool>(a >> x), more_y = static_cast<bool>(b >> y);
    if (more_x != more_y) return false;
    if (!more_x) return true;
    char *end_x = nullptr, *end_y = nullptr;
    const double p = std::strtod(x.c_str(), &end_x), q = std::strtod(y.c_str(), &end_y);
    if (x != y && (end_x == x.c_str() || std::string(end_x) != end_y || std::abs(p - q) > 1e-4)) return false;
  }
}

// The first word that is a model file, when there is no such file.
bool lacks_model(const std::string& command, const fs::path& folder) {
  std::istringstream in(command);
  for (std::string word; in >> word;)
    if (word.ends_with(".gguf") && !fs::exists(folder / word)) return true;
  return false;
}

}  // namespace

std::vector<ShownSession> shown_sessions(const std::string& text) {
  std::vector<ShownSession> out;
  bool inside = false;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("    $ ")) {
      out.push_back({line.substr(6), {}});
      inside = true;
    } else if (inside && line.starts_with("    > ")) {
      out.back().command += "\n" + line.substr(6);
    } else if (inside && (line.empty() || line.starts_with("    "))) {
      out.back().lines.push_back(line.empty() ? "" : line.substr(4));
    } else {
      inside = false;
    }
  }
  for (ShownSession& s : out)
    while (!s.lines.empty() && s.lines.back().empty()) s.lines.pop_back();
  return out;
}

size_t check_sessions(const fs::path& page, const fs::path& folder) {
  const fs::path source = source_dir();
  fs::create_directory_symlink(source / "examples", folder / "examples");
  fs::create_directories(folder / "build/release");
  fs::create_symlink(ANEMONE_BINARY, folder / "build/release/anemone");
  const auto all = shown_sessions(slurp(page));
  for (const ShownSession& session : all) {
    CAPTURE(session.command);
    if (lacks_model(session.command, folder)) continue;
    const Outcome outcome = shell("cd '" + folder.string() + "'\n" + session.command);
    std::istringstream printed(outcome.out + outcome.err);
    for (const std::string& shown : session.lines) {
      if (shown == "…") break;
      std::string line;
      CHECK_MESSAGE(std::getline(printed, line), "nothing more is printed; shown: " << shown);
      CHECK_MESSAGE(alike(shown, line), "shown:   " << shown << "\nprinted: " << line);
    }
  }
  return all.size();
}

}  // namespace anemone::e2e
