// Writes an encoded weight as operations of a program: the forms of iOS 18, or those of iOS 16 (parameters as
// attributes, codes and masks packed into bytes) where the program is older.
//     Sources sources(encode(weight, form, pool));
//     Value* w = build_encoded(builder, sources, "w");
#pragma once

#include <string_view>

#include "compress/sources.h"
#include "mil/builder.h"

namespace anemone {

Value* build_encoded(Builder& b, Sources& sources, std::string_view name);

}  // namespace anemone
