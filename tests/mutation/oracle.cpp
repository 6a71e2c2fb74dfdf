#include "mutation/oracle.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/prompt.h"
#include "text/tokenizer.h"

namespace anemone::mutation {
namespace {

constexpr const char* kText =
    "The tide pool lies between the rocks. At low water you can see small fish, crabs and a star that eats "
    "mussels. "
    "Children come with nets, and in the evening the sea takes everything back.";

std::vector<int32_t> ids_for(const Subject& subject) {
  std::vector<int32_t> out;
  if (subject.large && !subject.info.tokenizer.empty())
    out = Tokenizer::load(subject.bundle / subject.info.tokenizer)->encode(kText, {.add_special = true});
  Rng rng(5, "ids");
  const size_t wanted = static_cast<size_t>(subject.info.tiers().back()) + 8;
  const size_t text = out.size();
  while (out.size() < wanted)
    out.push_back(text ? out[out.size() - text] : static_cast<int32_t>(rng.below(subject.info.vocab)));
  return out;
}

double log_sum(std::span<const float> logits, double most) {
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - most);
  return most + std::log(sum);
}

// A vector's relative error, squared: as large as the KL of logits with such an error.
double vector_difference(std::span<const float> clean, std::span<const float> mutant) {
  if (clean.size() != mutant.size()) return INFINITY;
  double ee = 0, cc = 0;
  for (size_t i = 0; i < clean.size(); ++i) {
    const double e = static_cast<double>(mutant[i]) - static_cast<double>(clean[i]);
    ee += e * e;
    cc += static_cast<double>(clean[i]) * static_cast<double>(clean[i]);
  }
  return std::isfinite(ee) ? ee / std::max(cc, 1e-30) : INFINITY;
}

std::vector<float> normalized(std::vector<float> v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * static_cast<double>(x);
  for (float& x : v) x = static_cast<float>(static_cast<double>(x) / std::sqrt(std::max(sum, 1e-30)));
  return v;
}

// A bundle that picks another token by more than a tie: how much less likely the clean one holds it.
double choice_difference(std::span<const float> clean, int64_t clean_best, int64_t mutant_best) {
  constexpr double kTie = 0.05;
  if (clean_best == mutant_best) return 0;
  if (mutant_best < 0 || mutant_best >= static_cast<int64_t>(clean.size())) return INFINITY;
  const double margin = static_cast<double>(clean[static_cast<size_t>(clean_best)]) -
                        static_cast<double>(clean[static_cast<size_t>(mutant_best)]);
  return margin > kTie ? margin : 0;
}

// Two conversations, or why the template refuses them.
std::string template_view(const std::shared_ptr<const Tokenizer>& tokenizer) {
  std::string out;
  const std::vector<Message> talk = {
      {"user", "What is a tide pool?"}, {"assistant", "Water."}, {"user", "And?"}};
  try {
    const PromptFormat format(tokenizer);
    for (const size_t count : {size_t{1}, size_t{3}})
      out += "\n" + format.text({talk.begin(), talk.begin() + static_cast<ptrdiff_t>(count)});
  } catch (const Error& e) {
    out += std::string("\nerror: ") + e.what();
  }
  return out;
}

}  // namespace

void Difference::take(double other, const std::string& place) {
  if (!(other > kl)) return;
  kl = other;
  where = place;
}

double kl_of_logits(std::span<const float> clean, std::span<const float> mutant) {
  if (clean.size() != mutant.size() || clean.empty()) return INFINITY;
  double most[2] = {-INFINITY, -INFINITY};
  for (size_t i = 0; i < clean.size(); ++i) {
    if (!std::isfinite(mutant[i])) return INFINITY;
    most[0] = std::max(most[0], static_cast<double>(clean[i]));
    most[1] = std::max(most[1], static_cast<double>(mutant[i]));
  }
  const double sums[2] = {log_sum(clean, most[0]), log_sum(mutant, most[1])};
  double kl = 0;
  for (size_t i = 0; i < clean.size(); ++i) {
    const double p = static_cast<double>(clean[i]) - sums[0], q = static_cast<double>(mutant[i]) - sums[1];
    kl += std::exp(p) * (p - q);
  }
  return std::max(0.0, kl);
}

