// Where everything goes. A function is a box with a title; its operations stand in layers below what they read. Those of
// one layer of the model are a group, which is one box when closed. A wire that would cross boxes runs in a lane at the
// right, one lane a value.
"use strict";
const kWide = 196, kHigh = 46, kGapX = 22, kGapY = 46, kHead = 34, kPad = 18, kLane = 9;
const kTitle = 56, kApart = 70, kRows = 160, kShape = 1.4;  // kShape: width by height of a usual window

// Who reads what, and the groups: stretches of operations of one layer, in program order, so that no two groups wait
// for each other.
function prepare(fn) {
  if (fn.uses) return fn;
  fn.uses = fn.nodes.map((node) => (node.o || []).map(() => []));
  fn.nodes.forEach((node, i) => (node.i || []).forEach(([, from, out], at) => fn.uses[from][out].push([i, at])));
  const layered = fn.nodes.some((node) => node.g !== undefined);
  const long = fn.nodes.length > 120;
  let run = null;
  const runs = [];
  fn.nodes.forEach((node, i) => {
    const key = node.k !== "op" ? null : node.g !== undefined ? node.g : "rest";
    if (key === null || !run || run.key !== key || (!layered && run.nodes.length >= 60)) {
      run = key === null ? null : {key, nodes: []};
      if (run) runs.push(run);
    }
    if (run) run.nodes.push(i);
  });
  const seen = new Map();
  fn.groups = runs.filter((r) => r.nodes.length > 1 && (r.key !== "rest" || (long && r.nodes.length >= 8)));
  fn.groupOf = new Int32Array(fn.nodes.length).fill(-1);
  fn.groups.forEach((group, g) => {
    const part = (seen.get(group.key) || 0) + 1;
    seen.set(group.key, part);
    group.title = group.key === "rest" ? "operations " + part : "layer " + group.key + (part > 1 ? ", part " + part : "");
    group.devices = {};
    group.bytes = 0;
    for (const i of group.nodes) {
      fn.groupOf[i] = g;
      const node = fn.nodes[i];
      group.devices[node.d || "none"] = (group.devices[node.d || "none"] || 0) + 1;
      for (const w of node.w || []) group.bytes += w[4];
    }
    const inside = (i) => fn.groupOf[i] === g;
    group.ins = [];
    const known = new Set();
    for (const i of group.nodes)
      for (const [, from, out] of fn.nodes[i].i || [])
        if (!inside(from) && !known.has(from + ":" + out)) {
          known.add(from + ":" + out);
          group.ins.push([from, out]);
        }
    group.outs = group.nodes.flatMap((i) => fn.uses[i].map((users, out) => [i, out, users]))
      .filter(([, , users]) => users.some(([user]) => fn.groupOf[user] !== g)).map(([i, out]) => [i, out]);
  });
  fn.open = new Set(fn.nodes.length <= 120 ? fn.groups.keys() : []);
  return fn;
}

const portX = (box, at, of) => box.x + box.w * (at + 1) / (of + 1);

// Layers, order and places of `items` ({w, h}, in program order). A link: {from, to, fromAt, fromOf, toAt, toOf, value};
// from -1 comes in at the top of the frame, to -2 leaves at its bottom.
function arrange(items, links, head) {
  const n = items.length, before = items.map(() => []), after = items.map(() => []), rank = new Int32Array(n);
  for (const link of links)
    if (link.from >= 0 && link.to >= 0) {
      before[link.to].push(link.from);
      after[link.from].push(link.to);
    }
  for (let i = 0; i < n; ++i) for (const p of before[i]) rank[i] = Math.max(rank[i], rank[p] + 1);
  for (let i = n - 1; i >= 0; --i)  // what reads nothing stands just above its first reader
    if (!before[i].length && after[i].length) rank[i] = Math.max(0, Math.min(...after[i].map((s) => rank[s])) - 1);
  const rows = [];
  for (let i = 0; i < n; ++i) (rows[rank[i]] ||= []).push(i);
  for (let r = 0; r < rows.length; ++r) rows[r] ||= [];
  placeRows(items, rows, before, after);
  let y = head + kGapY;
  const tops = [], bottoms = [];
  for (const row of rows) {
    const high = row.length ? Math.max(...row.map((i) => items[i].h)) : 0;
    tops.push(y);
    for (const i of row) items[i].y = y;
    bottoms.push(y + high);
    y += high + kGapY;
  }
  const left = n ? Math.min(...items.map((b) => b.x)) : 0;
  for (const b of items) b.x += kPad - left;
  const right = n ? Math.max(...items.map((b) => b.x + b.w)) : 0;
  const frame = {x: 0, y: 0, w: right + kPad, h: y};
  const lanes = assignLanes(items, rows, links, rank, frame);
  frame.w += lanes ? lanes * kLane + 4 : 0;
  const wires = links.map((link) => wire(link, items, frame, head, right, tops, bottoms, rank));
  return {frame, wires};
}

