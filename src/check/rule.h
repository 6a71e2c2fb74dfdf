// Rule: what is known about staying on the Neural Engine, one row a rule, with the strength of its evidence and,
// where a program shows it, the function that finds violations.
//     const Rule* r = find_rule("Q02");
//     for (const Rule& rule : shape_rules()) if (rule.in_function) rule.in_function(subject, findings);
// Grades: A measured by two or more sources or said by Apple, B measured carefully by one, C a small sample or
// inferred, X sources contradict each other. Only A and B may fail a check.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/subject.h"

namespace anemone {

enum class Grade : char { A = 'A', B = 'B', C = 'C', X = 'X' };
enum class Level : uint8_t { hint, warning, error };
std::string_view level_name(Level level);

struct Rule;

// One violation.
struct Finding {
  const Rule* rule = nullptr;
  Level level = Level::hint;
  std::string package, function;  // empty where it is about more than one
  std::string op, op_type;        // empty where it is not about one operation
  int layer = -1;                 // of the model, as the operation's name tells it
  std::string message;            // what was found here
};

class Findings;

struct Rule {
  std::string_view id;
  Grade grade;
  Level level;  // the most severe that a finding may be; an advice that no program shows is a hint
  std::string_view title;
  std::string_view why;   // what happens otherwise
  std::string_view cost;  // what that costs, where somebody measured
  std::string_view fix;
  std::string_view sources;
  std::string_view targets = "all chips and systems";
  void (*in_function)(const FunctionSubject&, Findings&) = nullptr;
  void (*in_package)(const PackageSubject&, Findings&) = nullptr;
  void (*in_bundle)(const BundleSubject&, Findings&) = nullptr;
  bool by_placement = false;  // an operation that the engine refuses under this id is a finding

  bool seen() const { return in_function || in_package || in_bundle || by_placement; }
};

// Where a rule puts what it finds. A grade that may not fail a check turns errors into warnings here.
class Findings {
 public:
  void begin(const Rule& rule, const PackageSubject* package = nullptr, std::string function = "");
  void add(Level level, std::string message);
  void add(Level level, const Operation& op, std::string message);
  std::vector<Finding> take() { return std::move(all_); }

 private:
  const Rule* rule_ = nullptr;
  const PackageSubject* package_ = nullptr;
  std::string function_;
  std::vector<Finding> all_;
};

// The groups, a file each.
std::span<const Rule> shape_rules();
std::span<const Rule> type_rules();
std::span<const Rule> op_rules();
std::span<const Rule> weight_rules();
std::span<const Rule> state_rules();
std::span<const Rule> size_rules();
std::span<const Rule> load_rules();
std::span<const Rule> placement_rules();
std::span<const Rule> trick_rules();
std::span<const std::span<const Rule>> rule_groups();

// In any case of letters; empty when there is no such rule.
const Rule* find_rule(std::string_view id);
// Everything about a rule, for --explain.
std::string explain_rule(const Rule& rule);
// The short names of sources that a text uses, spelled out: "AB = videlalvaro/ane-book …".
std::string source_keys(std::string_view sources);

}  // namespace anemone
