// The conversation: messages in, answers streamed out, stopped, edited, tried again.
import { get, stream } from "./api.js";
import { render } from "./markdown.js";
import { chats, newChat, saveChats, settings } from "./store.js";

const $ = (id) => document.getElementById(id);
const ideas = ["Explain tide pools to a child", "Write a haiku about the sea", "A Python function that reverses a list", "Three names for a small robot"];
let chat = null, running = null, context = 0, toast = () => {};

const make = (tag, className, text) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};
const act = (label, name, does) => {
  const b = make("button", "", label);
  b.type = "button";
  b.setAttribute("aria-label", name);
  b.addEventListener("click", does);
  return b;
};

function figures(m) {
  const t = m.timings;
  if (!t) return "";
  const parts = [`${t.predicted_n} tokens`];
  if (t.predicted_per_second) parts.push(`${t.predicted_per_second.toFixed(1)} tok/s`);
  if (t.cache_n) parts.push(`${t.cache_n} from the cache`);
  return parts.join(" · ");
}

function fillText(element, m) {
  element.replaceChildren();
  if (m.reasoning) {
    const details = make("details", "thought");
    details.open = !m.content;
    details.append(make("summary", "", m.content ? "Thought about it" : "Thinking"), ...render(m.reasoning));
    element.append(details);
  }
  if (m.error) element.append(make("p", "failed", m.error));
  element.append(...render(m.content));
}

function turn(m, index) {
  const e = make("article", "turn " + m.role);
  e.append(make("p", "who" + (m.role === "user" ? " unseen" : ""), m.role === "user" ? "You" : m.model || "Model"));
  const text = make("div", "text");
  text.dir = "auto";
  m.role === "user" ? (text.textContent = m.content) : fillText(text, m);
  const acts = make("div", "acts");
  acts.append(act("Copy", "Copy this message", (e) => {
    navigator.clipboard?.writeText(m.content);
    e.target.textContent = "Copied";
    setTimeout(() => (e.target.textContent = "Copy"), 1500);
  }));
  if (m.role === "user") acts.append(act("Edit", "Edit this message", () => edit(e, m, index)));
  else acts.append(act("Retry", "Retry: ask again", () => retry(index)));
  if (m.timings) acts.append(make("span", "figures", figures(m)));
  e.append(text, acts);
  return e;
}

function edit(element, m, index) {
  const box = make("textarea");
  box.value = m.content;
  box.rows = Math.min(12, m.content.split("\n").length + 1);
  box.setAttribute("aria-label", "Edit the message");
  const acts = make("div", "acts");
  acts.append(
    act("Send", "Send the changed message", () => {
      chat.messages.length = index;
      ask(box.value);
    }),
    act("Cancel", "Cancel: leave it as it was", draw));
  element.replaceChildren(box, acts);
  box.focus();
}

function retry(index) {
  if (running) return;
  const question = chat.messages[index - 1];
  if (!question) return;
  chat.messages.length = index - 1;
  ask(question.content);
}

function hello() {
  const e = make("div", "hello");
  const image = make("img");
  image.src = "/page/icon.svg";
  image.alt = "";
  const list = make("div", "ideas");
  for (const idea of ideas) list.append(act(idea, idea, () => ask(idea)));
  e.append(image, make("h1", "", "What shall we talk about?"), make("p", "", "The model runs on this machine. Nothing leaves it."), list);
  return e;
}

export function draw() {
  const log = $("log");
  log.replaceChildren(...(chat.messages.length ? chat.messages.map(turn) : [hello()]));
  log.scrollTop = log.scrollHeight;
  list();
}

function list() {
  $("conversations").replaceChildren(...chats.map((c) => {
    const item = make("li"), button = make("button", "", c.title || "New conversation");
    button.type = "button";
    if (c === chat) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => open(c));
    item.append(button);
    return item;
  }));
}

export function open(c) {
  stop();
  chat = c;
  showContext(0);
  draw();
  $("side").classList.remove("open");
  $("menu").setAttribute("aria-expanded", "false");
  $("input").focus();
}

export const current = () => chat;
export const stop = () => running?.abort();

