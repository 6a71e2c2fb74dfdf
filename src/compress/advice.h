// What is known about forms on the Neural Engine: a warning, with the rule's id, where a form leaves it or
// costs more than it gives.
#pragma once

#include <string>
#include <vector>

#include "compress/form.h"
#include "compress/weight.h"

namespace anemone {

struct Advice {
  std::string rule;  // "Q02"
  std::string text;
};

std::vector<Advice> advice_for(const StorageForm& form, const Weight& weight);

}  // namespace anemone
