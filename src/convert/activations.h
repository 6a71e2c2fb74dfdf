// Activations: runs a bundle on a text and collects the statistics that compress/ needs: the squares of the inputs of
// each matrix.
//     Activations activations("bundle", ids, cpu_backend);
//     Hessians h = activations.collect("layers_00.mlpackage", {{"l0_attn_norm", 576}}, true, pool);
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compress/hessian.h"
#include "predict/backend.h"

namespace anemone {

class Activations {
 public:
  // ids: a text of the bundle's vocabulary. At most `most_tokens` of them are used, in windows of the bundle's
  // context.
  Activations(std::filesystem::path bundle, std::vector<int32_t> ids, MakeBackend backend,
              int64_t most_tokens = 2048);

  // Runs the text once and looks at these values (with their channels) of one stage; full: with all pairs.
  Hessians collect(const std::string& package, const std::map<std::string, int64_t>& inputs, bool full,
                   ThreadPool& pool) const;

 private:
  std::filesystem::path bundle_;
  std::vector<int32_t> ids_;
  MakeBackend backend_;
};

}  // namespace anemone
