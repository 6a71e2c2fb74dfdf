#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "page/page.h"
#include "page/plot.h"
#include "verify/climber.h"
#include "verify/report.h"

namespace anemone {
namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return "∞";
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

// The numbers of the layers, below a plot.
std::vector<std::string> layer_ticks(int64_t first, size_t count) {
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) out.push_back(fmt::format("{}", first + static_cast<int64_t>(i)));
  return out;
}

std::string error_plot(const VerifyReport& r) {
  Plot plot{.title = "Error per layer", .axis = "relative to the truth, at one token; logarithmic"};
  constexpr std::pair<const char*, const char*> kSeries[] = {
      {"layer_out", "a"}, {"attn_out", "b"}, {"mlp_out", "c"}};
  for (const auto& [arithmetic, layers] : r.layer_figures) {
    if (layers.empty()) continue;
    plot.ticks = layer_ticks(layers.front().layer, layers.size());
    for (const auto& [part, style] : kSeries) {
      PlotLine line{part, style, arithmetic != Arithmetic::fp32, {}};
      for (const LayerFigures& l : layers) {
        const auto it = l.parts.find(part);
        line.values.push_back(it == l.parts.end() ? NAN : std::max(it->second.relative, 1e-7));
      }
      plot.lines.push_back(std::move(line));
    }
  }
  return plot.figure(plot_key("a", "residual stream") + plot_key("b", "attention") + plot_key("c", "MLP") +
                     plot_key("half", "dashed: fp16 arithmetic"));
}

std::string range_plot(const VerifyReport& r) {
  Plot plot{.title = "Range per layer", .axis = "largest magnitude over the text; logarithmic"};
  PlotLine values{"largest value", "a", false, {}}, sums{"largest running sum", "b", false, {}};
  for (const LayerMagnitude& m : r.magnitudes) {
    values.values.push_back(m.value.value);
    sums.values.push_back(m.sum.where.empty() ? NAN : m.sum.value);
  }
  plot.ticks = layer_ticks(r.magnitudes.front().layer, r.magnitudes.size());
  plot.lines = {values, sums};
  plot.limits = {{"fp16's largest number", static_cast<double>(kHalfMax)},
                 {"the accumulator's limit", kAccumulatorLimit}};
  return plot.figure(plot_key("a", "value") + plot_key("b", "running sum of a product") +
                     plot_key("limit", "limits: 65504 fp16, 32768 accumulator"));
}

std::string rungs(const VerifyReport& r) {
  std::string out = "<ol class=\"rungs\">\n";
  for (const Rung& rung : r.rungs) {
    out += fmt::format("<li><div>{}</div><div>{}</div><div class=\"{}\">{}</div><div class=\"what\">{}",
                       rung.number, rung.name, verdict_name(rung.verdict), verdict_name(rung.verdict),
                       html_escaped(rung.summary));
    for (const std::string& note : rung.notes) out += "<p class=\"note\">" + html_escaped(note) + "</p>";
    out += "</div></li>\n";
  }
  return out + "</ol>\n";
}

// As the command prints it.
std::string error_text(double relative) {
  if (!std::isfinite(relative)) return "inf";
  return relative > 0 && 100 * relative < 0.001 ? "&lt;0.001%" : fmt::format("{:.2g}%", 100 * relative);
}

std::string figures_table(const VerifyReport& r) {
  std::string rows;
  for (const Rung& rung : r.rungs)
    for (const FigureRow& f : rung.rows) {
      rows += fmt::format("<tr><td>{}</td><td class=\"left\">{}</td><td>{}</td><td>{}</td>", rung.number,
                          html_escaped(f.what), arithmetic_name(f.arithmetic), f.positions);
      rows += f.choices ? fmt::format("<td>{:.0f}%</td><td>{:.0f}%</td>", 100 * f.same_best, 100 * f.overlap)
                        : std::string("<td>–</td><td>–</td>");
      rows += f.values ? fmt::format("<td>{:.6f}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                                     f.cosine, error_text(f.error), error_text(f.worst_error),
                                     f.choices ? number(f.divergence) : "–", number(f.max_abs))
                       : std::string("<td>–</td><td>–</td><td>–</td><td>–</td><td>–</td></tr>\n");
    }
  if (rows.empty()) return "";
  return fmt::format("<h2>{}</h2>", r.generates ? "Logits" : "Results") +
         "<div class=\"scroll\"><table><thead><tr><th>rung</th><th "
         "class=\"left\">what</th><th>arithmetic"
         "</th><th>tokens</th><th>argmax</th><th>top 5</th><th>cosine</th><th>error</th>"
         "<th>worst error</th><th>KL, nats</th>"
         "<th>max |e|</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string layers_table(const VerifyReport& r) {
  std::string head = "<th>layer</th>", rows;
  for (const auto& [a, layers] : r.layer_figures)
    for (const char* part : {"stream", "attention", "MLP"})
      head += fmt::format("<th>{} {}</th>", part, arithmetic_name(a));
  head += "<th>largest value</th><th>headroom fp16</th><th>headroom accumulator</th>";
  const size_t count = r.layer_figures.begin()->second.size();
  for (size_t i = 0; i < count; ++i) {
    rows += fmt::format("<tr><td>{}</td>", r.layer_figures.begin()->second[i].layer);
    for (const auto& [a, layers] : r.layer_figures)
      for (const char* part : {"layer_out", "attn_out", "mlp_out"}) {
        const bool there = i < layers.size() && layers[i].parts.contains(part);
        rows += "<td>" + (there ? error_text(layers[i].parts.at(part).relative) : "–") + "</td>";
      }
    const LayerMagnitude m = i < r.magnitudes.size() ? r.magnitudes[i] : LayerMagnitude{};
    rows += fmt::format("<td>{} {}</td><td>{}×</td><td>{}×</td></tr>\n", number(m.value.value), m.value.where,
                        number(m.half_headroom()), number(m.accumulator_headroom()));
  }
  return fmt::format("<h2>Layers</h2><p class=\"soft\">Errors relative to the truth, {}.</p>",
                     r.generates ? "at one token of the prompt" : "over all tokens of the text") +
         "<div class=\"scroll\"><table><thead><tr>" + head + "</tr></thead><tbody>\n" + rows +
         "</tbody></table></div>\n";
}

