// The picture: a canvas that draws what is in the window and nothing else; a panel with what was chosen.
// Inside of another page, that page has the title.
if (window.top !== window) document.documentElement.classList.add("framed");
const $ = (id) => document.getElementById(id);
const canvas = $("canvas"), ink = canvas.getContext("2d"), tip = $("tip");
const camera = {x: 0, y: 0, k: 1}, kTitleHigh = 34;
let fn = null, world = null, chosen = -1, hovered = null, colours = {}, due = 0;  // fn: the function that is in use

const kDevices = {ANE: "ane", GPU: "gpu", CPU: "cpu", unknown: "unknown"};
const deviceWords = {ANE: "Neural Engine", GPU: "GPU", CPU: "CPU", unknown: "unknown (not probed)"};
const typeText = (id, f = fn) => f.types[id].replace(/^tensor<(.*)>$/, "$1").replace(/, \[/, " [");
const short = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
const meets = (b, view) => b.x < view.x2 && b.x + b.w > view.x1 && b.y < view.y2 && b.y + b.h > view.y1;

function readColours() {
  const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue("--" + name).trim();
  for (const name of ["bg", "card", "well", "line", "edge", "ink", "soft", "rose", "ane", "ane-fill", "gpu-fill", "cpu-fill", "unknown-fill"])
    colours[name] = read(name);
  draw();
}
const fillOf = (node) => node.k === "op" && node.d ? colours[kDevices[node.d] + "-fill"] : colours.edge;

// Drawing. One frame a change at most.
function draw() {
  if (!due) due = requestAnimationFrame(() => { due = 0; paint(); });
}

function paint() {
  const ratio = devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
  }
  const {x, y, k} = camera;
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink.fillStyle = colours.bg;
  ink.fillRect(0, 0, wide, high);
  if (!world) return;
  const shift = (dx, dy) => ink.setTransform(ratio * k, 0, 0, ratio * k, (dx - x) * k * ratio, (dy - y) * k * ratio);
  const view = {x1: x, y1: y, x2: x + wide / k, y2: y + high / k}, seen = graph.functions.filter((f) => meets(f, view));
  for (const f of seen) {
    shift(f.x, f.y);
    paintFunction(f, k);
    const dx = f.x + f.inset, dy = f.y + kTitle;
    shift(dx, dy);
    paintInside(f, {x1: view.x1 - dx, y1: view.y1 - dy, x2: view.x2 - dx, y2: view.y2 - dy}, k);
  }
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  graph.functions.forEach((f, i) => { if (seen.includes(f)) paintTitle(f, graph.functions[i + 1], wide, k); });
}

function paintFunction(f, k) {
  ink.fillStyle = colours.well;
  ink.strokeStyle = f === fn && graph.functions.length > 1 ? colours.ane : colours.edge;
  ink.lineWidth = (f === fn ? 2 : 1) / k;
  ink.beginPath();
  ink.roundRect(0, 0, f.w, f.h, Math.min(20, 8 / k));
  ink.fill();
  ink.stroke();
}

// A title keeps its size on the screen: it stands in the box, above it where the box is small, and stays in view.
function paintTitle(f, next, wide, k) {
  const end = next && next.y === f.y ? next.x - kApart / 4 : f.x + f.w + kApart;
  const left = Math.max(0, (f.x - camera.x) * k), right = Math.min(wide, (end - camera.x) * k);
  const top = Math.max(0, (f.y - camera.y) * k - (kTitle * k < kTitleHigh ? kTitleHigh : 0));
  if (right - left < 60) return;
  ink.font = "600 14px system-ui, sans-serif";
  const text = fitted(f.package.replace(/\.ml(package|modelc|model)$/, "") + " · " + f.name, right - left - 28);
  ink.fillStyle = colours.card;
  ink.strokeStyle = f === fn && graph.functions.length > 1 ? colours.ane : colours.line;
  ink.lineWidth = 1;
  ink.beginPath();
  ink.roundRect(left + 3, top + 4, ink.measureText(text).width + 20, 26, 8);
  ink.fill();
  ink.stroke();
  ink.fillStyle = colours.ink;
  ink.fillText(text, left + 13, top + 22);
}
function fitted(text, wide) {
  if (ink.measureText(text).width <= wide) return text;
  let most = text.length;
  while (most > 1 && ink.measureText(short(text, most)).width > wide) --most;
  return short(text, most);
}

