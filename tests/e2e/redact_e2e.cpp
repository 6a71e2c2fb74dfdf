// `anemone redact` as people call it.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "e2e/browser.h"
#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

const std::string kLetter =
    "Please call Hazel Quist at +1 (570) 555-0142 or write to hazel.quist@example.org.\n";

Outcome redact(std::vector<std::string> arguments, int status = 0) {
  arguments.insert(arguments.begin(), "redact");
  Outcome out = anemone_command(arguments);
  CAPTURE(out.err);
  CHECK(out.status == status);
  return out;
}

Outcome piped(const std::string& text, const std::string& flags) {
  const TempFolder folder;
  const std::string in = folder.write("in", text).string();
  return shell(std::string(ANEMONE_BINARY) + " redact " + flags + " < " + in);
}

}  // namespace

TEST_CASE("redact: a file, standard input, and what replaces what was found") {
  const TempFolder folder;
  const std::string letter = folder.write("letter.txt", kLetter).string();
  const std::string wanted = "Please call [PERSON] at [PHONE] or write to [EMAIL].\n";
  CHECK(redact({letter}).out == wanted);
  CHECK(redact({letter, "--threads", "1"}).out == wanted);
  CHECK(piped(kLetter, "").out == wanted);
  CHECK(piped(kLetter, "-").out == wanted);
  CHECK(redact({letter, "--replace", "number"}).out ==
        "Please call [PERSON_1] at [PHONE_1] or write to [EMAIL_1].\n");
  CHECK(redact({letter, "--replace", "mask", "--labels", "phone"}).out ==
        "Please call Hazel Quist at ***************** or write to hazel.quist@example.org.\n");
  CHECK(redact({letter, "--replace", "remove", "--labels", "private_phone,private_person"}).out ==
        "Please call  at  or write to hazel.quist@example.org.\n");
  CHECK(redact({letter, "--keep", "example\\.org$", "--also", "VERB=write"}).out ==
        "Please call [PERSON] at [PHONE] or [VERB] to hazel.quist@example.org.\n");
  const std::string key = folder.write("key", "0123456789abcdef").string();
  const std::string hashed = redact({letter, "--replace", "hash", "--hash-key-file", key}).out;
  CHECK(hashed == redact({letter, "--replace", "hash", "--hash-key-file", key}).out);
  CHECK(hashed.find("[EMAIL_") != std::string::npos);
  const std::vector<std::string> fake = {letter, "--replace",       "fake", "--scope",
                                         "run",  "--hash-key-file", key};
  CHECK(redact(fake).out == redact(fake).out);
  CHECK(redact(fake).out.find("@example.org") != std::string::npos);
}

TEST_CASE("redact: outputs, folders, and what is left out") {
  const TempFolder folder;
  spill(folder / "in/a.txt", kLetter);
  spill(folder / "in/deep/b.csv", "name,mail\nHazel Quist,hazel.quist@example.org\n");
  spill(folder / "in/deep/c.json", R"({"mail": "hazel.quist@example.org", "n": 1.50})");
  spill(folder / "in/d.bin", std::string("PK\0\0\x01", 5));
  const std::string in = (folder / "in").string(), out = (folder / "out").string();
  const Outcome ran = redact({"-r", in, "-o", out, "--report", (folder / "r.json").string()});
  CHECK(ran.err.find("d.bin: no text, so it was left out") != std::string::npos);
  CHECK(ran.err.find("3 private_email, 2 private_person, 1 private_phone replaced in 3 files") !=
        std::string::npos);
  CHECK(slurp(folder / "out/a.txt") == "Please call [PERSON] at [PHONE] or write to [EMAIL].\n");
  CHECK(slurp(folder / "out/deep/b.csv") == "name,mail\n[PERSON],[EMAIL]\n");
  CHECK(slurp(folder / "out/deep/c.json") == R"({"mail": "[EMAIL]", "n": 1.50})");
  CHECK_FALSE(fs::exists(folder / "out/d.bin"));
  const Json report = Json::parse(slurp(folder / "r.json"));
  CHECK(report.at("counts").at("private_email") == 3);
  CHECK(report.at("limits").get<std::string>().find("one time in three") != std::string::npos);
  CHECK(slurp(folder / "r.json").find("Hazel") == std::string::npos);
  for (const Json& file : report.at("files")) {
    if (file.contains("skipped")) continue;
    const std::string source = slurp(file.at("file").get<std::string>());
    for (const Json& span : file.at("spans")) {
      const size_t begin = span.at("start_byte"), end = span.at("end_byte");
      const std::string text = source.substr(begin, end - begin);
      CHECK((text == "Hazel Quist" || text == "hazel.quist@example.org" || text == "+1 (570) 555-0142"));
      CHECK(span.at("score").get<double>() > 0.5);
    }
  }
  redact({"-r", in, "-o", out, "--overwrite", "--quiet"});
  check_refused(redact({"-r", in, "-o", out}, 2), {"exists already", "--overwrite"});
  check_refused(redact({in, "-o", out}, 2), {"is a folder", "-r"});
  check_refused(redact({"-r", in}, 2), {"-o"});
  check_refused(redact({(folder / "none.txt").string()}, 2), {"none.txt"});
  check_refused(redact({"-r", in, "-o", in + "/deep"}, 2), {"inside the input"});
}

