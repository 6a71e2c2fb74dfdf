// run, chat and translate, on the demo model of the repository.
#include <doctest/doctest.h>

#include <csignal>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "e2e/command.h"
#include "e2e/terminal.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;
using Json = nlohmann::json;

namespace {

const std::string kPrompt = "One morning Mara went to the tide pool with";
// The demo model's own form of questions.
const std::string kTemplate =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}Question: {{ m.content }}\nAnswer:"
    "{% elif m.role == 'assistant' %}{{ m.content }}\n{% else %}{{ m.content }}\n{% endif %}{% endfor %}";

// Converted once for each set of flags.
std::string bundle(const std::vector<std::string>& flags = {"--tokens", "1,4", "--context", "128"}) {
  static const TempFolder folder;
  static std::map<std::vector<std::string>, std::string> made;
  std::string& path = made[flags];
  if (!path.empty()) return path;
  path = folder / ("bundle" + std::to_string(made.size()));
  std::vector<std::string> call = {"convert", source_dir() / "examples/demo_model/demo.gguf", "-o", path,
                                   "--quiet"};
  call.insert(call.end(), flags.begin(), flags.end());
  REQUIRE(anemone_command(call).status == 0);
  return path;
}

// In fp32, whose text does not depend on the machine.
Outcome run(std::vector<std::string> arguments, const std::string& from = bundle()) {
  arguments.insert(arguments.begin(), {"run", from, "--arith", "fp32"});
  return anemone_command(arguments);
}

