// Sources: the constants of an encoded weight that are as large as the weight, made by rows while the package
// is written. Each is made once for all functions that use the weight, so that it is stored once.
//     Sources sources(encoded);
//     Constant codes = sources.codes();
#pragma once

#include <memory>

#include "compress/encoded.h"
#include "mil/constant.h"

namespace anemone {

class Sources {
 public:
  explicit Sources(std::shared_ptr<const Encoded> encoded) : e_(std::move(encoded)) {}

  const Encoded& encoded() const { return *e_; }
  // Codes, as a tensor of their own type, or packed into bytes (iOS 16).
  Constant codes();
  Constant packed_codes();
  // The mask as uint1, or packed into bytes.
  Constant mask();
  Constant packed_mask();
  // What the mask keeps: codes, or values where there are no codes.
  Constant kept();
  // All values.
  Constant values();

 private:
  std::shared_ptr<const Encoded> e_;
  Constant::Source codes_, packed_codes_, mask_, packed_mask_, kept_, values_;
};

}  // namespace anemone
