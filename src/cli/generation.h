// What run, chat and translate share: the flags of generation, a model opened by them, the figures at the end.
//     GenerationFlags flags;
//     flags.declare(options);
//     const OpenModel model = open_model(path, flags, common);
//     Generator(model.tokenizer, flags.options()).run(session, ids);
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/backend.h"
#include "cli/command.h"
#include "runtime/generate.h"

namespace anemone::cli {

struct GenerationFlags {
  BackendFlags backend;
  std::string template_file;
  int64_t max_new = 128, top_k = 0, seed = kNotSaid, stop_ngram = 0, speculate = 0;
  double temperature = 0, top_p = 1, min_p = 0, penalty = 1;
  std::vector<std::string> stops;
  bool slide = false, ignore_eos = false, stats = false;

  void declare(Options& o);
  // In stop strings \n, \t and \\ mean what they mean in C. Without --seed another one every time.
  GenerateOptions options() const;
  // Says which flags do nothing beside the others.
  void note_idle(const Common& common) const;
};

struct OpenModel {
  std::shared_ptr<const Bundle> bundle;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string chat_template;  // the file's of --template; empty: the tokenizer's own
};

// `tokens`: about how long the first prompt is; what it needs is made ready while the tokenizer is read.
OpenModel open_model(const std::string& path, const GenerationFlags& flags, const Common& common,
                     int64_t tokens = 64);

// Shows how far the prompt is, on a terminal, when it takes long. What it shows last is cleared where the prompt is
// read to its end; clear_progress() does so where it was not.
std::function<void(int64_t done, int64_t total)> prefill_progress(const Common& common);
void clear_progress(const Common& common);

// Text as it is made, on standard output at once.
void show_text(std::string_view piece);

// The figures of one answer: a line, a table, or JSON.
std::string figures_line(const Generation& g, const Session& session);
// `seed`: what is said of the seed instead of its number alone.
std::string figures_table(const Generation& g, const Session& session, const std::string& seed = "");
nlohmann::ordered_json figures_json(const Generation& g, const Session& session);
// One line, or the table with --stats, on stderr; nothing with --quiet. Also what fp16 arithmetic ran into.
void print_figures(const Generation& g, const Session& session, const GenerationFlags& flags,
                   const Common& common);

}  // namespace anemone::cli