TEST_CASE("redact --check: lists what was found, and says so by its status") {
  const TempFolder folder;
  const std::string letter = folder.write("letter.txt", kLetter).string();
  const Outcome found = redact({letter, "--check"}, 1);
  CHECK(found.out.find("letter.txt:1: characters 12-23: private_person (") != std::string::npos);
  CHECK(found.out.find("Hazel") == std::string::npos);
  CHECK(redact({letter, "--check", "--show"}, 1).out.find(": Hazel Quist\n") != std::string::npos);
  const std::string clean = folder.write("clean.txt", "The sea was calm.\n").string();
  CHECK(redact({clean, "--check"}).out == "nothing found in 1 file\n");
  CHECK(Json::parse(redact({letter, "--json"}).out).at("files").at(0).at("spans").size() == 3);
}

TEST_CASE("redact --jsonl: one line for one line, as they come") {
  const Outcome ran = piped(
      "{\"text\": \"" + kLetter.substr(0, kLetter.size() - 1) + "\", \"id\": 1}\nbad\n\n{\"text\": \"\"}\n",
      "--jsonl");
  CHECK(ran.status == 1);
  CHECK(ran.err.find("1 line could not be read") != std::string::npos);
  CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 4);
  const Json first = Json::parse(ran.out.substr(0, ran.out.find('\n')));
  CHECK(first.at("text") == "Please call [PERSON] at [PHONE] or write to [EMAIL].");
  CHECK(first.at("id") == 1);
  CHECK(first.at("spans").size() == 3);
  CHECK(first.at("spans").at(0).at("label") == "private_person");
  CHECK(piped("{\"body\": \"Call Hazel Quist.\"}\n", "--jsonl --fields body")
            .out.starts_with("{\"body\": \"Call [PERSON].\""));
  const Outcome checked =
      piped("{\"text\": \"The sea was calm.\"}\n{\"text\": \"Call Hazel Quist.\"}\n", "--jsonl --check");
  CHECK(checked.out.starts_with("standard input:2: characters 5-16: private_person ("));
  CHECK(checked.out.ends_with("\n1 private_person found in 1 file\n"));
  CHECK(checked.status == 1);
  // The answer comes before the pipe is closed.
  const Outcome talk = shell("( echo '{\"text\": \"Call Hazel Quist.\"}'; sleep 5 ) | " +
                             std::string(ANEMONE_BINARY) + " redact --jsonl | ( timeout 4 head -n 1 )");
  CHECK(talk.out.find("[PERSON]") != std::string::npos);
  const Outcome lines = shell("( echo 'Call Hazel Quist.'; sleep 5 ) | " + std::string(ANEMONE_BINARY) +
                              " redact --lines | ( timeout 4 head -n 1 )");
  CHECK(lines.out == "Call [PERSON].\n");
}

TEST_CASE("redact: wrong calls") {
  const TempFolder folder;
  const std::string letter = folder.write("letter.txt", kLetter).string();
  check_refused(redact({letter, "--labels", "shoes"}, 2), {"shoes", "private_email"});
  check_refused(redact({letter, "--also", "a*"}, 2), {"empty text"});
  check_refused(redact({letter, "--also", "("}, 2), {"bad regular expression"});
  check_refused(redact({letter, "--replace", "hash"}, 2), {"needs a key"});
  check_refused(
      redact({letter, "--replace", "hash", "--hash-key-file", folder.write("key", "short").string()}, 2),
      {"too short", "5 bytes"});
  check_refused(redact({letter, "--hash-key-file", letter}, 2), {"--replace hash or fake"});
  check_refused(redact({letter, "--model", "none"}, 2), {"--also"});
  check_refused(redact({letter, "--jsonl", "--lines"}, 2), {"--jsonl"});
  check_refused(redact({letter, "--jsonl", "--html", letter + ".html"}, 2), {"--html"});
  check_refused(redact({letter, "--show"}, 2), {"--report"});
  const std::string table = folder.write("t.csv", "id,name\n1,Hazel Quist\n").string();
  // Nothing is written, not even to a file: all of it would be in there.
  const std::string clean = (folder / "clean.csv").string();
  check_refused(redact({table, "--fields", "nmae"}, 2), {"no column or key is called 'nmae'"});
  check_refused(redact({table, "--fields", "nmae", "-o", clean}, 2), {"'nmae'"});
  CHECK(piped("id,name\n1,Hazel Quist\n", "--format csv --fields nmae -o " + clean).status == 2);
  CHECK_FALSE(fs::exists(clean));
  CHECK(redact({table, "--fields", "name,1"}).out == "id,name\n1,[PERSON]\n");
  const std::string object = folder.write("a.json", "{\"a\": \"x\"}").string();
  check_refused(redact({object, "--fields", "a,b.c"}, 2), {"'b.c'"});
  const std::string number = folder.write("n.json", "{\"n\": 1}").string();
  CHECK(redact({number, "--fields", "n"}).out == "{\"n\": 1}");
  check_refused(redact({letter, "--check", "-o", clean}, 2), {"--check writes no text"});
  check_refused(redact({letter, "--report", number}, 2), {"n.json", "is no report", "--overwrite"});
  check_refused(redact({folder.path().string()}, 2), {"is a folder", "-r"});
  check_refused(redact({"-", letter, "-o", (folder / "both").string()}, 2), {"standard input"});
  CHECK(redact({folder.write("empty.csv", "").string(), "--fields", "name"}).out.empty());
  CHECK(redact({letter, "--fields", "name"}).err.find("--fields was not used") != std::string::npos);
  check_refused(redact({"--json", letter, (folder / "found.json").string()}, 2), {"--json="});
  CHECK(anemone_command({"redact", "--help"}).out.find("Not for compliance by itself") != std::string::npos);
}

