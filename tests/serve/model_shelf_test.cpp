// Models by name: loaded when asked for, dropped when idle, and ended in order.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "runtime/demo.h"
#include "runtime/prompt.h"
#include "serve/api_error.h"
#include "serve/served_model.h"

using namespace anemone;
using namespace anemone::test;
using namespace anemone::serve;

namespace {

// A client's answer: it holds on to its model, as the replies of the API do.
struct Holder : AnswerSink {
  explicit Holder(std::shared_ptr<ServedModel> m) : model(std::move(m)) {}
  bool wanted() const override { return true; }
  void token(const Generation&, std::string_view) override {
    ++tokens;
    while (hold && *hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void done(Generation, std::string_view) override { ended = true; }
  void failed(const std::exception& problem) override {
    status = as_api_error(problem).status();
    ended = true;
  }
  std::shared_ptr<ServedModel> model;
  const std::atomic<bool>* hold = nullptr;
  std::atomic<int> tokens = 0, status = 200;
  std::atomic<bool> ended = false;
};

struct Shelf {
  std::filesystem::path path =
      demo_bundle({.context = {256}, .tokens = {{1, 1}, {16, 16}}}, {.threads = 1})->path();
  ModelShelf models;

  explicit Shelf(double idle_seconds = 0)
      : models({{"one", path}, {"two", path}},
               {.scheduler = {.slots = 2},
                .backend_for = [](BundleKind) { return cpu_backend({.threads = 1}); },
                .chat_template = "",
                .idle_seconds = idle_seconds}) {}

  std::vector<std::string> loaded() const {
    std::vector<std::string> out;
    for (const auto& listed : models.list())
      if (listed.loaded) out.push_back(listed.name);
    return out;
  }
  // A long answer of this model, by a client that holds on to it alone.
  std::weak_ptr<Holder> start(const std::string& name, const std::atomic<bool>* hold = nullptr) {
    const auto model = models.get(name);
    auto sink = std::make_shared<Holder>(model);
    sink->hold = hold;
    const std::weak_ptr<Holder> out = sink;
    REQUIRE(model->scheduler()->submit({{.prompt = PromptFormat(model->tokenizer()).plain("Once"),
                                         .options = {.max_new = 200, .ignore_eos = true},
                                         .sink = std::move(sink)}}));
    return out;
  }
};

}  // namespace

TEST_CASE("a model is loaded when asked for and dropped when idle, but never under an answer") {
  Shelf shelf(0.05);
  CHECK(shelf.loaded().empty());
  shelf.models.get("");  // the first one
  shelf.models.get("two");
  CHECK(shelf.loaded() == std::vector<std::string>{"one", "two"});
  CHECK_THROWS_AS(shelf.models.get("three"), ApiError);

  // An answer that cannot end before it is let go.
  std::atomic<bool> hold = true;
  const std::weak_ptr<Holder> answer = shelf.start("two", &hold);
  while (answer.lock()->tokens == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  shelf.models.drop_idle();
  CHECK(shelf.loaded() == std::vector<std::string>{"two"});
  hold = false;
  while (!answer.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  shelf.models.drop_idle();
  shelf.models.drop_idle();  // the end of an answer counts as use; the first call may have seen it
  CHECK(shelf.loaded().empty());
  CHECK(shelf.models.counts().new_tokens == 200);  // a counter never goes back
  CHECK(shelf.models.counts().cached_sessions == 0);
  CHECK(shelf.models.get("two")->name() == "two");
}

TEST_CASE("models are dropped and loaded by many at once") {
  Shelf shelf(1e-9);
  std::atomic<bool> stop = false;
  std::thread dropper([&] {
    while (!stop) shelf.models.drop_idle();
  });
  std::vector<std::thread> clients;
  std::atomic<int> right = 0;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&, i] {
      for (int k = 0; k < 4; ++k) {
        const auto model = shelf.models.get(i % 2 ? "one" : "two");
        const auto sink = std::make_shared<Holder>(nullptr);
        const bool taken =
            model->scheduler()->submit({{.prompt = PromptFormat(model->tokenizer()).plain("Once"),
                                         .options = {.max_new = 3, .ignore_eos = true},
                                         .sink = sink}});
        while (taken && !sink->ended) std::this_thread::yield();
        right += taken && sink->status == 200;
      }
    });
  for (std::thread& client : clients) client.join();
  stop = true;
  dropper.join();
  CHECK(right == 12);
}

TEST_CASE("at the end answers under way hear that the server stops, and then their model goes") {
  Shelf shelf;
  const auto model = shelf.models.get("one");
  const auto sink = std::make_shared<Holder>(nullptr);
  // The first answer is held by its client alone: nobody else knows the model when its scheduler ends.
  const std::weak_ptr<Holder> first = shelf.start("two");
  REQUIRE(model->scheduler()->submit({{.prompt = PromptFormat(model->tokenizer()).plain("Once"),
                                       .options = {.max_new = 250, .ignore_eos = true},
                                       .sink = sink}}));
  while (sink->tokens == 0 && !sink->ended) std::this_thread::yield();
  shelf.models.drop_all();
  CHECK(first.expired());
  CHECK(sink->ended);
  CHECK((sink->status == 503 || sink->tokens >= 249));
  CHECK(shelf.loaded().empty());
  CHECK(!model->scheduler()->submit({}));  // it takes no more
}
