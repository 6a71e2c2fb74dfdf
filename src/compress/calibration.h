// Calibration: the model's own activations on a text: the squares of what each matrix is multiplied with.
//     Calibration c("bundle", ids);
//     auto hessians = c.collect(stage, {"l0_attn_norm"}, true, pool);
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compress/hessian.h"

namespace anemone {

using Hessians = std::map<std::string, std::shared_ptr<Hessian>>;  // by the name of the input

class Calibration {
 public:
  // ids: a text of the bundle's vocabulary. At most `most_tokens` of them are used, in windows of the bundle's
  // context.
  Calibration(std::filesystem::path bundle, std::vector<int32_t> ids, int64_t most_tokens = 2048);

  // Runs the text once and looks at these values (with their channels) of one stage; full: with all pairs.
  Hessians collect(const std::string& package, const std::map<std::string, int64_t>& inputs, bool full,
                   ThreadPool& pool) const;

 private:
  std::filesystem::path bundle_;
  std::vector<int32_t> ids_;
};

}  // namespace anemone
