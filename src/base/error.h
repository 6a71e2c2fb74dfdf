// How the library makes errors: Error with a formatted message.
//     throw errorf("tensor '{}' ends at byte {}", name, end).at(path).expected(fmt::format("at most {}",
//     size));
// ANEMONE_CHECK is for our own mistakes only, never for input.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "anemone/error.h"

namespace anemone {

template <class... Args>
Error errorf(fmt::format_string<Args...> format, Args&&... args) {
  return Error(fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

#define ANEMONE_CHECK(x) ((x) ? (void)0 : ::anemone::check_failed(#x, __FILE__, __LINE__))

}  // namespace anemone