TEST_CASE("redact --json: prints the report, or writes it to the file behind it") {
  const TempFolder folder;
  const std::string letter = folder.write("letter.txt", kLetter).string(),
                    data = folder.write("data.json", "[\"Call Hazel Quist.\"]\n").string(),
                    file = (folder / "found.json").string();
  const auto spans = [&](const std::string& text) {
    return Json::parse(text).at("files").at(0).at("spans").size();
  };
  CHECK(spans(redact({letter, "--json"}).out) == 3);
  CHECK(spans(redact({"--json", letter}).out) == 3);
  for (const std::vector<std::string>& call :
       {std::vector<std::string>{letter, "--json", file},
        {"--json", file, letter},  // it replaces the report that is there
        {letter, "--json=" + file},
        {letter, "--report", file}}) {
    CHECK(redact(call).out.find("[PERSON]") != std::string::npos);
    CHECK(spans(slurp(file)) == 3);
  }
  // A file that is no report is read, wherever it stands.
  CHECK(spans(redact({"--json", data}).out) == 1);
  CHECK(slurp(data) == "[\"Call Hazel Quist.\"]\n");
}

TEST_CASE("redact --html: a page with marks, a legend that filters, on phones and in the dark") {
  const TempFolder folder;
  const std::string hostile = kLetter + "</script><script>pwned()</script> <img src=x onerror=pwned()>\n";
  const std::string letter = folder.write("letter.txt", hostile).string(),
                    page = (folder / "found.html").string();
  redact({letter, "--html", page, "-o", (folder / "out.txt").string()});
  const std::string html = slurp(page);
  CHECK(html.find("Hazel") == std::string::npos);
  CHECK(html.find("one time in three") != std::string::npos);
  redact({letter, "--html", (folder / "shown.html").string(), "--show", "--check"}, 1);
  CHECK(slurp(folder / "shown.html").find("Hazel") != std::string::npos);
  const std::string program = browser();
  if (program.empty()) {
    MESSAGE("skipped: no Chromium");
    return;
  }
  const std::string script =
      "const marks = () => [...document.querySelectorAll('mark:not(.off)')].length; const before = marks();"
      "const button = document.querySelector('.kinds button'); button.click(); const after = marks();"
      "return {before, after, pressed: button.getAttribute('aria-pressed'), kinds: "
      "document.querySelectorAll('.kinds "
      "button').length, pwned: document.querySelectorAll('img').length, text: "
      "document.querySelector('pre').textContent};";
  for (const Look look : {Look{1280, false}, Look{360, true}}) {
    const Json seen = look_at(program, html, look, script);
    CAPTURE(seen.dump());
    CHECK(seen.at("errors").empty());
    CHECK(seen.at("overflow") <= 0);
    const Json& result = seen.at("result");
    CHECK(result.at("before") == 3);
    CHECK(result.at("after") == 2);
    CHECK(result.at("pressed") == "false");
    CHECK(result.at("kinds") == 3);
    CHECK(result.at("pwned") == 0);
    CHECK(result.at("text").get<std::string>().find("</script><script>pwned()") != std::string::npos);
  }
  if (const auto axe = axe_core()) {
    for (const bool dark : {false, true}) {
      const Json seen =
          look_at(program, html, {800, dark},
                  "return (await axe.run()).violations.map(v => v.id + ': ' + v.nodes[0].html);", *axe);
      CHECK_MESSAGE(seen.at("result").empty(), seen.at("result").dump());
    }
  }
}
