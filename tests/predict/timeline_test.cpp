// What ran when: the structure, not the times.
#include "predict/timeline.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/cpu_backend.h"
#include "runtime/batch.h"
#include "runtime/demo.h"

using namespace anemone;
using namespace anemone::test;
using Json = nlohmann::json;

namespace {

// The slices of a trace by level; every one lies inside one of the level around it, where there is one.
std::map<std::string, std::vector<Json>> slices_of(const std::string& trace) {
  std::map<std::string, std::vector<Json>> out;
  const Json events = Json::parse(trace).at("traceEvents");
  for (const Json& e : events) {
    if (e.at("ph") == "M") continue;
    CHECK(e.at("ph") == "X");
    CHECK(e.at("ts").get<double>() >= 0);
    CHECK(e.at("dur").get<double>() >= 0);
    CHECK(!e.at("name").get<std::string>().empty());
    out[e.at("cat")].push_back(e);
  }
  return out;
}

bool inside(const Json& inner, const Json& outer) {
  const double begin = inner.at("ts"), end = begin + inner.at("dur").get<double>();
  const double from = outer.at("ts"), to = from + outer.at("dur").get<double>();
  return inner.at("tid") == outer.at("tid") && begin >= from - 0.002 && end <= to + 0.002;
}

bool covered(const std::vector<Json>& inner, const std::vector<Json>& outer) {
  return std::all_of(inner.begin(), inner.end(), [&](const Json& i) {
    return std::any_of(outer.begin(), outer.end(), [&](const Json& o) { return inside(i, o); });
  });
}

}  // namespace

TEST_CASE("timeline: totals add up what has one kind and name") {
  Timeline t;
  t.add(Timeline::Level::call, "call", "main", 0, 10'000'000);
  t.add(Timeline::Level::step, "conv", "a", 0, 1'000'000);
  t.add(Timeline::Level::step, "conv", "a", 2'000'000, 4'000'000);
  t.add(Timeline::Level::step, "add", "b\"\xff", 5'000'000, 9'000'000);
  const auto totals = t.totals();
  REQUIRE(totals.size() == 2);
  CHECK(totals[0].kind == "add");
  CHECK(totals[0].ms == doctest::Approx(4));
  CHECK(totals[1].name == "a");
  CHECK(totals[1].count == 2);
  CHECK(totals[1].ms == doctest::Approx(3));
  CHECK(t.calls_ms() == doctest::Approx(10));
  CHECK(Json::parse(t.trace()).at("traceEvents").size() ==
        6);  // with the names of the process and of the thread
  t.clear();
  CHECK(t.totals().empty());
  CHECK(Json::parse(t.trace()).at("traceEvents").size() == 2);
}

TEST_CASE("timeline: steps in calls in tokens, a row for each thread") {
  const auto timeline = std::make_shared<Timeline>();
  const auto bundle =
      demo_bundle({.context = {64}, .tokens = {{1, 1}, {8, 8}}}, {.threads = 2, .timeline = timeline});
  Session session(bundle);
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9}, one = {3};
  session.forward(prompt, true);
  session.forward(one, true);
  auto slices = slices_of(timeline->trace());
  CHECK(slices["tokens"].size() == 3);  // two chunks of the prompt and a token
  CHECK(slices["call"].size() >= 4);
  CHECK(slices["step"].size() > 30);
  CHECK(covered(slices["step"], slices["call"]));
  CHECK(covered(slices["call"], slices["tokens"]));
  for (const Json& part : slices["part"]) CHECK(part.at("tid") != slices["tokens"][0].at("tid"));
  int64_t projections = 0;
  for (const Timeline::Total& t : timeline->totals()) projections += t.kind == "projection" ? t.count : 0;
  CHECK(projections > 20);
}

TEST_CASE("timeline: sessions side by side, and nothing where none was asked for") {
  const auto timeline = std::make_shared<Timeline>();
  const auto bundle = demo_bundle({.context = {64}}, {.threads = 2, .timeline = timeline});
  Session a(bundle), b(bundle);
  const std::vector<int32_t> one = {3};
  std::vector<Batch::Turn> turns = {{&a, one, {}, -1}, {&b, one, {}, -1}};
  Batch::forward(turns);
  auto slices = slices_of(timeline->trace());
  REQUIRE(slices["tokens"].size() == 1);
  CHECK(slices["tokens"][0].at("args").at("name") == "2 sessions");
  CHECK(!slices["step"].empty());
  CHECK(demo_bundle({.context = {64}})->backend().timeline() == nullptr);
}
