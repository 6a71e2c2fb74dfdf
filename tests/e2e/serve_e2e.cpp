// `anemone serve` from a shell: where it listens, what it refuses, how it ends. tests/clients has the API.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

namespace {

struct DemoFolder {
  TempFolder folder;
  std::string bundle = folder / "demo";

  DemoFolder() {
    const Outcome made =
        anemone_command({"convert", source_dir() / "examples/demo_model/demo.gguf", "-o", bundle, "--quiet"});
    REQUIRE(made.status == 0);
  }
};

}  // namespace

TEST_CASE("serve says where it listens, answers, and ends with 0 when it is told to") {
  const DemoFolder demo;
  const Outcome r =
      shell(std::string("cd '") + demo.folder.path().string() + "' && bash -c '" + ANEMONE_BINARY +
            R"( serve demo --port 0 > out & pid=$!
    for i in $(seq 600); do grep -q listening out && break; sleep 0.1; done
    port=$(sed -n "s/.*://p" out)
    exec 3<>/dev/tcp/127.0.0.1/$port
    printf "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" >&3
    cat <&3
    kill -TERM $pid; wait $pid; echo; echo "status $?"; cat out')");
  CAPTURE(r.err);
  CHECK(r.out.find("HTTP/1.1 200 OK") != std::string::npos);
  CHECK(r.out.find(R"("id":"demo")") != std::string::npos);
  CHECK(r.out.find("status 0") != std::string::npos);
  CHECK(r.out.find("listening on http://127.0.0.1:") != std::string::npos);
  CHECK(r.out.find(demo.folder.path().string()) == std::string::npos);  // no path of the machine
}

TEST_CASE("serve refuses what cannot work before it listens") {
  const DemoFolder demo;
  check_refused(anemone_command({"serve", demo.folder / "nothing"}), {"nothing"});
  check_refused(anemone_command({"serve", demo.bundle, "--port", "70000"}), {"--port", "65535"});
  check_refused(anemone_command({"serve", demo.bundle, demo.bundle, "--port", "0"}),
                {"two bundles", "demo", "--alias"});
  check_refused(anemone_command({"serve", demo.bundle, "--alias", "a", "--alias", "b"}),
                {"more names than bundles"});
  check_refused(anemone_command({"serve", demo.bundle, "--top-p", "2", "--port", "0"}), {"top-p"});
  check_refused(anemone_command({"serve", demo.bundle, "--parallel", "0"}), {"--parallel"});
  std::ofstream(demo.folder / "keys") << "# none\n";
  check_refused(anemone_command({"serve", demo.bundle, "--api-key-file", demo.folder / "keys"}), {"no key"});
  CHECK(anemone_command({"serve", "--help"}).out.find("--api-key-file") != std::string::npos);
}

TEST_CASE("run holds its answer to a JSON schema or a grammar") {
  const DemoFolder demo;
  const auto write = [&](const char* name, const char* text) { std::ofstream(demo.folder / name) << text; };
  write("robot.json", R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
      "legs": {"type": "integer", "minimum": 2, "maximum": 6}}, "required": ["name", "legs"]})");
  for (const char* seed : {"1", "2", "3"}) {
    const Outcome r =
        anemone_command({"run", demo.bundle, "A robot:", "--json-schema", demo.folder / "robot.json",
                         "--quiet", "--temperature", "1", "--seed", seed});
    CAPTURE(r.err);
    REQUIRE(r.status == 0);
    const auto robot = nlohmann::json::parse(r.out);
    CHECK(robot.size() == 2);
    CHECK(robot["legs"] >= 2);
    CHECK(robot["legs"] <= 6);
  }
  write("yes.gbnf", "root ::= \"yes\" | \"no\"\n");
  const std::string said =
      anemone_command({"run", demo.bundle, "Is it?", "--grammar", demo.folder / "yes.gbnf", "--quiet"}).out;
  CHECK((said == "yes\n" || said == "no\n"));
  write("bad.gbnf", "root ::= other");
  write("bad.json", "{");
  write("hard.json", R"({"uniqueItems": true})");
  check_refused(anemone_command({"run", demo.bundle, "x", "--grammar", demo.folder / "bad.gbnf"}),
                {"bad.gbnf", "'other'"});
  check_refused(anemone_command({"run", demo.bundle, "x", "--json-schema", demo.folder / "bad.json"}),
                {"bad.json", "JSON"});
  check_refused(anemone_command({"run", demo.bundle, "x", "--json-schema", demo.folder / "hard.json"}),
                {"hard.json", "'uniqueItems'"});
  check_refused(anemone_command({"run", demo.bundle, "x", "--json-schema", demo.folder / "robot.json",
                                 "--grammar", demo.folder / "yes.gbnf"}),
                {"--json-schema", "--grammar"});
}
