// Texts that survive a restart: a second scheduler over the same folder knows what the first one read.
#include "serve/session_store.h"

#include <doctest/doctest.h>

#include <fstream>
#include <future>

#include "base/error.h"
#include "runtime/demo.h"
#include "runtime/prompt.h"
#include "serve/scheduler.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::test;
using namespace anemone::serve;

namespace {

class Waiter : public AnswerSink {
 public:
  bool wanted() const override { return true; }
  void token(const Generation&, std::string_view) override {}
  void done(Generation g, std::string_view) override { answer_.set_value(std::move(g)); }
  void failed(const std::exception& problem) override {
    answer_.set_exception(std::make_exception_ptr(errorf("{}", problem.what())));
  }
  Generation wait() { return answer_.get_future().get(); }

 private:
  std::promise<Generation> answer_;
};

struct Demo {
  std::shared_ptr<const Bundle> bundle =
      demo_bundle({.context = {256}, .tokens = {{1, 1}, {16, 16}}}, {.threads = 1});
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(*bundle);
  std::vector<std::string> said;

  SchedulerOptions options(const std::filesystem::path& folder, uint64_t most = 1u << 30) {
    return {.slots = 2,
            .store = {.folder = folder, .most_bytes = most, .say = [this](const std::string& line) {
                        said.push_back(line);
                      }}};
  }
  Generation ask(Scheduler& scheduler, const std::string& prompt) const {
    auto sink = std::make_shared<Waiter>();
    REQUIRE(scheduler.submit(
        {{.prompt = PromptFormat(tokenizer).plain(prompt), .options = {.max_new = 12}, .sink = sink}}));
    return sink->wait();
  }
};

std::string story(const std::string& name) {
  std::string out;
  for (int i = 0; i < 14; ++i) out += name + " went to the sea. ";
  return out;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out.push_back(entry.path());
  return out;
}

}  // namespace

TEST_CASE("a text is known after a restart, and the answer is the same") {
  const TempFolder folder;
  Demo demo;
  Generation first;
  {
    Scheduler scheduler(demo.bundle, demo.tokenizer, demo.options(folder / "cache"));
    first = demo.ask(scheduler, story("Mara"));
    CHECK(first.stats.reused_tokens == 0);
  }
  REQUIRE(files_in(folder / "cache").size() == 1);
  Scheduler scheduler(demo.bundle, demo.tokenizer, demo.options(folder / "cache"));
  CHECK(scheduler.counts().files == 1);
  const Generation again = demo.ask(scheduler, story("Mara"));
  CHECK(again.stats.reused_tokens == again.stats.prompt_tokens - 1);
  CHECK(again.text == first.text);
  CHECK(again.ids == first.ids);
  CHECK(scheduler.counts().files_read == 1);
  const Generation on = demo.ask(scheduler, story("Mara") + first.text + " Then");
  CHECK(on.stats.reused_tokens >= first.stats.prompt_tokens);
  CHECK(demo.said.empty());
}

TEST_CASE("a text is saved in a pause, without a stop") {
  const TempFolder folder;
  Demo demo;
  Scheduler scheduler(demo.bundle, demo.tokenizer, demo.options(folder / "cache"));
  demo.ask(scheduler, story("Mara"));
  for (int i = 0; i < 200 && scheduler.counts().files == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(scheduler.counts().files == 1);
  CHECK(scheduler.counts().file_bytes > 0);
}

TEST_CASE("damaged files and files of others are said and not used") {
  const TempFolder folder;
  Demo demo;
  {
    demo.ask(*std::make_unique<Scheduler>(demo.bundle, demo.tokenizer, demo.options(folder / "cache")),
             story("Mara"));
  }
  const auto file = files_in(folder / "cache").at(0);
  {
    std::fstream change(file, std::ios::in | std::ios::out | std::ios::binary);
    change.seekp(-40, std::ios::end);  // in an array: found when it is read
    change.put('\x55').put('\x55');
  }
  std::ofstream(folder / "cache" / "noise.session") << "not a session";
  Scheduler scheduler(demo.bundle, demo.tokenizer, demo.options(folder / "cache"));
  REQUIRE(demo.said.size() == 1);
  CHECK(demo.said[0].find("noise.session") != std::string::npos);
  CHECK(demo.ask(scheduler, story("Mara")).stats.reused_tokens == 0);
  REQUIRE(demo.said.size() == 2);
  CHECK(demo.said[1].find("checksum") != std::string::npos);
  const auto other = demo_bundle({.context = {128}, .tokens = {{1, 1}, {16, 16}}}, {.threads = 1});
  demo.said.clear();
  Scheduler foreign(other, demo.tokenizer, demo.options(folder / "cache"));
  CHECK(foreign.counts().files == 0);
  REQUIRE(demo.said.size() == 2);
  CHECK(demo.said[1].find("other models") != std::string::npos);
}

TEST_CASE("the folder keeps to its limit, and the file that was used least lately goes first") {
  const TempFolder folder;
  Demo demo;
  for (const char* name : {"Mara", "Tom", "Ann"}) {
    Scheduler scheduler(demo.bundle, demo.tokenizer, demo.options(folder / "cache"));
    demo.ask(scheduler, story(name));
  }
  REQUIRE(files_in(folder / "cache").size() == 3);
  uint64_t all = 0;
  for (const auto& f : files_in(folder / "cache")) all += std::filesystem::file_size(f);
  {
    Scheduler scheduler(demo.bundle, demo.tokenizer, demo.options(folder / "cache"));
    CHECK(demo.ask(scheduler, story("Mara")).stats.reused_tokens > 50);  // now the one used last
  }
  Scheduler scheduler(demo.bundle, demo.tokenizer, demo.options(folder / "cache", all - 1));
  CHECK(scheduler.counts().files == 2);
  CHECK(demo.ask(scheduler, story("Tom")).stats.reused_tokens < 50);
  CHECK(demo.ask(scheduler, story("Mara")).stats.reused_tokens > 50);
}
