// Type or pick a query: words, an id, a key, a code, or a vector.
import { toHex, typedCode } from "explorer/bytes.js";
import { el, failed, fill, notice, tell, titleOf, whole } from "explorer/dom.js";
import { tile } from "explorer/neighbours.js";
import { ask, on, state } from "explorer/state.js";

export function showQuery() {
  const root = document.getElementById("query");
  const input = el("input", {
    id: "words", type: "search", role: "combobox", autocomplete: "off", spellcheck: "false", "aria-autocomplete": "list",
    "aria-expanded": "false", "aria-controls": "found", "aria-label": "Query: words, an id, a key, a code or a vector",
  });
  const list = el("ul", { id: "found", role: "listbox", "aria-label": "Rows found", hidden: true });
  const another = el("button", { type: "button", class: "round", title: "Another row", "aria-label": "Ask with another row", onclick: random }, "↻");
  const shown = el("div", { class: "asked" });
  root.append(el("div", { class: "bar" }, input, another, list), shown);

  let found = [], active = -1, timer = 0, turn = 0;

  function close() {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function mark(at) {
    active = at;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    if (at < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", `found-${at}`);
    return list.children[at].scrollIntoView({ block: "nearest" });
  }

  async function pick(question) {
    close();
    input.value = "";
    try { notice(""); await ask(question); } catch (error) { failed(error); }
  }

  // A vector begins with a bracket or holds many numbers; a code is as long as the codes here.
  function typed(text) {
    const numbers = text.replace(/^\[|\]$/g, "").split(/[\s,;]+/).filter(Boolean);
    if (text.startsWith("[") || (numbers.length > 3 && numbers.every((x) => Number.isFinite(Number(x))))) return { vector: numbers.map(Number) };
    const code = typedCode(text, state.about.n_bits, state.about.n_bytes);
    return code ? { code: toHex(code) } : null;
  }

  async function look() {
    const text = input.value.trim(), mine = ++turn;
    if (!text || typed(text)) return close();
    try {
      const rows = await state.source.find(text);
      if (mine !== turn) return;
      found = rows;
    } catch (error) { return failed(error); }
    fill(list, found.length
      ? found.map((row, at) => el("li", { id: `found-${at}`, role: "option", "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); pick({ id: row.id }); } }, tile(row, { small: true })))
      : [el("li", { class: "none", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing has these words.")]);
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(found.length ? 0 : -1);
    tell(`${found.length} rows found`);
  }

  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 120); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { close(); return; }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) look();
      else if (found.length) mark((active + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const direct = typed(input.value.trim());
      if (direct) pick(direct);
      else if (!list.hidden && active >= 0) pick({ id: found[active].id });
      else look();
    }
  });

  function random() { pick({ id: state.map.ids[Math.floor(Math.random() * state.map.ids.length)] }); }

  on("open", () => {
    const { about } = state;
    input.placeholder = about.text ? "Words, id or code" : "Id, value or code";
    input.value = "";
    close();
  });

  on("answer", () => {
    const { first, about } = state;
    const row = first.id === null ? null : first.rows.get(first.id);
    if (row) fill(shown, tile(row, { large: true }));
    else fill(shown, el("p", { class: "faint" }, first.vector ? `A vector of ${whole(about.width)} numbers` : "A code as it was typed"));
    tell(`Query: ${row ? titleOf(row) : "as typed"}`);
  });
}
