#include "mutation/host_experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace anemone::mutation {
namespace {

using Kind = Role::Kind;

const Port& port_of(const std::vector<Port>& ports, Kind kind) {
  const Port* port = find_port(ports, kind);
  if (!port) throw errorf("a function of experts lacks the role '{}'", role_name(kind));
  return *port;
}

}  // namespace

Routed route(const ExpertRule& rule, const Array& logits, const Array& normed, int64_t tokens) {
  const int64_t width = normed.shape().at(2), hidden = normed.shape().at(1), choices = logits.shape().at(1);
  Routed out{normed, Array(DType::fp32, {1, hidden, width, 1}), {}};
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<double> l(static_cast<size_t>(choices)), p(l.size());
    for (size_t i = 0; i < l.size(); ++i) {
      l[i] = static_cast<double>(
          logits.values<float>()[i * static_cast<size_t>(width) + static_cast<size_t>(t)]);
      if (!std::isfinite(l[i])) throw errorf("the router gives what is not finite");
    }
    double sum = 0;
    for (size_t i = 0; i < l.size(); ++i) sum += p[i] = std::exp(l[i] - *std::ranges::max_element(l));
    for (double& v : p) v /= sum;
    std::vector<double> scores = l;
    for (size_t i = 0; i < rule.choice_bias.size(); ++i) scores[i] = p[i] + rule.choice_bias[i];
    std::vector<size_t> order(l.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(static_cast<size_t>(rule.used));
    double chosen = 0;
    for (const size_t i : order) chosen += p[i];
    out.shares.emplace_back(l.size());
    for (const size_t i : order)
      out.shares.back()[i] = rule.share == Experts::Share::of_all ? p[i] : p[i] / chosen;
    if (rule.skip != Experts::Skip::pass) continue;
    for (int64_t c = 0; c < hidden; ++c) {
      const auto at = static_cast<size_t>(c * width + t);
      out.mixed.values<float>()[at] = static_cast<float>(out.shares.back().back() * rule.skip_scale *
                                                         static_cast<double>(normed.values<float>()[at]));
    }
  }
  return out;
}

// One token a call, by functions of all sizes in turn, in another column each time.
void add_experts(const Host& host, size_t stage, Routed& routed) {
  const int64_t wide = routed.normed.shape().at(2), hidden = routed.normed.shape().at(1);
  const std::vector<StageFunction>& functions = host.info().stages[stage].functions;
  for (size_t t = 0; t < routed.shares.size(); ++t)
    for (auto f = functions.begin(); f != functions.end(); ++f) {
      const Role& experts = port_of(f->interface.inputs, Kind::shares).role;
      std::vector<const StageFunction*> same;
      for (const StageFunction& other : functions)
        if (port_of(other.interface.inputs, Kind::shares).role == experts) same.push_back(&other);
      if (same[t % same.size()] != &*f) continue;
      const std::vector<double>& row = routed.shares[t];
      if (std::all_of(row.begin() + experts.first, row.begin() + experts.last,
                      [](double share) { return share == 0; }))
        continue;
      const int64_t width = f->most_tokens, column = static_cast<int64_t>(t) % width;
      Array x(DType::fp32, {1, hidden, width, 1}),
          shares(DType::fp32, {1, experts.last - experts.first, width, 1});
      for (int64_t c = 0; c < hidden; ++c)
        x.values<float>()[static_cast<size_t>(c * width + column)] =
            routed.normed.values<float>()[static_cast<size_t>(c * wide) + t];
      for (int64_t e = experts.first; e < experts.last; ++e)
        shares.values<float>()[static_cast<size_t>((e - experts.first) * width + column)] =
            static_cast<float>(row[static_cast<size_t>(e)]);
      const Prediction result = host.bundle()
                                    .predictor(stage, f->name)
                                    .predict({{port_of(f->interface.inputs, Kind::normed).name, x},
                                              {port_of(f->interface.inputs, Kind::shares).name, shares}});
      const Array& y = result.at(port_of(f->interface.outputs, Kind::mixed).name);
      for (int64_t c = 0; c < hidden; ++c)
        routed.mixed.values<float>()[static_cast<size_t>(c * wide) + t] +=
            y.values<float>()[static_cast<size_t>(c * width + column)];
    }
}

}  // namespace anemone::mutation
