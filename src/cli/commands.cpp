#include "cli/command.h"

namespace anemone::cli {

extern const Command kConvert, kRun, kChat, kTranslate, kLogits, kPerplexity, kCheck, kDoctor, kInspect,
    kPredict, kTokenize, kTemplate, kCompletion;

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> all = {
      &kConvert, &kRun,     &kChat,    &kTranslate, &kLogits,   &kPerplexity, &kCheck,
      &kDoctor,  &kInspect, &kPredict, &kTokenize,  &kTemplate, &kCompletion};
  return all;
}

}  // namespace anemone::cli
