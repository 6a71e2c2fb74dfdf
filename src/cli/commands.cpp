#include "cli/command.h"

namespace anemone::cli {

extern const Command kInspect, kPredict, kCompletion;

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> all = {&kInspect, &kPredict, &kCompletion};
  return all;
}

}  // namespace anemone::cli
