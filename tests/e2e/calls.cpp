#include "e2e/calls.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "e2e/command.h"
#include "support/data.h"
#include "support/tiny_encoder.h"

namespace anemone::e2e {

std::vector<std::string> verbs() {
  std::vector<std::string> out;
  for (const auto& verb : nlohmann::json::parse(anemone_command({"help", "--json"}).out))
    out.push_back(verb.at("verb"));
  return out;
}

// demo.gguf, its bundle demo, a classifier's bundle classes, ids.npy, text.txt, chat.json and form.jinja.
Calls::Calls() {
  std::filesystem::copy(source_dir() / "examples/demo_model/demo.gguf", folder_ / "demo.gguf");
  test::TinyEncoder("BertForSequenceClassification", "bert", 4).write(folder_ / "encoder");
  const auto convert = [&](const std::string& model, const std::string& bundle,
                           const std::vector<std::string>& flags) {
    std::vector<std::string> call = {"convert", path(model), "-o", path(bundle), "--quiet"};
    call.insert(call.end(), flags.begin(), flags.end());
    const Outcome made = anemone_command(call);
    REQUIRE_MESSAGE(made.status == 0, made.err);
  };
  convert("demo.gguf", "demo", {"--context", "128", "--tokens", "1"});
  convert("encoder", "classes", {"--tokens", "8", "--precision", "fp16"});
  write_npy(folder_ / "ids.npy", Array::from<int32_t>({4}, {2, 4, 5, 3}));
  folder_.write("text.txt", "One morning Mara went to the tide pool.");
  folder_.write("chat.json", R"([{"role": "user", "content": "Hello"}])");
  const std::string form = folder_.write("form.jinja", "{{ messages[0].content }}").string();
  // The demo model has no chat template: a tokenizer's folder that has one.
  std::filesystem::create_directories(folder_ / "words");
  std::filesystem::copy(source_dir() / "tests/data/sentencepiece_bpe.model",
                        folder_ / "words/tokenizer.model");
  std::filesystem::copy(folder_ / "form.jinja", folder_ / "words/chat_template.jinja");
  const std::string demo = path("demo"), model = path("demo.gguf"), ids = path("ids.npy");
  const std::string package = path("demo/layers_00.mlpackage");
  all_ = {{"fetch", {model}},
          {"plan", {model}},
          {"convert", {model, "-o", path("new-bundle"), "--context", "64"}},
          {"compress", {demo, "-o", path("new-small"), "--palettize", "4", "--fast"}},
          {"check", {demo}},
          {"doctor", {"error", "code:", "-14"}},
          {"verify", {demo, "--source", model, "--steps", "2", "--arith", "fp32"}},
          {"golden", {demo, "-o", path("new.npz"), "--ids", ids, "--steps", "1"}},
          {"perplexity", {demo, "--text", path("text.txt"), "--most", "8"}},
          {"logits", {demo, "--ids", ids, "-o", path("new.npy")}},
          {"bench", {demo, "--fill", "4", "--tokens", "2"}},
          {"warm", {demo}},
          {"serve", {demo, "--port", "0"}},
          {"run", {demo, "Once", "--max-new", "2"}},
          {"chat", {demo, "--max-new", "2"}},
          {"translate", {demo, "--to", "fr", "--template", form, "Hi.", "--max-new", "2"}},
          {"embed", {path("classes"), "--ids", ids}},
          {"classify", {path("classes"), "--ids", ids}},
          {"redact", {path("text.txt")}},
          {"tokenize", {model, "Once upon a time"}},
          {"template", {path("words"), "--messages", path("chat.json")}},
          {"inspect", {demo}},
          {"predict", {recall_package().string(), "--inputs", recall_steps().front().string()}},
          {"completion", {"fish"}},
          {"help", {"run"}}};
}

}  // namespace anemone::e2e
