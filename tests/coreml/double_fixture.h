// A test on the double: its switches as a program starts, a cache of its own, and at the end nothing that was used
// wrongly, and nothing left over.
//     DoubleFixture fixture;
//     auto backend = fixture.backend();
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "coreml/coreml_backend.h"
#include "double.h"
#include "objc_runtime.h"
#include "support/temp_folder.h"

namespace anemone::test {

class DoubleFixture {
 public:
  DoubleFixture() {
    apple_double::wait_for_handlers();
    apple_double::reset();
    begin_ = objc_double::counts();
  }
  // Bundles, sessions and backends must be gone by now.
  ~DoubleFixture() {
    apple_double::wait_for_handlers();
    const apple_double::Seen& seen = apple_double::seen();
    CHECK(seen.overlapping_states == 0);
    CHECK(seen.overlapping_models == 0);
    CHECK(seen.locked_buffers == 0);
    CHECK(seen.touched_pointers == 0);
    CHECK(seen.low_quality == 0);
    CHECK(objc_double::counts().without_pool == begin_.without_pool);
    CHECK(objc_double::counts().live == begin_.live);
  }

  CoreMlOptions options() const {
    CoreMlOptions out;
    out.cache = folder_.path() / "cache";
    return out;
  }
  std::shared_ptr<const Backend> backend() const { return coreml_backend(options()); }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
  objc_double::Counts begin_;
};

inline bool any_remark(const Backend& backend, const std::string& part) {
  for (const std::string& remark : backend.remarks())
    if (remark.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace anemone::test
