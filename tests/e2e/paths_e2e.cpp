// Paths that people give: one wording for what is not there, the right command for what is something else, and no
// output that would change an input.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "e2e/calls.h"
#include "e2e/command.h"

using namespace anemone;
using namespace anemone::e2e;
using Json = nlohmann::json;

namespace {

// The call with another path in place of the verb's first argument.
std::vector<std::string> call(const Calls& calls, const std::string& verb, const std::string& path) {
  std::vector<std::string> out = calls.all().at(verb);
  out.front() = path;
  out.insert(out.begin(), verb);
  return out;
}

// The verbs whose first argument is a path that is read.
std::vector<std::string> reading_verbs() {
  std::vector<std::string> out;
  for (const auto& verb : Json::parse(anemone_command({"help", "--json"}).out))
    if (verb.contains("arguments") && verb["arguments"][0].value("path", "") == "input")
      out.push_back(verb["verb"]);
  return out;
}

}  // namespace

TEST_CASE("a path that is not there is said alike by every verb, with the name that was meant") {
  const Calls calls;
  const std::vector<std::string> verbs = reading_verbs();
  CHECK(verbs.size() >= 15);
  for (const std::string& verb : verbs) {
    CAPTURE(verb);
    const Outcome outcome = anemone_command(call(calls, verb, calls.path("dmo.gguf")));
    check_refused(outcome, {calls.path("dmo.gguf") + ": there is no such file or folder; did you mean '",
                            "demo.gguf'?"});
    check_refused(anemone_command(call(calls, verb, calls.path("demo/nothing/of/it"))),
                  {"of/it: there is no such file or folder"});
  }
  const std::string absent = calls.path("absent.npy");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"verify", calls.path("demo"), "--source", absent},
        {"verify", calls.path("demo"), "--golden", absent},
        {"perplexity", calls.path("demo"), "--text", absent},
        {"logits", calls.path("demo"), "--ids", absent, "-o", calls.path("new.npy")},
        {"run", calls.path("demo"), "--file", absent},
        {"run", calls.path("demo"), "Hi", "--template", absent},
        {"chat", calls.path("demo"), "--load", absent},
        {"check", calls.path("demo"), "--golden", absent},
        {"tokenize", calls.path("demo"), "--file", absent},
        {"template", calls.path("words"), "--messages", absent},
        {"doctor", "--bundle", absent},
        {"predict", recall_package(), "--input", "x=" + absent},
        {"predict", recall_package(), "--inputs", absent},
        {"compress", calls.path("demo"), "-o", calls.path("new"), "--recipe", absent}})
    check_refused(anemone_command(flags), {absent + ": there is no such file or folder"});
}

TEST_CASE("a bundle that is there already is proposed, and a missing path is no name") {
  const Calls calls;
  const std::string in = "cd '" + calls.folder().path().string() + "' && '" ANEMONE_BINARY "' ";
  check_refused(shell(in + "run demo.gguf Hi"), {"there is a bundle of that name: anemone run demo"});
  check_refused(shell(in + "run demo/bundle.json Hi"), {"its bundle is demo"});
  check_refused(shell(in + "verify demo --source demo"), {"give the checkpoint that it was made from"});
  for (const char* path : {"nowhere/x.gguf", "./nowhere/x", "model.gguf", "x.safetensors"})
    check_refused(shell(in + "plan " + path), {std::string(path) + ": there is no such file or folder"});
  check_refused(shell(in + "plan qwen3-0.5"), {"qwen3-0.6b"});  // a name of the list
  // A folder that is called like an owner hides the hub.
  std::filesystem::create_directories(calls.folder() / "own");
  for (const char* call : {"fetch own/llama-tiny", "convert own/llama-tiny -o new", "plan own/llama-tiny",
                           "tokenize own/llama-tiny x", "verify demo --source own/llama-tiny"})
    check_refused(shell(in + call), {"a folder 'own' exists here; for the hub write hf:own/llama-tiny"});
}

