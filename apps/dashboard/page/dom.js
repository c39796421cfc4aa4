// Short helpers for elements. Text is always set as text: names and errors come from other systems.

/** Makes an element of this kind, with properties, attributes and children. */
export function element(kind, { text, data = {}, style = {}, ...attributes } = {}, ...children) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  Object.assign(made.dataset, data);
  Object.assign(made.style, style);
  made.append(...children);
  return made;
}

/** The element with this id. */
export const find = (id) => document.getElementById(id);

/** Sends an order; fails with the server's message. */
export async function order(what, content) {
  const answer = await fetch(what, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(content),
  });
  if (!answer.ok) throw new Error((await answer.text()).trim());
}

/** Shows the error of an order, for a while. */
export function complain(error) {
  const place = find("complaint");
  place.textContent = error.message;
  place.hidden = false;
  clearTimeout(complain.timer);
  complain.timer = setTimeout(() => { place.hidden = true; }, 8000);
}

/** Milliseconds in readable form. */
export const milliseconds = (ms) => (ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(1)} s`);
