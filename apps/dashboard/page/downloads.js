// Downloads: orders for them, and their results.

import { complain, element, find, order } from "./dom.js";

let shown = new Map();
let total = 1;

export function begin(state) {
  shown = new Map();
  total = state.paths.reduce((sum, path) => sum + path.mbit_per_second, 0) || 1;
  find("downloads").replaceChildren();
  fill("order-setup", state.setups.map((setup) => [setup.id, setup.name]));
  fill("order-size", state.sizes_mib.map((mib) => [mib, `${mib} MiB`]));
  find("order").hidden = state.setups.length === 0;
  find("downloads-card").hidden = state.setups.length === 0 && state.downloads.length === 0 && state.hints.length === 0;
  find("hints").replaceChildren(...state.hints.map((hint) => element("li", { text: hint })));
  state.downloads.forEach(change);
}

export function change(one) {
  find("downloads-card").hidden = false;
  const rate = one.state === "done" && one.seconds > 0 ? (one.bytes * 8) / 1e6 / one.seconds : 0;
  const figure = { running: "under way", failed: "failed" }[one.state] ?? `${rate.toFixed(1)} Mbit/s`;
  const detail = [one.setup, one.by && `by ${one.by}`, one.transport && `over ${one.transport}`,
    one.seconds !== null && `${one.seconds.toFixed(1)} s`, one.error].filter(Boolean).join(" · ");
  const bar = element("i");
  if (one.state !== "running") bar.style.width = `${Math.min(100, (100 * rate) / total)}%`;
  const made = element("li", { data: { state: one.state } },
    element("div", { class: "line" }, element("span", { text: `${Math.round(one.bytes / 1048576)} MiB` }),
      element("span", { class: "figure", text: figure })),
    element("div", { class: "meter" }, bar), element("small", { text: detail }));
  const known = shown.get(one.id);
  if (known) known.replaceWith(made);
  else find("downloads").prepend(made);
  shown.set(one.id, made);
}

function fill(id, options) {
  find(id).replaceChildren(...options.map(([value, text]) => element("option", { value, text })));
}

find("order").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await order("download", { setup: find("order-setup").value, mib: Number(find("order-size").value) });
  } catch (error) {
    complain(error);
  }
});
