// What may stand on a command line: names that people know from other programs, text that is piped in, - and --,
// colours, and numbers that make no sense.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/npy.h"
#include "e2e/calls.h"
#include "e2e/command.h"
#include "support/data.h"

using namespace anemone;
using namespace anemone::e2e;
using Json = nlohmann::json;

namespace {

const std::string kBinary = "'" ANEMONE_BINARY "' ";

const Calls& made() {
  static const Calls calls;
  return calls;
}

Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", made().path("demo")});
  return anemone_command(arguments);
}

}  // namespace

TEST_CASE("what is piped in stands behind the prompt, as a file would") {
  const Calls& calls = made();
  const std::string text = calls.path("text.txt"),
                    call = kBinary + "run '" + calls.path("demo") + "' --max-new 6 --quiet ";
  const std::string wanted = run({"Read this:", "--file", text, "--max-new", "6"}).out;
  CHECK(shell("cat '" + text + "' | " + call + "'Read this:'").out == wanted);
  CHECK(shell(call + "'Read this:' < '" + text + "'").out == wanted);
  CHECK(shell("cat '" + text + "' | " + call + "'Read this:' --file -").out == wanted);
  CHECK(shell(call + "'Read this:' --file <(cat '" + text + "')").status != 0);  // sh has no such thing …
  CHECK(shell("bash -c \"" + call + "'Read this:' --file <(cat '" + text + "')\"").out == wanted);
  // Nothing that is piped in changes nothing, and a device is no pipe.
  const std::string alone = run({"Read this:", "--max-new", "6"}).out;
  CHECK(alone != wanted);
  CHECK(shell("true | " + call + "'Read this:'").out == alone);
  CHECK(shell(call + "'Read this:' < /dev/null").out == alone);
  // A file says where the text is: what is piped in stays where it is.
  CHECK(shell("echo more | " + call + "'Read this:' --file '" + text + "'").out == wanted);
  CHECK(shell("printf 'a\\nb\\n' | " + call + "'Say' --lines").out ==
        run({"Say\n\na", "--max-new", "6"}).out + run({"Say\n\nb", "--max-new", "6"}).out);
}

TEST_CASE("- is standard input wherever a file is read") {
  const Calls& calls = made();
  const auto same = [&](const std::string& verb, const std::string& before, const std::string& flag,
                        const std::string& file, const std::string& after = "") {
    CAPTURE(verb);
    const std::string start = kBinary + verb + " " + before + " " + flag + " ",
                      end = " " + after + " --quiet";
    const Outcome named = shell(start + "'" + file + "'" + end),
                  piped = shell(start + "- < '" + file + "'" + end);
    CHECK(named.status == 0);
    CHECK(piped.status == 0);
    CHECK(named.out == piped.out);
  };
  const std::string demo = "'" + calls.path("demo") + "'", ids = calls.path("ids.npy"),
                    text = calls.path("text.txt");
  same("perplexity", demo, "--text", text);
  same("perplexity", demo, "--ids", ids);
  same("tokenize", demo, "--file", text);
  same("template", "'" + calls.path("words") + "'", "--messages", calls.path("chat.json"));
  same("embed", "'" + calls.path("classes") + "'", "--ids", ids);
  same("run", demo + " Hi --max-new 4", "--template", calls.path("form.jinja"));
  same("predict", "'" + recall_package().string() + "'", "--inputs", recall_steps().front().string());
  CHECK(shell(kBinary + "tokenize " + demo + " - < '" + text + "'").out ==
        anemone_command({"tokenize", calls.path("demo"), "--file", text}).out);
  check_refused(shell("true | " + kBinary + "run " + demo + " --file - --template -"),
                {"standard input", "once"});
  check_refused(shell("true | " + kBinary + "chat " + demo + " --load -"), {"--load", "standard input"});
}

