// What the bundle is made of, and where Core ML is predicted to run it.
import { get } from "./api.js";

const make = (tag, className, text) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};
const size = (bytes) => (bytes >= 1e9 ? (bytes / 1e9).toFixed(2) + " GB" : bytes >= 1e6 ? (bytes / 1e6).toFixed(1) + " MB" : (bytes / 1e3).toFixed(1) + " kB");

function tile(value, label) {
  const e = make("div", "tile");
  e.append(make("b", "", value), make("span", "", label));
  return e;
}

function stages(info) {
  const panel = make("section", "panel"), wide = make("div", "wide"), table = make("table"), head = make("tr");
  const title = make("h2", "", "Stages");
  title.append(make("span", "", "in the order in which they run"));
  // On a phone each row is a block of its own. Its roles stay those of a table, whatever the style says.
  const names = ["Package", "Layers", "Weights", "Functions", "On the Neural Engine"];
  const role = (e, name) => (e.setAttribute("role", name), e);
  for (const name of names) head.append(role(make("th", "", name), "columnheader"));
  role(table, "table").append(role(head, "row"));
  for (const s of info.stages) {
    const row = make("tr"), where = make("td");
    const layers = s.last_layer > s.first_layer ? `${s.first_layer} to ${s.last_layer - 1}` : "head";
    row.append(make("td", "name", s.package), make("td", "", layers), make("td", "", size(s.bytes)),
      make("td", "", s.functions.map((f) => `${f.name}: ${f.tokens} token${f.tokens === "1" ? "" : "s"}` + (f.context ? `, context ${f.context.toLocaleString()}` : "")).join("\n")), where);
    const { ane = 0, cpu = 0, gpu = 0, unknown = 0 } = s.placement ?? {}, all = ane + cpu + gpu + unknown;
    if (all) {
      const stack = make("div", "stack low");
      stack.setAttribute("role", "img");
      stack.setAttribute("aria-label", `${ane} of ${all} operations`);
      for (const [kind, n] of [["ane", ane], ["cpu", cpu], ["gpu", gpu], ["unknown", unknown]]) {
        if (!n) continue;
        const part = make("i", kind);
        part.style.width = `${(100 * n) / all}%`;
        stack.append(part);
      }
      where.append(`${ane.toLocaleString()} of ${all.toLocaleString()} operations`, stack);
    }
    [...row.children].forEach((cell, i) => (role(cell, "cell").dataset.name = i === 4 ? "On the ANE" : names[i]));
    table.append(role(row, "row"));
  }
  wide.tabIndex = 0;
  wide.append(table);
  panel.append(title, wide);
  return panel;
}

export async function show(root, model) {
  root.replaceChildren(make("p", "soft", "Reading the bundle …"));
  let info;
  try {
    info = await get("/bundle?model=" + encodeURIComponent(model));
  } catch (e) {
    return root.replaceChildren(make("p", "failed", e.message));
  }
  const facts = make("section", "panel"), tiles = make("div", "tiles"), graph = make("section", "panel"), title = make("h2", "", info.name || model);
  title.append(make("span", "", [info.family, info.precision, info.kind].filter(Boolean).join(" · ")));
  tiles.append(tile(size(info.bytes), "on disk"), tile(info.context.toLocaleString(), "tokens of context"), tile(info.vocab.toLocaleString(), "tokens in the vocabulary"),
    tile(info.layers, "layers"), tile(info.hidden.toLocaleString(), "numbers for a token"), tile(`${info.heads} / ${info.kv_heads}`, "heads / heads of keys"));
  facts.append(title, tiles);
  if (info.verdict) facts.append(make("p", "soft", `Checked for ${info.target}: ${info.verdict}`));
  const frame = make("iframe"), heading = make("h2", "", "Graph"), hint = make("span", "", "each operation in the color of its device; drag and zoom");
  heading.append(hint);
  frame.title = "The graph of the bundle's operations";
  frame.setAttribute("sandbox", "allow-scripts");
  frame.loading = "lazy";
  frame.src = info.graph;
  graph.append(heading, frame);
  root.replaceChildren(facts, stages(info), graph);
}
