// A small Objective-C runtime for Linux: what clang calls with -fobjc-runtime=objfw -fobjc-arc. Counts, so that a test
// can ask for what Apple's runtime keeps quiet about.
//     const objc_double::Counts before = objc_double::counts();
//     ...
//     CHECK(objc_double::counts().live == before.live);           // nothing was forgotten
#pragma once

#include <cstdint>

namespace objc_double {

struct Counts {
  int64_t live = 0;          // objects that are there now
  int64_t made = 0;          // objects that were ever made
  int64_t made_outside = 0;  // those that were not made inside the double: by the code under test
  int64_t without_pool = 0;  // objects that were autoreleased where no pool was: on a Mac they stay for good
};

Counts counts();

// While one is alive, objects that this thread makes are the double's own.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

bool is_inside();

// One more thing that was made, which is no object: a pixel buffer.
void count_made();
// A name that no class answers to ends the program, and says which.

}  // namespace objc_double