function paintInside(f, view, k) {
  const boxes = f.scene.boxes.filter((b) => meets(b, view));
  paintFrames(f, boxes, k);
  paintWires(f, view, k);
  if (k < 0.3) paintSpots(f, boxes); else paintBoxes(f, boxes, k);
  paintClosed(f, boxes, k);
  const box = f === fn && chosen >= 0 ? f.scene.boxOf[chosen] : null;
  if (!box) return;
  ink.lineWidth = 3 / k;
  ink.strokeStyle = colours.rose;
  ink.strokeRect(box.x - 2 / k, box.y - 2 / k, box.w + 4 / k, box.h + 4 / k);
}

function paintFrames(f, boxes, k) {
  for (const box of boxes) {
    if (!box.inside) continue;
    ink.fillStyle = colours.card;
    ink.strokeStyle = colours.line;
    ink.lineWidth = Math.max(1, 1 / k);
    ink.beginPath();
    ink.roundRect(box.x, box.y, box.w, box.h, 14);
    ink.fill();
    ink.stroke();
    if (k < 0.15) continue;
    ink.fillStyle = colours.soft;
    ink.font = "600 14px system-ui, sans-serif";
    ink.fillText("▾ " + f.groups[box.group].title, box.x + 14, box.y + 23);
  }
}

function trace(w) {
  const p = w.points;
  ink.moveTo(p[0], p[1]);
  if (w.curve) {
    const middle = (p[1] + p[3]) / 2;
    ink.bezierCurveTo(p[0], middle, p[2], middle, p[2], p[3]);
  } else {
    for (let i = 2; i < p.length; i += 2) ink.lineTo(p[i], p[i + 1]);
  }
}

function paintWires(f, view, k) {
  const least = 5 / k;  // shorter ones are not seen
  ink.lineWidth = Math.min(1.4, 1.1 / k);
  ink.strokeStyle = colours.edge;
  ink.globalAlpha = k < 0.3 ? 0.35 : 0.6;
  ink.beginPath();
  const at = f === fn ? chosen : -1, marked = [];
  const read = new Set(at >= 0 ? (f.nodes[at].i || []).map(([, from, out]) => from + ":" + out) : []);
  for (const w of f.scene.wires) {
    if (w.x1 > view.x2 || w.x2 < view.x1 || w.y1 > view.y2 || w.y2 < view.y1) continue;
    if (w === hovered || (at >= 0 && (w.to === at || w.value.startsWith(at + ":") || (w.trunk && read.has(w.value))))) marked.push(w);
    else if (w.y2 - w.y1 + w.x2 - w.x1 > least && (k > 0.12 || w.y2 - w.y1 > 12 * least)) trace(w);
  }
  ink.stroke();
  ink.globalAlpha = 1;
  if (!marked.length) return;
  ink.strokeStyle = colours.rose;
  ink.lineWidth = Math.max(2, 2 / k);
  ink.beginPath();
  for (const w of marked) trace(w);
  ink.stroke();
}

// From afar: a spot of colour for each operation.
function paintSpots(f, boxes) {
  const byFill = new Map();
  for (const box of boxes) {
    if (box.node === undefined) continue;
    const fill = fillOf(f.nodes[box.node]);
    if (!byFill.has(fill)) byFill.set(fill, []);
    byFill.get(fill).push(box);
  }
  for (const [fill, list] of byFill) {
    ink.fillStyle = fill;
    ink.globalAlpha = fill === colours.edge ? 0.4 : 1;  // inputs and states step back
    ink.beginPath();
    for (const b of list) ink.rect(b.x, b.y, b.w, b.h);
    ink.fill();
  }
  ink.globalAlpha = 1;
}

