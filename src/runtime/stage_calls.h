// StageCalls: the calls that passes over a bundle borrow, made when first needed and kept: one for each function and
// number of columns. They belong to one thread at a time, like a session.
//     StageCalls calls;
//     Call& call = calls.get(*bundle, 0, function, 4);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "runtime/bundle.h"

namespace anemone {

class StageCalls {
 public:
  // `function` is one of the bundle's own; the bundle must outlive what is kept here.
  Call& get(const Bundle& bundle, size_t stage, const StageFunction& function, int64_t width);

 private:
  std::map<std::pair<const StageFunction*, int64_t>, std::unique_ptr<Call>> calls_;
};

}  // namespace anemone
