// Elements, texts and numbers.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "style") node.style.cssText = value;
    else if (name in node && name !== "list" && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const fill = (node, ...children) => { node.replaceChildren(...children.flat().filter(Boolean)); return node; };

export const whole = (n) => Math.round(n).toLocaleString("en");
export const share = (x) => `${(100 * x).toFixed(x < 0.0995 ? 1 : 0)} %`;

export function bytes(n) {
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) { n /= 1000; at++; }
  return `${at === 0 ? Math.round(n) : n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}

export const distanceText = (x) => Number.isInteger(x) ? String(x) : Math.abs(x) >= 100 ? x.toFixed(0) : x.toPrecision(3);

export function tell(text) { document.getElementById("live").textContent = text; }

export function notice(text) {
  const node = document.getElementById("notice");
  node.textContent = text || "";
  node.hidden = !text;
}

// An error as a sentence at the top of the page; a question that was overtaken is none.
export function failed(error) {
  if (error.name !== "AbortError") notice(error.message);
}

// What a row is called where there is room for one line.
export function titleOf(row) {
  const name = row.text || row.key || (row.label !== undefined ? `${row.label}` : "");
  return name || `row ${row.id}`;
}

// Buttons of which one is pressed.
export function segments(label, choices, chosen, onchange) {
  const group = el("div", { class: "segments", role: "group", "aria-label": label });
  const buttons = choices.map(([value, text, hint]) => el("button", {
    type: "button", title: hint, "aria-pressed": String(value === chosen),
    onclick: () => { select(value); onchange(value); },
  }, text));
  function select(value) {
    choices.forEach(([own], i) => buttons[i].setAttribute("aria-pressed", String(own === value)));
  }
  group.append(...buttons);
  group.select = select;
  return group;
}

export function labelled(text, control) {
  return el("label", { class: "field" }, el("span", {}, text), control);
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