function paintBoxes(f, boxes, k) {
  ink.lineWidth = 1;
  for (const box of boxes) {
    if (box.node === undefined) continue;
    const node = f.nodes[box.node], op = node.k === "op";
    ink.fillStyle = op ? colours.card : colours.well;
    ink.strokeStyle = fillOf(node);
    ink.beginPath();
    ink.roundRect(box.x, box.y, box.w, box.h, op ? 8 : 19);
    ink.fill();
    ink.stroke();
    if (op) {
      ink.fillStyle = fillOf(node);
      ink.beginPath();
      ink.roundRect(box.x, box.y, 8, box.h, [8, 0, 0, 8]);
      ink.fill();
    }
    ink.fillStyle = colours.ink;
    ink.font = "600 14px system-ui, sans-serif";
    ink.fillText(op ? short(node.t, 22) : node.k, box.x + 18, box.y + (op ? 19 : 16));
    ink.fillStyle = colours.soft;
    ink.font = "12px system-ui, sans-serif";
    ink.fillText(short(node.n, 28), box.x + 18, box.y + (op ? 36 : 31));
    if (k > 0.7 && node.o) paintTypes(f, box, node);
  }
}

// The type of a value beside the wire that leaves with it, on a ground of its own: other wires may pass there.
function paintTypes(f, box, node) {
  ink.strokeStyle = f.groupOf[box.node] >= 0 ? colours.card : colours.well;
  ink.lineWidth = 4;
  for (let i = 0; i < node.o.length; ++i) {
    const text = typeText(node.o[i][1], f), x = portX(box, i, node.o.length) + 6, y = box.y + box.h + 14 + 12 * i;
    ink.strokeText(text, x, y);
    ink.fillText(text, x, y);
  }
  ink.lineWidth = 1;
}

function paintClosed(f, boxes, k) {
  for (const box of boxes) {
    if (box.group === undefined || box.inside) continue;
    const group = f.groups[box.group];
    ink.fillStyle = colours.card;
    ink.strokeStyle = colours.edge;
    ink.lineWidth = 1;
    ink.beginPath();
    ink.roundRect(box.x, box.y, box.w, box.h, 12);
    ink.fill();
    ink.stroke();
    const far = k < 0.3, all = far ? box.w : box.w - 28;  // from afar the whole box is its bar
    let x = box.x + (box.w - all) / 2;
    for (const [device, count] of Object.entries(group.devices)) {
      ink.fillStyle = kDevices[device] ? colours[kDevices[device] + "-fill"] : colours.edge;
      ink.fillRect(x, far ? box.y : box.y + box.h - 16, all * count / group.nodes.length, far ? box.h : 6);
      x += all * count / group.nodes.length;
    }
    if (far) continue;
    ink.fillStyle = colours.ink;
    ink.font = "600 15px system-ui, sans-serif";
    ink.fillText("▸ " + group.title, box.x + 14, box.y + 23);
    ink.fillStyle = colours.soft;
    ink.font = "12px system-ui, sans-serif";
    ink.fillText(plural(group.nodes.length, "operation") + (group.bytes ? ", " + sizeText(group.bytes) : ""), box.x + 14, box.y + 40);
  }
}