// Left to right, each item as near to the middle of its neighbours as the row allows. An item that reads nothing goes
// by its readers and moves nobody: else every input would push the chain to its side.
function placeRows(items, rows, before, after) {
  const above = before.map((list, i) => {
    const makers = list.filter((p) => before[p].length);
    return list.length ? makers : after[i];
  });
  for (const row of rows) {
    let x = -row.reduce((sum, i) => sum + items[i].w + kGapX, 0) / 2;
    for (const i of row) {
      items[i].x = x;
      x += items[i].w + kGapX;
    }
  }
  const middle = (i) => items[i].x + items[i].w / 2;
  const settle = (row, near) => {
    const wish = new Map(row.map((i) => [i, near[i].length ? near[i].reduce((s, p) => s + middle(p), 0) / near[i].length : middle(i)]));
    row.sort((a, b) => wish.get(a) - wish.get(b) || a - b);
    const makers = row.filter((i) => before[i].length), first = makers.length ? makers : row;
    let end = -Infinity, shift = 0;
    for (const i of first) {
      items[i].x = Math.max(wish.get(i) - items[i].w / 2, end);
      end = items[i].x + items[i].w + kGapX;
      shift += middle(i) - wish.get(i);
    }
    for (const i of first) items[i].x -= shift / first.length;
    if (first === row) return;
    let left = items[first[0]].x - kGapX, right = items[first.at(-1)].x + items[first.at(-1)].w + kGapX;
    for (const i of row) {
      if (before[i].length) continue;
      const toLeft = wish.get(i) - left < right - wish.get(i);
      items[i].x = toLeft ? left - items[i].w : right;
      if (toLeft) left -= items[i].w + kGapX; else right += items[i].w + kGapX;
    }
    row.sort((a, b) => items[a].x - items[b].x);
  };
  for (let sweep = 0; sweep < 3; ++sweep) {
    for (const row of rows) if (row.length) settle(row, above);
    for (const row of [...rows].reverse()) if (row.length) settle(row, after);
  }
  for (const row of rows) if (row.length) settle(row, above);
}

// A straight way down meets no box.
function isFree(link, items, rows, from, to) {
  if (to - from <= 1) return true;
  if (to - from > 6 || link.from < 0 || link.to < 0) return false;
  const a = items[link.from], b = items[link.to];
  const x1 = portX(a, link.fromAt, link.fromOf), x2 = portX(b, link.toAt, link.toOf), low = Math.min(x1, x2) - 6, high = Math.max(x1, x2) + 6;
  for (let r = from + 1; r < to; ++r)
    for (const i of rows[r]) if (items[i].x < high && items[i].x + items[i].w > low) return false;
  return true;
}

// Values that need a lane, first come first served; returns how many lanes there are.
function assignLanes(items, rows, links, rank, frame) {
  const spans = new Map();
  for (const link of links) {
    link.rankFrom = link.from < 0 ? -1 : rank[link.from];
    link.rankTo = link.to < 0 ? rows.length : rank[link.to];
    if (isFree(link, items, rows, link.rankFrom, link.rankTo)) continue;
    const span = spans.get(link.value) || {from: link.rankFrom, to: link.rankTo, links: []};
    span.to = Math.max(span.to, link.rankTo);
    span.links.push(link);
    spans.set(link.value, span);
  }
  const ends = [];
  for (const span of [...spans.values()].sort((a, b) => a.from - b.from || b.to - a.to)) {
    let lane = ends.findIndex((end) => end < span.from);
    if (lane < 0) lane = ends.push(0) - 1;
    ends[lane] = span.to;
    for (const link of span.links) link.lane = lane;
    span.links.reduce((a, b) => b.rankTo > a.rankTo ? b : a).trunk = true;  // the others branch off its way
  }
  return ends.length;
}

function wire(link, items, frame, head, right, tops, bottoms, rank) {
  const x1 = link.from < 0 ? portX(frame, link.fromAt, link.fromOf) : portX(items[link.from], link.fromAt, link.fromOf);
  const y1 = link.from < 0 ? head : items[link.from].y + items[link.from].h;
  const x2 = link.to < 0 ? portX(frame, link.toAt, link.toOf) : portX(items[link.to], link.toAt, link.toOf);
  const y2 = link.to < 0 ? frame.h : items[link.to].y;
  const out = {value: link.value, to: link.node, points: [x1, y1, x2, y2], curve: true};
  if (link.lane === undefined) return out;
  const x = right + 12 + link.lane * kLane, step = 3 * (link.lane % 5);
  const down = (link.from < 0 ? head : bottoms[rank[link.from]]) + 10 + step;
  const up = (link.to < 0 ? frame.h : tops[rank[link.to]]) - 10 - step;
  out.curve = false;
  out.trunk = link.trunk;
  out.points = link.trunk ? [x1, y1, x1, down, x, down, x, up, x2, up, x2, y2] : [x, up, x2, up, x2, y2];
  return out;
}

const inputCount = (node) => (node.i || []).length || 1;
const outputCount = (node) => (node.o || []).length || 1;