Oracle::Oracle(const Subject& subject)
    : subject_(subject),
      ids_(ids_for(subject)),
      probes_(probes_for(subject)),
      clean_(probes_.size()),
      text_(text_view(subject.bundle)) {}

Host& Oracle::clean_host(Arithmetic arithmetic) {
  auto& host = hosts_[static_cast<size_t>(arithmetic == Arithmetic::fp16)];
  if (!host) host.emplace(subject_.bundle, arithmetic, subject_.info.argmax);
  return *host;
}

Oracle::Results Oracle::run(const Host& host, const Probe& probe, std::span<const int32_t> ids) const {
  HostText text(host, probe.text);
  if (probe.seeded) text.seed(11, probe.steps.front().how.width);
  Results out;
  for (const ProbeStep& step : probe.steps) {
    if (step.move_to) text.move_to(step.move_to, step.position, step.how.width);
    out.push_back(text.call(step.how,
                            ids.subspan(static_cast<size_t>(step.position), static_cast<size_t>(step.count)),
                            step.position));
  }
  return out;
}

void Oracle::compare_results(const Results& clean, const Results& mutant, const Probe& probe, bool any_bit,
                             Difference& out) const {
  const auto differ = [&](double kl, const std::vector<float>& a, const std::vector<float>& b,
                          const std::string& where) {
    out.take(kl, where);
    if (any_bit && a != b) out.counts = true;
  };
  for (size_t s = 0; s < clean.size(); ++s) {
    const Columns &c = clean[s], &m = mutant[s];
    for (int64_t t = 0; t < probe.steps[s].count; ++t) {
      const auto at = static_cast<size_t>(t);
      const std::string where = fmt::format("{}, position {}", probe.name, probe.steps[s].position + t);
      if (subject_.info.argmax) {
        const bool picks = at < m.best.size();
        const double kl = picks ? choice_difference(c.logits[at], c.best[at], m.best[at]) : INFINITY;
        out.take(kl, where);
        if (any_bit && (!picks || c.best[at] != m.best[at])) out.counts = true;
      } else if (subject_.generates()) {
        if (at >= m.logits.size()) return out.take(INFINITY, where);
        differ(kl_of_logits(c.logits[at], m.logits[at]), c.logits[at], m.logits[at], where);
      } else {
        if (at >= m.hidden.size()) return out.take(INFINITY, where);
        differ(vector_difference(c.hidden[at], m.hidden[at]), c.hidden[at], m.hidden[at], where);
      }
    }
    if (c.results.size() != m.results.size()) return out.take(INFINITY, probe.name);
    for (size_t i = 0; i < c.results.size(); ++i) {
      const bool classes = subject_.info.kind == BundleKind::classify;
      differ(
          classes ? kl_of_logits(c.results[i], m.results[i]) : vector_difference(c.results[i], m.results[i]),
          c.results[i], m.results[i], probe.name);
    }
  }
}

void Oracle::compare_probe(const fs::path& mutant, const Probe& probe, std::span<const int32_t> ids,
                           std::optional<Results>& clean, bool any_bit, Difference& out) {
  if (!clean) clean = run(clean_host(probe.arithmetic), probe, ids);
  auto& host = mutant_hosts_[static_cast<size_t>(probe.arithmetic == Arithmetic::fp16)];
  if (!host) host.emplace(mutant, probe.arithmetic);
  Results results = run(*host, probe, ids);
  // What the host does behind the packages.
  Results expected = *clean;
  if (subject_.info.normalize)
    for (Columns& c : expected)
      for (auto& v : c.results) v = normalized(std::move(v));
  if (host->info().normalize)
    for (Columns& c : results)
      for (auto& v : c.results) v = normalized(std::move(v));
  compare_results(expected, results, probe, any_bit, out);
  if (out.kl > kCountsKl) out.counts = true;
}

