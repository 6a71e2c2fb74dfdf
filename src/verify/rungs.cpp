// The rungs that need no look inside the packages: weights, reference, runtime, text.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "runtime/session.h"
#include "verify/climber.h"
#include "verify/stored_weights.h"

namespace anemone {
namespace {

std::string token_text(const Climber& c, int64_t id) {
  if (!c.tokenizer) return fmt::format("{}", id);
  const auto token = static_cast<int32_t>(id);
  return fmt::format("{} '{}'", id, c.tokenizer->decode(std::span(&token, 1)));
}

bool ends_text(const Climber& c, int32_t id) {
  const std::vector<int64_t>& eos = c.bundle->info().eos;
  return std::find(eos.begin(), eos.end(), id) != eos.end();
}

// The greedy text ends with the first token that ends texts.
void cut_at_end(Climber& c) {
  for (auto i = static_cast<size_t>(c.truth.prompt); i < c.truth.ids.size(); ++i)
    if (ends_text(c, c.truth.ids[i])) {
      c.truth.ids.resize(i + 1);
      break;
    }
  c.report.steps = static_cast<int64_t>(c.truth.ids.size()) - c.truth.prompt;
}

std::span<const int32_t> greedy_of(const Climber& c) {
  return std::span(c.truth.ids).subspan(static_cast<size_t>(c.truth.prompt));
}

// The bundle's own greedy text: where it is right, which the reference decides, it saves a pass for each token.
std::vector<int32_t> draft_of(const Climber& c) {
  std::vector<int32_t> out;
  try {
    Session session(c.bundle, {.positions = c.truth.prompt + c.report.steps});
    std::span<const int32_t> fresh = c.truth.ids;
    while (static_cast<int64_t>(out.size()) < c.report.steps) {
      const int64_t best =
          c.bundle->info().argmax ? session.forward_best(fresh) : best_of(session.forward(fresh, true));
      if (best < 0 || best >= c.bundle->info().vocab) break;
      out.push_back(static_cast<int32_t>(best));
      fresh = std::span(&out.back(), 1);
    }
  } catch (const Error&) {
    return {};  // a bundle that does not run is judged further up
  }
  return out;
}

// What the runtime makes of the prompt, always taking the best token.
std::vector<int32_t> make_text(Climber& c, Arithmetic arithmetic, Rung& rung) {
  Session session(c.open(arithmetic), {.positions = c.tokens});
  const bool picks = c.bundle->info().argmax;
  std::span<const int32_t> fresh = std::span(c.truth.ids).first(static_cast<size_t>(c.truth.prompt));
  std::vector<int32_t> made;
  const int64_t steps = std::max<int64_t>(1, c.report.steps);
  LogitTally tally("Session, from the prompt on", arithmetic);
  const std::span<const int32_t> greedy = greedy_of(c);
  bool along = true;  // so far the text is the truth's
  while (static_cast<int64_t>(made.size()) < steps) {
    int64_t best = 0;
    const int64_t row = c.truth.prompt - 1 + static_cast<int64_t>(made.size());
    if (picks) {
      best = session.forward_best(fresh);
      if (best < 0 || best >= c.bundle->info().vocab)
        throw errorf("the bundle picks a token that is not in the vocabulary").found(fmt::format("{}", best));
      if (along && c.truth.logits.has(row)) tally.add_best(best, c.truth.logits.row(row));
    } else {
      const std::vector<float> logits = session.forward(fresh, true);
      if (!std::all_of(logits.begin(), logits.end(), [](float v) { return std::isfinite(v); })) {
        const auto& fault = session.fault();
        throw errorf(
            "the logits of step {} are not finite in {} arithmetic{}", made.size(),
            arithmetic_name(arithmetic),
            fault ? fmt::format("; '{}' was the first op to leave the range of fp16", fault->op) : "");
      }
      best = best_of(logits);
      if (along && c.truth.logits.has(row)) tally.add(logits, c.truth.logits.row(row));
    }
    along = along && made.size() < greedy.size() && best == greedy[made.size()];
    made.push_back(static_cast<int32_t>(best));
    if (ends_text(c, made.back()) || session.position() >= session.capacity()) break;
    fresh = std::span(&made.back(), 1);
  }
  note_fault(session.fault(), rung);
  if (!tally.empty()) rung.rows.push_back(tally.row());
  return made;
}

// The truth's logits that each made token is to be found in; fewer than that, where the truth does not go.
std::vector<std::vector<float>> truth_along(const Climber& c, std::span<const int32_t> made) {
  std::vector<std::vector<float>> out;
  const std::span<const int32_t> greedy = greedy_of(c);
  const auto same = static_cast<size_t>(
      std::mismatch(made.begin(), made.end(), greedy.begin(), greedy.end()).first - made.begin());
  for (size_t i = 0; i < made.size() && i <= same; ++i) {
    const int64_t row = c.truth.prompt - 1 + static_cast<int64_t>(i);
    if (!c.truth.logits.has(row)) break;
    const std::span<const float> logits = c.truth.logits.row(row);
    out.emplace_back(logits.begin(), logits.end());
  }
  if (out.size() == made.size() || !c.reference) return out;
  // The text went another way: the reference goes along.
  std::vector<int32_t> ids(c.truth.ids.begin(), c.truth.ids.begin() + c.truth.prompt);
  ids.insert(ids.end(), made.begin(), made.end() - 1);
  ReferenceSession session(*c.reference, {.positions = c.tokens});
  const std::vector<float> all = session.step(ids);
  const auto vocab = static_cast<ptrdiff_t>(c.truth.vocab);
  out.clear();
  for (size_t i = 0; i < made.size(); ++i) {
    const auto row = all.begin() + (c.truth.prompt - 1 + static_cast<ptrdiff_t>(i)) * vocab;
    out.emplace_back(row, row + vocab);
  }
  return out;
}

}  // namespace

Rung check_weights_rung(Climber& c) {
  Rung rung;
  const auto fail = [&](std::string problem) {
    rung.verdict = Verdict::failed;
    rung.summary = std::move(problem);
    return rung;
  };
  c.say("reading the files");
  if (std::string problem = file_problem(c); !problem.empty()) return fail(std::move(problem));
  if (!c.exact()) {
    rung.verdict = Verdict::skipped;
    rung.summary = "a golden holds no weights; give --source to compare them";
    return rung;
  }
  if (std::string problem = claim_problem(c); !problem.empty()) return fail(std::move(problem));
  const int64_t layers = c.bundle->info().layers, all = static_cast<int64_t>(c.model.layers.size());
  if (layers != all) {
    rung.verdict = Verdict::warned;
    rung.notes.push_back(
        fmt::format("the bundle holds layers {} to {} of the model's {}: it is a part of it, for a trial",
                    c.first_layer, c.first_layer + layers - 1, all));
  }
  c.say("comparing the weights with their source");
  ThreadPool pool(c.options.threads);
  c.report.weights = check_weights(*c.checkpoint, c.model, *c.bundle, pool);
  const auto bad = std::count_if(c.report.weights.begin(), c.report.weights.end(),
                                 [](const WeightFigures& w) { return !w.problem.empty(); });
  const WeightFigures& worst = c.report.weights.front();
  if (bad > 0) {
    fail(worst_text(c.report.weights));
    if (bad > 1) rung.notes.push_back(fmt::format("{} weights in all are not as they should be", bad));
    return rung;
  }
  if (std::string problem = tap_problem(c); !problem.empty()) return fail(std::move(problem));
  rung.summary = fmt::format("{} tensors, SQNR {:.1f} dB or better; worst {} ({})", c.report.weights.size(),
                             worst.sqnr, worst.name, worst.form);
  return rung;
}

Rung check_reference(Climber& c) {
  Rung rung;
  if (c.exact()) {
    c.say("computing the reference");
    c.reference = std::make_unique<Reference>(std::make_shared<const StoredWeights>(*c.bundle, c.model),
                                              as_stored(c.full->model()), c.options.threads);
    const int64_t positions = c.truth.prompt + c.report.steps;
    const std::vector<int32_t> prompt = c.truth.ids;
    const std::string origin = c.truth.origin;
    c.truth = capture(*c.reference, prompt,
                      {.steps = c.report.steps,
                       .layers = true,
                       .blocks = true,
                       .positions = positions,
                       .draft = draft_of(c)});
    c.truth.origin = origin;
  }
  cut_at_end(c);
  c.tokens = static_cast<int64_t>(c.truth.ids.size());
  const Golden::Rows& logits = c.truth.logits;
  for (int64_t t = logits.first; t < logits.first + logits.rows; ++t)
    for (const float v : logits.row(t))
      if (!std::isfinite(v)) {
        rung.verdict = Verdict::failed;
        rung.summary =
            fmt::format("{} gives logits that are not finite, first for token {}", c.truth.origin, t);
        return rung;
      }
  const std::span<const float> last = logits.row(c.truth.prompt - 1);
  const int64_t best = best_of(last);
  float second = -INFINITY;
  for (size_t i = 0; i < last.size(); ++i)
    if (static_cast<int64_t>(i) != best) second = std::max(second, last[i]);
  rung.summary = fmt::format("{} tokens of prompt, finite; best next token {}, {:.3g} above the second",
                             c.truth.prompt, token_text(c, best), last[static_cast<size_t>(best)] - second);
  if (c.exact())
    if (std::string problem = storage_problem(c, rung); !problem.empty()) {
      rung.verdict = Verdict::failed;
      rung.summary = std::move(problem);
      return rung;
    }
  if (c.truth.prompt < 3) {
    rung.verdict = Verdict::warned;
    rung.notes.push_back("so short a prompt hardly exercises attention, and a first token alone misleads");
  }
  for (const Reach& m : c.bundle->info().masks)
    if (!c.exact() && m.size >= c.tokens)
      rung.notes.push_back(fmt::format("the window of {} is not reached by {} tokens; a longer --text would",
                                       m.size, c.tokens));
  return rung;
}

Rung check_runtime(Climber& c, std::map<Arithmetic, std::vector<int32_t>>& made) {
  Rung rung;
  size_t checked = 0, least_distinct = SIZE_MAX, total = 0;
  for (const Arithmetic a : c.options.arithmetics) {
    c.say(fmt::format("running the text, {} arithmetic", arithmetic_name(a)));
    const std::vector<int32_t>& tokens = made[a] = make_text(c, a, rung);
    if (const std::string problem = rung.rows.empty() ? "" : c.logit_problem(rung.rows.back());
        !problem.empty()) {
      rung.verdict = Verdict::failed;
      rung.summary = "the packages agree, but what the runtime makes of them does not: " + problem;
      return rung;
    }
    if (c.exact()) {
      total = std::max(total, tokens.size());
      continue;
    }
    const std::vector<std::vector<float>> along = truth_along(c, tokens);
    for (size_t i = 0; i < along.size(); ++i, ++checked)
      if (!c.exact() && !in_top(along[i], tokens[i], 5)) {
        rung.verdict = Verdict::failed;
        rung.summary = fmt::format(
            "token {} of the answer, {}, is not among the five best of {}, which takes {} ({} arithmetic)", i,
            token_text(c, tokens[i]), c.truth.origin, token_text(c, best_of(along[i])), arithmetic_name(a));
        return rung;
      }
    const std::set<int32_t> distinct(tokens.begin(), tokens.end());
    least_distinct = std::min(least_distinct, distinct.size());
    total = std::max(total, tokens.size());
    const std::span<const int32_t> greedy = greedy_of(c);
    const std::set<int32_t> expected(greedy.begin(), greedy.end());
    if (!c.exact() && tokens.size() > 3 && distinct.size() == 1 && expected.size() > 1) {
      rung.verdict = Verdict::failed;
      rung.summary = fmt::format("the answer is one token over and over: {} ({} arithmetic)",
                                 token_text(c, tokens[0]), arithmetic_name(a));
      return rung;
    }
  }
  if (c.exact()) {
    rung.summary = fmt::format("{} tokens made; logits equal the expected ones after the prompt", total);
    return rung;
  }
  rung.summary = fmt::format("{} tokens made, {} distinct; {} looked up, each among the truth's five best",
                             total, least_distinct, checked);
  if (checked == 0) {
    rung.verdict = Verdict::warned;
    rung.notes.push_back("the golden has no logits to look the tokens up in");
  }
  return rung;
}

Rung check_text(Climber& c, const std::map<Arithmetic, std::vector<int32_t>>& made) {
  Rung rung;
  if (c.exact()) {
    c.say("comparing the tokenizer with its source");
    if (std::string problem = tokenizer_problem(c); !problem.empty()) {
      rung.verdict = Verdict::failed;
      rung.summary = std::move(problem);
      return rung;
    }
  }
  if (!c.report.generates) {
    rung.verdict = c.exact() && c.tokenizer ? Verdict::passed : Verdict::skipped;
    rung.summary = c.exact() && c.tokenizer ? "the tokenizer is the source's" : "the bundle writes no text";
    return rung;
  }
  const std::span<const int32_t> greedy = greedy_of(c);
  if (greedy.empty()) {
    rung.verdict = Verdict::skipped;
    rung.summary = "the golden holds no greedy_ids";
    return rung;
  }
  if (c.tokenizer) {
    c.report.expected_text = c.tokenizer->decode(greedy);
    c.report.text = c.tokenizer->decode(made.begin()->second);
  }
  const double bar = c.exact() || c.half_weights() ? kTieMargin : kWideMargin;
  std::string equal;
  for (const auto& [a, tokens] : made) {
    const size_t common = std::min(tokens.size(), greedy.size());
    const auto at = static_cast<size_t>(
        std::mismatch(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(common), greedy.begin()).first -
        tokens.begin());
    if (at == common) {
      equal += (equal.empty() ? "" : " and ") + std::string(arithmetic_name(a));
      continue;
    }
    const int64_t row = c.truth.prompt - 1 + static_cast<int64_t>(at);
    const bool known = c.truth.logits.has(row);
    const double margin = known ? margin_below_best(c.truth.logits.row(row), tokens[at]) : INFINITY;
    const std::string what = fmt::format("{} arithmetic: token {} is {} instead of {}{}", arithmetic_name(a),
                                         at, token_text(c, tokens[at]), token_text(c, greedy[at]),
                                         known ? fmt::format(", {:.3f} standard deviations below it", margin)
                                               : ", by a margin that is not known");
    if (c.router_ties.contains(a)) {
      rung.notes.push_back(what + ": behind a near tie of a router");
      continue;
    }
    if (margin > bar && (known || c.half_weights())) {
      rung.verdict = Verdict::failed;
      rung.summary = fmt::format("the text diverges by a wide margin (bar {}): {}", bar, what);
      return rung;
    }
    if (!known) rung.verdict = Verdict::warned;
    rung.notes.push_back(what + (known ? ": a near tie" : ""));
  }
  rung.summary = equal.empty()
                     ? fmt::format("the text diverges only where the truth is near a tie (bar {})", bar)
                     : fmt::format("{} greedy tokens equal in {} arithmetic", greedy.size(), equal);
  return rung;
}

}  // namespace anemone
