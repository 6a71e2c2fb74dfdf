#include "runtime/expert_pass.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "bundle/check_ports.h"
#include "runtime/columns.h"
#include "runtime/fill.h"

namespace anemone {
namespace {

const Port& output_of(const StageFunction& function, Role::Kind kind) {
  const Port* port = function.find_output(kind);
  if (!port) throw errorf("'{}' has no output of the role '{}'", function.name, role_name(kind));
  return *port;
}

const Port& input_of(const StageFunction& function, Role::Kind kind) {
  const Port* port = function.find_input(kind);
  if (!port) throw errorf("'{}' has no input of the role '{}'", function.name, role_name(kind));
  return *port;
}

// The size of the next call for so many tokens: the one that costs least for each token that it takes. A call reads the
// experts' weights once, and its arithmetic grows with its size.
const StageFunction& next_call(const std::vector<const StageFunction*>& sizes, size_t left) {
  const auto cost = [&](const StageFunction& f) {
    const auto width = static_cast<double>(f.most_tokens);
    return (1 + width / 8) / std::min(width, static_cast<double>(left));
  };
  return **std::ranges::min_element(
      sizes, [&](const StageFunction* a, const StageFunction* b) { return cost(*a) < cost(*b); });
}

}  // namespace

ExpertPass::ExpertPass(const Bundle& bundle, StageCalls& calls, const Stage& route,
                       const StageFunction& function, Call& routed, int64_t tokens)
    : bundle_(bundle),
      calls_(calls),
      routed_(routed),
      normed_port_(&output_of(function, Role::Kind::normed)),
      tokens_(tokens),
      hidden_(bundle.info().hidden),
      sums_(static_cast<size_t>(tokens * hidden_)) {
  const ExpertRule& rule = *route.rule;
  std::vector<float> logits(static_cast<size_t>(tokens * rule.choices()));
  read_columns(routed.output(output_of(function, Role::Kind::router).name), 0, tokens, logits.data(),
               rule.choices());
  choice_ = choose_experts(rule, logits, tokens);
  const bool passes = rule.skip == Experts::Skip::pass && !choice_.of(rule.experts).empty();
  if (passes || tokens > 1) {
    normed_.resize(sums_.size());
    read_columns(routed.output(normed_port_->name), 0, tokens, normed_.data(), hidden_);
    copied_bytes_ += normed_.size() * sizeof(float);
  }
  if (!passes) return;
  for (const ExpertUse& use : choice_.of(rule.experts))
    for (auto i = static_cast<size_t>(use.token * hidden_), end = i + static_cast<size_t>(hidden_); i < end;
         ++i)
      sums_[i] += use.share * static_cast<float>(rule.skip_scale) * normed_[i];
}

std::vector<int64_t> ExpertPass::tokens_of(const Role& shares) const {
  std::vector<int64_t> out;
  for (int64_t e = shares.first; e < shares.last; ++e)
    for (const ExpertUse& use : choice_.of(e)) out.push_back(use.token);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

void ExpertPass::stage(size_t index) {
  // Of many functions only a few have experts that were chosen. Those of the same experts differ in their size.
  std::map<std::pair<int64_t, int64_t>, std::vector<const StageFunction*>> groups;
  for (const StageFunction& f : bundle_.info().stages[index].functions) {
    const Role& shares = input_of(f, Role::Kind::shares).role;
    const auto first = choice_.uses.begin() + shares.first, last = choice_.uses.begin() + shares.last;
    if (std::any_of(first, last, [](const auto& uses) { return !uses.empty(); }))
      groups[{shares.first, shares.last}].push_back(&f);
  }
  for (const auto& [experts, sizes] : groups) {
    const std::vector<int64_t> tokens = tokens_of(input_of(*sizes.front(), Role::Kind::shares).role);
    for (size_t at = 0; at < tokens.size();) {
      const StageFunction& next = next_call(sizes, tokens.size() - at);
      const size_t count = std::min(tokens.size() - at, static_cast<size_t>(next.most_tokens));
      run(index, next, tokens, at, count);
      at += count;
    }
  }
}

void ExpertPass::fill(Call& call, const StageFunction& function, const std::vector<int64_t>& tokens,
                      size_t begin, size_t count) {
  const Port &x = input_of(function, Role::Kind::normed), &shares = input_of(function, Role::Kind::shares);
  const int64_t width = function.most_tokens;
  if (width == 1 && tokens_ == 1 && routed_.output(normed_port_->name).shape[2] == 1) {
    call.chain(x.name, routed_, normed_port_->name);
  } else {
    if (normed_.empty()) {
      normed_.resize(sums_.size());
      read_columns(routed_.output(normed_port_->name), 0, tokens_, normed_.data(), hidden_);
    }
    const TensorView view = call.input(x.name);
    for (int64_t t = 0; t < width; ++t) {
      const int64_t token = tokens[begin + std::min(static_cast<size_t>(t), count - 1)];
      fill_column(
          view, t,
          std::span(normed_).subspan(static_cast<size_t>(token * hidden_), static_cast<size_t>(hidden_)));
    }
    copied_bytes_ += static_cast<uint64_t>(width * hidden_) * sizeof(float);
  }
  const TensorView view = call.input(shares.name);
  std::vector<float> column(static_cast<size_t>(shares.role.last - shares.role.first));
  for (int64_t t = 0; t < width; ++t) {
    std::ranges::fill(column, 0.0f);
    if (static_cast<size_t>(t) < count)
      for (int64_t e = shares.role.first; e < shares.role.last; ++e)
        for (const ExpertUse& use : choice_.of(e))
          if (use.token == tokens[begin + static_cast<size_t>(t)])
            column[static_cast<size_t>(e - shares.role.first)] = use.share;
    fill_column(view, t, column);
  }
}

void ExpertPass::run(size_t stage, const StageFunction& function, const std::vector<int64_t>& tokens,
                     size_t begin, size_t count) {
  const int64_t width = function.most_tokens;
  Call& call = calls_.get(bundle_, stage, function, width);
  fill(call, function, tokens, begin, count);
  call.run();
  const Port& out = output_of(function, Role::Kind::mixed);
  const TensorView view = call.output(out.name);
  check_output(view.shape, out, bundle_.info(), width);
  if (call.fault() && !fault_) fault_ = call.fault();
  std::vector<float> rows(count * static_cast<size_t>(hidden_));
  read_columns(view, 0, static_cast<int64_t>(count), rows.data(), hidden_);
  copied_bytes_ += rows.size() * sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    float* to = sums_.data() + tokens[begin + i] * hidden_;
    for (size_t c = 0; c < static_cast<size_t>(hidden_); ++c)
      to[c] += rows[i * static_cast<size_t>(hidden_) + c];
  }
  bundle_.saw(stage, function.name, call, static_cast<int64_t>(count));
  call.rest();
}

TensorView ExpertPass::sum(int64_t width) {
  sum_ = Array(DType::fp32, {1, hidden_, width, 1});
  const std::span<float> to = sum_.values<float>();
  for (int64_t t = 0; t < width; ++t) {
    const float* from = sums_.data() + std::min(t, tokens_ - 1) * hidden_;
    for (int64_t c = 0; c < hidden_; ++c) to[static_cast<size_t>(c * width + t)] = from[c];
  }
  return TensorView::of(sum_);
}

}  // namespace anemone
