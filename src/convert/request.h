// ConvertRequest: what is to be made of a model, with every choice made and checked. Everything that can be refused is
// refused here, before anything is written.
//     ConvertRequest r = make_request(model, options);                 // Error that says what to change
//     r.first_layer, r.kv, r.tokens …
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/bundle_info.h"
#include "checkpoint/checkpoint.h"
#include "convert/convert.h"
#include "convert/target.h"
#include "families/model.h"
#include "lower/functions.h"

namespace anemone {

// One way to run what is made.
struct RunWay {
  lower::KvWrite write = lower::KvWrite::mask;
  bool head_inside = false;  // the head in the function of the layers, where both are there
  std::string variant = {};  // its name; empty: there is one way
};

struct ConvertRequest {
  BundleKind kind = BundleKind::generate;
  size_t first_layer = 0, last_layer = 0;  // [first, last)
  std::vector<int64_t> contexts;           // ascending; {0} for a model without a cache
  std::vector<lower::TokenCount> tokens;
  lower::KvKind kv = lower::KvKind::state;
  std::vector<RunWay> ways = {{}};  // several: variants of the bundle
  ConvertTarget target;
  ExpertWay experts = ExpertWay::all;
  int64_t expert_group = 1;         // experts of one function, where they have functions of their own
  std::vector<std::string> chosen;  // what was chosen for the user, with the reason
  std::vector<std::string> notes;   // what the user should know, a sentence each

  // "c256_t16_slice": of the lengths, token counts and ways that there are several of; "main" where there is one of
  // each.
  std::string function_name(int64_t context, const lower::TokenCount& tokens, const RunWay& way) const;
  bool writes(lower::KvWrite write) const;
};

std::string_view kv_write_name(lower::KvWrite write);
BundleKind kind_of(const Model& model);
ConvertRequest make_request(const Model& model, const ConvertOptions& options);

}  // namespace anemone
