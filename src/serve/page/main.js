// Ties the page together: tabs, settings, keys.
import { get } from "./api.js";
import * as bundle from "./bundle.js";
import * as chat from "./chat.js";
import { Live } from "./live.js";
import { connect as connectRedact } from "./redact.js";
import { chats, defaults, exported, newChat, saveChats, saveSettings, settings } from "./store.js";

const $ = (id) => document.getElementById(id);
const tabs = ["chat", "bundle", "redact", "live"];
let live = null, shown = "";

// A short message; with `undo`, also a button that takes something back.
function toast(text, undo) {
  const box = $("toast");
  box.replaceChildren(text);
  if (undo) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Undo" });
    button.addEventListener("click", () => {
      box.hidden = true;
      undo();
    });
    box.append(button);
  }
  box.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (box.hidden = true), undo ? 8000 : 4000);
}

function select(name) {
  for (const t of tabs) {
    $("view-" + t).hidden = t !== name;
    $("tab-" + t).setAttribute("aria-selected", t === name);
    $("tab-" + t).tabIndex = t === name ? 0 : -1;
  }
  document.body.dataset.view = name;
  live ??= new Live($("live"));
  name === "live" ? live.start() : live.stop();
  if (name === "bundle" && shown !== $("model").value) {
    shown = $("model").value;
    bundle.show($("bundle"), shown);
  }
}

function connectTabs() {
  tabs.forEach((t, i) => {
    $("tab-" + t).addEventListener("click", () => select(t));
    $("tab-" + t).addEventListener("keydown", (e) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: -1 }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      select(next);
      $("tab-" + next).focus();
    });
  });
}

const knobs = [
  ["temperature", "Temperature", 0, 2, 0.05, "0 always takes the best token"],
  ["top_p", "Top p", 0.05, 1, 0.01, ""],
  ["top_k", "Top k", 0, 200, 1, "0: all tokens"],
  ["min_p", "Min p", 0, 0.5, 0.01, ""],
  ["max_tokens", "Most tokens of an answer", 16, 4096, 16, ""],
];

function drawSettings() {
  for (const id of ["system", "schema", "key"]) $(id).value = settings[id];
  $("knobs").replaceChildren(...knobs.map(([key, label, least, most, step, note]) => {
    const row = document.createElement("div"), name = document.createElement("label"), out = document.createElement("output"), input = document.createElement("input");
    Object.assign(input, { type: "range", id: "knob-" + key, min: least, max: most, step, value: settings[key] });
    const paint = () => {
      out.textContent = settings[key];
      input.style.setProperty("--fill", `${(100 * (settings[key] - least)) / (most - least)}%`);
    };
    input.addEventListener("input", () => {
      settings[key] = Number(input.value);
      paint();
      saveSettings();
    });
    name.htmlFor = input.id;
    name.append(label, out);
    row.append(name, input);
    if (note) row.append(Object.assign(document.createElement("p"), { className: "note", textContent: note }));
    paint();
    return row;
  }), seedRow());
}

function seedRow() {
  const row = document.createElement("div"), name = document.createElement("label"), input = document.createElement("input");
  Object.assign(input, { id: "knob-seed", inputMode: "numeric", value: settings.seed, placeholder: "a new one each time" });
  name.htmlFor = input.id;
  name.textContent = "Seed";
  input.addEventListener("input", () => {
    settings.seed = input.value.replace(/\D/g, "");
    saveSettings();
  });
  row.append(name, input);
  return row;
}

function openDrawer(open) {
  $("drawer").hidden = !open;
  $("settings-open").setAttribute("aria-expanded", open);
  (open ? $("system") : $("settings-open")).focus();
}

function connectSettings() {
  drawSettings();
  for (const id of ["system", "schema", "key"])
    $(id).addEventListener("input", () => {
      settings[id] = $(id).value;
      saveSettings();
      if (id === "key") loadModels();
    });
  $("settings-open").addEventListener("click", () => openDrawer($("drawer").hidden));
  $("settings-close").addEventListener("click", () => openDrawer(false));
  $("reset").addEventListener("click", () => {
    Object.assign(settings, defaults, { key: settings.key });
    saveSettings();
    drawSettings();
  });
}

function download(name, text) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

function connectSide() {
  $("new").addEventListener("click", () => {
    select("chat");
    chat.startNew();
  });
  $("export").addEventListener("click", () => download("conversation.md", exported(chat.current())));
  $("delete").addEventListener("click", () => chat.remove());
  const side = (open) => {
    $("side").classList.toggle("open", open);
    $("menu").setAttribute("aria-expanded", open);
  };
  $("menu").addEventListener("click", () => side(!$("side").classList.contains("open")));
  $("veil").addEventListener("click", () => side(false));
}

async function loadModels() {
  try {
    const list = await get("/v1/models");
    const before = $("model").value;
    $("model").replaceChildren(...list.data.map((m) => Object.assign(document.createElement("option"), { value: m.id, textContent: m.id, disabled: m.meta.kind !== "generate" })));
    if (before && list.data.some((m) => m.id === before)) $("model").value = before;
    await chat.setModel();
  } catch (e) {
    toast(e.message);
  }
}

addEventListener("keydown", (e) => {
  if (e.key === "Escape") {
    if (!$("drawer").hidden) openDrawer(false);
    else if ($("side").classList.contains("open")) $("menu").click();
    else chat.stop();
  } else if ((e.ctrlKey || e.metaKey) && e.shiftKey && e.key.toLowerCase() === "o") {
    e.preventDefault();
    $("new").click();
  } else if (e.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
    e.preventDefault();
    $("input").focus();
  }
});
$("model").addEventListener("change", () => {
  chat.setModel();
  if (!$("view-bundle").hidden) select("bundle");
});
addEventListener("pagehide", saveChats);
connectTabs();
connectSettings();
connectSide();
connectRedact();
chat.connect(toast);
chat.open(chats[0] ?? newChat());
await loadModels();
document.body.dataset.ready = "yes";
