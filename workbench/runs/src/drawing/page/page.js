// Draws a run. All data is in the page; there are no requests.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const ROWS = 200;
const state = { from: 0, to: Math.max(data.end_ns, 1), flow: -1, view: "ladder", number: -1, chosen: -1 };
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const seconds = (ns, digits = 6) => (ns / 1e9).toFixed(digits);
const line = (packet) => (packet.line === null ? "the network layer" : data.lines[packet.line]);
const isLost = (packet) => packet.fate !== "delivered" && packet.fate !== "under way";
const fate = (packet) => isLost(packet) ? `lost by ${packet.fate}` :
  packet.fate === "delivered" ? `delivered after ${((packet.end_ns - packet.at_ns) / 1e6).toFixed(3)} ms` : "under way at the end";

let shown = [];      // the packets of the flow
let firsts = {};     // by host and name: the number that is drawn as 0

function choosePackets() {
  shown = data.packets.filter((packet) => state.flow < 0 || packet.flow === state.flow);
  firsts = {};
  for (const packet of shown) {
    for (const [name, value] of packet.numbers) {
      const key = `${packet.from}/${name}`;
      if (!(key in firsts)) firsts[key] = value > 2 ** 24 ? value : 0;
    }
  }
  // An acknowledgement counts the same units as the number that it acknowledges.
  const seq = data.names.indexOf("seq"), ack = data.names.indexOf("ack");
  if (seq >= 0 && ack >= 0) data.hosts.forEach((_, host) => data.hosts.forEach((_, other) => {
    if (host !== other && `${other}/${seq}` in firsts) firsts[`${host}/${ack}`] = firsts[`${other}/${seq}`];
  }));
}

/** A number of a packet as it is drawn: large first numbers count from 0. */
function numberOf(packet, name) {
  const found = packet.numbers.find(([known]) => known === name);
  if (!found) return null;
  const first = firsts[`${packet.from}/${name}`] || 0;
  const difference = found[1] - first;
  return difference < -(2 ** 31) ? difference + 2 ** 32 : difference;
}

// Drawing.

/** A canvas as large as its container, cleared; its size in CSS pixels. */
function begin(canvas) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  return { pen, width, height };
}

/** A round step that divides `span` into about `count` parts. */
function step(span, count) {
  const rough = Math.max(span / count, 1e-9), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough);
}