TEST_CASE("-- ends the flags, and a text that cannot be a flag needs none") {
  const std::string wanted =
      run({"--max-new", "6", "--file", made().folder().write("dash", "--raw is a flag").string()}).out;
  CHECK(run({"--max-new", "6", "--", "--raw is a flag"}).out == wanted);
  CHECK(run({"--max-new", "6", "--raw is a flag"}).out == wanted);
  const Outcome list = run({"- bread\n- flour", "--max-new", "4"});
  CHECK(list.status == 0);
  CHECK(run({"-5 degrees", "--max-new", "4"}).status == 0);
  CHECK(run({"--max-new", "4", "--", "--help"}).err.find("tokens") != std::string::npos);
  CHECK(run({"--max-new", "4", "--", "--"}).status == 0);
  check_refused(run({"--zigzag"}), {"there is no flag '--zigzag'", "behind --"});
  check_refused(run({"--system", "--raw"}), {"--system takes a value", "the flag --raw", "--system=--raw"});
  CHECK(run({"Once", "--stop=--raw", "--max-new", "4"}).status == 0);
  check_refused(run({"Once", "--raw=yes"}), {"--raw takes no value"});
  check_refused(run({"What", "is", "a", "tide"}), {"'is' is one argument too many", "quotes"});
  // Words that are verbs, and what other parsers take for lists.
  CHECK(run({"check", "--max-new", "4"}).status == 0);
  CHECK(anemone_command({"doctor", "[error code: -14]"}).out ==
        anemone_command({"doctor", "error code: -14"}).out);
}

TEST_CASE("names that people know from llama.cpp work, or say what they are here") {
  const std::string demo = made().path("demo");
  const Outcome ours =
      run({"Once upon a time", "--max-new", "8", "--temperature", "0.9", "--seed", "3", "--threads", "2"});
  CHECK(anemone_command(
            {"run", "-m", demo, "-p", "Once upon a time", "-n", "8", "--temp", "0.9", "-s", "3", "-t", "2"})
            .out == ours.out);
  CHECK(run({"Once upon a time", "-n8", "--temp=0.9", "-s3"}).out == ours.out);
  for (const char* flag : {"--n-predict", "--max-tokens", "--max-new-tokens", "--predict"})
    CHECK(run({"Once upon a time", flag, "8", "--temp", "0.9", "--seed", "3"}).out == ours.out);
  check_refused(run({"Once", "-c", "4096"}), {"'-c'", "anemone convert MODEL -o BUNDLE --context N"});
  check_refused(run({"Once", "--ctx-size", "4096"}), {"--context N"});
  check_refused(run({"Once", "-ngl", "99"}), {"'-ngl'", "offloaded"});
  check_refused(run({"Once", "-cnv"}), {"anemone chat"});
  check_refused(anemone_command({"convert", "x.gguf", "--outtype", "q8_0"}), {"--precision"});
  check_refused(anemone_command({"convert", "x.gguf", "--minimum-deployment-target", "iOS18"}), {"--target"});
  for (const char* flag : {"--top-p", "--top-k", "--min-p", "--seed"}) {
    const Outcome idle = run({"Once", flag, "1", "--max-new", "2"});
    CHECK(idle.status == 0);
    const bool says =
        idle.err.find(std::string("note: ") + flag + " does nothing at temperature 0") != std::string::npos;
    CHECK(says == (std::string(flag) != "--top-p"));  // all of the probability is no limit
  }
  CHECK(run({"Once", "--top-p", "0.9", "--max-new", "2"}).err.find("--top-p does nothing") !=
        std::string::npos);
  CHECK(run({"Once", "--top-p", "0.9", "--temperature", "1", "--max-new", "2"}).err.find("note") ==
        std::string::npos);
}

