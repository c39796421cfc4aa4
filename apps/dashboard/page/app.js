// The page's heart: follows the feed and hands each part of it to whoever shows it.

import { find } from "./dom.js";
import * as candidates from "./candidates.js";
import * as downloads from "./downloads.js";
import * as races from "./races.js";
import * as switches from "./switches.js";
import * as throughput from "./throughput.js";

const parts = [switches, throughput, downloads, races, candidates];

/** What the feed tells, by its name: the whole state at first and whenever this reader was too slow. */
const heard = {
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

function say(state, text) {
  find("connection").dataset.state = state;
  find("connection").textContent = text;
}

const source = new EventSource("events");
source.onopen = () => say("live", "live");
source.onerror = () => say("lost", "connection lost");
for (const [name, hear] of Object.entries(heard)) {
  source.addEventListener(name, (event) => hear(JSON.parse(event.data)));
}
