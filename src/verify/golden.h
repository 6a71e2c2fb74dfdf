// Golden: what a trusted model computes for a text, kept as .npz; made here by `anemone golden`, or by anybody
// with numpy.
//     Golden g = capture(reference, ids, {.steps = 16, .layers = true});
//     g.write("g.npz");                         // the same as np.savez("g.npz", input_ids=…, logits=…, …)
// The arrays, T tokens of prompt and N that were chosen greedily after it. Only input_ids and logits must be
// there; a leading axis of one (a batch) is dropped; any number type will do:
//     input_ids           [T]               the prompt; also called ids or tokens
//     greedy_ids          [N]               what follows when the best token is always taken
//     logits              [R, vocab]        R >= T rows. Row T + i is the one after greedy_ids[i]. Also
//     logits_last         [vocab]           instead, the row of the last token of the prompt alone
//     embed_out           [R, hidden]       the stream into layer 0, after any scale
//     layer_out_i         [R, hidden]       the stream after layer i; also hidden_states_(i+1), but for the last
//     attn_out_i          [R, hidden]       what attention gives, before a norm behind it and before it is added
//     mlp_out_i           [R, hidden]       the same of the MLP
//     q_i, k_i, v_i       [R, heads, head_dim]  q and k normalised and rotated (halves against each other), not scaled
//     recurrent_i         [R, state]        what a recurrent layer remembers after each token, as its state holds it;
//                                           several states one behind the other, in the order of their slots
//     final_norm          [R, hidden]       what goes into the head
// Other arrays are left alone. Fewer rows than tokens are fine where R is given: only those are compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/reference.h"
#include "runtime/bundle.h"
#include "verify/inner_name.h"

namespace anemone {

struct Golden {
  // Rows of one width, from token `first` on.
  struct Rows {
    std::vector<float> values;
    int64_t first = 0, rows = 0, width = 0;

    bool has(int64_t token) const { return token >= first && token < first + rows; }
    std::span<const float> row(int64_t token) const;  // Error where there is none
  };

  std::string origin;        // "model.gguf", "g.npz": for messages
  std::vector<int32_t> ids;  // the prompt and what follows it
  int64_t prompt = 0;        // how many of them are the prompt
  int64_t vocab = 0;
  Rows logits;
  std::map<InnerName, Rows> inner;  // by the names above, but for logits

  const Rows* find(const std::string& name, int64_t layer = -1) const;  // "layer_out", 3
  // Error when the file holds no golden, or its arrays contradict each other.
  static Golden read(const std::filesystem::path& path);
  void write(const std::filesystem::path& path) const;
};

struct CaptureOptions {
  int64_t steps = 0;      // tokens to choose greedily after the prompt
  bool layers = false;    // the values inside as well
  bool blocks = false;    // … and those inside the blocks, which no golden file holds
  int64_t positions = 0;  // as in ReferenceOptions; 0: those that are used
  // What the greedy tokens may turn out to be: where it is right, all of them are computed at once.
  std::vector<int32_t> draft;
};

Golden capture(const Reference& reference, std::span<const int32_t> prompt, const CaptureOptions& options);
// Error for a bundle that gives only the best token.
Golden capture(const std::filesystem::path& bundle, std::shared_ptr<const Backend> backend,
               std::span<const int32_t> prompt, const CaptureOptions& options);

}  // namespace anemone
