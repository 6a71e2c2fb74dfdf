#include "mutation/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/temp_folder.h"

namespace anemone::mutation {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string cut(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

// What a tool wrote may hold bytes of a broken file.
std::string dumped(const Json& j, int indent = -1) {
  return j.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<Accepted> read_accepted(const fs::path& file) {
  std::vector<Accepted> out;
  for (const Json& j : Json::parse(slurp(file))) {
    Accepted a{j.value("group", ""), j.value("kind", ""), j.value("place", ""), j.value("subject", ""),
               j.at("reason").get<std::string>()};
    if (a.reason.empty()) throw errorf("an accepted mutant has no reason").at(file.string());
    out.push_back(std::move(a));
  }
  return out;
}

void Tally::add(const Result& r) {
  if (r.outcome == Outcome::none) return;
  ++made;
  if (r.outcome == Outcome::equal) {
    ++equal;
    return;
  }
  ++counted;
  caught += r.outcome == Outcome::caught;
  refused += r.outcome == Outcome::refused;
  survived += r.outcome == Outcome::survived;
  crashed += r.outcome == Outcome::crashed;
  named += r.named;
}

double Tally::score() const { return counted ? static_cast<double>(caught + refused) / counted : 1; }

double Tally::named_part() const {
  return caught + refused ? static_cast<double>(named) / (caught + refused) : 1;
}

void Report::add(const Subject& subject, const Mutation& m, const Result& result) {
  rows_.push_back(
      {subject.family, subject.form, subject.storage, m.group, m.kind, m.place, m.expected.places, result});
  total_.add(result);
  groups_[m.group].add(result);
  kinds_[{m.group, m.kind}].add(result);
  storages_[subject.storage].add(result);
  forms_[subject.form].add(result);
  families_[subject.family].add(result);
}

void Report::add_clean(const std::string& subject, const std::string& problem) {
  ++clean_;
  if (!problem.empty()) clean_problems_.emplace_back(subject, problem);
}

std::string Report::reason_for(const Row& row) const {
  const std::string subject = row.family + ", " + row.form + ", " + row.storage;
  for (const Accepted& a : accepted_)
    if (has(row.group, a.group) && has(row.kind, a.kind) && has(row.place, a.place) &&
        has(subject, a.subject))
      return a.reason;
  return "";
}

std::string Report::line(const std::string& name, const Tally& t) {
  return fmt::format("  {:<44} {:>6} {:>6} {:>8} {:>7} {:>8} {:>9} {:>8} {:>7.1f}% {:>6.1f}%\n",
                     cut(name, 43), t.made, t.equal, t.counted, t.caught, t.refused, t.survived, t.crashed,
                     100 * t.score(), 100 * t.named_part());
}

std::string Report::text(bool verbose) const {
  std::string out;
  if (clean_) out += fmt::format("clean bundles: {} of {} pass\n", clean_ - clean_failures(), clean_);
  for (const auto& [subject, problem] : clean_problems_)
    out += fmt::format("  clean, but fails: {}: {}\n", subject, cut(problem, 160));
  if (rows_.empty()) return out;
  const auto head = [](const char* what) {
    return fmt::format("\n  {:<44} {:>6} {:>6} {:>8} {:>7} {:>8} {:>9} {:>8} {:>8} {:>7}\n", what, "made",
                       "equal", "counted", "caught", "refused", "survived", "crashed", "score", "named");
  };
  const auto table = [&](const char* what, const std::map<std::string, Tally>& all) {
    out += head(what);
    for (const auto& [name, tally] : all) out += line(name, tally);
  };
  table("group", groups_);
  table("storage", storages_);
  if (verbose) {
    table("form", forms_);
    table("family", families_);
    out += head("kind");
    for (const auto& [name, tally] : kinds_) out += line(name.first + ": " + name.second, tally);
  }
  out += head("") + line("all", total_);
  for (const Outcome outcome : {Outcome::crashed, Outcome::survived}) {
    std::vector<const Row*> rows;
    for (const Row& row : rows_)
      if (row.result.outcome == outcome) rows.push_back(&row);
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row* a, const Row* b) { return a->result.kl > b->result.kl; });
    if (!rows.empty()) out += fmt::format("\n{}:\n", outcome_name(outcome));
    for (const Row* row : rows) {
      const std::string reason = reason_for(*row);
      out += fmt::format("  {}: {}; {} | {}, {}, {} | KL {:.3g} {}{}\n", row->group, row->kind,
                         cut(row->place, 90), row->family, row->form, row->storage, row->result.kl,
                         cut(outcome == Outcome::crashed ? row->result.reason : row->result.where, 90),
                         reason.empty() ? "" : " | accepted: " + reason);
    }
  }
  return out;
}

Json Report::json() const {
  const auto tally = [](const Tally& t) {
    return Json{{"made", t.made},       {"equal", t.equal},
                {"counted", t.counted}, {"caught", t.caught},
                {"refused", t.refused}, {"survived", t.survived},
                {"crashed", t.crashed}, {"named", t.named},
                {"score", t.score()},   {"named_part", t.named_part()}};
  };
  Json out;
  out["total"] = tally(total_);
  for (const auto& [key, all] : {std::pair{"groups", &groups_}, std::pair{"storages", &storages_},
                                 std::pair{"forms", &forms_}, std::pair{"families", &families_}})
    for (const auto& [name, t] : *all) out[key][name] = tally(t);
  for (const auto& [name, t] : kinds_) out["kinds"][name.first + ": " + name.second] = tally(t);
  out["clean"] = {{"verified", clean_}, {"failed", Json::array()}};
  for (const auto& [subject, problem] : clean_problems_)
    out["clean"]["failed"].push_back({{"subject", subject}, {"problem", problem}});
  out["mutants"] = Json::array();
  for (const Row& row : rows_) {
    const Result& r = row.result;
    out["mutants"].push_back({{"family", row.family},
                              {"form", row.form},
                              {"storage", row.storage},
                              {"group", row.group},
                              {"kind", row.kind},
                              {"place", row.place},
                              {"outcome", outcome_name(r.outcome)},
                              {"kl", std::isfinite(r.kl) ? Json(r.kl) : Json("infinite")},
                              {"where", r.where},
                              {"rung", r.rung},
                              {"reason", r.reason},
                              {"expected", row.expected},
                              {"named", r.named},
                              {"accepted", reason_for(row)},
                              {"seconds", r.seconds}});
  }
  return Json::parse(dumped(out));
}

std::string to_text(const Result& r) {
  return dumped({{"outcome", static_cast<int>(r.outcome)},
                 {"kl", std::isfinite(r.kl) ? r.kl : -1.0},
                 {"where", r.where},
                 {"rung", r.rung},
                 {"reason", r.reason},
                 {"named", r.named},
                 {"seconds", r.seconds}});
}

Result result_from(const std::string& text) {
  const Json j = Json::parse(text);
  Result r;
  r.outcome = static_cast<Outcome>(j.at("outcome").get<int>());
  r.kl = j.at("kl").get<double>() < 0 ? INFINITY : j.at("kl").get<double>();
  r.where = j.at("where");
  r.rung = j.at("rung");
  r.reason = j.at("reason");
  r.named = j.at("named");
  r.seconds = j.at("seconds");
  return r;
}

}  // namespace anemone::mutation
