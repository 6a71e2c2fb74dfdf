#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "verify/climber.h"
#include "verify/report.h"

namespace anemone {
namespace {

constexpr size_t kColumns = 100, kWorst = 10;

// Breaks at spaces; lines after the first are indented. Counts characters, not bytes.
std::string wrapped(const std::string& text, size_t indent) {
  std::string out, word;
  size_t column = indent;
  const auto characters = [](const std::string& s) {
    return static_cast<size_t>(std::count_if(
        s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  };
  const auto flush = [&] {
    if (word.empty()) return;
    const size_t length = characters(word);
    if (column > indent && column + 1 + length > kColumns) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
    word.clear();
  };
  for (const char c : text) {
    if (c == ' ' || c == '\n')
      flush();
    else
      word += c;
  }
  flush();
  return out;
}

const char* mark(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "✓";
    case Verdict::warned: return "!";
    case Verdict::failed: return "✗";
    case Verdict::skipped: return "-";
  }
  return "";
}

std::string number(double value) {
  if (!std::isfinite(value)) return "inf";
  if (value != 0 && std::abs(value) < 1e-3) return fmt::format("{:.1e}", value);
  return value < 10 ? fmt::format("{:.4f}", value) : fmt::format("{:.1f}", value);
}

// "0.0021%": a relative error.
std::string percent(double value) {
  if (!std::isfinite(value)) return "inf";
  return 100 * value < 0.001 && value > 0 ? "<0.001%" : fmt::format("{:.2g}%", 100 * value);
}

std::string large(double value) {
  return std::isfinite(value) && value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string times(double headroom) {
  if (!std::isfinite(headroom)) return "-";
  return headroom < 10    ? fmt::format("{:.1f}x", headroom)
         : headroom < 1e4 ? fmt::format("{:.0f}x", headroom)
                          : ">9999x";
}

std::string rung_lines(const VerifyReport& r) {
  std::string out;
  for (const Rung& rung : r.rungs) {
    const std::string head = fmt::format("  {} {} {:<10} {:<8} ", mark(rung.verdict), rung.number, rung.name,
                                         verdict_name(rung.verdict));
    constexpr size_t kIndent = 26;
    out += head + wrapped(rung.summary, kIndent) + "\n";
    for (const std::string& note : rung.notes)
      out += std::string(kIndent, ' ') + "· " + wrapped(note, kIndent + 2) + "\n";
  }
  return out;
}

std::string figure_lines(const VerifyReport& r) {
  std::string out;
  for (const Rung& rung : r.rungs)
    for (const FigureRow& f : rung.rows) {
      if (out.empty())
        out = fmt::format("\n  {:<4} {:<30} {:<5} {:>5} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8}\n", "rung",
                          r.generates ? "logits" : "values", "arith", "count", "argmax", "top 5", "cosine",
                          "error", "KL nats", "max|e|");
      out += fmt::format("  {:<4} {:<30.30} {:<5} {:>5} ", rung.number, f.what, arithmetic_name(f.arithmetic),
                         f.positions);
      out += f.choices ? fmt::format("{:>5.0f}% {:>5.0f}% ", 100 * f.same_best, 100 * f.overlap)
                       : fmt::format("{:>6} {:>6} ", "-", "-");
      out += f.values ? fmt::format("{:>8.5f} {:>8} {:>8} {:>8}\n", f.cosine, percent(f.error),
                                    f.choices ? number(f.divergence) : "-", number(f.max_abs))
                      : fmt::format("{:>8} {:>8} {:>8} {:>8}\n", "-", "-", "-", "-");
    }
  return out;
}

std::string weight_lines(const VerifyReport& r) {
  if (r.weights.empty()) return "";
  std::string out = fmt::format("\n  {:<24} {:<34} {:<6} {:>9} {:>9} {:>9}\n", "worst weights", "source",
                                "stored", "SQNR dB", "gain", "max |e|");
  for (size_t i = 0; i < std::min(kWorst, r.weights.size()); ++i) {
    const WeightFigures& w = r.weights[i];
    out += fmt::format("  {:<24.24} {:<34.34} {:<6.6} {:>9.1f} {:>9.5f} {:>9}\n", w.name, w.tensor, w.form,
                       w.sqnr, w.gain, number(w.max_abs));
  }
  return out;
}

// The error in each arithmetic.
std::string both(const VerifyReport& r, size_t layer, const char* part) {
  std::string out;
  for (const auto& [a, layers] : r.layer_figures) {
    std::string one = "-";
    if (layer < layers.size())
      if (const auto it = layers[layer].parts.find(part); it != layers[layer].parts.end())
        one = percent(it->second.relative);
    out += (out.empty() ? "" : " ") + fmt::format("{:>7}", one);
  }
  return out;
}

std::string layer_lines(const VerifyReport& r, bool detail) {
  if (r.layer_figures.empty()) return "";
  std::string names;
  for (const auto& [a, layers] : r.layer_figures)
    names += fmt::format("{}{:>7}", names.empty() ? "" : " ", arithmetic_name(a));
  const size_t width = 8 * r.layer_figures.size() - 1;
  std::string out = fmt::format("\n  {:<5} {:>{}} {:>{}} {:>{}}  {:>9} {:<13} {:>19}\n", "error", "stream",
                                width, "attention", width, "mlp", width, "largest", "", "headroom");
  out += fmt::format("  {:<5} {} {} {}  {:>9} {:<13} {:>7} {:>11}\n", "layer", names, names, names, "value",
                     "where", "fp16", "accumulator");
  const size_t count = r.layer_figures.begin()->second.size();
  for (size_t i = 0; i < count; ++i) {
    // Long models: the first and last few, unless asked for.
    if (!detail && count > 14 && i == 6) out += fmt::format("  … {} more with --verbose\n", count - 12);
    if (!detail && count > 14 && i >= 6 && i + 6 < count) continue;
    const LayerMagnitude m = i < r.magnitudes.size() ? r.magnitudes[i] : LayerMagnitude{};
    out += fmt::format("  {:<5} {:>{}} {:>{}} {:>{}}  {:>9} {:<13.13} {:>7} {:>11}\n",
                       r.layer_figures.begin()->second[i].layer, both(r, i, "layer_out"), width,
                       both(r, i, "attn_out"), width, both(r, i, "mlp_out"), width, large(m.value.value),
                       m.value.where, times(m.half_headroom()), times(m.accumulator_headroom()));
  }
  return out;
}

std::string verdict_line(const VerifyReport& r) {
  for (const Rung& rung : r.rungs)
    if (rung.verdict == Verdict::failed)
      return wrapped(fmt::format("FAILED at rung {}, {}: {}", rung.number, rung.name, rung.summary), 2) +
             "\n";
  const auto skipped = std::count_if(r.rungs.begin(), r.rungs.end(),
                                     [](const Rung& x) { return x.verdict == Verdict::skipped; });
  const auto warned = std::count_if(r.rungs.begin(), r.rungs.end(),
                                    [](const Rung& x) { return x.verdict == Verdict::warned; });
  return fmt::format("PASSED: {} rungs{}{}\n", r.rungs.size() - static_cast<size_t>(skipped),
                     warned ? fmt::format(", {} with a warning", warned) : "",
                     skipped ? fmt::format(", {} skipped", skipped) : "");
}

}  // namespace

std::string report_text(const VerifyReport& r, bool detail, bool brief) {
  if (brief) return verdict_line(r);
  double seconds = 0;
  for (const Rung& rung : r.rungs) seconds += rung.seconds;
  std::string out = wrapped(fmt::format("{}: {}, {} layers, {} weights, {}", r.bundle, r.name, r.layers,
                                        r.precision, r.form),
                            2) +
                    "\n";
  const std::string tokens = r.generates ? fmt::format("{} tokens of prompt, {} decoded", r.prompt, r.steps)
                                         : fmt::format("{} tokens", r.prompt);
  out += wrapped(fmt::format("against {}: {}; {:.1f} s", r.source, tokens, seconds), 2) + "\n\n";
  out += rung_lines(r);
  const bool weights_failed = !r.weights.empty() && !r.weights.front().problem.empty();
  if (detail || weights_failed) out += weight_lines(r);
  out += layer_lines(r, detail);
  out += figure_lines(r);
  if (!r.text.empty() || !r.expected_text.empty()) {
    out += "\n  text   " + wrapped(r.text, 9) + "\n";
    if (r.text != r.expected_text) out += "  truth  " + wrapped(r.expected_text, 9) + "\n";
  }
  return out + "\n" + verdict_line(r);
}

}  // namespace anemone
