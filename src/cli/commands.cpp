#include "cli/command.h"

namespace anemone::cli {

extern const Command kConvert, kLogits, kInspect, kPredict, kCompletion;

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> all = {&kConvert, &kLogits, &kInspect, &kPredict, &kCompletion};
  return all;
}

}  // namespace anemone::cli
