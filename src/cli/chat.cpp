// `anemone chat`: a conversation with a bundle.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_problem.h"
#include "base/json_text.h"
#include "base/paths.h"
#include "base/staged.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/generation.h"
#include "cli/input.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/source.h"
#include "runtime/prompt.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Args {
  std::string bundle, system, load;
  GenerationFlags flags;
};

constexpr std::string_view kChatHelp =
    "/help           this list\n"
    "/reset          forget the conversation\n"
    "/undo           remove the last question and its answer\n"
    "/system TEXT    instructions for the model; without TEXT: none\n"
    "/history        the conversation so far\n"
    "/save FILE      write the conversation, as JSON messages\n"
    "/load FILE      continue a saved conversation\n"
    "/stats          the figures of the last answer\n"
    "/quit           leave (so does Ctrl-D)\n"
    "The other settings (--temperature, --max-new, --seed, --stop, --slide, --template …) are given when "
    "chat\n"
    "starts: anemone chat --help lists them.\n"
    "A line that ends with \\ continues on the next one. Pasted text stays one question. Ctrl-C stops an "
    "answer.\n";

volatile std::sig_atomic_t interrupted = 0;

// Ctrl-C sets a flag while this lives. Without SA_RESTART, so that it also ends the reading of a line.
class Interrupts {
 public:
  Interrupts() { ::sigaction(SIGINT, nullptr, &before_); }
  // Again after each line: a line editor may set it to what it thinks it was.
  void arm() const {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, nullptr);
  }
  ~Interrupts() { ::sigaction(SIGINT, &before_, nullptr); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction before_ {};
};

Json to_json(const std::vector<Message>& messages) {
  Json out = Json::array();
  for (const Message& m : messages) out.push_back({{"role", m.role}, {"content", m.content}});
  return out;
}

std::vector<Message> read_messages(const std::string& path) {
  std::vector<Message> out;
  const std::string text = read_text(path);
  try {
    for (const Json& m : Json::parse(text))
      out.push_back({m.at("role").get<std::string>(), m.at("content").get<std::string>()});
  } catch (const Json::exception& e) {
    throw json_error(e, text, "is not a conversation")
        .at(path)
        .expected("a JSON list of {\"role\", \"content\"}");
  }
  return out;
}

class Chat {
 public:
  Chat(const Args& args, const Common& common)
      : args_(args),
        common_(common),
        model_(open_model(args.bundle, args.flags, common)),
        format_(model_.tokenizer, model_.chat_template),
        generator_(model_.tokenizer, options()),
        session_(model_.bundle),
        seed_(generator_.options().sampling.seed) {
    if (!args.load.empty()) messages_ = read_messages(args.load);
    if (!args.system.empty()) set_system(args.system);
    args.flags.note_idle(common);
  }

  int run() {
    const Interrupts interrupts;
    leave_interrupts_to_this_thread();
    if (reader_.terminal() && !common_.quiet)
      fmt::print(stderr, "{}, context {}. /help lists the commands.\n",
                 model_.bundle->info().name.empty() ? args_.bundle : model_.bundle->info().name,
                 session_.capacity());
    if (!format_.has_turns())
      note(common_, "the model has no chat template: what you type is continued as one text");
    while (std::optional<std::string> line = next_line(interrupts)) {
      try {
        if (line->starts_with('/')) {
          if (!command(*line)) break;
        } else if (line->find_first_not_of(" \t") != std::string::npos) {
          answer(*line);
        }
      } catch (const OutputError&) {
        throw;
      } catch (const Error& e) {  // a wrong line does not end the conversation
        std::fflush(stdout);
        fmt::print(stderr, "{} {}\n", common_.err(Ink::bad, "error:"), e.what());
      }
    }
    return 0;
  }

 private:
  GenerateOptions options() const {
    GenerateOptions o = args_.flags.options();
    o.keep_going = [] { return interrupted == 0; };
    o.on_prefill = prefill_progress(common_);
    if (!common_.json) o.on_text = show_text;
    return o;
  }

  std::optional<std::string> next_line(const Interrupts& interrupts) {
    std::string whole;
    while (true) {
      interrupts.arm();
      const std::optional<std::string> line = reader_.read(whole.empty() ? "> " : "… ");
      interrupts.arm();
      if (reader_.interrupted()) {
        if (!common_.quiet) fmt::print(stderr, "{}\n", common_.err(Ink::faint, "(/quit or Ctrl-D leaves)"));
        whole.clear();
        continue;
      }
      if (!line) return whole.empty() ? std::nullopt : std::optional(whole);
      interrupted = 0;
      if (!line->ends_with('\\')) return whole + *line;
      whole += line->substr(0, line->size() - 1) + "\n";
    }
  }

  // The tokens of the conversation. Too long: with --slide the oldest turns go, else the last question does.
  std::vector<int32_t> prompt() {
    const int64_t room = session_.capacity() - std::min(args_.flags.max_new, session_.capacity() / 4);
    while (true) {
      std::vector<int32_t> ids = format_.conversation(messages_);
      if (static_cast<int64_t>(ids.size()) <= (args_.flags.slide ? room : session_.capacity() - 1))
        return ids;
      const auto first = std::find_if(messages_.begin(), messages_.end(),
                                      [](const Message& m) { return m.role != "system"; });
      if (!args_.flags.slide || messages_.end() - first < 3)
        throw errorf("the conversation has {} tokens, and the context holds {}", ids.size(),
                     session_.capacity())
            .hint("/undo or /reset, or chat with --slide");
      messages_.erase(first, first + 2);
      note(common_, "the context is full; the oldest question is forgotten");
    }
  }