function stroke(pen, style, points, width = 1, dash = []) {
  pen.strokeStyle = style;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  points.forEach(([x, y], index) => (index ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
  pen.setLineDash([]);
}

function text(pen, style, what, x, y, align = "left") {
  pen.fillStyle = style;
  pen.textAlign = align;
  pen.fillText(what, x, y);
}

const EDGE = { left: 76, right: 14, top: 12, bottom: 24 };

/** Axes with time to the right and values upwards; returns the positions of a time and a value. */
function axes({ pen, width, height }, top, unit) {
  const span = state.to - state.from;
  const x = (at) => EDGE.left + (at - state.from) / span * (width - EDGE.left - EDGE.right);
  const low = height - EDGE.bottom;
  const y = (value) => low - value / (top || 1) * (low - EDGE.top);
  const each = step(span, width / 110);
  for (let at = Math.ceil(state.from / each) * each; at <= state.to; at += each) {
    stroke(pen, colour("line"), [[x(at), EDGE.top], [x(at), low]]);
    text(pen, colour("faint"), `${+(at / 1e9).toPrecision(9)} s`, x(at), height - 7, "center");
  }
  const rung = step(top || 1, height / 45);
  for (let value = 0; value <= (top || 1); value += rung) {
    stroke(pen, colour("line"), [[EDGE.left, y(value)], [width - EDGE.right, y(value)]]);
    text(pen, colour("faint"), unit(value), EDGE.left - 6, y(value) + 4, "right");
  }
  return { x, y };
}

const plain = (value) => Math.abs(value) >= 1e6 ? `${+(value / 1e6).toPrecision(4)} M` :
  Math.abs(value) >= 1e4 ? `${+(value / 1e3).toPrecision(4)} k` : String(+value.toPrecision(6));
const span = (ns) => `${+(ns / 1e6).toPrecision(5)} ms`;

function inView(packet) {
  return Math.max(packet.end_ns, packet.at_ns) >= state.from && packet.at_ns <= state.to;
}

/** The position of each drawn packet, for the pointer. */
let places = [];

function drawPackets() {
  const page = begin($("packets"));
  places = [];
  state.view === "ladder" ? drawLadder(page) : drawSequence(page);
}

/** Hosts side by side, time downwards, each packet a line from one host to another. */
function drawLadder({ pen, width, height }) {
  const hosts = data.hosts.map((_, host) => host).filter((host) => state.flow < 0 || data.flows[state.flow].hosts.includes(host));
  const across = (host) => 150 + (hosts.indexOf(host) + 0.5) * (width - 300) / hosts.length;
  const spread = (host) => hosts.length === 2 ? [150, width - 150][hosts.indexOf(host)] : across(host);
  const [top, low] = [30, height - 8];
  const y = (at) => top + (at - state.from) / (state.to - state.from) * (low - top);
  const each = step(state.to - state.from, height / 45);
  for (let at = Math.ceil(state.from / each) * each; at <= state.to; at += each) {
    stroke(pen, colour("line"), [[62, y(at)], [width - 8, y(at)]]);
    text(pen, colour("faint"), `${+(at / 1e9).toPrecision(9)}`, 58, y(at) + 4, "right");
  }
  for (const host of hosts) {
    stroke(pen, colour("faint"), [[spread(host), top - 6], [spread(host), low]], 2);
    text(pen, colour("ink"), data.hosts[host], spread(host), 16, "center");
  }
  for (const timer of data.timers) {
    if (state.flow >= 0 && timer.flow !== state.flow || !hosts.includes(timer.host)) continue;
    if (timer.to_ns < state.from || timer.from_ns > state.to) continue;
    const side = spread(timer.host) < width / 2 ? -1 : 1, x = spread(timer.host) + side * 9;
    stroke(pen, colour("timer"), [[x, Math.max(y(timer.from_ns), top)], [x, Math.min(y(timer.to_ns), low)]], timer.end === "fired" ? 3 : 1, timer.end === "fired" ? [] : [2, 4]);
    if (timer.end === "fired" && timer.to_ns <= state.to && timer.to_ns >= state.from) {
      text(pen, colour("timer"), timer.name, x + side * 6, y(timer.to_ns) + 4, side < 0 ? "right" : "left");
    }
  }
  const visible = shown.filter((packet) => inView(packet) && hosts.includes(packet.from) && hosts.includes(packet.to));
  const roomy = visible.length * 15 < low - top;
  pen.save();
  pen.beginPath();
  pen.rect(0, top - 4, width, low - top + 8);
  pen.clip();
  for (const packet of visible) {
    const chosen = packet === shown[state.chosen];
    const [x0, y0] = [spread(packet.from), y(packet.at_ns)];
    let [x1, y1] = [spread(packet.to), y(packet.fate === "under way" ? state.to : packet.end_ns)];
    const style = isLost(packet) ? colour("lost") : packet.from === hosts[0] ? colour("one") : colour("two");
    if (isLost(packet)) [x1, y1] = [(x0 + x1) / 2, Math.max(y1, y0 + 4)];
    stroke(pen, style, [[x0, y0], [x1, y1]], chosen ? 4 : packet.payload ? 1.6 : 1);
    if (isLost(packet)) {
      stroke(pen, style, [[x1 - 5, y1 - 5], [x1 + 5, y1 + 5]], 2);
      stroke(pen, style, [[x1 - 5, y1 + 5], [x1 + 5, y1 - 5]], 2);
    } else {
      const turn = Math.atan2(y1 - y0, x1 - x0);
      stroke(pen, style, [[x1 - 8 * Math.cos(turn - 0.4), y1 - 8 * Math.sin(turn - 0.4)], [x1, y1], [x1 - 8 * Math.cos(turn + 0.4), y1 - 8 * Math.sin(turn + 0.4)]], 1.5);
    }
    if (roomy || chosen) {
      pen.save();
      pen.translate((x0 + x1) / 2, (y0 + y1) / 2);
      let turn = Math.atan2(y1 - y0, x1 - x0);
      if (Math.abs(turn) > Math.PI / 2) turn += Math.PI;
      pen.rotate(turn);
      text(pen, style, brief(packet), 0, -4, "center");
      pen.restore();
    }
    places.push({ packet, x0, y0, x1, y1 });
  }
  pen.restore();
}

/** A packet in a few words: without ports and fields of zero. */
function brief(packet) {
  const inside = packet.text.slice(packet.text.indexOf("{") + 1, -1);
  const parts = inside.split(/, (?![^[{]*[\]}])/);
  const kept = parts.filter((part) => !/port|: 0$|^opts: \[\]|^window/.test(part));
  return (kept.length ? kept : [packet.blueprint]).join(", ").slice(0, 90);
}

/** A number of the packets over time, as in a time-sequence diagram. */
function drawSequence(page) {
  const name = state.number;
  const ack = data.names.indexOf("ack");
  // Beyond all packets with payload there are only numbers of the other end, and of packets not yet sent.
  const most = shown.reduce((most, packet) => packet.payload ? Math.max(most, (numberOf(packet, name) || 0) + packet.payload + 1) : most, 0) || Infinity;
  const drawn = shown.map((packet) => ({ packet, value: numberOf(packet, name) })).filter((one) => one.value !== null && one.value <= most && inView(one.packet));
  const acks = name !== ack && ack >= 0 ? shown.filter((packet) => inView(packet) && numberOf(packet, ack) !== null && numberOf(packet, ack) <= most) : [];
  const tops = drawn.map(({ packet, value }) => value + (counted(name) ? packet.payload : 0)).concat(acks.map((packet) => numberOf(packet, ack) || 0));
  const highest = tops.reduce((a, b) => Math.max(a, b), 1);
  const edges = windowsOf(name).map((one) => ({ ...one, steps: within(one.points) }));
  // Windows far beyond the sent numbers must not squeeze the packets.
  const widest = edges.flatMap((one) => one.steps.map((point) => point[1])).reduce((a, b) => Math.max(a, b), 0);
  const top = Math.max(highest, Math.min(widest, highest * 1.5)) * 1.05;
  const { pen } = page;
  const { x, y } = axes(page, top, plain);
  const low = page.height - EDGE.bottom;
  pen.save();
  pen.beginPath();
  pen.rect(EDGE.left, 0, page.width - EDGE.left - EDGE.right, low + 4);
  pen.clip();
  for (const { steps, style } of edges) {
    if (steps.length) stroke(pen, colour(style), stairs(steps, x, (value) => Math.max(y(value), 1)), 1.6);
  }
  const fired = data.timers.filter((timer) => timer.end === "fired" && timer.flow === state.flow && timer.to_ns >= state.from && timer.to_ns <= state.to);
  for (const timer of fired) {
    stroke(pen, colour("timer"), [[x(timer.to_ns), low - 14], [x(timer.to_ns), low]], 3);
    if (fired.length < page.width / 90) text(pen, colour("timer"), timer.name, x(timer.to_ns) + 4, low - 4);
  }
  const sides = [...new Set(shown.map((packet) => packet.from))];
  for (const side of sides) {
    const taken = acks.filter((packet) => packet.from === side).flatMap((packet) => {
      const at = packet.fate === "delivered" ? packet.end_ns : packet.at_ns;
      return isLost(packet) ? [] : [[x(at), y(numberOf(packet, ack))]];
    });
    const line = taken.flatMap((point, index) => index ? [[point[0], taken[index - 1][1]], point] : [point]);
    if (line.length > 1) stroke(pen, side === sides[0] ? colour("one") : colour("two"), line, 1, [4, 3]);
  }
  for (const { packet, value } of drawn) {
    const chosen = packet === shown[state.chosen];
    const style = isLost(packet) ? colour("lost") : packet.from === sides[0] ? colour("one") : colour("two");
    const [left, bottom] = [x(packet.at_ns), y(value)];
    const high = counted(name) && packet.payload ? y(value + packet.payload) : bottom;
    if (Math.abs(high - bottom) > 3) stroke(pen, style, [[left, bottom], [left, high]], chosen ? 5 : 2);
    else { pen.fillStyle = style; pen.beginPath(); pen.arc(left, bottom, chosen ? 5 : 2.2, 0, 7); pen.fill(); }
    if (isLost(packet)) {
      stroke(pen, style, [[left - 4, bottom - 4], [left + 4, bottom + 4]], 1.5);
      stroke(pen, style, [[left - 4, bottom + 4], [left + 4, bottom - 4]], 1.5);
    }
    places.push({ packet, x0: left, y0: bottom, x1: left, y1: high });
  }
  pen.restore();
}

/** The windows of the flow that bound a number, each with its colour. */
function windowsOf(name) {
  if (state.flow < 0 || name !== data.number) return [];
  const windows = data.windows.filter((one) => one.flow === state.flow);
  return windows.map((one) => ({ ...one, style: /cwnd$/.test(one.name.split(" ")[0]) ? "third" : "edge" }));
}

/** Returns whether a number counts bytes: then it mostly grows by the payload. */
const countedNames = {};
function counted(name) {
  if (!(name in countedNames)) {
    const last = {};
    let [yes, no] = [0, 0];
    for (const packet of data.packets) {
      const value = packet.numbers.find(([known]) => known === name);
      if (!value || !packet.payload) continue;
      const key = `${packet.flow}/${packet.from}`;
      if (key in last && value[1] !== last[key].value) value[1] - last[key].value === last[key].payload ? yes++ : no++;
      last[key] = { value: value[1], payload: packet.payload };
    }
    countedNames[name] = yes > no;
  }
  return countedNames[name];
}

/** Steps of a series in the window, and the value before it. */
function within(points) {
  const out = [];
  for (let i = 0; i < points.length; i += 2) {
    if (points[i] > state.to) break;
    if (points[i] < state.from) { out.length = 0; out.push([state.from, points[i + 1]]); } else out.push([points[i], points[i + 1]]);
  }
  if (out.length) out.push([state.to, out[out.length - 1][1]]);
  return out;
}

/** Steps as the corners of a line. */
function stairs(steps, x, y) {
  return steps.flatMap(([at, value], index) => index ? [[x(at), y(steps[index - 1][1])], [x(at), y(value)]] : [[x(at), y(value)]]);
}

function drawSeries(canvas, series, unit) {
  const page = begin(canvas), { pen } = page;
  const parts = series.map((one) => ({ ...one, steps: within(one.points) }));
  const top = parts.flatMap((one) => one.steps.map((point) => point[1])).reduce((a, b) => Math.max(a, b), 1) * 1.05;
  const { x, y } = axes(page, top, unit);
  for (const { steps, style, width } of parts) {
    if (steps.length) stroke(pen, colour(style), stairs(steps, x, y), width || 1.6);
  }
  if (!parts.some((one) => one.steps.length)) text(pen, colour("faint"), "nothing was noted in this time", page.width / 2, page.height / 2, "center");
}

const STYLES = ["one", "two", "third"];

function drawFields() {
  const chosen = [...document.querySelectorAll(".field")].map((select, index) => ({ index, field: data.fields[select.value] })).filter((one) => one.field);
  const spans = chosen.length && chosen.every((one) => one.field.unit === "span");
  drawSeries($("fields"), chosen.map(({ index, field }) => ({ points: field.points, style: STYLES[index] })), spans ? span : plain);
}

/** The deepest queues, in the order of the links. */
const deepest = (() => {
  const depth = (queue) => queue.points.reduce((most, value, index) => (index % 2 ? Math.max(most, value) : most), 0);
  const order = data.queues.map((queue, index) => ({ queue, index, depth: depth(queue) })).sort((a, b) => b.depth - a.depth || a.index - b.index);
  return order.slice(0, 3).sort((a, b) => a.index - b.index).map((one) => one.queue);
})();

function drawQueues() {
  const most = deepest.map((queue, index) => ({ points: queue.points, style: STYLES[index] }));
  const means = deepest.map((queue, index) => ({ points: queue.mean, style: STYLES[index], width: 0.8 }));
  drawSeries($("queues"), [...most, ...means], (value) => `${plain(value)} B`);
}

// The text beside the drawings.

function cell(row, content, code) {
  const td = document.createElement("td");
  const into = code ? td.appendChild(document.createElement("code")) : td;
  into.textContent = content;
  row.append(td);
}

function listPackets() {
  const visible = shown.map((packet, index) => ({ packet, index })).filter(({ packet }) => inView(packet));
  const rows = visible.slice(0, ROWS).map(({ packet, index }) => {
    const row = document.createElement("tr");
    row.className = `${isLost(packet) ? "lost" : ""} ${index === state.chosen ? "chosen" : ""}`;
    cell(row, packet.number);
    cell(row, seconds(packet.at_ns));
    cell(row, data.hosts[packet.from]);
    cell(row, packet.text, true);
    cell(row, fate(packet));
    cell(row, line(packet), true);
    return row;
  });
  $("rows").replaceChildren(...rows);
  $("more").textContent = visible.length > ROWS ? `and ${visible.length - ROWS} more in this time: zoom in to see them` : "";
  $("window").textContent = `${seconds(state.from, 4)} s to ${seconds(state.to, 4)} s, ${visible.length} packets`;
}

function describe() {
  const packet = shown[state.chosen];
  const box = $("packet");
  if (!packet) { box.textContent = "Point at a packet, or choose one with the arrow keys, to see its fields and the line that sent it."; return; }
  const head = document.createElement("strong"), code = document.createElement("code"), where = document.createElement("div");
  head.textContent = `Packet ${packet.number}, ${data.hosts[packet.from]} to ${data.hosts[packet.to]}, at ${seconds(packet.at_ns)} s, ${fate(packet)}`;
  code.textContent = packet.text;
  where.textContent = `sent by ${line(packet)}`;
  box.replaceChildren(head, document.createElement("br"), code, where);
}

function legend() {
  const entry = (style, words) => {
    const part = document.createElement("span"), sample = document.createElement("i");
    sample.style.background = `var(--${style})`;
    part.append(sample, words);
    return part;
  };
  const sides = [...new Set(shown.map((packet) => packet.from))].slice(0, 2);
  const entries = sides.map((host, index) => entry(["one", "two"][index], `sent by ${data.hosts[host]}`));
  const windows = state.view === "sequence" ? windowsOf(state.number) : [];
  const edges = windows.map((one) => entry(one.style, `${data.hosts[one.host]} may send below this: ${one.name}`));
  const acks = state.view === "sequence" && data.names[state.number] !== "ack" && data.names.includes("ack");
  const words = acks ? [document.createTextNode("dashed: acknowledged")] : [];
  $("legend").replaceChildren(...entries, entry("lost", "lost"), entry("timer", "timer that fired"), ...edges, ...words);
  $("queue-legend").replaceChildren(...deepest.map((queue, index) => entry(STYLES[index], queue.name)));
}

let waits = false;
function draw() {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    drawPackets();
    drawFields();
    drawQueues();
    listPackets();
  });
}

