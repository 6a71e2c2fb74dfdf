// GenerationRequest: what a request for text asks for, beside the prompt: the fields of OpenAI's API and of
// llama.cpp's, honored or refused by name.
//     GenerationRequest r = read_generation(body, model, defaults);
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/generate.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace anemone::serve {

// What holds where a request says nothing.
struct ServeDefaults {
  double temperature = 0.8, top_p = 0.95, min_p = 0.05;
  int64_t top_k = 40;
  int64_t most_new = -1;  // tokens of an answer; below 0: to the end of the context
  std::optional<uint64_t> seed;
};

struct GenerationRequest {
  GenerateOptions options;
  uint64_t seed = 0;
  int64_t choices = 1;
  bool stream = false, usage_chunk = false, timings_each = false, progress = false, verbose = false,
       reuse = true, one_call = false;  // one_call: of several calls of tools the first alone
  int64_t wanted_new = -1;              // as the request says it
};

GenerationRequest read_generation(const Json& body, ServedModel& model, const ServeDefaults& defaults);

// The prompt must leave room for an answer: ApiError 400 with both numbers. Sets how many tokens may come.
void fit_to_context(GenerationRequest& request, size_t prompt_tokens, const ServedModel& model);

}  // namespace anemone::serve
