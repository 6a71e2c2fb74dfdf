// Every kind of bundle that convert writes: forms of the cache, ways to write it, token sets, tiers, cuts, heads.
//     for (const BundleForm& v : bundle_variants(64)) convert(model, folder, v.options);
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "anemone/error.h"
#include "convert/convert.h"

namespace anemone::test {

struct BundleForm {
  std::string name;
  ConvertOptions options;
};

// The cache's forms and writes with all token sets, over one length and over two: what must give the same logits
// at the context's edge too. Packages of fp16.
inline std::vector<BundleForm> cache_variants(int64_t context) {
  using lower::KvKind;
  using lower::KvWrite;
  struct Tokens {
    const char* name;
    std::vector<lower::TokenCount> counts;
    bool slice, tiers;  // goes with them
  };
  const std::vector<Tokens> sets = {{"1", {{1, 1}}, true, true},
                                    {"1,4", {{1, 1}, {4, 4}}, true, true},
                                    {"4", {{4, 4}}, false, true},  // slice: the padding would not fit
                                    {"1-4", {{1, 4}}, false, false}};
  std::vector<BundleForm> out;
  for (const auto& [kv_name, kv] : std::vector<std::pair<std::string, KvKind>>{
           {"state", KvKind::state}, {"packed", KvKind::packed}, {"io", KvKind::io}})
    for (const auto write : {KvWrite::mask, KvWrite::slice})
      for (const Tokens& tokens : sets)
        for (const bool tiers : {false, true})
          for (const bool whole : {false, true}) {
            if ((write == KvWrite::slice && !tokens.slice) || (tiers && !tokens.tiers)) continue;
            if (whole && (tokens.counts.size() == 1) != (kv == KvKind::io)) continue;  // a part of them
            BundleForm v;
            v.name = kv_name + (write == KvWrite::mask ? " mask" : " slice") + " tokens " + tokens.name +
                     (tiers ? " tiers" : "") + (whole ? " whole" : "");
            if (tiers)
              v.options.context = {context / 2, context};
            else
              v.options.context = {context};
            v.options.tokens = tokens.counts;
            v.options.kv = kv;
            v.options.kv_write = {write};
            v.options.whole = whole;
            v.options.precision = Precision::fp16;
            v.options.overwrite = true;
            out.push_back(std::move(v));
          }
  return out;
}

// Converts unless the model's kind rules the variant out: false, with a message that says why.
inline bool convert_variant(const std::filesystem::path& model, const std::filesystem::path& bundle,
                            const BundleForm& variant) {
  try {
    convert(model, bundle, variant.options);
    return true;
  } catch (const Error& e) {
    const std::string why = e.what();
    if (why.find("a range of tokens cannot be combined with recurrent layers") == std::string::npos) throw;
    MESSAGE("skipped: " << model.filename().string() << " " << variant.name << ": " << why);
    return false;
  }
}

// The rest: precisions, cuts, heads, targets.
inline std::vector<BundleForm> other_variants(int64_t context) {
  std::vector<BundleForm> out = {
      {"int8", {.tokens = {{1, 1}, {4, 4}}}},
      {"int8-tensor", {.precision = Precision::int8_tensor}},
      {"int8 embedding", {.embedding_int8 = true}},
      {"many shards", {.precision = Precision::fp16, .shard_bytes = 1, .head_rows = 100}},
      {"argmax", {.argmax = true, .shard_bytes = 1, .head_rows = 300}},
      {"argmax whole", {.tokens = {{1, 1}, {4, 4}}, .whole = true, .argmax = true, .head_rows = 300}},
      {"whole int8", {.whole = true, .head_rows = 200}},
      {"scaled residual", {.precision = Precision::fp16, .residual_scale = 0.25}},
      {"iPhone", {.target = "iPhone 15 Pro"}},
  };
  for (BundleForm& v : out) {
    v.options.context = {context};
    v.options.overwrite = true;
  }
  return out;
}

inline std::vector<BundleForm> bundle_variants(int64_t context) {
  std::vector<BundleForm> out = cache_variants(context);
  for (BundleForm& v : other_variants(context)) out.push_back(std::move(v));
  return out;
}

}  // namespace anemone::test
