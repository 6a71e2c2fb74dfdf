// `anemone tokenize` and `anemone template`: what the model will see.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_problem.h"
#include "base/json_text.h"
#include "base/staged.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/source.h"
#include "text/chat_template.h"
#include "text/tokenize_command.h"
#include "text/tokenizer.h"
#include "text/tokenizer_export.h"

namespace anemone::cli {
namespace {

constexpr std::string_view kTokenizeExamples =
    "  anemone tokenize model.gguf \"Hello, world\"\n"
    "  anemone tokenize tokenizer.json --file book.txt --json";
constexpr std::string_view kTemplateExamples =
    "  anemone template model.gguf --messages chat.json --add-generation-prompt\n"
    "  anemone template bundle --messages chat.json --tools tools.json";

struct TokenizeArgs {
  std::string source, text, file, output;
  bool lines = false, decode = false, add_special = false, skip_special = false;
};

struct TemplateArgs {
  std::string source, messages, tools;
  bool add_generation_prompt = false;
};

jinja::Value read_json_value(const std::string& path) {
  try {
    return jinja::parse_json(open_input(path)->text());
  } catch (Error& e) {
    if (e.where().empty()) e.at(path);
    throw;
  }
}

// A list of messages. Templates also know messages without a text (calls of tools) and with a list of parts.
jinja::Value read_conversation(const std::string& path) {
  const std::string text = read_text(path);
  const auto wrong = [&](const std::string& found) {
    return Error("is not a conversation")
        .at(path)
        .found(found)
        .expected("a JSON list of {\"role\", \"content\"}");
  };
  nlohmann::json all;
  try {
    all = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    throw json_error(e, text, "is not a conversation").at(path);
  }
  if (!all.is_array()) throw wrong(fmt::format("a value of type {}", all.type_name()));
  for (size_t i = 0; i < all.size(); ++i) {
    const nlohmann::json& m = all[i];
    const std::string place = fmt::format(" in message {}", i + 1);
    if (!m.is_object()) throw wrong(fmt::format("a value of type {}{}", m.type_name(), place));
    if (!m.contains("role")) throw wrong("no key 'role'" + place);
    if (!m["role"].is_string()) throw wrong(fmt::format("a role of type {}{}", m["role"].type_name(), place));
    const bool bare = m.contains("tool_calls") || m.contains("reasoning_content");
    if (!m.contains("content") && !bare) throw wrong("no key 'content'" + place);
    if (m.contains("content") &&
        (m["content"].is_number() || m["content"].is_boolean() || m["content"].is_object()))
      throw wrong(fmt::format("a content of type {}{}", m["content"].type_name(), place));
  }
  return jinja::parse_json(text);
}

int render(const TemplateArgs& args, const Common& common) {
  const auto tokenizer = Tokenizer::load(args.source);
  if (tokenizer->chat_template().empty()) throw errorf("has no chat template").at(args.source);
  ChatInput in;
  in.messages = read_conversation(args.messages);
  if (!args.tools.empty()) in.tools = read_json_value(args.tools);
  in.add_generation_prompt = args.add_generation_prompt;
  in.bos_token = std::string(tokenizer->piece(tokenizer->bos()));
  in.eos_token = std::string(tokenizer->piece(tokenizer->eos()));
  const std::string text = ChatTemplate(tokenizer->chat_template()).render(in);
  fmt::print("{}", common.json ? json_text(nlohmann::ordered_json{{"text", text}}) + "\n" : text);
  return 0;
}

// A file is tokenized as it is, with its last line break. An argument gets what is piped in behind it, as in run.
std::string text_of(const TokenizeArgs& args, const Common& common) {
  const bool whole = !args.file.empty() || args.text.empty() || args.text == "-";
  if (whole && (args.text.empty() || args.file.empty()))
    return read_text(args.file.empty() ? "-" : args.file);
  return given_text(args.text, args.file, common);
}

int export_json(const TokenizeArgs& args, const Common& common) {
  if (!args.text.empty() || !args.file.empty()) throw errorf("--export takes no text");
  const std::string json = export_tokenizer_json(args.source);
  check_file_output(args.output);
  StagedOutput staged(args.output, true);
  std::ofstream out(staged.path(), std::ios::binary);
  out << json;
  out.close();
  if (!out) throw errorf("cannot be written").at(args.output);
  staged.commit();
  if (common.json)
    fmt::print("{}\n", json_text(nlohmann::ordered_json{{"output", args.output}, {"bytes", json.size()}}));
  else if (!common.quiet)
    fmt::print("{} written, {}\n", args.output, size_text(json.size()));
  return 0;
}

}  // namespace

extern const Command kTokenize{
    "tokenize", "Turn text into token ids, or ids into text", kTokenizeExamples, [](Options& o) -> Action {
      auto args = std::make_shared<TokenizeArgs>();
      o.positional("SOURCE", args->source,
                   "a tokenizer.json, .gguf or tokenizer.model, or a folder or bundle with one")
          .also("-m,--model")
          .takes(kTokenizer | kCheckpoint | kBundle);
      o.positional(
           "TEXT", args->text,
           "the text. Piped text is added after it. Without TEXT and --file, standard input is the text",
           false)
          .also("-p,--prompt");
      o.text("--file", "FILE", args->file, "read the text from a file").also("-f").streams();
      o.flag("--lines", args->lines, "each input line is a JSON string, answered by a JSON array of ids");
      o.flag("--decode", args->decode, "the input is ids");
      o.flag("--add-special", args->add_special,
             "add the special tokens that the model expects around a text (BOS …)");
      o.flag("--skip-special", args->skip_special, "leave special tokens out when decoding");
      o.text(
           "--export", "FILE", args->output,
           "write the tokenizer of a GGUF file or a tokenizer.model as a tokenizer.json, for other programs")
          .writes();
      return [args](const Common& common) {
        if (!args->output.empty()) return export_json(*args, common);
        TokenizeOptions t;
        t.source = args->source;
        t.text = text_of(*args, common);
        t.lines = args->lines;
        t.json = common.json;
        t.decode = args->decode;
        t.add_special = args->add_special;
        t.skip_special = args->skip_special;
        tokenize_command(t, std::cout);
        return 0;
      };
    }};

extern const Command kTemplate{
    "template", "Render a conversation with the model's own chat template", kTemplateExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<TemplateArgs>();
      o.positional("SOURCE", args->source, "a .gguf file, or a folder or bundle with a tokenizer")
          .also("-m,--model")
          .takes(kTokenizer | kCheckpoint | kBundle);
      o.text("--messages", "FILE", args->messages, "a JSON list of {\"role\", \"content\"}").streams().must();
      o.text("--tools", "FILE", args->tools, "a JSON list of tool schemas").streams();
      o.flag("--add-generation-prompt", args->add_generation_prompt,
             "end with the opening of the assistant's turn");
      return [args](const Common& common) { return render(*args, common); };
    }};

}  // namespace anemone::cli
