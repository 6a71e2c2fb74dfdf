// The picture: a canvas that draws what is in the window and nothing else; a panel with what was chosen.
const $ = (id) => document.getElementById(id);
const canvas = $("canvas"), ink = canvas.getContext("2d"), tip = $("tip");
const camera = {x: 0, y: 0, k: 1};
let fn = null, scene = null, chosen = -1, hovered = null, colours = {}, due = 0;

const kDevices = {ANE: "ane", GPU: "gpu", CPU: "cpu", unknown: "unknown"};
const deviceWords = {ANE: "Neural Engine", GPU: "GPU", CPU: "CPU", unknown: "unknown (not probed)"};
const typeText = (id) => fn.types[id].replace(/^tensor<(.*)>$/, "$1").replace(/, \[/, " [");
const short = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

function readColours() {
  const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue("--" + name).trim();
  for (const name of ["bg", "card", "well", "line", "edge", "ink", "soft", "rose", "ane-fill", "gpu-fill", "cpu-fill", "unknown-fill"])
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
  if (!scene) return;
  ink.setTransform(ratio * k, 0, 0, ratio * k, -x * k * ratio, -y * k * ratio);
  const view = {x1: x, y1: y, x2: x + wide / k, y2: y + high / k};
  const boxes = scene.boxes.filter((b) => b.x < view.x2 && b.x + b.w > view.x1 && b.y < view.y2 && b.y + b.h > view.y1);
  paintFrames(boxes, k);
  paintWires(view, k);
  if (k < 0.3) paintSpots(boxes); else paintBoxes(boxes, k);
  paintClosed(boxes, k);
  const box = chosen >= 0 ? scene.boxOf[chosen] : null;
  if (box) {
    ink.lineWidth = 3 / k;
    ink.strokeStyle = colours.rose;
    ink.strokeRect(box.x - 2 / k, box.y - 2 / k, box.w + 4 / k, box.h + 4 / k);
  }
}

function paintFrames(boxes, k) {
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
    ink.fillText("▾ " + fn.groups[box.group].title, box.x + 14, box.y + 23);
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

function paintWires(view, k) {
  const least = 5 / k;  // shorter ones are not seen
  ink.lineWidth = Math.min(1.4, 1.1 / k);
  ink.strokeStyle = colours.edge;
  ink.globalAlpha = k < 0.3 ? 0.35 : 0.6;
  ink.beginPath();
  const marked = [], read = new Set(chosen >= 0 ? (fn.nodes[chosen].i || []).map(([, from, out]) => from + ":" + out) : []);
  for (const w of scene.wires) {
    if (w.x1 > view.x2 || w.x2 < view.x1 || w.y1 > view.y2 || w.y2 < view.y1) continue;
    if (w === hovered || (chosen >= 0 && (w.to === chosen || w.value.startsWith(chosen + ":") || (w.trunk && read.has(w.value))))) marked.push(w);
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
function paintSpots(boxes) {
  const byFill = new Map();
  for (const box of boxes) {
    if (box.node === undefined) continue;
    const fill = fillOf(fn.nodes[box.node]);
    if (!byFill.has(fill)) byFill.set(fill, []);
    byFill.get(fill).push(box);
  }
  for (const [fill, list] of byFill) {
    ink.fillStyle = fill;
    ink.beginPath();
    for (const b of list) ink.rect(b.x, b.y, b.w, b.h);
    ink.fill();
  }
}

function paintBoxes(boxes, k) {
  ink.lineWidth = 1;
  for (const box of boxes) {
    if (box.node === undefined) continue;
    const node = fn.nodes[box.node], op = node.k === "op";
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
    if (k > 0.85 && node.o)
      for (let i = 0; i < node.o.length; ++i) {
        ink.font = "11px system-ui, sans-serif";
        ink.fillText(typeText(node.o[i][1]), portX(box, i, node.o.length) + 6, box.y + box.h + 13 + 12 * i);
      }
  }
}

function paintClosed(boxes, k) {
  for (const box of boxes) {
    if (box.group === undefined || box.inside) continue;
    const group = fn.groups[box.group];
    ink.fillStyle = colours.card;
    ink.strokeStyle = colours.edge;
    ink.lineWidth = 1;
    ink.beginPath();
    ink.roundRect(box.x, box.y, box.w, box.h, 12);
    ink.fill();
    ink.stroke();
    let x = box.x + 14;
    const all = box.w - 28;
    for (const [device, count] of Object.entries(group.devices)) {
      ink.fillStyle = kDevices[device] ? colours[kDevices[device] + "-fill"] : colours.edge;
      ink.fillRect(x, box.y + box.h - 16, all * count / group.nodes.length, 6);
      x += all * count / group.nodes.length;
    }
    if (k < 0.2) continue;
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
function fit() {
  const wide = canvas.clientWidth, high = canvas.clientHeight;
  camera.k = Math.min(1.2, wide / (scene.w + 40), high / (scene.h + 40));
  if (camera.k < 0.25) camera.k = Math.min(0.7, wide / (scene.w + 40));  // a long chain: its beginning
  camera.x = scene.w / 2 - wide / 2 / camera.k;
  camera.y = scene.h * camera.k < high ? scene.h / 2 - high / 2 / camera.k : -20 / camera.k;
  draw();
}
function show(box) {
  if (!box) return;
  camera.k = Math.max(camera.k, 0.8);
  camera.x = box.x + box.w / 2 - canvas.clientWidth / 2 / camera.k;
  camera.y = box.y + box.h / 2 - canvas.clientHeight / 2 / camera.k;
  draw();
}
// Opens or closes a group; what is under the pointer stays there.
function toggle(g) {
  const before = scene.boxes.find((b) => b.group === g);
  if (fn.open.has(g)) fn.open.delete(g); else fn.open.add(g);
  scene = layout(fn);
  const box = scene.boxes.find((b) => b.group === g);
  camera.x += box.x + box.w / 2 - before.x - before.w / 2;
  camera.y += box.y - before.y;
  draw();
}
function choose(i, go) {
  chosen = i;
  if (i >= 0 && go && fn.groupOf[i] >= 0 && !fn.open.has(fn.groupOf[i])) toggle(fn.groupOf[i]);
  if (i >= 0 && go) show(scene.boxOf[i]);
  details();
  draw();
}

// What is under the pointer.
const world = (e) => {
  const r = canvas.getBoundingClientRect();
  return [(e.clientX - r.left) / camera.k + camera.x, (e.clientY - r.top) / camera.k + camera.y];
};
function boxAt(x, y) {
  let found = null;
  for (const b of scene.boxes) if (x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h) found = b;
  return found;
}
function wireAt(x, y) {
  const near = 5 / camera.k;
  for (const w of scene.wires) {
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
  const [x, y] = world(e), box = boxAt(x, y);
  const before = hovered;
  hovered = box && !box.inside ? null : wireAt(x, y);
  canvas.style.cursor = box && (!box.inside || y < box.y + kHead) ? "pointer" : "grab";
  let text = "";
  if (hovered) {
    const [from, out] = hovered.value.split(":").map(Number), value = fn.nodes[from].o[out];
    text = value[0] + "\n" + typeText(value[1]);
  } else if (box && box.node !== undefined) {
    const node = fn.nodes[box.node];
    text = (node.t ? node.t + " " : "") + node.n + (node.d ? "\n" + deviceWords[node.d] : "") +
      (node.o || []).map((o) => "\n" + typeText(o[1])).join("");
  }
  tip.hidden = !text;
  tip.textContent = text;
  const r = canvas.getBoundingClientRect();
  tip.style.left = Math.min(e.clientX - r.left + 14, r.width - 240) + "px";
  tip.style.top = e.clientY - r.top + 16 + "px";
  if (hovered !== before) draw();
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
    if (e.type !== "pointerup" || moved > 6) return;
    const [x, y] = world(e), box = boxAt(x, y);
    if (!box) choose(-1);
    else if (box.node !== undefined) choose(box.node);
    else if (!box.inside || y < box.y + kHead) toggle(box.group);
    else choose(-1);
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
  else if (e.key === "n") choose(Math.min(fn.nodes.length - 1, chosen + 1), true);
  else if (e.key === "p") choose(Math.max(0, chosen - 1), true);
  else if (e.key === "i" && node && node.i) choose(node.i[0][1], true);
  else if (e.key === "o" && node && fn.uses[chosen].flat().length) choose(fn.uses[chosen].flat()[0][0], true);
  else if (e.key === "Enter" && node && fn.groupOf[chosen] >= 0) toggle(fn.groupOf[chosen]);
  else if (e.key === "Escape") choose(-1);
  else return;
  e.preventDefault();
}
