// The double's headers against tables that were made from Apple's: what is wrong here would be wrong on a Mac, too.
#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
namespace fs = std::filesystem;

namespace {

using Row = std::vector<std::string>;

std::vector<Row> table(const fs::path& path) {
  std::vector<Row> out;
  std::istringstream lines(slurp(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    Row row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(cell);
    out.push_back(row);
  }
  return out;
}

fs::path double_dir() { return source_dir() / "tests/apple_double"; }

struct Method {
  std::string owner, kind, selector, family;
  bool nullable = false, object = false;
};

// The ownership family that clang sees in a name.
std::string family_of(const std::string& selector) {
  for (const std::string family : {"alloc", "new", "init", "copy", "mutableCopy"})
    if (selector.starts_with(family) && (selector.size() == family.size() ||
                                         !std::islower(static_cast<unsigned char>(selector[family.size()]))))
      return family;
  return "none";
}

std::vector<Method> methods_of(const std::string& header) {
  std::string text = std::regex_replace(header, std::regex("//[^\n]*"), "");
  std::vector<Method> out;
  std::string owner;
  static const std::regex declaration(
      R"((@interface|@protocol) (\w+)|^([+-]) \(([^)]*(?:\([^)]*\)[^)]*)*)\)([^;]*);)",
      std::regex::multiline);
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
    const std::smatch& m = *it;
    if (m[1].matched) {
      owner = m[2];
      continue;
    }
    std::string rest = m[5];
    // What stands in parentheses is a type.
    for (std::string before; before != rest;) {
      before = rest;
      rest = std::regex_replace(rest, std::regex(R"(\([^()]*\))"), "");
    }
    std::string selector;
    static const std::regex part(R"((\w+):)");
    for (std::sregex_iterator p(rest.begin(), rest.end(), part); p != end; ++p)
      selector += (*p)[1].str() + ":";
    if (selector.empty()) selector = std::regex_replace(rest, std::regex(R"(\s)"), "");
    const std::string type = m[4];
    out.push_back({owner, m[3], selector, family_of(selector), type.find("nullable") != std::string::npos,
                   type.find('*') != std::string::npos || type.find("instancetype") != std::string::npos ||
                       type.find("id") == 0 || type.find("nullable") != std::string::npos});
  }
  return out;
}

std::vector<Method> declared() {
  std::vector<Method> out = methods_of(slurp(double_dir() / "include/Foundation/Foundation.h"));
  for (Method& m : methods_of(slurp(double_dir() / "include/CoreML/CoreML.h"))) out.push_back(std::move(m));
  return out;
}

// The root class is in no table: it is the language's own.
const std::set<std::string> kRoot = {"alloc",
                                     "new",
                                     "init",
                                     "dealloc",
                                     "copy",
                                     "class",
                                     "isEqual:",
                                     "hash",
                                     "release",
                                     "isKindOfClass:",
                                     "respondsToSelector:",
                                     "copyWithZone:",
                                     "countByEnumeratingWithState:objects:count:"};

// The selectors that an object file of clang's sends or defines.
std::set<std::string> selectors_in(const fs::path& object) {
  const std::string bytes = slurp(object), mark = ".objc_sel_name";
  std::set<std::string> out;
  for (size_t at = bytes.find(mark); at != std::string::npos; at = bytes.find(mark, at + 1))
    out.insert(std::string(bytes.c_str() + at + mark.size()));
  return out;
}

std::set<std::string> sent_by_backend() {
  std::set<std::string> out;
  std::istringstream objects(ANEMONE_BACKEND_OBJECTS);
  for (std::string object; std::getline(objects, object, ':');) out.merge(selectors_in(object));
  return out;
}

}  // namespace

TEST_CASE("every method of the double is Apple's: class or instance, selector, family, nullability") {
  std::map<std::string, Row> known;
  for (const Row& row : table(double_dir() / "tables/methods.tsv")) known[row[0] + row[1] + row[2]] = row;
  REQUIRE(known.size() > 900);
  const std::vector<Method> all = declared();
  CHECK(all.size() > 100);
  for (const Method& m : all) {
    if (kRoot.contains(m.selector)) continue;
    CAPTURE(m.owner);
    CAPTURE(m.selector);
    const auto it = known.find(m.owner + m.kind + m.selector);
    CHECK(it != known.end());
    if (it == known.end()) continue;
    CHECK(it->second[3] == m.family);
    if (m.object) CHECK((it->second[4] == "nullable") == m.nullable);
  }
}

