// From a prompt to an answer: what ends it, what speculation may not change, what is refused.
#include "runtime/generate.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "engine/cpu_backend.h"
#include "runtime/demo.h"
#include "runtime/prompt.h"
#include "runtime/translate.h"
#include "text/tokenizer/gguf_vocabulary.h"

using namespace anemone;
using namespace anemone::test;

namespace {

using Ids = std::vector<int32_t>;

struct Demo {
  std::shared_ptr<const Bundle> bundle;
  std::shared_ptr<const Tokenizer> tokenizer;

  explicit Demo(ConvertOptions options = {.context = {128}, .tokens = {{1, 1}, {4, 4}}},
                const PredictOptions& run = {.threads = 1})
      : bundle(demo_bundle(std::move(options), run)), tokenizer(load_tokenizer(*bundle)) {}

  Generation ask(const std::string& prompt, GenerateOptions options) const {
    Session session(bundle);
    return Generator(tokenizer, std::move(options)).run(session, PromptFormat(tokenizer).plain(prompt));
  }
};

const std::string kPrompt = "One morning Mara went to the tide pool with";

Generation generate(const std::shared_ptr<const Bundle>& bundle, const Ids& prompt, GenerateOptions options) {
  Session session(bundle);
  return Generator(nullptr, std::move(options)).run(session, prompt);
}

}  // namespace

TEST_CASE("an answer is the model's text, streamed in pieces that make the whole") {
  const Demo demo;
  for (const DemoCase& c : demo_cases()) {
    CAPTURE(c.prompt);
    std::string streamed;
    std::vector<int64_t> progress;
    GenerateOptions options{.max_new = 40, .ignore_eos = true};
    options.on_text = [&](std::string_view piece) { streamed += piece; };
    options.on_prefill = [&](int64_t done, int64_t total) {
      CHECK(total == static_cast<int64_t>(c.prompt_ids.size()));
      progress.push_back(done);
    };
    const Generation g = demo.ask(c.prompt, options);
    CHECK(streamed == g.text);
    CHECK(g.ids.size() == 40);
    CHECK(g.why == StopReason::length);
    CHECK(progress.front() == 0);
    CHECK(progress.back() == static_cast<int64_t>(c.prompt_ids.size()));
    CHECK(std::is_sorted(progress.begin(), progress.end()));
    const auto differs =
        std::mismatch(g.ids.begin(), g.ids.end(), c.greedy_ids.begin()).first - g.ids.begin();
    if (differs == 40)
      CHECK(g.text == c.text);
    else
      CHECK(c.margins[static_cast<size_t>(differs)] < 0.5);  // int8 weights: only a close choice may differ
  }
}

TEST_CASE("an answer ends by its length, its end, a stop text, a repeat, the context") {
  const Demo demo;
  Generation g = demo.ask(kPrompt, {.max_new = 3});
  CHECK(g.ids.size() == 3);
  CHECK(g.why == StopReason::length);
  CHECK(demo.ask(kPrompt, {.max_new = 0}).ids.empty());

  const std::string whole = demo.ask(kPrompt, {.max_new = 60}).text;
  // From the middle of one word into the next: no token ends there.
  for (const std::string& stop :
       {whole.substr(21, 6), whole.substr(40, 9), whole.substr(3, 1), std::string(".")}) {
    CAPTURE(stop);
    std::string streamed;
    GenerateOptions options{.max_new = 60, .stops = {"never said", stop}};
    options.on_text = [&](std::string_view piece) { streamed += piece; };
    g = demo.ask(kPrompt, options);
    CHECK(g.text == whole.substr(0, whole.find(stop)));
    CHECK(streamed == g.text);
    CHECK(g.why == StopReason::stop_text);
    CHECK(g.stop == stop);
  }

  g = demo.ask(kPrompt, {.max_new = 110, .stop_ngram = 4});
  CHECK(g.why == StopReason::repetition);
  const Ids tail(g.ids.end() - 4, g.ids.end());
  CHECK(std::search(g.ids.begin(), g.ids.end(), tail.begin(), tail.end()) != g.ids.end() - 4);

  g = demo.ask(kPrompt, {.max_new = 1000, .ignore_eos = true});
  CHECK(g.why == StopReason::context);
  CHECK(g.stats.prompt_tokens + static_cast<int64_t>(g.ids.size()) == 128 + 1);  // the last is not fed

  g = demo.ask("Question: What does a crab eat?\nAnswer:", {.max_new = 110});
  CHECK(g.why == StopReason::end_of_text);
  CHECK(g.text.find("<|") == std::string::npos);
}