// The reader's actions.

function show(from, to) {
  const end = Math.max(data.end_ns, 1), width = Math.min(Math.max(to - from, 1000), end * 1.02);
  state.from = Math.min(Math.max(from, 0), Math.max(end * 1.02 - width, 0));
  state.to = state.from + width;
  draw();
}

const zoom = (by, at = (state.from + state.to) / 2) => show(at - (at - state.from) * by, at + (state.to - at) * by);
const move = (by) => show(state.from + by * (state.to - state.from), state.to + by * (state.to - state.from));

function choose(index) {
  if (!shown.length) return;
  state.chosen = Math.min(Math.max(index, 0), shown.length - 1);
  const at = shown[state.chosen].at_ns;
  if (at < state.from || at > state.to) show(at - (state.to - state.from) / 2, at + (state.to - state.from) / 2);
  describe();
  draw();
}

function key(event) {
  const first = shown.findIndex(inView);
  const acts = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => show(0, data.end_ns * 1.02),
    ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
    ArrowDown: () => choose(state.chosen < 0 ? first : state.chosen + 1),
    ArrowUp: () => choose(state.chosen < 0 ? first : state.chosen - 1),
  };
  if (acts[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); acts[event.key](); }
}

/** The time at a position of a canvas. */
function timeAt(canvas, event) {
  const box = canvas.getBoundingClientRect();
  const down = canvas.id === "packets" && state.view === "ladder";
  const share = down ? (event.clientY - box.top - 30) / (box.height - 38) : (event.clientX - box.left - EDGE.left) / (box.width - EDGE.left - EDGE.right);
  return state.from + Math.min(Math.max(share, 0), 1) * (state.to - state.from);
}

