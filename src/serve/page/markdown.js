// Markdown as elements. Nothing of a text ever becomes HTML: it is all text nodes, so no script of it can run.
//     element.replaceChildren(...render(text));

const make = (tag, className, ...children) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children);
  return e;
};

// Code, `bold`, links: what stands inside of a line.
const inlineRule = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*([^\s*](?:[^*]|\*(?!\*))*?)\*\*|__([^\s_][^_]*?)__|\*([^\s*][^*]*?)\*|(?<![\w])_([^\s_][^_]*?)_(?![\w])|~~([^~]+)~~|\[([^\]\n]+)\]\((\S+?)\)|(https?:\/\/[^\s<>()"']+[^\s<>()"'.,;:!?])|\\([\\`*_{}[\]()#+\-.!~|>])/;

export function inline(text) {
  const out = [];
  while (text) {
    const m = inlineRule.exec(text);
    if (!m) {
      out.push(text);
      break;
    }
    if (m.index) out.push(text.slice(0, m.index));
    const [all, , code, bold1, bold2, em1, em2, strike, label, target, address, plain] = m;
    if (code !== undefined) out.push(make("code", "", code.trim() || code));
    else if (bold1 ?? bold2) out.push(make("strong", "", ...inline(bold1 ?? bold2)));
    else if (em1 ?? em2) out.push(make("em", "", ...inline(em1 ?? em2)));
    else if (strike) out.push(make("s", "", ...inline(strike)));
    else if (plain) out.push(plain);
    else out.push(link(label ? inline(label) : [address], target ?? address, all));
    text = text.slice(m.index + all.length);
  }
  return out;
}

function link(children, target, all) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return document.createTextNode(all);
  const a = make("a", "", ...children);
  a.href = target;
  a.target = "_blank";
  a.rel = "noopener noreferrer nofollow";
  return a;
}

const keywords = new Set(("abstract and as async await bool break case catch char class const continue def default del do double elif else " +
  "enum except export extends extern false final finally float fn for from func function if impl implements import in int interface is " +
  "lambda let long match mod mut namespace new nil not null None or override package pass private protected pub public raise return " +
  "self short signed sizeof static struct super switch template this throw throws trait true True False try type typedef typeof union " +
  "unsigned use using var virtual void volatile where while with yield select insert update delete create table echo fi then done").split(" "));
const codeRule = /(\/\/[^\n]*|#(?![a-fA-F0-9]{3,6}\b)[^\n]*|--\s[^\n]*|\/\*[\s\S]*?\*\/)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\b(\d[\w.]*)\b|\b([A-Za-z_]\w*)(?=(\s*\()?)/g;

function highlighted(code) {
  const out = document.createDocumentFragment();
  let at = 0;
  for (const m of code.matchAll(codeRule)) {
    const [all, comment, string, number, word, call] = m;
    const kind = comment ? "hl-c" : string ? "hl-s" : number ? "hl-n" : keywords.has(word) ? "hl-k" : call !== undefined ? "hl-f" : "";
    if (!kind) continue;
    out.append(code.slice(at, m.index), make("span", kind, all));
    at = m.index + all.length;
  }
  out.append(code.slice(at));
  return out;
}

function codeBlock(lines, language) {
  const text = lines.join("\n");
  const copy = make("button", "", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const pre = make("pre", "", make("code", "", text.length < 50000 ? highlighted(text) : text));
  pre.tabIndex = 0;
  return make("div", "code", make("header", "", make("span", "", language || "text"), copy), pre);
}

const itemRule = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((c) => c.trim().replaceAll("\\|", "|"));

function list(lines, start) {
  const first = itemRule.exec(lines[start]);
  const depth = first[1].length, ordered = /\d/.test(first[2]);
  const out = make(ordered ? "ol" : "ul");
  if (ordered && parseInt(first[2]) !== 1) out.start = parseInt(first[2]);
  let at = start;
  while (at < lines.length) {
    const m = itemRule.exec(lines[at]);
    if (!m || m[1].length < depth || /\d/.test(m[2]) !== ordered) break;
    const inner = [m[3]];
    for (++at; at < lines.length; ++at) {
      const next = itemRule.exec(lines[at]);
      if (next && next[1].length <= depth) break;
      if (!lines[at].trim() && !/^\s{2,}\S/.test(lines[at + 1] ?? "") && !itemRule.test(lines[at + 1] ?? "")) break;
      if (lines[at].trim() && !next && !/^\s{2,}/.test(lines[at])) break;
      inner.push(lines[at].replace(new RegExp("^\\s{0," + (depth + m[2].length + 1) + "}"), ""));
    }
    const body = render(inner.join("\n"));
    const tight = body.length && body[0].tagName === "P" ? [...body[0].childNodes, ...body.slice(1)] : body;
    out.append(make("li", "", ...tight));
    while (at < lines.length && !lines[at].trim() && itemRule.test(lines[at + 1] ?? "")) ++at;
  }
  return [out, at];
}

function table(lines, at) {
  const body = make("tbody");
  const head = make("tr", "", ...cells(lines[at]).map((c) => make("th", "", ...inline(c))));
  for (at += 2; at < lines.length && lines[at].includes("|"); ++at)
    body.append(make("tr", "", ...cells(lines[at]).map((c) => make("td", "", ...inline(c)))));
  return [make("table", "", make("thead", "", head), body), at];
}

export function render(text) {
  const lines = text.replaceAll("\r\n", "\n").split("\n"), out = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = /^\s{0,3}(```+|~~~+)\s*([\w+#.-]*)/.exec(line), heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (!line.trim()) {
      ++at;
    } else if (fence) {
      let end = at + 1;
      while (end < lines.length && !lines[end].trim().startsWith(fence[1])) ++end;
      out.push(codeBlock(lines.slice(at + 1, end), fence[2]));
      at = end + 1;
    } else if (heading) {
      out.push(make("h" + Math.min(heading[1].length + 1, 4), "", ...inline(heading[2])));
      ++at;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      out.push(make("hr"));
      ++at;
    } else if (/^\s*>/.test(line)) {
      let end = at;
      while (end < lines.length && /^\s*>/.test(lines[end])) ++end;
      out.push(make("blockquote", "", ...render(lines.slice(at, end).map((l) => l.replace(/^\s*>\s?/, "")).join("\n"))));
      at = end;
    } else if (itemRule.test(line)) {
      const [element, end] = list(lines, at);
      out.push(element);
      at = end;
    } else if (line.includes("|") && /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[at + 1] ?? "")) {
      const [element, end] = table(lines, at);
      out.push(element);
      at = end;
    } else {
      let end = at + 1;
      while (end < lines.length && lines[end].trim() && !/^(\s{0,3}(```|~~~)|#{1,6}\s|\s*>)/.test(lines[end]) && !itemRule.test(lines[end])) ++end;
      const p = make("p");
      lines.slice(at, end).forEach((l, i) => {
        if (i) p.append(make("br"));
        p.append(...inline(l));
      });
      out.push(p);
      at = end;
    }
  }
  return out;
}