export function startNew() {
  open(chats[0] && !chats[0].messages.length ? chats[0] : newChat());
}

export function remove() {
  const gone = chat, at = chats.indexOf(chat);
  chats.splice(at, 1);
  saveChats();
  open(chats[0] ?? newChat());
  if (!gone.messages.length) return;
  toast("The conversation is deleted.", () => {
    chats.splice(at, 0, gone);
    saveChats();
    open(gone);
  });
}

function showContext(used) {
  $("context-text").textContent = context ? `${used.toLocaleString()} of ${context.toLocaleString()} tokens` : "";
  const bar = $("context");
  bar.style.width = context ? `${Math.min(100, (100 * used) / context)}%` : "0";
  bar.className = used > 0.85 * context ? "high" : "";
}

export async function setModel() {
  const list = await get("/v1/models");
  context = list.data.find((m) => m.id === $("model").value)?.meta?.n_ctx ?? 0;
  showContext(0);
}

function body(messages) {
  const out = {
    model: $("model").value, messages, stream: true, stream_options: { include_usage: true }, timings_per_token: true,
    temperature: settings.temperature, top_p: settings.top_p, top_k: settings.top_k, min_p: settings.min_p, max_tokens: settings.max_tokens,
  };
  if (settings.seed !== "") out.seed = Number(settings.seed);
  if (settings.schema.trim()) out.response_format = { type: "json_schema", json_schema: { name: "answer", schema: JSON.parse(settings.schema) } };
  return out;
}

export async function ask(text) {
  if (running || !text.trim()) return;
  chat.messages.push({ role: "user", content: text });
  if (!chat.title) chat.title = text.trim().split("\n")[0].slice(0, 60);
  const answer = { role: "assistant", content: "", reasoning: "", model: $("model").value };
  const messages = chat.messages.map(({ role, content }) => ({ role, content }));
  if (settings.system.trim()) messages.unshift({ role: "system", content: settings.system });
  chat.messages.push(answer);
  draw();
  const asked = chat, log = $("log"), element = log.lastElementChild.querySelector(".text");
  element.classList.add("waiting");
  running = new AbortController();
  document.body.classList.add("busy");
  $("send").setAttribute("aria-label", "Stop");
  let frame = 0, used = 0;
  const show = () => {
    frame = 0;
    const follow = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    fillText(element, answer);
    element.classList.toggle("waiting", !answer.content && !answer.reasoning);
    element.classList.toggle("writing", running !== null && !!answer.content);
    if (follow) log.scrollTop = log.scrollHeight;
    if (used) showContext(used);
    const speed = answer.timings?.predicted_per_second;
    $("speed").textContent = speed ? `${speed.toFixed(1)} tok/s` : "";
  };
  try {
    await stream("/v1/chat/completions", body(messages), running.signal, (data) => {
      const delta = data.choices[0]?.delta ?? {};
      answer.content += delta.content ?? "";
      answer.reasoning += delta.reasoning_content ?? "";
      if (data.timings) {
        answer.timings = data.timings;
        used = data.timings.cache_n + data.timings.prompt_n + data.timings.predicted_n;
      }
      frame ||= requestAnimationFrame(show);
    });
  } catch (e) {
    if (e.name !== "AbortError") answer.error = e.message;
  }
  cancelAnimationFrame(frame);
  running = null;
  document.body.classList.remove("busy");
  $("send").setAttribute("aria-label", "Send");
  saveChats();
  if (asked !== chat) return;
  draw();
  showContext(used);
  $("spoken").textContent = answer.error || answer.content;
}

export function connect(say) {
  toast = say;
  const input = $("input");
  const fit = () => {
    input.style.height = "auto";
    input.style.height = input.scrollHeight + "px";
  };
  const send = () => {
    if (running) return stop();
    try {
      if (settings.schema.trim()) JSON.parse(settings.schema);
    } catch {
      return toast("The JSON schema in the settings is not valid JSON.");
    }
    const text = input.value;
    input.value = "";
    fit();
    ask(text);
  };
  input.addEventListener("input", fit);
  input.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      if (!running) send();
    }
  });
  $("composer").addEventListener("submit", (e) => {
    e.preventDefault();
    send();
  });
}