TEST_CASE("an answer can be stopped, in the prompt and in the text") {
  const Demo demo;
  Session session(demo.bundle);
  const Ids prompt = PromptFormat(demo.tokenizer).plain(kPrompt);
  int asked = 0;
  GenerateOptions options{.max_new = 60};
  options.keep_going = [&] { return ++asked < 2; };
  Generation g = Generator(demo.tokenizer, options).run(session, prompt);
  CHECK(g.why == StopReason::cancelled);
  CHECK(g.ids.empty());
  CHECK(session.position() == 4);
  options.keep_going = [&] { return asked++ < 20; };
  asked = 0;
  g = Generator(demo.tokenizer, options).run(session, prompt);
  CHECK(g.why == StopReason::cancelled);
  CHECK(g.ids.size() > 2);
  // What was said is what would have been said.
  const Generation whole = demo.ask(kPrompt, {.max_new = 60});
  CHECK(whole.text.starts_with(g.text));
  CHECK(Generator(demo.tokenizer, {.max_new = 60}).run(session, prompt).text == whole.text);
}

TEST_CASE("a session's past is used again for the next prompt") {
  const Demo demo;
  Session session(demo.bundle);
  const Generator generator(demo.tokenizer, {.max_new = 10});
  const Ids prompt = PromptFormat(demo.tokenizer).plain(kPrompt);
  const Generation first = generator.run(session, prompt);
  CHECK(first.stats.reused_tokens == 0);
  // The same again: all but the last token is known.
  CHECK(generator.run(session, prompt).ids == first.ids);
  CHECK(generator.run(session, prompt).stats.reused_tokens == static_cast<int64_t>(prompt.size()) - 1);
  // The conversation goes on: prompt and answer are known, but the answer's last token.
  Ids longer = prompt;
  longer.insert(longer.end(), first.ids.begin(), first.ids.end());
  longer.push_back(prompt[1]);
  const Generation second = generator.run(session, longer);
  CHECK(second.stats.reused_tokens == static_cast<int64_t>(longer.size()) - 2);
  CHECK(second.ids == generate(demo.bundle, longer, {.max_new = 10}).ids);
}

TEST_CASE("sliding goes on past the context's end, as a fresh session on the kept text would") {
  const Demo demo({.context = {32}});
  const Ids prompt = PromptFormat(demo.tokenizer).plain(kPrompt);
  Session session(demo.bundle);
  const Generation g =
      Generator(demo.tokenizer, {.max_new = 40, .ignore_eos = true, .slide = true}).run(session, prompt);
  CHECK(g.ids.size() == 40);
  CHECK(g.stats.slides == 2);  // 32 rows, then 28 - 14 = 14 more each time
  // The same by hand: when 32 tokens are in, keep 4 and 14 of them.
  Ids all = prompt, window = prompt;
  while (all.size() < prompt.size() + 40) {
    Session one(demo.bundle);
    Ids feed = window;
    const auto next = static_cast<int32_t>(one.forward_best(feed));
    all.push_back(next);
    if (window.size() == 32) {
      Ids kept(window.begin(), window.begin() + 4);
      kept.insert(kept.end(), window.end() - 14, window.end());
      window = kept;
    }
    window.push_back(next);
  }
  CHECK(Ids(all.begin() + static_cast<ptrdiff_t>(prompt.size()), all.end()) == g.ids);
}

