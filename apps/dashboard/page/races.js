// The race of each connection: a bar from the start of each attempt to its success, failure or
// cancellation, and the cache's knowledge of it.

import { element, find, milliseconds } from "./dom.js";

/** Minimum span of a track, in milliseconds. */
const MIN_MS = 40;
/** Number of races shown. */
const SHOWN = 24;

const words = { running: "under way", won: "won", failed: "failed", cancelled: "cancelled" };

let shown = new Map();

export function begin(state) {
  shown = new Map();
  find("races").replaceChildren(element("li", { class: "empty", text: "No connection was asked for yet." }));
  state.races.forEach(change);
}

export function change(race) {
  const made = element("li", {}, head(race), ...lanes(race));
  const known = shown.get(race.request);
  if (known) known.replaceWith(made);
  else find("races").prepend(made);
  shown.set(race.request, made);
  find("races").querySelector(".empty")?.remove();
  while (shown.size > SHOWN) {
    const [oldest, last] = shown.entries().next().value;
    last.remove();
    shown.delete(oldest);
  }
}

function head(race) {
  const won = race.lanes.find((lane) => lane.outcome === "won");
  const result = {
    racing: "racing",
    connected: won && `${won.transport} won after ${milliseconds(won.end_ms)}`,
    closed: won && `${won.transport} won after ${milliseconds(won.end_ms)}; closed`,
    failed: "no connection",
  }[race.state] ?? race.state;
  const why = race.why ? ` – ${race.why}` : "";
  const answers = race.answers.map((answer) => `${milliseconds(answer.after_ms)} ${answer.text}`).join("\n");
  return element("div", { class: "race-head", title: answers },
    element("span", { text: `#${race.request}` }), element("b", { text: race.destination }),
    element("span", { text: result + why }));
}

function lanes(race) {
  const max = span(race);
  return race.lanes.map((lane) => {
    const end = lane.end_ms ?? max;
    const place = (ms) => `${(100 * Math.min(ms, max)) / max}%`;
    const width = `${(100 * (Math.min(end, max) - Math.min(lane.start_ms, max))) / max}%`;
    const bar = element("i", { data: { outcome: lane.outcome }, style: { left: place(lane.start_ms), width } });
    if (end > max || lane.end_ms === null) bar.dataset.cut = "";
    const candidate = element("span", { class: "candidate", title: `${lane.transport} to ${lane.remote} ${lane.interface ?? ""}` },
      element("b", { text: lane.transport }), ` ${lane.remote}${lane.interface ? ` over ${lane.interface}` : ""}`);
    if (lane.probe) candidate.append(element("span", { class: "tag", text: "probe" }));
    else if (lane.known !== "unknown") candidate.append(element("span", { class: "tag", text: `cache: ${lane.known}` }));
    const took = lane.end_ms === null ? "" : ` ${milliseconds(lane.start_ms)} – ${milliseconds(lane.end_ms)}`;
    const verdict = element("span", { class: "end", data: { outcome: lane.outcome }, title: lane.why ?? "",
      text: words[lane.outcome] + took });
    return element("div", { class: "lane" }, candidate, element("span", { class: "track" }, bar), verdict);
  });
}

/** The span of a race's tracks: until its decision, with some room. Longer bars are cut. */
function span(race) {
  const won = race.lanes.find((lane) => lane.outcome === "won");
  const decided = won ? won.end_ms : Math.max(0, ...race.lanes.map((lane) => lane.end_ms ?? lane.start_ms));
  return Math.max(MIN_MS, 1.3 * decided, 1.15 * Math.max(0, ...race.lanes.filter((lane) => !lane.probe).map((lane) => lane.start_ms)));
}