// Moving.
function zoom(factor, px = canvas.clientWidth / 2, py = canvas.clientHeight / 2) {
  const k = Math.min(3, Math.max(0.002, camera.k * factor));
  camera.x += px / camera.k - px / k;
  camera.y += py / camera.k - py / k;
  camera.k = k;
  draw();
}
// Shows a part of the world as large as the window allows. Of a long chain it shows the beginning.
function frame(part) {
  const wide = canvas.clientWidth, high = canvas.clientHeight;
  const free = high - kTitleHigh - 20;  // titles may stand above
  camera.k = Math.min(1.2, (wide - 20) / part.w, free / part.h);
  if (camera.k < 0.25 && part !== world) camera.k = Math.min(0.7, (wide - 20) / part.w);
  camera.x = part.x + part.w / 2 - wide / 2 / camera.k;
  camera.y = part.y - (kTitleHigh + 6 + Math.max(0, free - part.h * camera.k) / 2) / camera.k;
  draw();
}
const fit = () => frame(fn), fitAll = () => frame(world);
function show(box) {
  if (!box) return;
  camera.k = Math.max(camera.k, 0.9);
  camera.x = fn.x + fn.inset + box.x + box.w / 2 - canvas.clientWidth / 2 / camera.k;
  camera.y = fn.y + kTitle + box.y + box.h / 2 - canvas.clientHeight / 2 / camera.k;
  draw();
}
function arrangeAgain() {
  lay(fn);
  world = placeFunctions(graph.functions, world.columns);
}
// Opens or closes a group; what is under the pointer stays there.
function toggle(g) {
  const place = () => {
    const b = fn.scene.boxes.find((box) => box.group === g);
    return [fn.x + fn.inset + b.x + b.w / 2, fn.y + b.y];
  };
  const before = place();
  if (fn.open.has(g)) fn.open.delete(g); else fn.open.add(g);
  arrangeAgain();
  const after = place();
  camera.x += after[0] - before[0];
  camera.y += after[1] - before[1];
  draw();
}
function choose(i, go) {
  chosen = i;
  if (i >= 0 && go && fn.groupOf[i] >= 0 && !fn.open.has(fn.groupOf[i])) toggle(fn.groupOf[i]);
  if (i >= 0 && go) show(fn.scene.boxOf[i]);
  details();
  draw();
}

// What is under the pointer: the function, where in it, the box.
function under(e) {
  const r = canvas.getBoundingClientRect();
  const wx = (e.clientX - r.left) / camera.k + camera.x, wy = (e.clientY - r.top) / camera.k + camera.y;
  const f = graph.functions.find((one) => wx >= one.x && wx <= one.x + one.w && wy >= one.y && wy <= one.y + one.h);
  if (!f) return {};
  const x = wx - f.x - f.inset, y = wy - f.y - kTitle;
  let box = null;
  for (const b of f.scene.boxes) if (x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h) box = b;
  return {f, x, y, box, opens: box ? !box.inside || y < box.y + kHead : y < 0};
}
function wireAt(f, x, y) {
  const near = 5 / camera.k;
  for (const w of f.scene.wires) {
    if (x < w.x1 - near || x > w.x2 + near || y < w.y1 - near || y > w.y2 + near) continue;
    const p = w.points;
    if (w.curve) {
      const t = (y - p[1]) / (p[3] - p[1] || 1), s = t * t * (3 - 2 * t);  // close to the curve that is drawn
      if (Math.abs(p[0] + (p[2] - p[0]) * s - x) < 2 * near) return w;
      continue;
    }
    for (let i = 2; i < p.length; i += 2)
      if (x >= Math.min(p[i - 2], p[i]) - near && x <= Math.max(p[i - 2], p[i]) + near &&
          y >= Math.min(p[i - 1], p[i + 1]) - near && y <= Math.max(p[i - 1], p[i + 1]) + near) return w;
  }
  return null;
}
function hover(e) {
  const {f, x, y, box, opens} = under(e), before = hovered;
  hovered = !f || (box && !box.inside) ? null : wireAt(f, x, y);
  canvas.style.cursor = opens ? "pointer" : "grab";
  let text = "";
  if (hovered) {
    const [from, out] = hovered.value.split(":").map(Number), value = f.nodes[from].o[out];
    text = value[0] + "\n" + typeText(value[1], f);
  } else if (box && box.node !== undefined) {
    const node = f.nodes[box.node];
    text = (node.t ? node.t + " " : "") + node.n + (node.d ? "\n" + deviceWords[node.d] : "") +
      (node.o || []).map((o) => "\n" + typeText(o[1], f)).join("");
  }
  tip.hidden = !text;
  tip.textContent = text;
  const r = canvas.getBoundingClientRect();
  tip.style.left = Math.min(e.clientX - r.left + 14, r.width - 240) + "px";
  tip.style.top = e.clientY - r.top + 16 + "px";
  if (hovered !== before) draw();
}
// A click on a title shows its function, one on a group opens or closes it, one on an operation chooses it.
function click(e) {
  const {f, box, opens} = under(e);
  if (f && f !== fn) use(f);
  if (box && box.node !== undefined) return choose(box.node);
  choose(-1);
  if (box && opens) toggle(box.group);
  else if (f && opens) fit();
}