// The full sweep over forms, models and prompts is in corpus/generate_corpus.cpp.
TEST_CASE("speculation changes no token") {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
    const Demo demo({.context = {32, 96}, .tokens = {{1, 1}, {4, 4}}},
                    {.arithmetic = arithmetic, .threads = 1});
    GenerateOptions options{.max_new = 100, .ignore_eos = true, .slide = true};
    const Generation plain = demo.ask(kPrompt, options);
    options.speculate = 3;
    const Generation drafted = demo.ask(kPrompt, options);
    CHECK(drafted.ids == plain.ids);
    CHECK(drafted.text == plain.text);
    CHECK(drafted.stats.slides == plain.stats.slides);
    CHECK(drafted.stats.accepted > (arithmetic == Arithmetic::fast ? 1 : 5));  // else this shows nothing
    CHECK(drafted.stats.accepted <= drafted.stats.drafted);
    CHECK(drafted.stats.calls < plain.stats.calls);
    CHECK(drafted.stats.replayed == 0);  // drafts are computed as without speculation
    CHECK(drafted.stats.acceptance() == doctest::Approx(static_cast<double>(drafted.stats.accepted) /
                                                        static_cast<double>(drafted.stats.drafted)));
  }
}

// One state for all layers is in use from the first projection to the last, so drafts need calls of several tokens.
TEST_CASE("speculation changes no token where drafts are calls of several tokens") {
  const Demo demo({.context = {128}, .tokens = {{1, 1}, {4, 4}}, .kv = lower::KvKind::packed});
  GenerateOptions options{.max_new = 60, .ignore_eos = true};
  const Generation plain = demo.ask(kPrompt, options);
  options.speculate = 3;
  const Generation drafted = demo.ask(kPrompt, options);
  CHECK(drafted.ids == plain.ids);
  CHECK(drafted.stats.accepted > 1);  // else this shows nothing
  CHECK(drafted.stats.calls < plain.stats.calls);
}

TEST_CASE("speculation stops where greedy stops, and leaves the session where greedy leaves it") {
  const Demo demo({.context = {128}, .tokens = {{1, 4}}});
  {
    const DemoCase c = demo_cases().at(0);
    const std::string text = demo.ask(c.prompt, {.max_new = 60}).text;
    for (GenerateOptions options :
         {GenerateOptions{.max_new = 60}, GenerateOptions{.max_new = 41},
          GenerateOptions{.max_new = 60, .stop_ngram = 3},
          GenerateOptions{.max_new = 60, .stops = {text.substr(text.size() / 2, 5)}}}) {
      Session one(demo.bundle), other(demo.bundle);
      const Generation plain = Generator(demo.tokenizer, options).run(one, c.prompt_ids);
      options.speculate = 3;
      const Generation drafted = Generator(demo.tokenizer, options).run(other, c.prompt_ids);
      CHECK(drafted.ids == plain.ids);
      CHECK(drafted.text == plain.text);
      CHECK(drafted.why == plain.why);
      CHECK(other.ids() == one.ids());
    }
  }
}

TEST_CASE("argmax bundles give the same greedy text, and refuse what needs logits") {
  const Demo demo({.context = {128}, .tokens = {{1, 1}, {4, 4}}, .argmax = true});
  CHECK(demo.ask(kPrompt, {.max_new = 40}).text == Demo().ask(kPrompt, {.max_new = 40}).text);
  const auto refused = [&](const GenerateOptions& o) { return error_of([&] { demo.ask(kPrompt, o); }); };
  CHECK(refused({.sampling = {.temperature = 0.7}}).find("only the best token") != std::string::npos);
  CHECK(refused({.sampling = {.repetition_penalty = 1.1}}).find("only the best token") != std::string::npos);
  CHECK(refused({.speculate = 3}).find("only the best token") != std::string::npos);
}

TEST_CASE("options that cannot be met are refused before anything runs") {
  const Demo narrow({.context = {32}, .kv = lower::KvKind::packed});
  const auto refused = [&](const GenerateOptions& o, const std::string& prompt = kPrompt) {
    return error_of([&] { narrow.ask(prompt, o); });
  };
  CHECK(refused({.speculate = 3}).find("--tokens 1-4") != std::string::npos);
  CHECK(refused({.sampling = {.temperature = 1}, .speculate = 3}).find("greedy") != std::string::npos);
  CHECK(refused({.max_new = -1}).find("below zero") != std::string::npos);
  CHECK(refused({.stops = {""}}).find("stop string") != std::string::npos);
  std::string longer;
  while (longer.size() < 500) longer += kPrompt + " ";
  CHECK(refused({}, longer).find("the context holds 32") != std::string::npos);
  Session session(narrow.bundle);
  CHECK_THROWS_AS(Generator(nullptr, {}).run(session, Ids{}), Error);
  CHECK_THROWS_AS(Generator(nullptr, {.stops = {"x"}}), Error);
}

