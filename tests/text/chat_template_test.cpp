#include "text/chat_template.h"

#include <doctest/doctest.h>

#include "support/data.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"

using namespace anemone;
using Json = nlohmann::ordered_json;

namespace {

namespace fs = std::filesystem;

Json read_json(const fs::path& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), "cannot open " << path.string());
  return Json::parse(in);
}

// "2026-11-15T02:31:04"
std::tm parse_time(const std::string& text) {
  std::tm t{};
  REQUIRE(std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
                      &t.tm_min, &t.tm_sec) == 6);
  t.tm_year -= 1900;
  t.tm_mon -= 1;
  t.tm_isdst = -1;
  std::mktime(&t);  // fills the day of the week and of the year
  return t;
}

ChatInput input_of(const Json& conversation, const Json& file, const std::tm& now) {
  ChatInput in;
  for (const auto& [key, value] : conversation.items()) {
    if (key == "case") continue;
    if (key == "messages") {
      in.messages = jinja::from_json(value);
    } else if (key == "tools") {
      in.tools = jinja::from_json(value);
    } else if (key == "documents") {
      in.documents = jinja::from_json(value);
    } else if (key == "add_generation_prompt") {
      in.add_generation_prompt = value.get<bool>();
    } else {
      in.extra.emplace_back(key, jinja::from_json(value));
    }
  }
  const auto token = [&](const char* key) {
    return file.contains(key) && file[key].is_string() ? file[key].get<std::string>() : std::string();
  };
  in.bos_token = token("bos_token");
  in.eos_token = token("eos_token");
  in.clock = [now] { return now; };
  return in;
}

// Where two texts part, with some of what comes before.
std::string difference(const std::string& ours, const std::string& wanted) {
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), wanted.begin(), wanted.end());
  const auto at = static_cast<size_t>(a - ours.begin());
  const size_t from = at > 40 ? at - 40 : 0;
  return "at byte " + std::to_string(at) + ": ours " +
         Json(ours.substr(from, 100)).dump(-1, ' ', false, Json::error_handler_t::replace) + ", wanted " +
         Json(wanted.substr(from, 100)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Empty where the rendering is as wanted.
std::string check_render(const std::string& source, const ChatInput& in, const Json& wanted) {
  static const std::string kRaised = "TemplateError: ";
  try {
    const std::string ours = ChatTemplate(source).render(in);
    if (!wanted.contains("out"))
      return "rendered, but wanted the error " + wanted["error"].get<std::string>();
    const auto out = wanted["out"].get<std::string>();
    return ours == out ? "" : difference(ours, out);
  } catch (const Error& e) {
    if (!wanted.contains("error")) return std::string("failed: ") + e.what();
    const auto error = wanted["error"].get<std::string>();
    if (!error.starts_with(kRaised)) return "";
    return e.message() == error.substr(kRaised.size())
               ? ""
               : "raised '" + e.message() + "', wanted '" + error + "'";
  }
}

}  // namespace

TEST_CASE("chat template vectors: every conversation renders as transformers renders it") {
  const auto found = data_folder("chat_templates");
  if (!found) return;
  const fs::path& folder = *found;
  const Json cases = read_json(folder / "cases.json");
  const std::tm now = parse_time(cases["now"].get<std::string>());
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json" && entry.path().filename() != "cases.json")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  CHECK(!files.empty());
  size_t all_passed = 0, all = 0;
  for (const fs::path& path : files) {
    const Json file = read_json(path);
    size_t passed = 0;
    for (const Json& render : file["renders"]) {
      const auto it = std::find_if(cases["cases"].begin(), cases["cases"].end(),
                                   [&](const Json& c) { return c["case"] == render["case"]; });
      REQUIRE_MESSAGE(it != cases["cases"].end(), "no conversation " << render["case"]);
      const std::string wrong = check_render(file["chat_template"], input_of(*it, file, now), render);
      passed += wrong.empty() ? 1 : 0;
      CHECK_MESSAGE(wrong.empty(), path.stem().string() << ", " << render["case"] << ": " << wrong);
    }
    const size_t total = file["renders"].size();
    std::cout << path.stem().string() << ": " << passed << " passed, " << total - passed << " failed\n";
    all_passed += passed;
    all += total;
  }
  std::cout << "chat templates: " << all_passed << " of " << all << " renderings as wanted\n";
}

TEST_CASE("a template's own error is shown with the line that raised it") {
  const ChatTemplate chat("{# one #}\n{{ raise_exception('roles must ' ~ 'alternate') }}");
  try {
    chat.render({});
    FAIL("did not raise");
  } catch (const Error& e) {
    CHECK(e.message() == "roles must alternate");
    CHECK(std::string(e.what()) == "template line 2: roles must alternate");
  }
}

TEST_CASE("one template renders from many threads at once") {
  const ChatTemplate chat("{% for m in messages %}{{ m.role }}:{{ m.content | upper }};{% endfor %}");
  const jinja::Value messages =
      jinja::parse_json(R"([{"role": "user", "content": "a"}, {"role": "b", "content": "c"}])");
  std::vector<std::string> out(8);
  std::vector<std::thread> threads;
  for (std::string& slot : out) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) slot = chat.render({.messages = messages});
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& slot : out) CHECK(slot == "user:A;b:C;");
}
