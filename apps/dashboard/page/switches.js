// The transports that the network permits. A switch moves when the network reports it, not when clicked.

import { complain, element, find, order } from "./dom.js";

export function begin(state) {
  find("switches").replaceChildren(...state.switches.map((one) => element("li", {}, button(one))));
}

export function change(one) {
  const known = find("switches").querySelector(`[data-id="${CSS.escape(one.id)}"]`);
  if (known) set(known, one.on);
}

function button(one) {
  const name = element("span", { class: "name", text: one.name }, element("span", { class: "about", text: one.about }));
  const made = element("button", { type: "button", role: "switch", data: { id: one.id } },
    element("span", { class: "knob" }), name, element("span", { class: "verdict" }));
  made.setAttribute("aria-label", one.name);
  made.addEventListener("click", async () => {
    const on = made.getAttribute("aria-checked") !== "true";
    try {
      await order("switch", { id: one.id, on });
    } catch (error) {
      complain(error);
    }
  });
  set(made, one.on);
  return made;
}

function set(made, on) {
  made.setAttribute("aria-checked", String(on));
  made.querySelector(".verdict").textContent = on ? "admitted" : "blocked";
}
