#include <algorithm>

#include "base/error.h"
#include "base/words.h"
#include "measure/bench.h"
#include "page/page.h"
#include "page/plot.h"

namespace anemone {
namespace {

std::string tile(const std::string& figure, const std::string& what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html_escaped(figure),
                     html_escaped(what));
}

std::string time_text(double seconds) {
  return seconds < 0.1 ? fmt::format("{:.1f} ms", 1000 * seconds) : fmt::format("{:.2f} s", seconds);
}

std::string section(const std::string& heading, const std::string& content) {
  return fmt::format("<section><h2>{}</h2>{}</section>\n", heading, content);
}

// A plot over the fills of the context.
Plot over_fills(const BenchReport& r, const std::string& title, const std::string& axis) {
  Plot plot{.title = title, .axis = axis, .across = "tokens in the context", .logarithmic = false};
  for (const BenchRow& row : r.rows) {
    plot.ticks.push_back(fmt::format("{}", row.fill));
    plot.places.push_back(static_cast<double>(row.fill));
  }
  return plot;
}

template <class Value>
PlotLine line(const BenchReport& r, const std::string& name, const std::string& style, Value value) {
  PlotLine out{name, style, false, {}};
  for (const BenchRow& row : r.rows) out.values.push_back(value(row));
  return out;
}

std::string plots(const BenchReport& r) {
  const bool predicted = !r.chip.empty();
  const std::string measured = plot_key("a", "measured"),
                    plan = plot_key("b half", fmt::format("plan's prediction for the {}", r.chip));
  Plot decode = over_fills(r, "Decode", "tokens per second");
  decode.lines.push_back(line(r, "measured", "a", [](const BenchRow& x) { return x.decode_tokens_per_s(); }));
  if (predicted) {
    decode.lines.push_back(
        line(r, "predicted", "b", [](const BenchRow& x) { return 1000 / x.predicted_ms; }));
    decode.lines.back().dashed = true;
  }
  Plot prefill = over_fills(r, "Prefill", "tokens per second");
  prefill.lines.push_back(line(r, "measured", "a", [](const BenchRow& x) { return x.prefill_tokens_per_s; }));
  Plot first = over_fills(r, "Time to the first token", "seconds");
  first.lines.push_back(line(r, "measured", "a", [](const BenchRow& x) { return x.first_token_s; }));
  std::string out =
      decode.figure(measured + (predicted ? plan : "")) + prefill.figure(measured) + first.figure(measured);
  if (r.read_gbps > 0) {
    Plot reads = over_fills(r, "Weights read", "gigabytes per second");
    reads.lines.push_back(line(r, "measured", "a", [&](const BenchRow& x) { return read_gbps(r, x); }));
    reads.limits.push_back({"what this machine reads", r.read_gbps});
    out += reads.figure(measured +
                        plot_key("limit", fmt::format("this machine reads {:.1f} GB/s", r.read_gbps)));
  }
  return "<div class=\"plots\">\n" + out + "</div>\n";
}

std::string row_text(const BenchReport& r, const BenchRow& row, double watts) {
  std::string out =
      fmt::format("<tr><td>{}</td><td>{:.1f}</td><td>{:.3f}</td><td>{:.1f}</td><td>{:.2f}</td>", row.fill,
                  row.prefill_tokens_per_s, row.first_token_s, row.decode_tokens_per_s(), row.decode_ms);
  if (!r.chip.empty())
    out += fmt::format("<td>{:.2f}</td><td>{:+.0f}%</td>", row.predicted_ms, 100 * row.error());
  if (r.read_gbps > 0)
    out += fmt::format("<td>{:.1f}</td><td>{:.0f}%</td>", read_gbps(r, row),
                       100 * read_gbps(r, row) / r.read_gbps);
  if (watts > 0) out += fmt::format("<td>{:.3f}</td>", watts * row.decode_ms / 1000);
  return out + "</tr>\n";
}

std::string figures_table(const BenchReport& r, double watts) {
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>filled</th><th>prefill tok/s</th><th>first token s</th>"
      "<th>decode tok/s</th><th>ms a token</th>";
  if (!r.chip.empty()) out += "<th>plan's ms</th><th>error</th>";
  if (r.read_gbps > 0) out += "<th>GB/s</th><th>share of this machine's</th>";
  if (watts > 0) out += "<th>J a token</th>";
  out += "</tr></thead><tbody>\n";
  for (const BenchRow& row : r.rows) out += row_text(r, row, watts);
  return out + "</tbody></table></div>\n";
}

// Milliseconds of each stage, with a bar: its part of the token at the last fill.
std::string stages_table(const BenchReport& r) {
  std::string out = "<div class=\"scroll\"><table><thead><tr><th>stage</th>";
  for (const BenchRow& row : r.rows) out += fmt::format("<th>{} filled</th>", row.fill);
  out += fmt::format("<th>part</th><th class=\"left\">of a token, {} filled</th></tr></thead><tbody>\n",
                     r.rows.back().fill);
  double all = 0;
  for (const double ms : r.rows.back().stage_ms) all += ms;
  for (size_t s = 0; s < r.stages.size(); ++s) {
    out += fmt::format("<tr><td class=\"left\">{}</td>", html_escaped(r.stages[s]));
    for (const BenchRow& row : r.rows) out += fmt::format("<td>{:.3f}</td>", row.stage_ms[s]);
    const double part = all > 0 ? 100 * r.rows.back().stage_ms[s] / all : 0;
    out += fmt::format(
        "<td>{0:.0f}%</td><td class=\"left\"><div class=\"stack low\" style=\"margin:4px 0\"><i "
        "class=\"ane\" "
        "style=\"width:{0:.1f}%\"></i></div></td></tr>\n",
        part);
  }
  return out + "</tbody></table></div>\n";
}

std::string tiles(const BenchReport& r, const std::vector<PowerUse>& power) {
  const BenchRow &first = r.rows.front(), &last = r.rows.back();
  std::string out = tile(fmt::format("{:.1f} tok/s", first.decode_tokens_per_s()),
                         fmt::format("decode with {} in the context", counted(first.fill, "token")));
  double prefill = 0;
  for (const BenchRow& row : r.rows) prefill = std::max(prefill, row.prefill_tokens_per_s);
  out += tile(fmt::format("{:.0f} tok/s", prefill), "prefill at its fastest");
  out += tile(time_text(r.first_load_s), "first load; again " + time_text(r.second_load_s));
  if (!r.chip.empty())
    out += tile(
        fmt::format("{:+.0f}%", 100 * last.error()),
        fmt::format("plan's error for the {} with {} in the context", r.chip, counted(last.fill, "token")));
  if (r.read_gbps > 0)
    out += tile(fmt::format("{:.0f}%", 100 * read_gbps(r, first) / r.read_gbps),
                fmt::format("of the {:.1f} GB/s that this machine reads", r.read_gbps));
  if (const double watts = all_watts(power); watts > 0)
    out += tile(fmt::format("{:.3f} J", watts * last.decode_ms / 1000),
                fmt::format("a token, at {:.2f} W", watts));
  return "<div class=\"tiles\">\n" + out + "</div>\n";
}

std::string notes(const BenchReport& r, const std::vector<PowerUse>& power) {
  std::string out;
  for (const PowerUse& p : power)
    out += fmt::format("<li>{} power {:.2f} W, mean of {}</li>\n", html_escaped(p.name), p.watts,
                       counted(p.samples, "sample"));
  for (const std::string& remark : r.remarks) out += fmt::format("<li>{}</li>\n", html_escaped(remark));
  return out.empty() ? "" : section("Notes", "<ul class=\"places\">\n" + out + "</ul>\n");
}

}  // namespace

std::string bench_page(const BenchReport& r, const std::vector<PowerUse>& power) {
  if (r.rows.empty()) throw Error("nothing was measured: there is no page to write");
  const std::string body =
      "<main>\n" + section("At a glance", tiles(r, power)) + section("Over the context", plots(r)) +
      section("Figures", figures_table(r, all_watts(power))) +
      section("Milliseconds of a token, by stage", stages_table(r)) + notes(r, power) + "</main>\n";
  return page_text(
      {.title = r.model + " · anemone bench",
       .heading = r.model,
       .note = fmt::format("anemone bench: how fast is it here? {}, {} arithmetic{}, weights {}", r.backend,
                           r.arithmetic, r.variant.empty() ? "" : ", variant " + r.variant,
                           size_text(r.weight_bytes))},
      body);
}

}  // namespace anemone