Difference Oracle::compare(const fs::path& mutant, const Mutation& mutation, bool all) {
  Difference out;
  const bool any_bit = mutation.counts == Counts::any_bit;
  if (mutation.counts == Counts::what_loads) {
    out.counts = true;
    out.where = "Core ML refuses the package";
    return out;
  }
  mutant_hosts_[0].reset();
  mutant_hosts_[1].reset();
  try {
    if (text_view(mutant) != text_) {
      out.counts = true;
      out.where = "text";
      if (!all) return out;
    }
    // Tokens that the change touches stand nowhere else.
    if (!mutation.ids.empty() && subject_.generates()) {
      Probe probe = probes_.front();
      std::vector<int32_t> ids(ids_.begin(), ids_.begin() + 1);
      ids.insert(ids.end(), mutation.ids.begin(), mutation.ids.end());
      ids.insert(ids.end(), ids_.begin() + 1, ids_.end());
      const auto touched = mutation.ids.size() + 2;
      std::erase_if(probe.steps,
                    [&](const ProbeStep& s) { return static_cast<size_t>(s.position) > touched; });
      std::optional<Results> clean;
      compare_probe(mutant, probe, ids, clean, any_bit, out);
    } else if (!mutation.ids.empty()) {
      std::vector<int32_t> ids = mutation.ids;
      ids.insert(ids.end(), ids_.begin(), ids_.end());
      std::optional<Results> clean;
      compare_probe(mutant, probes_.front(), ids, clean, any_bit, out);
    }
    for (size_t i = 0; i < probes_.size() && (all || !out.counts); ++i)
      compare_probe(mutant, probes_[i], ids_, clean_[i], any_bit, out);
  } catch (const std::exception& e) {
    out.counts = true;
    out.kl = INFINITY;
    out.where = std::string("does not run: ") + e.what();
  }
  mutant_hosts_[0].reset();
  mutant_hosts_[1].reset();
  return out;
}

std::string text_view(const fs::path& bundle) {
  const BundleInfo info = BundleInfo::read(bundle);
  std::string out = fmt::format("pooling {} normalize {}",
                                info.pooling ? static_cast<int>(*info.pooling) : -1, info.normalize);
  if (info.kind == BundleKind::generate) {
    out += fmt::format(" bos {} eos", info.bos.value_or(-1));
    for (const int64_t id : info.eos) out += fmt::format(" {}", id);
  }
  for (const std::string& label : info.labels) out += "\n" + label;
  if (info.tokenizer.empty()) return out;
  const auto tokenizer = Tokenizer::load(bundle / info.tokenizer);
  constexpr const char* kTexts[] = {kText,
                                    "Hello, world! 123 4567",
                                    "naïve café – 翻译 🙂",
                                    "  spaces\n\nand\ttabs  ",
                                    "def f(x):\n    return x ** 2",
                                    "DON'T they're I'll"};
  for (const char* text : kTexts)
    for (const bool special : {false, true}) {
      const std::vector<int32_t> ids = tokenizer->encode(text, {.add_special = special});
      for (const int32_t id : ids) out += fmt::format(" {}", id);
      out += "\n" + tokenizer->decode(ids, true) + "\n";
    }
  for (int32_t id = 0; id < tokenizer->vocabulary_size(); ++id) {
    const std::string_view piece = tokenizer->piece(id);
    out += fmt::format("\n{} {} {}", id, piece, tokenizer->is_special(id));
    // Every token by itself: each merge is used by the token that it makes.
    const std::string text = tokenizer->is_special(id) ? std::string(piece) : tokenizer->decode({&id, 1});
    for (const int32_t made : tokenizer->encode(text)) out += fmt::format(" {}", made);
  }
  return out + template_view(tokenizer);
}

}  // namespace anemone::mutation
