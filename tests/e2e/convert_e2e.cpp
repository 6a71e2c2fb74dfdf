// `anemone convert` as people call it: what it prints, what it refuses, and what is left when it is stopped.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __APPLE__
#include <util.h>
#else
#include <pty.h>
#endif

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/npy.h"
#include "checkpoint/gguf_builder.h"
#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"
#include "support/tiny_encoder.h"

using namespace anemone;
using namespace anemone::e2e;

namespace {

namespace fs = std::filesystem;

std::string demo() { return (source_dir() / "examples/demo_model/demo.gguf").string(); }

// A Llama of 16 layers whose weights are a hole in the file: 270 MB to write, nothing to read.
fs::path large_model(const TempFolder& folder) {
  test::GgufBuilder b;
  b.value("general.architecture", "llama");
  b.number<float>("llama.attention.layer_norm_rms_epsilon", 6, 1e-5f);
  constexpr uint64_t kHidden = 1024, kMlp = 4096, kLayers = 16, kVocab = 1000;
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, uint64_t>>{{"block_count", kLayers},
                                                     {"embedding_length", kHidden},
                                                     {"feed_forward_length", kMlp},
                                                     {"context_length", 4096},
                                                     {"attention.head_count", 16},
                                                     {"attention.head_count_kv", 16},
                                                     {"vocab_size", kVocab}})
    b.number<uint32_t>("llama." + key, 4, static_cast<uint32_t>(value));
  uint64_t offset = 0;
  const auto tensor = [&](const std::string& name, std::vector<uint64_t> dims) {
    const bool matrix = dims.size() == 2;
    b.tensor(name, dims, matrix ? 8 : 0, offset);  // Q8_0, F32
    const uint64_t bytes = matrix ? dims[0] * dims[1] / 32 * 34 : dims[0] * 4;
    offset += (bytes + 31) / 32 * 32;
  };
  tensor("token_embd.weight", {kHidden, kVocab});
  tensor("output_norm.weight", {kHidden});
  for (uint64_t i = 0; i < kLayers; ++i) {
    const std::string at = "blk." + std::to_string(i) + ".";
    for (const char* name : {"attn_norm", "ffn_norm"}) tensor(at + name + ".weight", {kHidden});
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      tensor(at + name + ".weight", {kHidden, kHidden});
    for (const char* name : {"ffn_gate", "ffn_up"}) tensor(at + name + ".weight", {kHidden, kMlp});
    tensor(at + "ffn_down.weight", {kMlp, kHidden});
  }
  const fs::path path = folder.write("large.gguf", b.data(std::string(1, '\0')).bytes());
  fs::resize_file(path, fs::file_size(path) - 1 + offset);
  return path;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path().filename().string());
  return out;
}