TEST_CASE("without --seed each run is another, and the seed it says gives the same text again") {
  const auto sampled = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"Once upon a time", "--max-new", "40", "--temperature", "2", "--json"});
    return Json::parse(run(more).out);
  };
  const Json first = sampled({}), second = sampled({});
  CHECK(first.at("text") != second.at("text"));
  const std::string seed = std::to_string(first.at("seed").get<uint64_t>());
  CHECK(sampled({"--seed", seed}).at("text") == first.at("text"));
  CHECK(sampled({"--seed", "-1"}).at("text") != first.at("text"));
  CHECK(run({"Once", "--temperature", "1", "--seed", "12", "--max-new", "2"}).err.find("; seed 12; ") !=
        std::string::npos);
  CHECK(run({"Once", "--max-new", "2"}).err.find("seed") == std::string::npos);
  CHECK_FALSE(Json::parse(run({"Once", "--max-new", "2", "--json"}).out).contains("seed"));
  check_refused(run({"Once", "--seed", "-2"}), {"--seed takes 0 or more"});
  // Of several prompts each has its own, which gives the same text alone.
  const std::string lines = made().folder().write("twice", "Once upon\nOnce upon\n").string();
  const Outcome twice =
      run({"--file", lines, "--lines", "--temperature", "2", "--max-new", "20", "--seed", "5", "--json"});
  const size_t cut = twice.out.find('\n') + 1;
  const Json a = Json::parse(twice.out.substr(0, cut)), b = Json::parse(twice.out.substr(cut));
  CHECK(a.at("seed") == 5);
  CHECK(b.at("seed") == 6);
  CHECK(a.at("text") != b.at("text"));
  CHECK(Json::parse(run({"Once upon", "--temperature", "2", "--max-new", "20", "--seed", "6", "--json"}).out)
            .at("text") == b.at("text"));
}

TEST_CASE("numbers and names that make no sense are refused, with what there is") {
  const Calls& calls = made();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const std::string most = std::to_string(std::max(16, 4 * cores));
  check_refused(run({"Once", "--threads", "99999"}), {"--threads takes 1 to " + most, "found 99999"});
  check_refused(run({"Once", "--threads", "0"}), {"--threads takes 1 to " + most});
  CHECK(run({"Once", "--threads", most, "--max-new", "2"}).status == 0);
  for (const char* os : {"99", "19", "0", "-4", "11"})
    check_refused(anemone_command({"check", calls.path("demo"), "--os", os}), {"no such system", "18 or 26"});
  CHECK(anemone_command({"check", calls.path("demo"), "--os", "26"}).status == 0);
  const auto compress = [&](const std::vector<std::string>& flags) {
    std::filesystem::remove_all(calls.folder() / "new");
    std::vector<std::string> call = {
        "compress", calls.path("demo"), "-o", calls.path("new"), "--palettize", "4", "--fast"};
    call.insert(call.end(), flags.begin(), flags.end());
    return anemone_command(call);
  };
  check_refused(compress({"--only", "nothing*"}),
                {"--only 'nothing*' names no weight", "layers_00/", "more"});
  check_refused(compress({"--only", "*_q_weight", "--only", "typo"}), {"--only 'typo'"});
  CHECK_FALSE(std::filesystem::exists(calls.folder() / "new"));
  CHECK(compress({"--only", "*_q_weight"}).status == 0);
  const Outcome skipped = compress({"--skip", "typo*", "--only", "*_q_weight"});
  CHECK(skipped.status == 0);
  CHECK(skipped.err.find("note: --skip 'typo*' names no weight") != std::string::npos);
  check_refused(anemone_command({"convert", calls.path("demo.gguf"), "-o", calls.path("new-only"),
                                 "--palettize", "4", "--only", "nothing*"}),
                {"--only 'nothing*' names no weight"});
  check_refused(anemone_command({"convert", calls.path("demo.gguf"), "-o", calls.path("new-only"),
                                 "--calibrate", calls.path("text.txt")}),
                {"--calibrate says how", "--precision lut4"});
  const std::string demo = calls.path("demo");
  check_refused(anemone_command({"tokenize", demo, "--decode", "99999999"}),
                {"no token 99999999", "0 to 2047"});
  check_refused(anemone_command({"tokenize", demo, "--decode", "-3"}), {"no token -3"});
  check_refused(anemone_command({"tokenize", demo, "--decode", "99999999999"}), {"whole number"});
}