function listen() {
  const fingers = new Map();
  let moved = 0;
  canvas.onpointerdown = (e) => {
    canvas.setPointerCapture(e.pointerId);
    fingers.set(e.pointerId, e);
    moved = 0;
  };
  canvas.onpointermove = (e) => {
    const last = fingers.get(e.pointerId);
    if (!last) return hover(e);
    const others = [...fingers.values()].filter((f) => f.pointerId !== e.pointerId);
    if (others.length) {
      const r = canvas.getBoundingClientRect(), o = others[0], gap = (a) => Math.hypot(a.clientX - o.clientX, a.clientY - o.clientY);
      zoom(gap(e) / (gap(last) || 1), (e.clientX + o.clientX) / 2 - r.left, (e.clientY + o.clientY) / 2 - r.top);
    }
    const share = others.length ? 2 : 1;
    camera.x -= (e.clientX - last.clientX) / camera.k / share;
    camera.y -= (e.clientY - last.clientY) / camera.k / share;
    moved += Math.abs(e.clientX - last.clientX) + Math.abs(e.clientY - last.clientY);
    fingers.set(e.pointerId, e);
    tip.hidden = true;
    draw();
  };
  canvas.onpointerup = canvas.onpointercancel = (e) => {
    fingers.delete(e.pointerId);
    if (e.type === "pointerup" && moved <= 6) click(e);
  };
  canvas.onpointerleave = () => { tip.hidden = true; };
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const r = canvas.getBoundingClientRect();
    zoom(Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : 0.0015)), e.clientX - r.left, e.clientY - r.top);
  }, {passive: false});
  canvas.onkeydown = keyPressed;
  addEventListener("keydown", (e) => {
    if (e.key === "/" && !/INPUT|SELECT/.test(document.activeElement.tagName)) {
      e.preventDefault();
      $("find").focus();
    }
  });
}

function keyPressed(e) {
  const step = 80 / camera.k, node = chosen >= 0 ? fn.nodes[chosen] : null;
  const moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]};
  if (moves[e.key]) {
    camera.x += moves[e.key][0];
    camera.y += moves[e.key][1];
    draw();
  } else if (e.key === "+" || e.key === "=") zoom(1.25);
  else if (e.key === "-") zoom(0.8);
  else if (e.key === "0") fit();
  else if (e.key === "a") fitAll();
  else if (e.key === "n") choose(Math.min(fn.nodes.length - 1, chosen + 1), true);
  else if (e.key === "p") choose(Math.max(0, chosen - 1), true);
  else if (e.key === "i" && node && node.i) choose(node.i[0][1], true);
  else if (e.key === "o" && node && fn.uses[chosen].flat().length) choose(fn.uses[chosen].flat()[0][0], true);
  else if (e.key === "Enter" && node && fn.groupOf[chosen] >= 0) toggle(fn.groupOf[chosen]);
  else if (e.key === "Escape") choose(-1);
  else return;
  e.preventDefault();
}