std::string weights_table(const VerifyReport& r) {
  if (r.weights.empty()) return "";
  std::string rows;
  for (size_t i = 0; i < std::min<size_t>(10, r.weights.size()); ++i) {
    const WeightFigures& w = r.weights[i];
    rows += fmt::format(
        "<tr><td class=\"left\">{}</td><td class=\"left\">{}</td><td "
        "class=\"left\">{}</td><td>{}</td><td>{:.1f}</td>"
        "<td>{:.5f}</td><td>{}</td></tr>\n",
        html_escaped(w.name), html_escaped(w.tensor), html_escaped(w.package), w.form, w.sqnr, w.gain,
        number(w.max_abs));
  }
  return "<h2>The ten worst weights</h2><div class=\"scroll\"><table><thead><tr><th>weight</th><th "
         "class=\"left\">source</th>"
         "<th class=\"left\">package</th><th>stored</th><th>SQNR dB</th><th>gain</th><th>max "
         "|e|</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string verdict_box(const VerifyReport& r) {
  const auto failed = std::find_if(r.rungs.begin(), r.rungs.end(),
                                   [](const Rung& x) { return x.verdict == Verdict::failed; });
  const bool warned =
      std::any_of(r.rungs.begin(), r.rungs.end(), [](const Rung& x) { return x.verdict == Verdict::warned; });
  constexpr const char* kBox =
      "<section class=\"verdict {}\"><b>{}</b><span>{}</span><p class=\"soft\">{}</p></section>\n";
  const std::string what =
      fmt::format("{} against {}: {} layers, {} weights, {}", html_escaped(r.bundle), html_escaped(r.source),
                  r.layers, html_escaped(r.precision), html_escaped(r.form));
  if (failed != r.rungs.end())
    return fmt::format(
        kBox, "failed", "failed",
        fmt::format("at rung {}, {}: {}", failed->number, failed->name, html_escaped(failed->summary)), what);
  const std::string tokens = r.generates ? fmt::format("{} tokens of prompt, {} decoded", r.prompt, r.steps)
                                         : fmt::format("{} tokens", r.prompt);
  return fmt::format(kBox, warned ? "warning" : "", warned ? "passed, with a warning" : "passed", tokens,
                     what);
}

// A card of the page; nothing where there is nothing in it.
std::string section(const std::string& content) {
  return content.empty() ? "" : "<section>" + content + "</section>\n";
}

std::string text_part(const VerifyReport& r) {
  if (r.text.empty() && r.expected_text.empty()) return "";
  std::string out = "<h2>Text</h2><blockquote>" + html_escaped(r.text) + "</blockquote>\n";
  if (r.text != r.expected_text)
    out += "<p class=\"soft\">The reference:</p><blockquote>" + html_escaped(r.expected_text) +
           "</blockquote>\n";
  return out;
}

}  // namespace

std::string report_html(const VerifyReport& r) {
  std::string plots;
  if (!r.layer_figures.empty() && !r.layer_figures.begin()->second.empty()) plots += error_plot(r);
  if (!r.magnitudes.empty()) plots += range_plot(r);
  if (!plots.empty()) plots = "<h2>Layer by layer</h2><div class=\"plots\">\n" + plots + "</div>\n";
  const std::string body = "<main>\n" + verdict_box(r) + section("<h2>Rungs of the ladder</h2>" + rungs(r)) +
                           section(plots) + section(r.layer_figures.empty() ? "" : layers_table(r)) +
                           section(figures_table(r)) + section(weights_table(r)) + section(text_part(r)) +
                           "</main>\n";
  return page_text({.title = r.name + " · anemone verify",
                    .heading = r.name,
                    .note = "anemone verify: does it compute what its model computes?"},
                   body);
}

}  // namespace anemone