// The inside of a group.
function groupInside(fn, group) {
  const place = new Map(group.nodes.map((i, at) => [i, at]));
  const items = group.nodes.map(() => ({w: kWide, h: kHigh}));
  const links = [];
  const port = new Map(group.ins.map(([from, out], at) => [from + ":" + out, at]));
  for (const i of group.nodes) {
    const node = fn.nodes[i];
    (node.i || []).forEach(([, from, out], at) => {
      const own = place.get(from), value = from + ":" + out;
      links.push({from: own ?? -1, fromAt: own === undefined ? port.get(value) : out,
        fromOf: own === undefined ? group.ins.length : outputCount(fn.nodes[from]),
        to: place.get(i), toAt: at, toOf: inputCount(node), value, node: i});
    });
  }
  group.outs.forEach(([i, out], at) => links.push({from: place.get(i), fromAt: out, fromOf: outputCount(fn.nodes[i]),
    to: -2, toAt: at, toOf: group.outs.length, value: i + ":" + out, node: -1}));
  return {items, ...arrange(items, links, kHead)};
}

// All boxes and wires of a function, with the groups in fn.open drawn open.
function layout(fn) {
  prepare(fn);
  const items = [], itemOf = new Int32Array(fn.nodes.length).fill(-1);
  fn.nodes.forEach((node, i) => {
    const g = fn.groupOf[i];
    if (g >= 0 && fn.groups[g].nodes[0] !== i) {
      itemOf[i] = itemOf[fn.groups[g].nodes[0]];
      return;
    }
    itemOf[i] = items.length;
    if (g < 0) {
      items.push({w: kWide, h: node.k === "op" ? kHigh : 38, node: i});
    } else if (fn.open.has(g)) {
      const group = fn.groups[g];
      group.inside ||= groupInside(fn, group);
      items.push({w: group.inside.frame.w, h: group.inside.frame.h, group: g, inside: group.inside});
    } else {
      items.push({w: 230, h: 62, group: g});
    }
  });
  const links = [];
  items.forEach((item, at) => {
    const add = (from, out, toAt, toOf, node) => {
      const source = itemOf[from], g = fn.groupOf[from], outs = g < 0 ? null : fn.groups[g].outs;
      links.push({from: source, fromAt: outs ? outs.findIndex(([i, o]) => i === from && o === out) : out,
        fromOf: outs ? outs.length : outputCount(fn.nodes[from]), to: at, toAt, toOf, value: from + ":" + out, node});
    };
    if (item.group !== undefined) fn.groups[item.group].ins.forEach(([from, out], i, all) => add(from, out, i, all.length, -1));
    else (fn.nodes[item.node].i || []).forEach(([, from, out], i, all) => add(from, out, i, all.length, item.node));
  });
  const top = arrange(items, links, 0);
  const boxes = [], wires = [], boxOf = new Array(fn.nodes.length).fill(null);
  const put = (inside, dx, dy) => {
    for (const w of inside.wires) {
      const points = w.points.map((p, i) => p + (i % 2 ? dy : dx));
      const xs = points.filter((_, i) => i % 2 === 0), ys = points.filter((_, i) => i % 2 === 1);
      wires.push({...w, points, x1: Math.min(...xs), x2: Math.max(...xs), y1: Math.min(...ys), y2: Math.max(...ys)});
    }
  };
  put(top, 0, 0);
  for (const item of items) {
    boxes.push(item);
    if (item.node !== undefined) boxOf[item.node] = item;
    if (item.group === undefined) continue;
    for (const i of fn.groups[item.group].nodes) boxOf[i] = item;
    if (!item.inside) continue;
    put(item.inside, item.x, item.y);
    item.inside.items.forEach((b, at) => {
      const i = fn.groups[item.group].nodes[at], box = {x: b.x + item.x, y: b.y + item.y, w: b.w, h: b.h, node: i};
      boxes.push(box);
      boxOf[i] = box;
    });
  }
  return {boxes, wires, boxOf, w: top.frame.w, h: top.frame.h};
}

// The function's box, without its place.
function lay(fn) {
  fn.scene = layout(fn);
  fn.w = Math.max(fn.scene.w, 480);
  fn.h = kTitle + fn.scene.h;
  fn.inset = (fn.w - fn.scene.w) / 2;
}

// Functions stand in rows. `columns` is how many stand in a row: 0 finds the number that a window shows largest.
function placeFunctions(functions, columns) {
  const place = (many) => {
    let x = 0, y = 0, wide = 0, high = 0;
    functions.forEach((f, i) => {
      if (i && i % many === 0) {
        y += high + kRows;
        x = high = 0;
      }
      f.x = x;
      f.y = y;
      x += f.w + kApart;
      high = Math.max(high, f.h);
      wide = Math.max(wide, x - kApart);
    });
    return {x: 0, y: 0, w: wide, h: y + high, columns: many};
  };
  if (columns) return place(columns);
  let best = 1, least = Infinity;
  for (let many = 1; many <= functions.length; ++many) {
    const all = place(many), size = Math.max(all.w, all.h * kShape);
    if (size < least) [best, least] = [many, size];
  }
  return place(best);
}