TEST_CASE("sampling depends on the seed and on nothing else") {
  const Demo demo;
  const auto with = [&](uint64_t seed) {
    return demo.ask(kPrompt, {.max_new = 30, .sampling = {.temperature = 1.2, .top_k = 40, .seed = seed}})
        .text;
  };
  CHECK(with(1) == with(1));
  CHECK(with(1) != with(2));
}

TEST_CASE("conversations are rendered by the model's template, or as one text where there is none") {
  const Demo demo;
  const PromptFormat plain(demo.tokenizer);
  CHECK_FALSE(plain.has_turns());
  CHECK(plain.text({{"user", "One"}, {"assistant", " two."}, {"user", "Three"}}) == "One two.\nThree");
  CHECK(plain.conversation({{"user", kPrompt}}) == plain.plain(kPrompt));
  CHECK(plain.plain(kPrompt).front() == demo.tokenizer->bos());
  const PromptFormat turns(
      demo.tokenizer,
      "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}");
  CHECK(turns.has_turns());
  CHECK(turns.text({{"system", "Be brief."}, {"user", "Hi"}}) ==
        "<|bos|>[system] Be brief.\n[user] Hi\n[assistant]");
  CHECK(turns.conversation({{"user", "Hi"}}) == demo.tokenizer->encode("<|bos|>[user] Hi\n[assistant]"));
}

TEST_CASE("a translation model is asked as it was trained, others in plain words") {
  const Demo demo;
  CHECK(error_of([&] { Translator(*demo.bundle, demo.tokenizer); }).find("no chat template") !=
        std::string::npos);
  const Translator general(*demo.bundle, demo.tokenizer, "{{ messages[0].content }}");
  CHECK_FALSE(general.trained());
  const Language &french = find_language("fr"), &english = find_language("en");
  CHECK(general.request("Hi.", french, &english) ==
        "Translate the following text from English into French. Answer with the translation only.\n\nHi.");
}

TEST_CASE("Hunyuan's turns are known by its tokens where a file came without its chat template") {
  // The demo's vocabulary with the special tokens of the 1.8B model, then of the 7B.
  const TempFolder folder;
  const Demo demo({.context = {32}});
  std::filesystem::copy(demo.bundle->path(), folder / "hy", std::filesystem::copy_options::recursive);
  std::string info = slurp(folder / "hy/bundle.json");
  const std::string family = "\"family\": \"llama\"";
  REQUIRE(info.find(family) != std::string::npos);
  spill(folder / "hy/bundle.json", info.replace(info.find(family), family.size(), "\"family\": \"hunyuan\""));
  const auto bundle = Bundle::open(folder / "hy", cpu_backend({.threads = 1}));
  const auto with = [&](const std::vector<std::string>& tokens) {
    TokenizerSpec spec = read_gguf_vocabulary(GgufFile::open(demo_model()));
    int32_t id = 2048;
    for (const std::string& token : tokens) {
      AddedToken added;
      added.content = token;
      added.id = id++;
      added.special = true;
      spec.added.push_back(added);
    }
    return Tokenizer::make(std::move(spec));
  };
  const Language& french = find_language("fr");
  const auto small = with({"<｜hy_begin▁of▁sentence｜>", "<｜hy_User｜>", "<｜hy_Assistant｜>"});
  const Translator one(*bundle, small);
  CHECK(one.trained());
  const Ids ids = one.prompt("Good morning.", french);
  CHECK(ids[0] == 2048);
  CHECK(ids[1] == 2049);
  CHECK(ids.back() == 2050);
  CHECK(small->decode(std::span(ids).subspan(2, ids.size() - 3)) ==
        "Translate the following segment into French, without additional explanation.\n\nGood morning.");
  const Ids large =
      Translator(*bundle, with({"<|startoftext|>", "<|extra_0|>"})).prompt("Good morning.", french);
  CHECK(large.front() == 2048);
  CHECK(large.back() == 2049);
  CHECK(error_of([&] { Translator(*bundle, with({})); }).find("no chat template") != std::string::npos);
}