// Lines typed into `anemone chat`, through a pipe.
Outcome chat(const TempFolder& folder, const std::string& lines, const std::string& flags) {
  spill(folder / "typed", lines);
  return shell("'" ANEMONE_BINARY "' chat '" + bundle() + "' --arith fp32 " + flags + " < '" +
               (folder / "typed").string() + "'");
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("run prints the text alone, and its figures beside it") {
  const Outcome plain = run({kPrompt, "--max-new", "12"});
  CHECK(plain.status == 0);
  CHECK(plain.out.starts_with(" her cousin "));
  CHECK(plain.out.ends_with("\n"));
  for (const char* part : {"[prompt 10 tokens, answer 12 tokens, ended by: length; first token ",
                           " s, prefill ", " tok/s, decode ", "; cpu, fp32, peak memory "})
    CHECK_MESSAGE(plain.err.find(part) != std::string::npos, plain.err);
  const Outcome one =
      run({kPrompt, "--max-new", "1", "--speculate", "3"});  // what was not measured is not said
  CHECK_MESSAGE(one.err.find("answer 1 token, ended by: length; ") != std::string::npos, one.err);
  CHECK_MESSAGE(one.err.find("decode") == std::string::npos, one.err);
  CHECK_MESSAGE(one.err.find(", nothing drafted; ") != std::string::npos, one.err);
  const Outcome quiet = run({kPrompt, "--max-new", "12", "--quiet"});
  CHECK(quiet.out == plain.out);
  CHECK(quiet.err == "");
  const Outcome table = run({kPrompt, "--max-new", "60", "--stats", "--speculate", "3", "--warmup", "2"});
  CHECK(table.out.starts_with(plain.out.substr(0, plain.out.size() - 1)));
  for (const char* part : {"prompt       10 tokens", "first token ", "answer       ", "speculation  ",
                           "memory       weights ", " (mapped), cache ", "backend      cpu, fp32"})
    CHECK_MESSAGE(table.err.find(part) != std::string::npos, table.err);
}

TEST_CASE("run and chat compute in fast arithmetic unless they are told otherwise") {
  const Outcome usual = anemone_command({"run", bundle(), kPrompt, "--max-new", "4", "--stats"});
  CHECK(usual.status == 0);
  CHECK_MESSAGE(usual.err.find("backend      cpu, fast arithmetic") != std::string::npos, usual.err);
  const Json said = Json::parse(anemone_command({"run", bundle(), kPrompt, "--max-new", "4", "--json"}).out);
  CHECK(said.at("arithmetic") == "fast");
  CHECK(Json::parse(run({kPrompt, "--max-new", "4", "--json"}).out).at("arithmetic") == "fp32");
}

TEST_CASE("run --json says the same as run, and the same with speculation and from every source") {
  const TempFolder folder;
  const std::string file = folder.write("prompt.txt", kPrompt);
  const Outcome plain = run({kPrompt, "--max-new", "50", "--ignore-eos"});
  const Json one = Json::parse(run({kPrompt, "--max-new", "50", "--ignore-eos", "--json"}).out);
  CHECK(one.at("text").get<std::string>() + "\n" == plain.out);
  CHECK(one.at("ids").size() == 50);
  CHECK(one.at("stopped") == "length");
  for (const char* key : {"prompt_tokens", "new_tokens", "first_token_s", "prefill_tokens_per_s",
                          "decode_tokens_per_s", "peak_bytes", "weight_bytes", "cache_bytes"})
    CHECK_MESSAGE(one.at(key).get<double>() > 0, key);
  // What a process needs beside the model and its cache: the program, its plans, the tokenizer.
  CHECK(one.at("peak_bytes").get<double>() <=
        one.at("weight_bytes").get<double>() + one.at("cache_bytes").get<double>() + 60 * 1048576.0);
  const Json drafted =
      Json::parse(run({kPrompt, "--max-new", "50", "--ignore-eos", "--speculate", "3", "--json"}).out);
  CHECK(drafted.at("ids") == one.at("ids"));
  CHECK(drafted.at("speculation").at("acceptance").get<double>() <= 1);
  const std::string call =
      "'" ANEMONE_BINARY "' run '" + bundle() + "' --max-new 50 --ignore-eos --arith fp32 --quiet ";
  CHECK(run({"--file", file, "--max-new", "50", "--ignore-eos"}).out == plain.out);
  CHECK(shell(call + "< '" + file + "'").out == plain.out);
  CHECK(shell(call + "- < '" + file + "'").out == plain.out);
  CHECK(shell(call + "--file - < '" + file + "'").out == plain.out);
}

TEST_CASE("run answers several prompts, each as it would alone") {
  const TempFolder folder;
  const std::string a = "Once upon a time", b = "In winter the lighthouse";
  const std::string lines = folder.write("lines.txt", a + "\n\n" + b + "\r\n");
  const std::string alone =
      run({a, "--max-new", "8", "--quiet"}).out + run({b, "--max-new", "8", "--quiet"}).out;
  const Outcome both = run({"--file", lines, "--lines", "--max-new", "8"});
  CHECK(both.out == alone);
  CHECK(both.err.find("1 of 2: Once upon a time\n") != std::string::npos);
  CHECK(run({"--file", folder.write("a", a), "--file", folder.write("b", b), "--max-new", "8"}).out == alone);
  std::istringstream objects(run({"--file", lines, "--lines", "--max-new", "8", "--json"}).out);
  std::string texts;
  for (std::string line; std::getline(objects, line);)
    texts += Json::parse(line).at("text").get<std::string>() + "\n";
  CHECK(texts == alone);
  // An argument stands before each.
  CHECK(run({"One day.", "--file", folder.write("a", a), "--max-new", "8"}).out ==
        run({"One day.\n\n" + a, "--max-new", "8"}).out);
}

TEST_CASE("run stops where it is told to") {
  const Outcome whole = run({kPrompt, "--max-new", "60"});
  const Outcome stopped = run({kPrompt, "--max-new", "60", "--stop", "zzz", "--stop", "ery much"});
  CHECK(stopped.out == whole.out.substr(0, whole.out.find("ery much")) + "\n");
  CHECK(stopped.err.find("stop text") != std::string::npos);
  CHECK(run({kPrompt, "--max-new", "110", "--stop-ngram", "4"}).err.find("repetition") != std::string::npos);
  CHECK(run({kPrompt, "--max-new", "200", "--ignore-eos"}).err.find("context full") != std::string::npos);
  const Outcome slid = run({kPrompt, "--max-new", "200", "--ignore-eos", "--slide", "--stats"});
  CHECK(slid.err.find("answer       200 tokens") != std::string::npos);
  CHECK(slid.err.find("slid ") != std::string::npos);
}

TEST_CASE("a chat template and a system text reach the model") {
  const TempFolder folder;
  const std::string form = folder.write("form.jinja", kTemplate);
  const Outcome asked = run({"What does a crab eat?", "--template", form, "--system", "In winter."});
  CHECK(asked.out == run({"In winter.\nQuestion: What does a crab eat?\nAnswer:", "--raw"}).out);
  CHECK(asked.err.find("end of text") != std::string::npos);
  check_refused(run({"Hi", "--system", "Be brief."}), {"chat template"});
}

TEST_CASE("run refuses what cannot be, in one line") {
  const TempFolder folder;
  const std::string narrow = bundle({"--context", "32", "--tokens", "1", "--kv", "packed"}),
                    argmax = bundle({"--context", "32", "--tokens", "1", "--argmax-output"});
  std::string tale;
  while (tale.size() < 1000) tale += kPrompt + " ";
  check_refused(run({kPrompt, "--speculate", "3"}, narrow), {"several tokens at once", "--tokens 1-4"});
  check_refused(run({kPrompt, "--speculate", "3", "--temperature", "1"}), {"greedy"});
  check_refused(run({kPrompt, "--temperature", "1"}, argmax), {"only the best token", "--argmax-output"});
  check_refused(run({tale}, narrow), {"the context holds 32"});
  check_refused(run({kPrompt, "--top-p", "2"}), {"top-p", "2"});
  check_refused(run({kPrompt, "--stop", ""}), {"stop string is empty"});
  check_refused(run({"--file", folder / "absent.txt"}), {"absent.txt"});
  check_refused(run({""}), {"the prompt is empty"});
  check_refused(run({kPrompt, "--lines"}), {"--lines"});
  check_refused(run({kPrompt}, folder / "nothing"), {"nothing", "there is no such file or folder"});
  // A bundle whose checkpoint had no tokenizer says so.
  std::filesystem::copy(narrow, folder / "mute", std::filesystem::copy_options::recursive);
  std::string info = slurp(folder / "mute/bundle.json");
  const size_t at = info.find("\"tokenizer\"");
  REQUIRE(at != std::string::npos);
  spill(folder / "mute/bundle.json", info.replace(at, 11, "\"no_tokens\""));
  check_refused(run({kPrompt}, folder / "mute"), {"has no tokenizer"});
  check_refused(anemone_command({"chat", folder / "mute"}), {"has no tokenizer"});
}

TEST_CASE("chat answers line by line, remembers, and takes back") {
  const TempFolder folder;
  const std::string form = folder.write("form.jinja", kTemplate), saved = folder / "saved.json";
  const std::string flags = "--template '" + form + "' --stop '\\n' --max-new 30";
  const Outcome two = chat(folder,
                           "What does a crab eat?\nWhere does a crab live?\n/stats\n/save " + saved +
                               "\n/undo\n/undo\n/history\n/quit\nnot read\n",
                           flags);
  CAPTURE(two.out);
  CAPTURE(two.err);
  CHECK(two.status == 0);
  const Json messages = Json::parse(slurp(saved));
  REQUIRE(messages.size() == 4);
  const std::string first = messages[1].at("content"), second = messages[3].at("content");
  CHECK(first == [&] {
    std::string alone =
        run({"What does a crab eat?", "--template", form, "--stop", "\\n", "--max-new", "30"}).out;
    return alone.substr(0, alone.size() - 1);
  }());
  CHECK(two.out.starts_with(first + "\n" + second + "\nprompt "));
  // The second prompt holds the first turn; it was not computed again.
  CHECK(two.out.find(" 0 reused from the cache") == std::string::npos);
  CHECK(two.out.find("reused from the cache") != std::string::npos);
  CHECK(two.out.find("user:") == std::string::npos);  // all was taken back before /history

  const Outcome again = chat(folder, "/load " + saved + "\n/history\n", flags);
  CHECK(count(again.out, "user: ") == 2);
  CHECK(count(again.out, "assistant: ") == 2);
  const Outcome reset = chat(folder, "/load " + saved + "\n/reset\n/history\nWhat does a crab eat?\n", flags);
  CHECK(reset.out == first + "\n");
  const Outcome told = chat(folder, "/system In winter.\nWhat does a crab eat?\n/history\n", flags);
  CHECK(told.out.find("system: In winter.\n") != std::string::npos);
  const Outcome typed = chat(folder, "Two\\\nlines\n/history\n", flags);
  CHECK(typed.out.find("user: Two\nlines\n") != std::string::npos);
}

TEST_CASE("chat stays when a line is wrong, and says why") {
  const TempFolder folder;
  const Outcome r = chat(folder, "/dance\n/undo\n/stats\n/save\n/load nowhere.json\n/help\n", "");
  CHECK(r.status == 0);
  CHECK(count(r.err, "error: ") == 5);
  CHECK(r.err.find("there is no command '/dance'") != std::string::npos);
  CHECK(r.err.find("nowhere.json") != std::string::npos);
  CHECK(r.out.find("/reset ") != std::string::npos);
  CHECK(r.err.find("no chat template") != std::string::npos);  // a note: what is typed is continued

  std::string tale;
  while (tale.size() < 2000) tale += kPrompt + " ";
  const Outcome full = chat(folder, tale + "\n" + kPrompt + "\n/history\n", "--max-new 5");
  CHECK(full.err.find("the context holds 128") != std::string::npos);
  CHECK(count(full.out, "user: ") == 1);
  // With --slide the oldest turns are forgotten instead.
  std::string many;
  for (int i = 0; i < 8; ++i) many += kPrompt + "\n";
  const Outcome slid = chat(folder, many + "/history\n", "--max-new 10 --slide");
  CHECK(slid.err.find("the oldest question is forgotten") != std::string::npos);
  CHECK(count(slid.err, "error") == 0);
  CHECK(count(slid.out, "user: ") < 8);
}

TEST_CASE("on a terminal lines can be edited, and Ctrl-C stops an answer, not the program") {
  Terminal t({"chat", bundle(), "--max-new", "1000000", "--ignore-eos", "--slide"});
  t.wait_for("> ");
  t.type(
      "One mornnig\x7f\x7f\x7fing M\xc3\xa5\x7f"
      "ara\r");      // typed wrong, taken back, typed anew
  t.wait_for(". ");  // it would never end by itself
  t.type("\x03");
  t.wait_for("[stopped]");
  t.wait_for("> ");
  // Drops the line, and leaves no mark of its own: the next line starts at its start.
  t.type("half a line");
  t.wait_for("line");
  t.type("\x03");
  const std::string dropped = t.wait_for("leaves)");
  CHECK(dropped.find("^C") == std::string::npos);
  CHECK(dropped.find("\r\n") != std::string::npos);
  t.wait_for("> ");
  t.type("/history\r");
  t.wait_for("user: One morning Mara\r\nassistant: ");
  t.wait_for("> ");
  t.type("\x04");
  CHECK(t.exit_status() == 0);
}

TEST_CASE("what is pasted is one question, with its line breaks") {
  Terminal t({"chat", bundle(), "--max-new", "4"});
  t.wait_for("\x1b[?2004h");  // the terminal is asked to mark what is pasted
  t.wait_for("> ");
  t.type("Tell me \x1b[200~of two\rl\xc3\xaenes\r\r\x1b[201~!\r");
  t.wait_for("--max-new]");
  t.wait_for("> ");
  t.type("/history\r");
  t.wait_for("user: Tell me of two\r\nl\xc3\xaenes!\r\nassistant: ");
  t.wait_for("> ");
  t.type("\x1b[A\x1b[A");  // the history has it as one
  t.wait_for("l\xc3\xaenes!");
  t.type("\x03");
  t.wait_for("leaves)");
  t.type("/quit\r");
  CHECK(t.exit_status() == 0);
}

TEST_CASE("Ctrl-C while a long prompt is read leaves a clean line and no half of a turn") {
  const TempFolder folder;
  // A context that takes many times longer to fill than the first word of progress, also on a fast machine: one token
  // at a time, on one core.
  const std::string slow = bundle({"--tokens", "1", "--context", "8192"});
  std::string tale;
  while (tale.size() < 24000) tale += kPrompt + " ";
  Terminal t({"chat", slow, "--max-new", "4", "--threads", "1"});
  t.wait_for("> ");
  t.type("\x1b[200~" + tale + "\x1b[201~");
  t.type("\r");
  t.wait_for("reading the prompt: ");
  t.type("\x03");
  const std::string shown = t.wait_for("[stopped]");
  CHECK(shown.find("\r\x1b[K\x1b[2m[stopped]") != std::string::npos);
  t.wait_for("> ");
  t.type("/history\r");
  const std::string history = t.wait_for("> ");
  CHECK(history.find("user:") == std::string::npos);
  t.type("\x04");
  CHECK(t.exit_status() == 0);
}

TEST_CASE("after /undo a sampled answer is another one, and a seed repeats the whole conversation") {
  const TempFolder folder;
  const std::string lines = "Once upon\n/undo\nOnce upon\n";
  const std::string flags = "--temperature 2 --max-new 20 --json";
  const auto answers = [&](const std::string& more) {
    std::istringstream objects(chat(folder, lines, flags + more).out);
    std::vector<Json> out;
    for (std::string line; std::getline(objects, line);) out.push_back(Json::parse(line));
    REQUIRE(out.size() == 2);
    return out;
  };
  const std::vector<Json> first = answers(" --seed 5"), again = answers(" --seed 5"), random = answers("");
  CHECK(first[0].at("text") != first[1].at("text"));
  for (const size_t i : {0, 1}) CHECK(first[i].at("text") == again[i].at("text"));
  CHECK(random[0].at("text") != random[1].at("text"));
  CHECK(random[0].at("text") != first[0].at("text"));
  const Outcome stats = chat(folder, lines + "/stats\n", "--temperature 2 --max-new 20 --seed 4");
  CHECK_MESSAGE(stats.out.find("sampling     seed 4, answer 2\n") != std::string::npos, stats.out);
}

TEST_CASE("however a chat ends, the terminal is as it was") {
  for (const std::string how : {"/quit\r", "\x04", "term", "hup", "quit", "early term"}) {
    CAPTURE(how);
    Terminal t({"chat", bundle(), "--max-new", "1000000", "--ignore-eos", "--slide"});
    CHECK(t.is_plain());
    t.wait_for("> ");
    if (how == "early term") {
      t.type("Hello\r");
      t.wait_for(". ");  // while it answers
      CHECK_FALSE(t.is_plain());
    }
    if (how.ends_with("term"))
      t.send(SIGTERM);
    else if (how == "hup")
      t.send(SIGHUP);
    else if (how == "quit")
      t.send(SIGQUIT);
    else
      t.type(how);
    t.exit_status();
    CHECK(t.is_plain());
  }
  Terminal missing({"chat", bundle(), "--load", "no_such_file.json"});
  CHECK(missing.exit_status() == 2);
  CHECK(missing.is_plain());
}

TEST_CASE("translate asks a model in its own words, and knows its languages") {
  const TempFolder folder;
  const std::string form = folder.write("form.jinja", kTemplate);
  check_refused(anemone_command({"translate", bundle(), "--to", "klingon", "Hi"}), {"'klingon'", "fr, "});
  check_refused(anemone_command({"translate", bundle(), "--to", "fr", "--from", "xx", "Hi"}), {"'xx'"});
  check_refused(anemone_command({"translate", bundle(), "--to", "fr", "Hi"}), {"no chat template"});
  check_refused(anemone_command({"translate", bundle(), "Hi"}), {"--to"});
  check_refused(
      anemone_command({"translate", bundle(), "--to", "fr", "--template", form, "Hi", "--file", form}),
      {"not both"});
  const Outcome r = anemone_command(
      {"translate", bundle(), "--to", "fr", "--template", form, "Hi.", "--max-new", "8", "--arith", "fp32"});
  CHECK(r.status == 0);
  CHECK(r.err.find("no translation model") != std::string::npos);
  CHECK(r.out == run({"Translate the following text into French. Answer with the translation only.\n\nHi.",
                      "--template", form, "--max-new", "8"})
                     .out);
  const std::string text = folder.write("text", "Hi.\n\nBye.\n");
  const Outcome lines = anemone_command({"translate", bundle(), "--to", "fr", "--template", form, "--file",
                                         text, "--lines", "--max-new", "8", "--quiet", "--stop", "\\n"});
  CHECK(count(lines.out, "\n") == 3);
  CHECK(lines.out.find("\n\n") != std::string::npos);
}

TEST_CASE("a Hunyuan model is asked as Hy-MT was trained") {
  const TempFolder folder;
  const std::string form = folder.write("form.jinja", "{{ messages[0].content }}");
  std::vector<std::filesystem::path> given;
  for (const auto& models : data_folders("models"))
    for (const auto& entry : std::filesystem::directory_iterator(models)) given.push_back(entry.path());
  for (const std::filesystem::path& model : given) {
    if (slurp(model / "config.json").find("hunyuan_v1_dense") == std::string::npos) continue;
    CAPTURE(model.string());
    const std::string made = folder / "hy";
    REQUIRE(anemone_command({"convert", model, "-o", made, "--context", "256", "--quiet"}).status == 0);
    const auto translated = [&](std::vector<std::string> flags) {
      flags.insert(flags.begin(), {"translate", made, "--template", form, "--max-new", "8"});
      return anemone_command(flags);
    };
    const auto asked = [&](const std::string& words) {
      return anemone_command({"run", made, words, "--template", form, "--max-new", "8"}).out;
    };
    const Outcome french = translated({"--to", "fr", "Good morning."});
    CHECK(french.err.find("note") == std::string::npos);
    CHECK(
        french.out ==
        asked(
            "Translate the following segment into French, without additional explanation.\n\nGood morning."));
    const std::string chinese = "将以下文本翻译为英语，注意只需要输出翻译后的结果，不要额外解释：\n\n";
    CHECK(translated({"--to", "en", "早上好"}).out == asked(chinese + "早上好"));
    CHECK(translated({"--to", "en", "--from", "zh", "OK"}).out == asked(chinese + "OK"));
    CHECK(translated({"--to", "zh", "Hi"}).out ==
          asked("将以下文本翻译为中文，注意只需要输出翻译后的结果，不要额外解释：\n\nHi"));
    std::filesystem::remove_all(made);
  }
}

TEST_CASE("run says where its time goes, without its warm-up") {
  const TempFolder folder;
  const std::string trace = folder / "t.json";
  const Outcome table = run({kPrompt, "--max-new", "3", "--profile", "--trace", trace, "--warmup", "2"});
  CHECK(table.status == 0);
  CHECK(table.out == run({kPrompt, "--max-new", "3"}).out);
  for (const char* part :
       {"projection ", "attention ", "cache write ", "norm ", "between steps ", "all calls "})
    CHECK_MESSAGE(table.err.find(part) != std::string::npos, table.err);
  size_t tokens = 0;
  const Json traced = Json::parse(slurp(trace));
  for (const Json& e : traced.at("traceEvents")) tokens += e.value("cat", "") == "tokens";
  CHECK(tokens == 5);  // 10 tokens in chunks of 4, then 2
  const Outcome json = run({kPrompt, "--max-new", "3", "--profile", "--json"});
  CHECK(!Json::parse(json.out).at("profile").empty());
  CHECK(json.err == "");
}
