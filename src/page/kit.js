"use strict";
// What the scripts of all pages use. Text from models only ever becomes textContent.
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {}))
    if (key === "text") node.textContent = value;
    else if (key.startsWith("on")) node[key] = value;
    else node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}
const sizeText = (b) => b < 1e3 ? b + " B" : b < 1e6 ? (b / 1e3).toFixed(1) + " kB" :
  b < 1e9 ? (b / 1e6).toFixed(b < 1e8 ? 1 : 0) + " MB" : (b / 1e9).toFixed(2) + " GB";
const plural = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");
const msText = (x) => x === undefined ? "–" : x === 0 ? "0" : x >= 100 ? x.toFixed(0) : x >= 0.1 ? x.toFixed(3) : x.toPrecision(3);
function facts(pairs) {
  const list = make("dl", {class: "facts"});
  for (const [name, value] of pairs) list.append(make("div", {}, make("dt", {text: name}), make("dd", {text: value})));
  return list;
}

const isDark = () => (document.documentElement.dataset.theme ||
  (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
document.getElementById("theme").onclick = () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  dispatchEvent(new Event("themechange"));
};
// A table that is wider than its place scrolls by keyboard, too.
function reachScrolls() {
  for (const box of document.querySelectorAll(".scroll"))
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      const heading = box.closest("section")?.querySelector("h2");
      box.setAttribute("aria-label", "table: " + (heading ? heading.textContent : "scrolls sideways"));
    }
}
addEventListener("load", reachScrolls);
addEventListener("resize", reachScrolls);
// Paper cannot be opened: a printed page shows what its findings hold.
addEventListener("beforeprint", () => {
  for (const d of document.querySelectorAll("details.finding")) d.open = true;
});
