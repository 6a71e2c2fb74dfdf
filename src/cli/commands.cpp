#include "cli/command.h"

namespace anemone::cli {

extern const Command kPlan, kConvert, kCompress, kCheck, kDoctor, kVerify, kGolden, kPerplexity, kLogits,
    kRun, kChat, kTranslate, kEmbed, kClassify, kTokenize, kTemplate, kInspect, kPredict, kCompletion;

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> all = {
      &kPlan,       &kConvert,  &kCompress, &kCheck,   &kDoctor,    &kVerify, &kGolden,
      &kPerplexity, &kLogits,   &kRun,      &kChat,    &kTranslate, &kEmbed,  &kClassify,
      &kTokenize,   &kTemplate, &kInspect,  &kPredict, &kCompletion};
  return all;
}

}  // namespace anemone::cli