// Starts a conversion, waits until it has begun to write, sends the signal; its wait status.
int interrupted(const fs::path& model, const fs::path& folder, int signal) {
  const std::string target = (folder / "bundle").string();
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    ::execl(ANEMONE_BINARY, "anemone", "convert", model.c_str(), "-o", target.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 20000 && names_in(folder).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// What a command prints on a terminal.
std::string on_terminal(const std::vector<std::string>& arguments) {
  int master = -1;
  const pid_t child = ::forkpty(&master, nullptr, nullptr, nullptr);
  if (child == 0) {
    std::vector<char*> argv = {const_cast<char*>("anemone")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv(ANEMONE_BINARY, argv.data());
    ::_exit(127);
  }
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = ::read(master, buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<size_t>(n));
  ::close(master);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  return out;
}

}  // namespace

TEST_CASE("Ctrl-C ends a conversion and leaves nothing") {
  const TempFolder models, folder;
  const fs::path model = large_model(models);
  for (const int signal : {SIGINT, SIGTERM}) {
    const int status = interrupted(model, folder.path(), signal);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 128 + signal);
    CHECK(names_in(folder.path()).empty());
  }
}

TEST_CASE("a killed conversion leaves nothing under the final name, and the next one works") {
  const TempFolder models, folder;
  const int status = interrupted(large_model(models), folder.path(), SIGKILL);
  REQUIRE(WIFSIGNALED(status));
  CHECK(!fs::exists(folder / "bundle"));
  for (const std::string& name : names_in(folder.path())) CHECK(name.starts_with(".bundle.partial-"));
  CHECK(anemone_command({"convert", demo(), "-o", (folder / "bundle").string(), "--context", "64"}).status ==
        0);
  CHECK(fs::exists(folder / "bundle" / "bundle.json"));
}

TEST_CASE("a file that cannot grow is an error, and nothing is left") {
  const TempFolder folder;
  const std::string target = (folder / "bundle").string();
  const Outcome outcome =
      shell("ulimit -f 1000\n'" ANEMONE_BINARY "' convert '" + demo() + "' -o '" + target + "' --context 64");
  check_refused(outcome, {"File too large", ".bin"});
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("a disk without room is refused before anything is written, with both figures") {
  const TempFolder folder;
  const std::string mount = folder.path().string();
  const std::string enter = "unshare -rm sh -c 'mount -t tmpfs -o size=2m none " + mount + " && ";
  if (shell(enter + "true'").status != 0) {
    MESSAGE("skipped: no small file system can be mounted here");
    return;
  }
  const Outcome outcome = shell(enter + "{ " ANEMONE_BINARY " convert " + demo() + " -o " + mount +
                                "/bundle; status=$?; ls -A " + mount + "; exit $status; }'");
  check_refused(outcome, {"not enough disk space", "2.1 MB free", "expected", mount});
}

TEST_CASE("what stands under the final name is kept, unless it may be replaced") {
  const TempFolder folder;
  const std::string target = (folder / "bundle").string();
  fs::create_directories(folder / "bundle");
  spill(folder / "bundle" / "mine.txt", "precious");
  check_refused(anemone_command({"convert", demo(), "-o", target}), {"already exists", "overwrite"});
  CHECK(slurp(folder / "bundle" / "mine.txt") == "precious");
  // Only a bundle is replaced.
  check_refused(anemone_command({"convert", demo(), "-o", target, "--overwrite"}),
                {"no bundle.json in it", target});
  CHECK(slurp(folder / "bundle" / "mine.txt") == "precious");
  const std::string other = (folder / "other").string();
  CHECK(anemone_command({"convert", demo(), "-o", other, "--context", "64"}).status == 0);
  spill(folder / "other" / "mine.txt", "left over");
  CHECK(anemone_command({"convert", demo(), "-o", other, "--context", "128", "--overwrite"}).status == 0);
  CHECK(!fs::exists(folder / "other" / "mine.txt"));
  CHECK(names_in(folder.path()).size() == 2);
}

TEST_CASE("the bar is drawn on a terminal only, and --quiet silences it") {
  const TempFolder folder;
  const std::vector<std::string> call = {"convert",   demo(), "-o",         (folder / "b").string(),
                                         "--context", "256",  "--overwrite"};
  const std::string drawn = on_terminal(call);
  CHECK(drawn.find("100%") != std::string::npos);
  CHECK(drawn.find("░") != std::string::npos);
  CHECK(drawn.find("layers_00.mlpackage") != std::string::npos);
  std::vector<std::string> quiet = call;
  quiet.push_back("--quiet");
  CHECK(on_terminal(quiet) == "");
  const Outcome piped = anemone_command(call);
  CHECK(piped.err == "");
  CHECK(piped.out.find("all files") != std::string::npos);
}

TEST_CASE("aliases write the same bytes as the flags they stand for") {
  const TempFolder folder;
  const auto files = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> call = {"convert", demo(), "-o", (folder / "b").string(), "--overwrite"};
    call.insert(call.end(), flags.begin(), flags.end());
    const Outcome outcome = anemone_command(call);
    CHECK_MESSAGE(outcome.status == 0, outcome.err);
    return all_files(folder / "b");
  };
  CHECK(files({"--max-seq-len", "128"}) == files({"--context", "128"}));
  CHECK(files({"--no-int8"}) == files({"--precision", "fp16"}));
  CHECK(files({"--no-int8"}) != files({}));
  CHECK(files({}) == files({"--context", "512", "--tokens", "1,64", "--precision", "int8", "--kv", "state",
                            "--residual-scale", "1"}));
}

TEST_CASE("flags that contradict each other or say nothing sensible are refused in one line") {
  const TempFolder folder;
  const auto refused = [&](const std::vector<std::string>& flags, const std::vector<std::string>& must_say) {
    std::vector<std::string> call = {"convert", demo(), "-o", (folder / "b").string()};
    call.insert(call.end(), flags.begin(), flags.end());
    check_refused(anemone_command(call), must_say);
    CHECK(names_in(folder.path()).empty());
  };
  refused({"--no-int8", "--precision", "int8"}, {"--no-int8", "contradict"});
  refused({"--tokens", "1-4,16"}, {"range of tokens", "several functions", "flexible sizes"});
  refused({"--tokens", "0"}, {"--tokens", "above zero"});
  refused({"--tokens", "4-2"}, {"token"});
  refused({"--context", "abc"}, {"--context", "abc"});
  refused({"--residual-scale", "-1"}, {"--residual-scale", "auto"});
  refused({"--target", "m99"}, {"m99", "m4-max"});
  refused({"--layers", "7"}, {"--layers", "0-3"});
  refused({"--layers", "3-9"}, {"no layers 3 to 9", "0 to 4"});
  refused({"--head-rows", "70000"}, {"--head-rows", "65536"});
  refused({"--precision", "int4"}, {"int4"});
  refused({"--experts", "host"}, {"no experts", "leave out --experts"});
  refused({"--expert-group", "2"}, {"no experts", "leave out --expert-group"});
  refused({"--experts", "some"}, {"--experts", "groups"});
}

TEST_CASE("a model that cannot be converted is refused in one line") {
  const TempFolder folder, out;
  const std::string target = (out / "b").string();
  check_refused(anemone_command({"convert", (folder / "no.gguf").string(), "-o", target}), {"no.gguf"});
  test::GgufBuilder b;
  b.value("general.architecture", "mamba");
  check_refused(anemone_command({"convert", folder.write("m.gguf", b.bytes()).string(), "-o", target}),
                {"mamba", "llama", "qwen3"});
  check_refused(anemone_command({"convert", folder.write("t.gguf", "not a model").string(), "-o", target}),
                {"t.gguf"});
  CHECK(names_in(out.path()).empty());
}

TEST_CASE("a bundle that gives only the best token refuses logits, sampling and perplexity, and says why") {
  const TempFolder folder;
  const std::string bundle = (folder / "b").string();
  CHECK(anemone_command({"convert", demo(), "-o", bundle, "--argmax-output", "--context", "64"}).status == 0);
  check_refused(anemone_command({"run", bundle, "Once", "--temperature", "0.8"}),
                {"only the best token", "--argmax-output"});
  const fs::path ids = folder / "ids.npy";
  write_npy(ids.string(), Array::from<int32_t>({4}, {0, 1439, 821, 262}));
  check_refused(anemone_command({"logits", bundle, "--ids", ids.string(), "-o", (folder / "l.npy").string()}),
                {"only the best token", "--argmax-output"});
  check_refused(anemone_command({"perplexity", bundle, "--ids", ids.string()}),
                {"only the best token", "--argmax-output"});
  const Outcome text = anemone_command({"run", bundle, "Once upon a time", "--raw", "--max-new", "4"});
  CHECK(text.status == 0);
}

TEST_CASE("without -o the bundle is called like the model, and nothing is overwritten") {
  const TempFolder folder;
  std::filesystem::copy(demo(), folder / "demo.gguf");
  const std::string in = "cd '" + folder.path().string() + "' && '" ANEMONE_BINARY "' ";
  const Outcome first = shell(in + "convert demo.gguf --context 64 --tokens 1");
  CHECK(first.status == 0);
  CHECK(first.out.find("\ndemo written in ") != std::string::npos);
  CHECK(first.out.find("anemone run demo ") != std::string::npos);
  const Outcome second = shell(in + "convert demo.gguf --context 64 --tokens 1");
  CHECK(second.out.find("\ndemo-2 written in ") != std::string::npos);
  CHECK(shell(in + "run demo-2 Once --max-new 2").status == 0);
}

TEST_CASE("a bundle is a folder, and is not called like a file") {
  const TempFolder folder;
  for (const char* name : {"x.gguf", "x.safetensors", "x.onnx", "x.json", "x.mlpackage"})
    check_refused(anemone_command({"convert", demo(), "-o", (folder / name).string()}),
                  {"convert writes a bundle", std::string("leave out ") + std::strchr(name, '.')});
}

TEST_CASE("what comes next after a conversion works") {
  const TempFolder folder;
  const Outcome part = anemone_command(
      {"convert", demo(), "-o", (folder / "part").string(), "--layers", "0-0", "--context", "64"});
  CHECK(part.status == 0);
  CHECK(part.out.find("anemone run ") == std::string::npos);
  CHECK(part.out.find("prove it (a few seconds)") != std::string::npos);
  CHECK(part.out.find("anemone verify ") != std::string::npos);
  test::TinyEncoder("BertModel", "bert", 2).write(folder / "encoder");
  spill(folder / "encoder/tokenizer.json", "{\"version\": \n oops");
  const Outcome mute = anemone_command(
      {"convert", (folder / "encoder").string(), "-o", (folder / "mute").string(), "--tokens", "8"});
  CHECK(mute.status == 0);
  CHECK(mute.err.find("is not valid JSON: line 2, column 2") != std::string::npos);
  CHECK(mute.out.find("anemone embed ") == std::string::npos);
  CHECK(mute.out.find("anemone verify ") != std::string::npos);
}

TEST_CASE("what is left open is chosen for the model and the target, and said") {
  const TempFolder folder;
  const auto chosen = [&](const std::string& model, const std::vector<std::string>& flags) {
    std::vector<std::string> call = {"convert",     model,   "-o", (folder / "b").string(),
                                     "--overwrite", "--json"};
    call.insert(call.end(), flags.begin(), flags.end());
    const Outcome outcome = anemone_command(call);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    std::string all;
    const auto report = nlohmann::json::parse(outcome.out);
    for (const auto& one : report.at("chosen")) all += one.get<std::string>() + "\n";
    return all;
  };
  // The demo model was made for 512 positions.
  const std::string context = "context 512: the model's maximum\n",
                    tokens = "tokens 1,64: prompts go through 64 tokens at a time\n";
  CHECK(chosen(demo(), {}) == context + tokens);
  CHECK(chosen(demo(), {"--context", "256"}) == tokens);
  CHECK(chosen(demo(), {"--context", "16"}) == "tokens 1,16: prompts go through 16 tokens at a time\n");
  CHECK(chosen(demo(), {"--context", "256", "--tokens", "1"}) == "");
  CHECK(chosen(demo(), {"--target", "iPhone 15 Pro"}) ==
        context + tokens + "kv packed: iPhones and iPads refuse more than two states\n");
  CHECK(chosen(demo(), {"--palettize", "4", "--fast"}).find("tokens 1: palettes are slow") !=
        std::string::npos);
  if (const auto smollm2 = smollm2_file()) {
    CHECK(chosen(*smollm2, {}).find("residual scale 0.25: the residual stream reaches 2") !=
          std::string::npos);
    CHECK(chosen(*smollm2, {"--residual-scale", "1"}) == tokens);
    CHECK(chosen(*smollm2, {"--layers", "0-3"}) == tokens);  // a quick trial
  }
  const Outcome text = anemone_command({"convert", demo(), "-o", (folder / "b").string(), "--overwrite"});
  for (const char* part : {"\nchosen  context 512: ", "\n        tokens 1,64: ", "\nnext\n", "anemone run ",
                           "anemone verify ", "anemone check "})
    CHECK_MESSAGE(text.out.find(part) != std::string::npos, part);
  // Encoders have lengths of texts, and are tried in another way.
  test::TinyEncoder("BertForSequenceClassification", "bert", 4).write(folder / "encoder");
  CHECK(chosen((folder / "encoder").string(), {}) == "");
}

TEST_CASE("verify advises no other residual scale for what convert chose") {
  const auto smollm2 = smollm2_file();
  if (!smollm2) return;
  const TempFolder folder;
  const std::string bundle = (folder / "b").string();
  REQUIRE(anemone_command({"convert", *smollm2, "-o", bundle, "--tokens", "1", "--context", "256"}).status ==
          0);
  const Outcome verified = anemone_command({"verify", bundle, "--source", *smollm2, "--steps", "1"});
  CHECK(verified.status == 0);
  CHECK(verified.out.find("--residual-scale") == std::string::npos);
  CHECK(anemone_command({"check", bundle}).out.find("residual") == std::string::npos);
}

TEST_CASE("a bundle of a GGUF file carries a tokenizer.json for other programs, beside what we read") {
  const TempFolder folder;
  const std::string bundle = (folder / "b").string();
  REQUIRE(anemone_command({"convert", demo(), "-o", bundle, "--context", "64"}).status == 0);
  CHECK(slurp(folder / "b/bundle.json").find("\"tokenizer.gguf\"") != std::string::npos);
  const std::string written = slurp(folder / "b/tokenizer.json");
  CHECK(nlohmann::json::parse(written).at("model").at("vocab").size() == 2048);
  CHECK(nlohmann::json::parse(slurp(folder / "b/tokenizer_config.json")).contains("tokenizer_class"));
  // The same file alone, and the same ids of it.
  const std::string alone = (folder / "alone.json").string();
  CHECK(anemone_command({"tokenize", demo(), "--export", alone}).status == 0);
  CHECK(slurp(alone) == written);
  const std::string text = "Once upon a time, 123 crabs.";
  CHECK(anemone_command({"tokenize", alone, text}).out == anemone_command({"tokenize", demo(), text}).out);
  check_refused(anemone_command({"tokenize", alone, "--export", (folder / "x.json").string()}), {"already"});
  check_refused(anemone_command({"tokenize", demo(), "Hi", "--export", alone}), {"--export takes no text"});
}

// A bundle whose experts are calls of their own goes through every verb.
TEST_CASE("a model with experts: every way converts, runs, and is inspected; what cannot be is refused") {
  std::string source;  // the first given model with experts that writes text
  for (const fs::path& root : anemone::data_folders("models"))
    for (const auto& entry : fs::directory_iterator(root))
      if (const fs::path config = entry.path() / "config.json"; fs::exists(config)) {
        const std::string text = slurp(config);
        if (text.find("num_experts_per_tok") != std::string::npos &&
            text.find("CausalLM") != std::string::npos && (source.empty() || entry.path().string() < source))
          source = entry.path().string();
      }
  if (source.empty()) {
    MESSAGE("skipped: no given model has experts");
    return;
  }
  const TempFolder folder;
  const std::string target = (folder / "b").string();
  check_refused(anemone_command({"convert", source, "-o", target, "--experts", "host", "--whole"}),
                {"--whole"});
  check_refused(
      anemone_command({"convert", source, "-o", target, "--experts", "host", "--expert-group", "2"}),
      {"--expert-group needs --experts groups"});
  check_refused(anemone_command({"convert", source, "-o", target, "--expert-group", "99"}),
                {"a group has 1 to"});
  std::string text;
  for (const char* way : {"all", "host", "groups"}) {
    CAPTURE(way);
    const Outcome made = anemone_command({"convert", source, "-o", target, "--experts", way, "--precision",
                                          "fp16", "--context", "64", "--overwrite"});
    REQUIRE(made.status == 0);
    const Outcome run = anemone_command({"run", target, "hello", "--temperature", "0", "-n", "8", "--quiet"});
    REQUIRE(run.status == 0);
    if (text.empty()) text = run.out;
    CHECK(run.out == text);
    const Outcome seen = anemone_command({"inspect", target});
    CHECK(seen.status == 0);
    CHECK((seen.out.find(" of layer 1, ") != std::string::npos) == (std::string_view(way) != "all"));
    CHECK(anemone_command({"check", target, "--quiet"}).status == 0);
  }
}
