// The panel beside the picture: what was chosen, or the function as a whole; finding; the choice of a function.
function jump(i, text) {
  return make("button", {type: "button", class: "link", text: text, onclick: () => { choose(i, true); canvas.focus(); }});
}
function part(title, rows) {
  return rows.length ? make("div", {}, make("h3", {text: title}), make("ul", {class: "list"}, ...rows.map((r) => make("li", {}, ...r)))) : null;
}
const plain = (text) => make("span", {class: "soft", text: text});

function details() {
  const side = $("side");
  if (chosen < 0) return side.replaceChildren(...overview());
  const node = fn.nodes[chosen], title = (i) => fn.nodes[i].n;
  const weights = (node.w || []).map(([param, name, type, form, bytes, elements]) => [make("b", {text: param + " "}),
    make("span", {class: "name", text: name}), make("br"), plain(typeText(type) + ", stored as " + form + ", " + sizeText(bytes) +
      (elements ? ", " + (8 * bytes / elements).toFixed(2) + " bits a weight" : ""))]);
  const used = fn.uses[chosen].flatMap((users) => users);
  side.replaceChildren(...[
    make("h2", {}, make("span", {class: "what", text: node.t || node.k}), node.d ? make("span", {class: "on-" + node.d, text: deviceWords[node.d]}) : ""),
    make("p", {class: "name", text: node.n}),
    node.d ? facts([["on the Neural Engine", node.ms[0] === null ? "refused" : (node.x ? "~" : "") + msText(node.ms[0]) + " ms"],
      ["on the CPU", node.ms[1] === null ? "refused" : (node.x ? "~" : "") + msText(node.ms[1]) + " ms"],
      ["segment", String(node.s + 1)]]) : null,
    node.r ? make("p", {class: "alarm", text: node.r[0] + ": " + node.r[1]}) : null,
    node.x ? make("p", {class: "soft small", text: "outside what was probed: " + node.x}) : null,
    node.b ? make("p", {class: "soft small", text: plural(node.b, "inner block") + "; their operations follow it"}) : null,
    part("Reads", (node.i || []).map(([param, from, out]) => [make("b", {text: param ? param + " " : ""}), jump(from, title(from)),
      make("br"), plain(typeText(fn.nodes[from].o[out][1]))])),
    part("Weights", weights),
    part("Attributes", (node.a || []).map(([param, text]) => [make("b", {text: param + " "}), make("span", {class: "name", text: text})])),
    part("Gives", (node.o || []).map(([name, type]) => [make("span", {class: "name", text: name}), make("br"), plain(typeText(type))])),
    part("Is read by", used.slice(0, 40).map(([user]) => [jump(user, title(user)), plain(" " + (fn.nodes[user].t || fn.nodes[user].k))])
      .concat(used.length > 40 ? [[plain("and " + (used.length - 40) + " more")]] : [])),
  ].filter((x) => x));
}

function overview() {
  const ops = fn.nodes.filter((node) => node.k === "op"), on = (d) => ops.filter((node) => node.d === d).length;
  const weights = new Map(ops.flatMap((node) => node.w || []).map((w) => [w[1], w]));
  const bytes = [...weights.values()].reduce((sum, w) => sum + w[4], 0), kinds = {};
  for (const op of ops) kinds[op.t] = (kinds[op.t] || 0) + 1;
  return [make("h2", {text: fn.package + " · " + fn.name}), make("p", {class: "soft small", text: "for " + graph.target}),
    facts([["operations", ops.length.toLocaleString("en")],
      ...Object.keys(kDevices).filter(on).map((d) => ["on: " + deviceWords[d], on(d).toLocaleString("en")]),
      ["weights", weights.size + ", " + sizeText(bytes)]]),
    make("h3", {text: "Kinds"}), make("div", {class: "chips"}, ...Object.entries(kinds).sort((a, b) => b[1] - a[1])
      .map(([kind, count]) => make("span", {class: "chip", text: kind + " " + count}))),
    make("p", {class: "soft small", text: "Choose an operation to see its inputs, attributes and weights."})];
}

// Finding: at most 60 hits, chosen by mouse, touch or Tab.
function find() {
  const text = $("find").value.trim().toLowerCase();
  if (!text) return details();
  const hits = [];
  for (let i = 0; i < fn.nodes.length && hits.length <= 60; ++i)
    if ((fn.nodes[i].n + " " + (fn.nodes[i].t || fn.nodes[i].k)).toLowerCase().includes(text)) hits.push(i);
  const more = hits.length > 60;
  $("side").replaceChildren(make("h2", {text: more ? "The first 60 hits" : plural(hits.length, "hit")}),
    make("ul", {class: "list", id: "found"}, ...hits.slice(0, 60).map((i) =>
      make("li", {}, jump(i, fn.nodes[i].n), plain(" " + (fn.nodes[i].t || fn.nodes[i].k))))));
}

// The function that the panel, the search and the buttons are about.
function use(f) {
  fn = f;
  chosen = -1;
  hovered = null;
  $("function").value = graph.functions.indexOf(f);
  $("find").value = "";
  $("open").hidden = $("shut").hidden = fn.groups.length === 0;
  details();
  draw();
}

function begin() {
  graph.functions.forEach((f, i) => $("function").append(make("option", {value: i, text: f.package + " · " + f.name})));
  $("function").onchange = (e) => {
    use(graph.functions[e.target.value]);
    fit();
  };
  $("find").oninput = find;
  $("find").onkeydown = (e) => {
    const first = document.querySelector("#found button");
    if (e.key === "Enter" && first) first.click();
    if (e.key === "Escape") {
      $("find").value = "";
      find();
    }
  };
  $("in").onclick = () => zoom(1.3);
  $("out").onclick = () => zoom(1 / 1.3);
  $("fit").onclick = fit;
  $("all").onclick = fitAll;
  const groups = (open) => () => {
    fn.open = new Set(open ? fn.groups.keys() : []);
    arrangeAgain();
    fit();
  };
  $("open").onclick = groups(true);
  $("shut").onclick = groups(false);
  listen();
  graph.functions.forEach((f) => lay(prepare(f)));
  world = placeFunctions(graph.functions, 0);
  $("all").hidden = graph.functions.length === 1;
  const devices = new Set(graph.functions.flatMap((f) => f.nodes.map((node) => node.d)));
  $("key").append(...Object.entries(kDevices).filter(([d]) => devices.has(d))
    .map(([d, name]) => make("li", {}, make("i", {class: name}), deviceWords[d])));
  use(graph.functions[0]);
  fitAll();
  if (graph.functions.length === 1) fit();
  readColours();
  addEventListener("themechange", readColours);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
  new ResizeObserver(draw).observe(canvas);
  const root = document.documentElement;
  let theme;
  addEventListener("beforeprint", () => {  // on paper all is light; a frame would come too late
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    readColours();
    paint();
  });
  addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    readColours();
  });
}
begin();
