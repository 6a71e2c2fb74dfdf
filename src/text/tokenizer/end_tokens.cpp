#include "text/tokenizer/end_tokens.h"

#include <algorithm>

namespace anemone {

bool is_end_token_name(std::string_view name) {
  static constexpr std::string_view names[] = {"<|eot_id|>",
                                               "<|im_end|>",
                                               "<|end|>",
                                               "<|return|>",
                                               "<|call|>",
                                               "<|flush|>",
                                               "<|calls|>",
                                               "<end_of_turn>",
                                               "<|endoftext|>",
                                               "</s>",
                                               "<|eom_id|>",
                                               "<EOT>",
                                               "_<EOT>",
                                               "[EOT]",
                                               "[EOS]",
                                               "<|end_of_text|>",
                                               "<end_of_utterance>",
                                               "<eos>",
                                               "<turn|>",
                                               "<|tool_response>",
                                               "<｜end▁of▁sentence｜>",
                                               "[e~["};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_middle_token_name(std::string_view name) {
  static constexpr std::string_view names[] = {
      "<|fim_prefix|>",  "<fim-prefix>",    "<fim_prefix>",   "<PRE>",           "▁<PRE>",
      "<｜fim▁begin｜>", "<|code_prefix|>", "<|fim_suffix|>", "<fim-suffix>",    "<fim_suffix>",
      "<SUF>",           "▁<SUF>",          "<｜fim▁hole｜>", "<|code_suffix|>", "<|fim_middle|>",
      "<fim-middle>",    "<fim_middle>",    "<MID>",          "▁<MID>",          "<｜fim▁end｜>",
      "<|code_middle|>", "<|fim_pad|>",     "<fim-pad>",      "<fim_pad>",       "<PAD>",
      "[PAD]",           "<|fim_repo|>",    "<|repo_name|>",  "<fim-repo>",      "<fim_repo>",
      "<REPO>",          "<reponame>",      "<|file_sep|>"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

void add_end_tokens(TokenizerSpec& spec) {
  const auto find = [&](std::string_view name) -> int32_t {
    for (const AddedToken& token : spec.added) {
      if (token.content == name && token.special) return token.id;
    }
    return kNoToken;
  };
  auto& ends = spec.end_of_generation;
  if (spec.eos != kNoToken) ends.push_back(spec.eos);
  for (const AddedToken& token : spec.added) {
    if (token.special && is_end_token_name(token.content)) ends.push_back(token.id);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  const auto has = [&](std::string_view name) { return find(name) != kNoToken; };
  if ((has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"))) {
    if (find("<|end|>") != spec.eos) std::erase(ends, find("<|end|>"));
  }
}

}  // namespace anemone