TEST_CASE("a path with something else says what it is, and the command to use") {
  const Calls calls;
  const std::string gguf = calls.path("demo.gguf"), bundle = calls.path("demo"),
                    package = bundle + "/layers_00.mlpackage";
  const std::string folder = calls.path("encoder"),
                    onnx = calls.folder().write("model.onnx", "\x08\x09").string();
  const std::string junk = calls.folder().write("junk.gguf", "<html>404</html>").string(),
                    nothing = calls.folder().write("nothing.gguf", "").string();
  const std::string letter = calls.folder().write("letter.txt", "Dear Mara").string();
  std::filesystem::create_directories(calls.folder() / "empty");
  spill(calls.folder() / "sketch/config.json", "{}");
  const std::string empty = calls.path("empty"), config = calls.path("sketch");
  for (const char* verb : {"run", "chat", "translate", "embed", "classify", "verify"}) {
    CAPTURE(verb);
    const auto refused = [&](const std::string& path, const std::vector<std::string>& must_say) {
      check_refused(anemone_command(call(calls, verb, path)), must_say);
    };
    refused(gguf, {"this is a GGUF checkpoint, and " + std::string(verb) + " takes a bundle",
                   "convert it first: anemone convert " + gguf + " -o demo"});
    refused(bundle + "/bundle.json", {"its bundle is " + bundle});
    refused(junk, {"this is not a GGUF file", "download it again"});
    refused(nothing, {"this is an empty file", "download it again"});
    refused(folder, {"this is a safetensors checkpoint", "anemone convert " + folder + " -o encoder-bundle"});
    refused(package, {"this is a Core ML package", "its bundle is " + bundle});
    refused(recall_package(), {"this is a Core ML package", "anemone inspect"});
    refused(onnx, {"this is an ONNX model"});
    refused(letter, {"this is not a model file", "takes a bundle"});
    refused(empty, {"this is a folder without a bundle, a package or a checkpoint in it"});
    refused(config, {"config.json and no weights", "anemone plan"});
  }
  for (const char* verb : {"check", "inspect", "compress"}) {
    CAPTURE(verb);
    if (std::string_view(verb) != "inspect")
      check_refused(anemone_command(call(calls, verb, gguf)),
                    {"this is a GGUF checkpoint", "anemone convert"});
    check_refused(anemone_command(call(calls, verb, empty)), {"this is a folder without"});
    check_refused(anemone_command(call(calls, verb, letter)), {"this is not a model file"});
  }
  check_refused(anemone_command({"predict", bundle}),
                {"this is a bundle, and predict takes a package", package});
  check_refused(anemone_command({"predict", gguf}), {"this is a GGUF checkpoint"});
  check_refused(anemone_command({"plan", bundle}), {"this is a bundle", "anemone check " + bundle});
  check_refused(anemone_command({"plan", package}), {"this is a Core ML package"});
  check_refused(anemone_command({"plan", empty}), {"this is a folder without"});
  check_refused(anemone_command({"convert", bundle, "-o", calls.path("x")}),
                {"this is a bundle", "converted already", "anemone compress"});
  check_refused(anemone_command({"convert", package, "-o", calls.path("x")}), {"this is a Core ML package"});
  check_refused(anemone_command({"convert", onnx, "-o", calls.path("x")}),
                {"the file has no graph", "genai_config.json or config.json", ".mlpackage"});
  for (const char* verb : {"logits", "golden", "perplexity"})
    check_refused(anemone_command(call(calls, verb, package)),
                  {"this is a Core ML package", "a bundle or a checkpoint"});
  check_refused(anemone_command({"tokenize", package, "x"}), {"this is a Core ML package"});
  check_refused(anemone_command({"verify", bundle, "--source", bundle}),
                {"this is a bundle", "takes a checkpoint"});
}

TEST_CASE("no verb writes into its input, over it or around it, and nothing is written before that is said") {
  const Calls calls;
  std::filesystem::create_directory_symlink(calls.path("demo"), calls.path("link"));
  std::filesystem::create_directory_symlink(calls.path("encoder"), calls.path("encoder-link"));
  int flags = 0;
  for (const auto& verb : Json::parse(anemone_command({"help", "--json"}).out)) {
    const std::string name = verb["verb"];
    CAPTURE(name);
    if (name == "fetch") continue;  // it takes a name, and writes only where nothing is
    for (const auto& flag : verb["flags"]) {
      if (flag.value("path", "") != "output") continue;
      ++flags;
      const std::string shown = flag["names"].back();
      CAPTURE(shown);
      std::vector<std::string> base = calls.all().at(name);
      for (size_t i = 0; i + 1 < base.size(); ++i)  // its own output goes
        if (base[i] == "-o")
          base.erase(base.begin() + static_cast<ptrdiff_t>(i), base.begin() + static_cast<ptrdiff_t>(i) + 2);
      base.insert(base.begin(), name);
      // A folder where the verb takes one.
      if (name == "convert") base[1] = calls.path("encoder");
      if (name == "plan") base[1] = calls.path("encoder");
      const std::string input = base[1];
      std::vector<std::string> places = {input, std::filesystem::path(input).parent_path().string()};
      if (std::filesystem::is_directory(input)) {
        places.push_back(input + "/sub");
        places.push_back(input + "/../" + std::filesystem::path(input).filename().string() + "/sub");
      }
      if (input == calls.path("demo")) places.push_back(calls.path("link/sub"));
      if (input == calls.path("encoder")) places.push_back(calls.path("encoder-link/sub"));
      const auto before = all_files(calls.folder().path());
      for (const std::string& place : places) {
        CAPTURE(place);
        std::vector<std::string> arguments = base;
        arguments.insert(arguments.end(), {shown, place});
        if (name == "convert" || name == "compress") arguments.push_back("--overwrite");
        check_refused(anemone_command(arguments), {"the output would "});
      }
      CHECK(all_files(calls.folder().path()) == before);
    }
  }
  CHECK(flags >= 10);
  // Other files that are read count as well.
  const std::string ids = calls.path("ids.npy"), bytes = slurp(ids);
  check_refused(anemone_command({"logits", calls.path("demo"), "--ids", ids, "-o", ids}),
                {"overwrite the input"});
  CHECK(slurp(ids) == bytes);
  check_refused(anemone_command({"predict", recall_package(), "--inputs", recall_steps().front(), "--outputs",
                                 calls.path("a.npz"), "--state", calls.path("a.npz")}),
                {"two outputs"});
  check_refused(anemone_command({"golden", calls.path("demo.gguf"), "-o", calls.path("nowhere/g.npz")}),
                {"folder does not exist"});
  check_refused(anemone_command({"logits", calls.path("demo"), "--ids", ids, "-o", "-"}),
                {"standard output"});
}

TEST_CASE("a bundle is not given the name of a package") {
  const Calls calls;
  for (const std::string name : {"x.mlpackage", "x.mlpackage/", "x.mlmodelc"})
    check_refused(anemone_command({"convert", calls.path("demo.gguf"), "-o", calls.path(name)}),
                  {"convert writes a bundle", "--whole"});
  check_refused(
      anemone_command({"compress", calls.path("demo"), "-o", calls.path("x.mlpackage"), "--palettize", "4"}),
      {"the input is a bundle"});
}
