// The page as a reader uses it: a chat, a stop, an edit, hostile output, a phone, the keyboard, axe-core.
//     BROWSER=/usr/bin/chromium AXE=axe.min.js node page.mjs http://127.0.0.1:PORT
import assert from "node:assert/strict";
import fs from "node:fs";
import { chromium } from "playwright-core";

const base = process.argv[2];
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.BROWSER, args: flags });
const problems = [];

async function open(options = {}) {
  const page = await (await browser.newContext(options)).newPage();
  page.on("console", (m) => m.type() === "error" && problems.push(m.text()));
  page.on("pageerror", (e) => problems.push(e.message));
  await page.goto(base);
  await page.waitForSelector("body[data-ready]");
  return page;
}
const done = (page, turns) =>
  page.waitForFunction((n) => !document.body.classList.contains("busy") && document.querySelectorAll(".turn").length === n, turns, { timeout: 90000 });
const settings = (page, change) => page.evaluate((c) => {
  localStorage.setItem("anemone.settings", JSON.stringify(c));
}, change);

async function axe(page, name) {
  if (!fs.existsSync(process.env.AXE)) return;
  await page.evaluate(fs.readFileSync(process.env.AXE, "utf8"));
  const found = await page.evaluate(async () => (await axe.run()).violations.filter((v) => ["serious", "critical"].includes(v.impact))
    .map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")));
  assert.deepEqual(found, [], name);
}

// A chat, an answer tried again, a question changed.
let page = await open({ viewport: { width: 1280, height: 820 } });
await settings(page, { max_tokens: 24, temperature: 0 });
await page.reload();
await page.waitForSelector("body[data-ready]");
await axe(page, "empty");
await page.fill("#input", "Once upon a time");
await page.keyboard.press("Enter");
await done(page, 2);
const first = await page.textContent(".turn.assistant .text");
assert.ok(first.trim().length > 5);
assert.match(await page.textContent("#context-text"), /^[\d,]+ of 512 tokens$/);
await page.click("text=Retry");
await done(page, 2);
assert.equal(await page.textContent(".turn.assistant .text"), first);
await page.click("text=Edit");
await page.fill(".turn textarea", "The crab said");
await page.click(".turn.user >> text=Send");
await done(page, 2);
assert.equal(await page.textContent(".turn.user .text"), "The crab said");
await axe(page, "chat");

// It is still there after a reload; another conversation begins empty.
await page.reload();
await page.waitForSelector("body[data-ready]");
assert.equal(await page.locator(".turn").count(), 2);
await page.click("#new");
assert.equal(await page.locator(".turn").count(), 0);

// A stop in mid-answer.
await settings(page, { max_tokens: 400, temperature: 1.5 });
await page.reload();
await page.waitForSelector("body[data-ready]");
await page.fill("#input", "A very long story");
await page.keyboard.press("Enter");
await page.waitForFunction(() => document.querySelector(".turn.assistant .text")?.textContent.length > 10, null, { timeout: 60000 });
await page.keyboard.press("Escape");
await done(page, 2);
const slots = await (await page.request.get(base + "/slots")).json();
assert.ok(slots.length > 0);

// What a model may write: shown, never run.
const hostile = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'> [x](javascript:window.pwned=1) **bold** `code`\n\n```html\n<b>x</b>\n```\n";
const shown = await page.evaluate(async (text) => {
  const { render } = await import("/page/markdown.js");
  const box = document.createElement("div");
  box.append(...render(text));
  document.body.append(box);
  await new Promise((r) => setTimeout(r, 300));
  const out = { scripts: box.querySelectorAll("script, img, iframe").length, links: box.querySelectorAll("a").length,
    bold: box.querySelector("strong")?.textContent, text: box.textContent, pwned: window.pwned };
  box.remove();
  return out;
}, hostile);
assert.deepEqual([shown.scripts, shown.links, shown.bold, shown.pwned], [0, 0, "bold", undefined]);
assert.ok(shown.text.includes("<script>window.pwned = 1</script>"));

// The other tabs, by keyboard.
await page.focus("#tab-chat");
await page.keyboard.press("ArrowRight");
await page.waitForSelector("#bundle table");
assert.ok((await page.textContent("#bundle")).includes("mlpackage"));
await axe(page, "bundle");
await page.keyboard.press("ArrowRight");
await page.fill("#redact-in", "Write to ann.lee@example.com today.");
await page.click("#redact-go");
await page.waitForSelector(".redacted mark", { timeout: 60000 });
assert.equal(await page.textContent(".redacted mark"), "[EMAIL]");
await axe(page, "redact");
await page.focus("#tab-redact");
await page.keyboard.press("ArrowRight");
await page.waitForSelector("#live .slot");
await page.waitForTimeout(2500);
await axe(page, "live");

// A phone, in the dark, with the drawer.
page = await open({ viewport: { width: 360, height: 740 }, colorScheme: "dark", hasTouch: true });
const wide = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
assert.ok((await wide()) <= 0);
await page.click("#settings-open");
await page.waitForTimeout(300);
assert.ok((await wide()) <= 0);
await axe(page, "drawer");
await page.keyboard.press("Escape");
await page.click("#menu");
await page.waitForSelector("#new", { state: "visible" });

await browser.close();
assert.deepEqual(problems, []);
console.log("all right");
