// A copy of one function of a program, where Program::clone() would copy all of them.
//     program.functions.push_back(clone(*function));
#pragma once

#include <memory>

#include "mil/program.h"

namespace anemone {

std::unique_ptr<Function> clone(const Function& function);

}  // namespace anemone
