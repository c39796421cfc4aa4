// The page's main module: follows the feed and passes each part of it to the module that shows it.

import { find } from "./dom.js";
import * as candidates from "./candidates.js";
import * as downloads from "./downloads.js";
import * as races from "./races.js";
import * as switches from "./switches.js";
import * as throughput from "./throughput.js";

const parts = [switches, throughput, downloads, races, candidates];

/** The feed's events, by name: the whole state at first and whenever this reader was too slow. */
const handlers = {
  state(state) {
    find("title").textContent = document.title = state.title;
    find("about").textContent = state.about;
    for (const part of parts) part.begin(state);
  },
  sample: throughput.sample,
  switch: switches.change,
  race: races.change,
  candidates: candidates.change,
  download: downloads.change,
};

function show(state, text) {
  find("connection").dataset.state = state;
  find("connection").textContent = text;
}

const source = new EventSource("events");
source.onopen = () => show("live", "live");
source.onerror = () => show("lost", "connection lost");
for (const [name, handle] of Object.entries(handlers)) {
  source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
}