function distance({ x0, y0, x1, y1 }, x, y) {
  const [dx, dy] = [x1 - x0, y1 - y0], length = dx * dx + dy * dy;
  const t = length ? Math.min(Math.max(((x - x0) * dx + (y - y0) * dy) / length, 0), 1) : 0;
  return Math.hypot(x - x0 - t * dx, y - y0 - t * dy);
}

function point(event) {
  const box = $("packets").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let best = null;
  for (const place of places) {
    const away = distance(place, x, y);
    if (away < 12 && (!best || away < best.away)) best = { away, place };
  }
  if (!best) return;
  const index = shown.indexOf(best.place.packet);
  if (index !== state.chosen) { state.chosen = index; describe(); draw(); }
}

for (const canvas of document.querySelectorAll("canvas")) {
  let held = null;
  canvas.addEventListener("keydown", key);
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(canvas, event)); }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { held = { at: timeAt(canvas, event), from: state.from, to: state.to }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const now = timeAt(canvas, event);
      show(state.from + held.at - now, state.to + held.at - now);
    } else if (canvas.id === "packets") point(event);
  });
}

function option(select, value, words) {
  const one = document.createElement("option");
  one.value = value;
  one.textContent = words;
  select.append(one);
}

function setUp() {
  document.title = `${data.name}: a run, drawn`;
  $("title").textContent = data.name;
  const outcome = data.failures.length ? `the run broke its promise: ${data.failures[0]}` : "the run kept its promise";
  $("about").textContent = `${data.program}, seed ${data.seed}, ${seconds(data.end_ns, 3)} s; ${outcome}`;
  const out = data.left_out, words = [];
  if (out.packets) words.push(`${out.packets} packets after the first ${data.packets.length} are not drawn (--max-packets, --from, --to)`);
  if (out.timers) words.push(`${out.timers} timers are not drawn`);
  if (out.signals) words.push(`${out.signals} signals are in no table`);
  if (out.changes) words.push(`${out.changes} changes of further fields are not drawn`);
  if (out.points) words.push(`${out.points} points of lines were left out, extremes kept`);
  $("left-out").textContent = words.join("; ");
  $("left-out").hidden = !words.length;
  option($("flow"), -1, "all");
  data.flows.forEach((flow, index) => option($("flow"), index, `${index}: ${flow.name}`));
  data.names.forEach((name, index) => option($("number"), index, name));
  state.number = data.number === null ? 0 : data.number;
  $("number").value = state.number;
  const fields = [...document.querySelectorAll(".field")];
  const names = data.fields.map((field) => `${data.hosts[field.host]} ${field.context} ${field.name}`);
  fields.forEach((select) => { option(select, -1, "none"); names.forEach((name, index) => option(select, index, name)); });
  const windows = data.fields.map((field, index) => ({ field, index })).filter(({ field }) => /(^|\.)(cwnd|window|flight)$/.test(field.name));
  const first = windows[0] ? windows[0].index : data.fields.length ? 0 : -1;
  fields[0].value = first;
  fields[1].value = windows[1] ? windows[1].index : -1;
  $("flow").addEventListener("change", (event) => { state.flow = +event.target.value; state.chosen = -1; choosePackets(); legend(); describe(); draw(); });
  $("view").addEventListener("change", (event) => { state.view = event.target.value; $("number-label").hidden = state.view === "ladder"; legend(); draw(); });
  $("number").addEventListener("change", (event) => { state.number = +event.target.value; legend(); draw(); });
  fields.forEach((select) => select.addEventListener("change", draw));
  $("closer").addEventListener("click", () => zoom(0.5));
  $("farther").addEventListener("click", () => zoom(2));
  $("earlier").addEventListener("click", () => move(-0.5));
  $("later").addEventListener("click", () => move(0.5));
  $("whole").addEventListener("click", () => show(0, data.end_ns * 1.02));
  $("number-label").hidden = true;
  if (data.flows.length === 1) { state.flow = 0; $("flow").value = 0; }
  choosePackets();
  legend();
  describe();
  // The first twentieth or the first 40 packets, so that lines can be distinguished.
  const last = shown[Math.min(shown.length, 40) - 1];
  show(0, last ? Math.max(last.end_ns * 1.1, 1000) : data.end_ns * 1.02);
}

window.addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
setUp();