TEST_CASE("the constants of the double have Apple's values") {
  std::map<std::string, std::string> known;
  for (const Row& row : table(double_dir() / "tables/constants.tsv")) known[row[0]] = row[1];
  const std::string text =
      slurp(double_dir() / "include/CoreML/CoreML.h") + slurp(double_dir() / "include/CoreVideo/CoreVideo.h");
  static const std::regex constant(R"((ML\w+|kCV\w+) = (-?[0-9x a-fA-F|]+))");
  int seen = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), constant), end; it != end; ++it, ++seen) {
    int64_t value = 0;
    std::istringstream parts((*it)[2].str());
    for (std::string part; std::getline(parts, part, '|');) value |= std::stoll(part, nullptr, 0);
    CAPTURE((*it)[1].str());
    REQUIRE(known.contains((*it)[1].str()));
    CHECK(known[(*it)[1].str()] == std::to_string(value));
  }
  CHECK(seen > 25);
}

TEST_CASE("every selector that the backend sends stands in the tables, and is there from macOS 15 on") {
  std::set<std::string> known = kRoot, of_core_ml;
  for (const Row& row : table(double_dir() / "tables/methods.tsv")) {
    known.insert(row[2]);
    if (row[0].starts_with("ML")) of_core_ml.insert(row[2]);
  }
  std::map<std::string, double> since;
  for (const Row& row : table(double_dir() / "tables/availability.tsv")) {
    double& version = since[row[1]];
    version = std::max(version, std::stod(row[2]));
  }
  const std::set<std::string> sent = sent_by_backend();
  CHECK(sent.size() > 50);
  const std::string foundation = slurp(double_dir() / "include/Foundation/Foundation.h");
  for (const std::string& selector : sent) {
    if (selector.starts_with(".cxx_")) continue;
    CAPTURE(selector);
    CHECK(known.contains(selector));
    if (!of_core_ml.contains(selector) || kRoot.contains(selector)) continue;
    // Some names are Foundation's as well (count, objectAtIndexedSubscript:).
    if (!since.contains(selector)) {
      CHECK(foundation.find(selector.substr(0, selector.find(':'))) != std::string::npos);
      continue;
    }
    CHECK(since[selector] <= 15.0);  // the deployment target: nothing needs a guard
  }
  // Newer than that: arrays of int8 (macOS 26).
  for (const auto& entry : fs::directory_iterator(source_dir() / "src/coreml"))
    if (entry.is_regular_file()) CHECK(slurp(entry.path()).find("DataTypeInt8") == std::string::npos);
}

TEST_CASE("the tables agree with the given list of Core ML's selectors") {
  for (const fs::path& root : data_roots()) {
    const fs::path given = root / "coreml_selectors.tsv";
    if (!fs::exists(given)) continue;
    std::map<std::string, Row> known;
    for (const Row& row : table(double_dir() / "tables/methods.tsv")) known[row[0] + row[1] + row[2]] = row;
    int compared = 0;
    for (const Row& row : table(given)) {
      std::string owner = row[0].substr(0, row[0].find(' '));
      const auto it = known.find(owner + row[1] + row[2]);
      CAPTURE(owner);
      CAPTURE(row[2]);
      REQUIRE(it != known.end());
      CHECK(it->second[3] == row[3]);
      const std::string result = row.size() > 6 ? row[6] : "";
      const bool nullable = row[4] == "err" || result.starts_with("Option<") ||
                            result.find("*mut") != std::string::npos ||
                            result.find("*const") != std::string::npos;
      CHECK((it->second[4] == "nullable") == nullable);
      ++compared;
    }
    CHECK(compared > 300);
    return;
  }
  MESSAGE("skipped: no coreml_selectors.tsv in the data folders");
}
