// The candidates of the last request, in the order in which they are tried, and the reasons for that order.

import { element, find } from "./dom.js";

export function begin(state) {
  change(state.candidates);
}

export function change(candidates) {
  const rows = candidates.map((one, number) => element("tr", { data: { chosen: String(one.chosen) } },
    element("td", { text: String(number + 1) }),
    element("td", { text: one.name }),
    element("td", { text: one.score ? `${one.score[0]} + ${one.score[1]}` : "–" }),
    element("td", { class: "why" }, ...one.why.map((reason) => element("span", { text: reason })))));
  find("candidates").replaceChildren(...rows);
  find("candidates-card").hidden = rows.length === 0;
}
