// The rates of the paths, stacked, so that the top is the total.

import { element, find } from "./dom.js";

/** Length of the plot, in seconds. */
const BACK = 60;

let paths = [];
/** Times, and a list of rates for each path. */
let times = [];
let rates = [];
let plot = null;

export function begin(state) {
  paths = state.paths;
  times = state.samples.map((sample) => sample.at);
  rates = paths.map((_, number) => state.samples.map((sample) => sample.rates[number] ?? 0));
  find("rates").replaceChildren(...paths.map((path, number) => figure(path.name, `var(--path-${number % 4})`)),
    figure("together", "transparent"));
  draw();
  show();
}

export function sample(one) {
  times.push(one.at);
  rates.forEach((list, number) => list.push(one.rates[number] ?? 0));
  while (times.length > 1 && times[0] < one.at - 2 * BACK) {
    times.shift();
    rates.forEach((list) => list.shift());
  }
  plot?.setData(stacked());
  show();
}

function figure(name, colour) {
  return element("li", {}, element("b", { text: "0.0" }),
    element("span", {}, element("i", { style: { background: colour } }), name));
}

/** The current figures: the mean of the last second, for steady figures. */
function show() {
  const last = times[times.length - 1] ?? 0;
  const from = times.findIndex((time) => time > last - 1);
  const mean = (list) => (from < 0 ? 0 : list.slice(from).reduce((sum, rate) => sum + rate, 0) / (list.length - from));
  const means = rates.map(mean);
  const figures = find("rates").querySelectorAll("b");
  [...means, means.reduce((sum, rate) => sum + rate, 0)].forEach((rate, number) => {
    figures[number].textContent = rate.toFixed(1);
  });
}

/** The paths' cumulative sums, the largest first: later drawings are in front. */
function stacked() {
  const sums = [];
  rates.forEach((list, number) => sums.push(list.map((rate, at) => rate + (number ? sums[number - 1][at] : 0))));
  return [times, ...sums.reverse()];
}

function draw() {
  plot?.destroy();
  const place = find("plot");
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const max = paths.reduce((sum, path) => sum + path.mbit_per_second, 0) * 1.1 || 1;
  const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false },
    font: "13px system-ui, sans-serif" };
  const own = (number) => colour(`--path-${number % 4}`);
  const layer = (number) => ({ label: paths[number].name, stroke: own(number), width: 2, points: { show: false },
    fill: number ? undefined : own(0) + "88" });
  // Each sum is filled down to the next lower one; the lowest, which is drawn last, down to zero.
  const bands = paths.slice(1).map((_, at) => ({ series: [at + 1, at + 2], fill: own(paths.length - 1 - at) + "88" }));
  plot = new uPlot({
    width: place.clientWidth,
    height: place.clientHeight,
    cursor: { show: false },
    legend: { show: false },
    scales: {
      x: { time: false, range: () => { const end = Math.max(times[times.length - 1] ?? 0, BACK); return [end - BACK, end]; } },
      y: { range: [0, max] },
    },
    axes: [{ ...axis, values: (_, splits) => splits.map((at) => `${Math.round(at)} s`) }, { ...axis, size: 40 }],
    bands,
    series: [{}, ...paths.map((_, number) => layer(paths.length - 1 - number))],
  }, stacked(), place);
}

new ResizeObserver(() => plot?.setSize({ width: find("plot").clientWidth, height: find("plot").clientHeight }))
  .observe(find("plot"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot && draw());
