#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "verify/climber.h"
#include "verify/plot.h"
#include "verify/report.h"

namespace anemone {
namespace {

constexpr std::string_view kStyle = R"css(
:root { --paper: #fbfaf7; --card: #ffffff; --ink: #1d2327; --soft: #5d686f; --line: #dcd9d2; --a: #0b6e99; --b: #c2571a;
  --c: #6a4fb3; --good: #1a7f47; --warn: #9a6700; --bad: #c0262d; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181b; --card: #1c2226; --ink: #e8e6e1; --soft: #9aa5ab;
  --line: #343c41; --a: #5cb8e4; --b: #f09a5f; --c: #b29df0; --good: #58c98a; --warn: #e3b341; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 36px 0 10px; }
p { margin: 6px 0; } .soft { color: var(--soft); overflow-wrap: anywhere; }
.verdict { margin: 18px 0 0; padding: 12px 16px; border-left: 5px solid var(--good); background: var(--card); border-radius: 4px; }
.verdict.failed { border-color: var(--bad); } .verdict.warning { border-color: var(--warn); }
.verdict strong { display: block; font-size: 1.15rem; }
ol.rungs { list-style: none; margin: 20px 0 0; padding: 0; }
ol.rungs li { display: grid; grid-template-columns: 2rem 7rem 5.5rem 1fr; gap: 0 10px; padding: 9px 0;
  border-top: 1px solid var(--line); }
ol.rungs li > div { overflow-wrap: anywhere; }
.passed { color: var(--good); } .warning { color: var(--warn); } .failed { color: var(--bad); } .skipped { color: var(--soft); }
.note { color: var(--soft); font-size: .92rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 16px; }
figure { margin: 0; padding: 14px; background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
figcaption { font-weight: 600; margin-bottom: 2px; } .axis { color: var(--soft); font-size: .88rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--line); stroke-width: 1; } svg path { fill: none; stroke-width: 2; }
svg path.a { stroke: var(--a); } svg path.b { stroke: var(--b); } svg path.c { stroke: var(--c); }
svg circle.a { fill: var(--a); } svg circle.b { fill: var(--b); } svg circle.c { fill: var(--c); }
svg .dashed { stroke-dasharray: 5 4; stroke-width: 1.4; } svg .limit { stroke: var(--bad); stroke-width: 1.4; stroke-dasharray: 2 3; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: .88rem; color: var(--soft); margin-top: 6px; }
.legend i { display: inline-block; width: 18px; border-top: 3px solid; margin-right: 6px; vertical-align: middle; }
.legend .a i { color: var(--a); } .legend .b i { color: var(--b); } .legend .c i { color: var(--c); }
.legend .limit i { color: var(--bad); border-top-style: dotted; } .legend .half i { border-top-style: dashed; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 500; } th:first-child, td:first-child, .left { text-align: left; }
td.failed { font-weight: 600; } blockquote { margin: 6px 0; padding: 10px 14px; background: var(--card); border-radius: 4px;
  border: 1px solid var(--line); white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 620px) { ol.rungs li { grid-template-columns: 1.4rem 1fr auto; } ol.rungs li > .what { grid-column: 2 / -1; }
  h1 { font-size: 1.25rem; } }
)css";

std::string number(double value) {
  if (!std::isfinite(value)) return "∞";
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string legend(const char* style, const char* name) {
  return fmt::format("<span class=\"{}\"><i></i>{}</span>", style, name);
}

std::string figure(const Plot& plot, const std::string& keys) {
  return fmt::format(
      "<figure><figcaption>{}</figcaption><div class=\"axis\">{}</div>\n{}<div class=\"legend\">{}</div>"
      "</figure>\n",
      html_escaped(plot.title), html_escaped(plot.axis), plot.svg(), keys);
}

std::string error_plot(const VerifyReport& r) {
  Plot plot{.title = "Error per layer", .axis = "relative to the truth, at one token; logarithmic"};
  constexpr std::pair<const char*, const char*> kSeries[] = {
      {"layer_out", "a"}, {"attn_out", "b"}, {"mlp_out", "c"}};
  for (const auto& [arithmetic, layers] : r.layer_figures) {
    if (layers.empty()) continue;
    plot.first_layer = layers.front().layer;
    for (const auto& [part, style] : kSeries) {
      PlotLine line{part, style, arithmetic == Arithmetic::fp16, {}};
      for (const LayerFigures& l : layers) {
        const auto it = l.parts.find(part);
        line.values.push_back(it == l.parts.end() ? NAN : std::max(it->second.relative, 1e-7));
      }
      plot.lines.push_back(std::move(line));
    }
  }
  return figure(plot, legend("a", "residual stream") + legend("b", "attention") + legend("c", "MLP") +
                          legend("half", "dashed: fp16 arithmetic"));
}

std::string range_plot(const VerifyReport& r) {
  Plot plot{.title = "Range per layer", .axis = "largest magnitude over the text; logarithmic"};
  PlotLine values{"largest value", "a", false, {}}, sums{"largest running sum", "b", false, {}};
  for (const LayerMagnitude& m : r.magnitudes) {
    values.values.push_back(m.value.value);
    sums.values.push_back(m.sum.where.empty() ? NAN : m.sum.value);
  }
  plot.first_layer = r.magnitudes.front().layer;
  plot.lines = {values, sums};
  plot.limits = {{"fp16's largest number", static_cast<double>(kHalfMax)},
                 {"the accumulator's limit", kAccumulatorLimit}};
  return figure(plot, legend("a", "value") + legend("b", "running sum of a product") +
                          legend("limit", "limits: 65504 fp16, 32768 accumulator"));
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

std::string figures_table(const VerifyReport& r) {
  std::string rows;
  for (const Rung& rung : r.rungs)
    for (const FigureRow& f : rung.rows) {
      rows += fmt::format("<tr><td>{}</td><td class=\"left\">{}</td><td>{}</td><td>{}</td>", rung.number,
                          html_escaped(f.what), arithmetic_name(f.arithmetic), f.positions);
      rows += f.choices ? fmt::format("<td>{:.0f}%</td><td>{:.0f}%</td>", 100 * f.same_best, 100 * f.overlap)
                        : std::string("<td>–</td><td>–</td>");
      rows += f.values ? fmt::format(
                             "<td>{:.6f}</td><td>{:.3g}%</td><td>{:.3g}%</td><td>{}</td><td>{}</td></tr>\n",
                             f.cosine, 100 * f.error, 100 * f.worst_error,
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
        rows +=
            !there ? "<td>–</td>" : fmt::format("<td>{:.3g}%</td>", 100 * layers[i].parts.at(part).relative);
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
        "<tr><td>{}</td><td class=\"left\">{}</td><td class=\"left\">{}</td><td>{}</td><td>{:.1f}</td>"
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
  if (failed != r.rungs.end())
    return fmt::format("<div class=\"verdict failed\"><strong>Failed at rung {}, {}</strong>{}</div>\n",
                       failed->number, failed->name, html_escaped(failed->summary));
  const std::string tokens = r.generates ? fmt::format("{} tokens of prompt, {} decoded", r.prompt, r.steps)
                                         : fmt::format("{} tokens", r.prompt);
  return fmt::format("<div class=\"verdict {}\"><strong>{}</strong>{}.</div>\n", warned ? "warning" : "",
                     warned ? "Passed, with a warning" : "Passed", tokens);
}

}  // namespace

std::string report_html(const VerifyReport& r) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  out += fmt::format("<title>{} – verification</title>\n<style>{}</style></head><body><main>\n",
                     html_escaped(r.name), kStyle);
  out += fmt::format("<h1>{}</h1>\n<p class=\"soft\">{} against {}: {} layers, {} weights, {}</p>\n",
                     html_escaped(r.name), html_escaped(r.bundle), html_escaped(r.source), r.layers,
                     html_escaped(r.precision), html_escaped(r.form));
  out += verdict_box(r) + rungs(r);
  std::string plots;
  if (!r.layer_figures.empty() && !r.layer_figures.begin()->second.empty()) plots += error_plot(r);
  if (!r.magnitudes.empty()) plots += range_plot(r);
  if (!plots.empty()) out += "<h2>Layer by layer</h2><div class=\"plots\">\n" + plots + "</div>\n";
  if (!r.layer_figures.empty()) out += layers_table(r);
  out += figures_table(r) + weights_table(r);
  if (!r.text.empty() || !r.expected_text.empty()) {
    out += "<h2>Text</h2><blockquote>" + html_escaped(r.text) + "</blockquote>\n";
    if (r.text != r.expected_text)
      out += "<p class=\"soft\">The reference:</p><blockquote>" + html_escaped(r.expected_text) +
             "</blockquote>\n";
  }
  return out + "</main></body></html>\n";
}

}  // namespace anemone