  void answer(const std::string& question) {
    const std::vector<Message> before = messages_;
    messages_.push_back({"user", question});
    Generation g;
    try {
      g = generator_.run(session_, prompt(), seed_++);  // after /undo the same question is answered anew
    } catch (const Error&) {
      messages_ = before;
      throw;
    }
    messages_.push_back({"assistant", g.text});
    const bool in_prompt = g.why == StopReason::cancelled && g.ids.empty();
    if (in_prompt) {  // there is no answer: the question was not asked
      messages_ = before;
      clear_progress(common_);
    }
    if (common_.json)
      show_text(json_text(figures_json(g, session_)) + "\n");
    else if (!in_prompt)
      show_text("\n");
    if (!common_.quiet) print_end(g);
    interrupted = 0;
    last_ = std::move(g);
  }

  void print_end(const Generation& g) const {
    std::string why;
    if (g.why == StopReason::cancelled) why = "stopped";
    if (g.why == StopReason::length)
      why = fmt::format("cut off after {}: --max-new", counted(static_cast<int64_t>(g.ids.size()), "token"));
    if (g.why == StopReason::context) why = "the context is full: /undo, /reset or --slide";
    if (!why.empty()) fmt::print(stderr, "{}\n", common_.err(Ink::faint, "[" + why + "]"));
    if (args_.flags.stats) fmt::print(stderr, "{}", figures_table(g, session_, seed_text(g)));
  }

  // Each answer has a seed of its own, counted on from the first one: that one repeats the conversation.
  std::string seed_text(const Generation& g) const {
    if (!g.seed) return "";
    const uint64_t first = generator_.options().sampling.seed;
    return fmt::format("seed {}, answer {}", first, *g.seed - first + 1);
  }

  void set_system(const std::string& text) {
    std::erase_if(messages_, [](const Message& m) { return m.role == "system"; });
    if (text.empty()) return;
    if (!format_.has_turns()) throw errorf("the model has no chat template, so there is no place for it");
    messages_.insert(messages_.begin(), {"system", text});
  }

  void undo() {
    const auto last =
        std::find_if(messages_.rbegin(), messages_.rend(), [](const Message& m) { return m.role == "user"; });
    if (last == messages_.rend()) throw errorf("there is nothing to take back");
    messages_.erase(last.base() - 1, messages_.end());
  }

  void save(const std::string& file) {
    if (file.empty()) throw errorf("/save takes the name of a file");
    expect_apart(args_.bundle, file);
    check_file_output(file);
    StagedOutput staged(file, true);
    std::ofstream out(staged.path(), std::ios::binary);
    out << json_text(to_json(messages_), 1) << "\n";
    out.close();
    if (!out) throw errorf("cannot be written").at(file);
    staged.commit();
    say("saved " + counted(static_cast<int64_t>(messages_.size()), "message"));
  }

  void say(const std::string& text) const {
    if (!common_.quiet) fmt::print(stderr, "{}\n", text);
  }

  // False: leave.
  bool command(const std::string& line) {
    const size_t space = std::min(line.find_first_of(" \t"), line.size());
    const std::string verb = line.substr(0, space);
    const size_t start = std::min(line.find_first_not_of(" \t", space), line.size());
    const std::string rest = line.substr(start, line.find_last_not_of(" \t") + 1 - start);
    if (verb == "/quit" || verb == "/exit") return false;
    if (verb == "/help") {
      fmt::print("{}", kChatHelp);
    } else if (verb == "/reset") {
      std::erase_if(messages_, [](const Message& m) { return m.role != "system"; });
      say("forgotten");
    } else if (verb == "/undo") {
      undo();
    } else if (verb == "/system") {
      set_system(rest);
    } else if (verb == "/history") {
      for (const Message& m : messages_) fmt::print("{}: {}\n", m.role, m.content);
    } else if (verb == "/save") {
      save(rest);
    } else if (verb == "/load") {
      messages_ = read_messages(rest);
      say("loaded " + counted(static_cast<int64_t>(messages_.size()), "message"));
    } else if (verb == "/stats") {
      if (!last_) throw errorf("there is no answer yet");
      fmt::print("{}", figures_table(*last_, session_, seed_text(*last_)));
    } else {
      throw errorf("there is no command '{}'", verb).hint("/help lists the commands");
    }
    flush_output();
    return true;
  }

  const Args& args_;
  const Common& common_;
  OpenModel model_;
  PromptFormat format_;
  Generator generator_;
  Session session_;
  uint64_t seed_;  // of the next answer
  LineReader reader_;
  std::vector<Message> messages_;
  std::optional<Generation> last_;
};

constexpr std::string_view kExamples =
    "  anemone chat smollm2\n"
    "  anemone chat smollm2 --system \"Answer in one sentence.\" --temperature 0.7";

}  // namespace

extern const Command kChat{
    "chat", "Talk with a bundle", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      args->flags.max_new = 512;
      o.positional("BUNDLE", args->bundle, "what convert wrote").also("-m,--model").takes(kBundle);
      o.text("--system", "TEXT", args->system, "instructions for the model, before the conversation")
          .also("-sys,--system-prompt");
      o.text("--load", "FILE", args->load, "continue a conversation that /save wrote").reads();
      args->flags.declare(o);
      return [args](const Common& common) { return Chat(*args, common).run(); };
    }};

}  // namespace anemone::cli