TEST_CASE("every precision that plan names is one that convert takes, and weighs what plan says") {
  const Calls& calls = made();
  const Outcome plan = anemone_command({"plan", calls.path("demo.gguf"), "--context", "64", "--json"});
  const Json plans = Json::parse(plan.out).at("plans");
  CHECK(plans.size() >= 8);
  for (const Json& one : plans) {
    const std::string name = one.at("precision");
    CAPTURE(name);
    const std::string out = calls.path("p-" + name);
    const Outcome made_it = anemone_command(
        {"convert", calls.path("demo.gguf"), "-o", out, "--precision", name, "--context", "64", "--fast"});
    // --fast is for palettes; it says how, not what.
    const bool palette = name.starts_with("lut");
    if (!palette) {
      check_refused(made_it, {"--fast says how"});
      const Outcome plain = anemone_command(
          {"convert", calls.path("demo.gguf"), "-o", out, "--precision", name, "--context", "64", "--quiet"});
      REQUIRE_MESSAGE(plain.status == 0, plain.err);
    } else {
      REQUIRE_MESSAGE(made_it.status == 0, made_it.err);
      CHECK(made_it.out.find("anemone run ") != std::string::npos);
    }
    const double bytes = Json::parse(anemone_command({"inspect", out, "--json"}).out).at("bytes");
    CHECK(bytes == doctest::Approx(one.at("bundle_bytes").get<double>()).epsilon(0.02));
  }
  check_refused(
      anemone_command({"convert", calls.path("demo.gguf"), "-o", calls.path("p"), "--precision", "q4_0"}),
      {"no such precision", "'q4_0'", "lut4-g16"});
  check_refused(anemone_command({"convert", calls.path("demo.gguf"), "-o", calls.path("p"), "--precision",
                                 "lut4", "--quantize", "int8"}),
                {"--precision lut4", "--quantize"});
}

TEST_CASE("colours are for terminals, and for those who ask") {
  const Calls& calls = made();
  const std::string escape = "\x1b[";
  const std::vector<std::string> wrong = {"run", calls.path("demo.gguf"), "Hi"};
  const auto with = [](std::vector<std::string> call, const std::vector<std::string>& more) {
    call.insert(call.end(), more.begin(), more.end());
    return call;
  };
  CHECK(anemone_command(wrong).err.find(escape) == std::string::npos);
  const Outcome red = anemone_command(with(wrong, {"--color", "always"}));
  CHECK(red.err.starts_with("\x1b[1;31merror:\x1b[0m " + calls.path("demo.gguf")));
  CHECK(red.err.find("\x1b[36mconvert it first: anemone convert") != std::string::npos);  // the advice
  const std::vector<std::string> check = {"check", calls.path("demo")};
  const Outcome painted = anemone_command(with(check, {"--color", "always"})), plain = anemone_command(check);
  CHECK(painted.out.find("\x1b[1;32mclean:\x1b[0m") != std::string::npos);
  std::string bare;
  for (size_t i = 0; i < painted.out.size(); ++i)
    if (painted.out[i] == '\x1b')
      i = painted.out.find('m', i);
    else
      bare += painted.out[i];
  CHECK(bare == plain.out);
  // On a terminal by default, unless NO_COLOR or a dumb terminal says otherwise.
  const std::string call =
      "script -qec \"'" ANEMONE_BINARY "' check '" + calls.path("demo") + "' --quiet\" /dev/null";
  if (shell("command -v script").status != 0) return;
  CHECK(shell("TERM=xterm " + call).out.find("\x1b[1;32mclean:") != std::string::npos);
  for (const char* off : {"TERM=xterm NO_COLOR=1 ", "TERM=dumb "})
    CHECK(shell(off + call).out.find(escape) == std::string::npos);
  check_refused(anemone_command(with(check, {"--color", "sometimes"})), {"auto, always, never"});
}
