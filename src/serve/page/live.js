// How the server is doing, once a second: speed, slots, cache.
import { get } from "./api.js";

const kPoints = 60;
const make = (tag, className, text) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};
const svg = (tag, attributes) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
};

class Plot {
  constructor(label, unit) {
    this.values = [];
    this.unit = unit;
    this.root = make("div", "panel plot");
    this.number = make("b", "", "–");
    this.picture = svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.picture.append(this.area, this.line);
    this.most = make("small");
    const scale = make("p", "scale");
    scale.append(make("small", "", "1 min"), this.most);
    this.label = make("span", "", label);
    this.root.append(this.number, this.label, this.picture, scale);
  }
  add(value, text) {
    this.values = [...this.values, value].slice(-kPoints);
    const short = (v) => `${v.toFixed(v < 100 && !Number.isInteger(v) ? 1 : 0)}${this.unit}`;
    this.number.textContent = text ?? short(value);
    this.most.textContent = "most " + short(Math.max(...this.values));
    const most = Math.max(...this.values, 1e-9), step = 100 / (kPoints - 1), first = 100 - step * (this.values.length - 1);
    const points = this.values.map((v, i) => `${(first + i * step).toFixed(2)},${(39 - (37 * v) / most).toFixed(2)}`);
    this.line.setAttribute("d", "M" + points.join("L"));
    this.area.setAttribute("d", `M${first.toFixed(2)},40L${points.join("L")}L100,40Z`);
  }
}

function parse(text) {
  const out = {};
  for (const line of text.split("\n")) {
    const m = /^llamacpp:(\w+) (\S+)$/.exec(line);
    if (m) out[m[1]] = Number(m[2]);
  }
  return out;
}

export class Live {
  constructor(root) {
    this.root = root;
    this.decode = new Plot("tokens written in a second", "");
    this.prompt = new Plot("prompt tokens read in a second", "");
    this.busy = new Plot("answers under way", "");
    this.cache = new Plot("memory of known texts", " MB");
    const plots = make("div", "plots");
    plots.append(this.decode.root, this.prompt.root, this.busy.root, this.cache.root);
    this.slots = make("div", "slots");
    const panel = make("section", "panel");
    panel.append(make("h2", "", "Slots"), this.slots);
    root.replaceChildren(plots, panel);
    this.last = null;
    this.timer = 0;
  }
  start() {
    if (!this.timer) this.timer = setInterval(() => this.look(), 1000);
    this.look();
  }
  stop() {
    clearInterval(this.timer);
    this.timer = 0;
  }
  async look() {
    let text, slots;
    try {
      [text, slots] = await Promise.all([get("/metrics"), get("/slots")]);
    } catch {
      return;
    }
    const now = performance.now(), m = parse(text), made = slots.reduce((n, s) => n + s.next_token[0].n_decoded, 0);
    const state = { now, read: m.prompt_tokens_total + slots.reduce((n, s) => n + s.n_prompt_tokens_processed - s.n_prompt_tokens_cache, 0), made: m.tokens_predicted_total + made };
    if (this.last) {
      const seconds = (now - this.last.now) / 1000;
      this.decode.add(Math.max(0, (state.made - this.last.made) / seconds));
      this.prompt.add(Math.max(0, (state.read - this.last.read) / seconds));
    }
    this.last = state;
    this.busy.add(m.requests_processing, `${m.requests_processing} of ${slots.length}` + (m.requests_deferred ? `, ${m.requests_deferred} wait` : ""));
    this.cache.add(m.cache_bytes / 1e6);
    this.cache.label.textContent = `memory of ${m.cache_sessions} known text${m.cache_sessions === 1 ? "" : "s"}`;
    const several = new Set(slots.map((s) => s.model)).size > 1;
    this.slots.replaceChildren(...slots.map((s, i) => {
      const e = make("div", "slot" + (s.is_processing ? " busy" : "")), meter = make("span", "meter"), bar = make("i");
      const name = make("b", "", `Slot ${i + 1}`);
      name.append(make("i", "", several ? s.model : ""));
      e.append(name, make("span", "soft", s.is_processing ? `${s.n_past} tokens, ${s.tokens_per_second.toFixed(1)} tok/s` : "free"));
      bar.style.width = `${(100 * s.n_past) / s.n_ctx}%`;
      meter.append(bar);
      e.append(meter);
      return e;
    }));
  }
}
