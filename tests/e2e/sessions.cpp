#include "e2e/sessions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

namespace anemone::e2e {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// A time or a free disk: it differs from run to run.
bool varies(const std::vector<std::string>& words, size_t i) {
  const std::string next = i + 1 < words.size() ? words[i + 1] : "";
  return next == "s" || next == "tok/s" || (next == "GB" && i + 2 < words.size() && words[i + 2] == "free");
}

// Sums in another order, as other processors add them: logits reach 8, and 64 products are added; measures of errors
// are smaller and move by more, and so do ratios ("353x"). Other whole numbers are counts and stay.
bool near_enough(const std::string& a, const std::string& b, double p, double q) {
  const bool counts =
      a.find('.') == std::string::npos && b.find('.') == std::string::npos && !a.ends_with("x");
  return !counts && std::abs(p - q) <= std::max(1e-4, 0.01 * std::abs(p));
}

// Word by word.
bool alike(const std::string& shown, const std::string& printed) {
  const std::vector<std::string> a = words_of(shown), b = words_of(printed);
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    char *end_a = nullptr, *end_b = nullptr;
    const double p = std::strtod(a[i].c_str(), &end_a), q = std::strtod(b[i].c_str(), &end_b);
    const bool numbers = end_a != a[i].c_str() && std::string(end_a) == end_b;
    if (a[i] != b[i] && !(numbers && (near_enough(a[i], b[i], p, q) || varies(a, i)))) return false;
  }
  return true;
}

// Model files that are not there, and bundles that would have been made of them.
bool lacks_model(const std::string& command, const fs::path& folder, std::set<std::string>& absent) {
  const std::vector<std::string> words = words_of(command);
  const bool lacks = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return absent.contains(word) || (word.ends_with(".gguf") && !fs::exists(folder / word));
  });
  for (size_t i = 0; lacks && i + 1 < words.size(); ++i)
    if (words[i] == "-o") absent.insert(words[i + 1]);
  return lacks;
}

// The shown lines are the printed ones; behind a "…" any number of them is left out.
void compare(const ShownSession& session, const std::string& text) {
  std::istringstream printed(text);
  bool skipping = false;
  for (const std::string& shown : session.lines) {
    if (shown.find_first_not_of(' ') == shown.find("…") && shown.ends_with("…") &&
        words_of(shown).size() == 1) {
      skipping = true;
      continue;
    }
    if (skipping && shown.empty()) continue;
    std::string line;
    bool more = static_cast<bool>(std::getline(printed, line));
    while (skipping && more && !alike(shown, line)) more = static_cast<bool>(std::getline(printed, line));
    skipping = false;
    CHECK_MESSAGE(more, "nothing more is printed; shown: " << shown);
    if (!more) return;
    CHECK_MESSAGE(alike(shown, line), "shown:   " << shown << "\nprinted: " << line);
  }
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
  fs::create_directory_symlink(source_dir() / "examples", folder / "examples");
  fs::create_directories(folder / "build/release");
  fs::create_symlink(ANEMONE_BINARY, folder / "build/release/anemone");
  if (const auto model = smollm2_file()) fs::create_symlink(fs::absolute(*model), folder / model->filename());
  const auto all = shown_sessions(slurp(page));
  std::set<std::string> absent;
  for (const ShownSession& session : all) {
    CAPTURE(session.command);
    if (lacks_model(session.command, folder, absent)) continue;
    const Outcome outcome =
        shell("cd '" + folder.string() + "'\nPATH=\"$PWD/build/release:$PATH\"\n" + session.command);
    compare(session, outcome.out + outcome.err);
  }
  return all.size();
}

}  // namespace anemone::e2e
