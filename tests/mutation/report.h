// Report: how many mutants matter, how many of those verify finds and names, by group and by kind of bundle.
//     Report report(accepted);
//     report.add(subject, mutation, result);
//     std::cout << report.text();
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mutation/judge.h"

namespace anemone::mutation {

// A mutant that survives and may, with the reason.
struct Accepted {
  std::string group, kind, place, subject;  // parts of names; empty: any
  std::string reason;
};
std::vector<Accepted> read_accepted(const fs::path& file);

struct Tally {
  int made = 0, equal = 0, counted = 0, caught = 0, refused = 0, survived = 0, crashed = 0, named = 0;

  void add(const Result& result);
  double score() const;       // caught or refused, of those that count
  double named_part() const;  // of those that were found
};

class Report {
 public:
  explicit Report(std::vector<Accepted> accepted) : accepted_(std::move(accepted)) {}

  void add(const Subject& subject, const Mutation& mutation, const Result& result);
  void add_clean(const std::string& subject, const std::string& problem);

  const Tally& total() const { return total_; }
  int clean_failures() const { return static_cast<int>(clean_problems_.size()); }
  std::string text(bool verbose) const;
  nlohmann::ordered_json json() const;

 private:
  struct Row {
    std::string family, form, storage, group, kind, place;
    std::vector<std::string> expected;
    Result result;
  };
  std::string reason_for(const Row& row) const;
  static std::string line(const std::string& name, const Tally& tally);

  std::vector<Accepted> accepted_;
  std::vector<Row> rows_;
  Tally total_;
  std::map<std::string, Tally> groups_, storages_, forms_, families_;
  std::map<std::pair<std::string, std::string>, Tally> kinds_;
  int clean_ = 0;
  std::vector<std::pair<std::string, std::string>> clean_problems_;
};

// A result as a worker sends it.
std::string to_text(const Result& result);
Result result_from(const std::string& text);

}  // namespace anemone::mutation
