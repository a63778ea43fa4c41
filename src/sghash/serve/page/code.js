// The code as a grid: flip a bit, and see what it then stands for.
import { bitOf, differing, flipped, hamming, toHex } from "explorer/bytes.js";
import { el, failed, fill, share, tell } from "explorer/dom.js";
import { grades, picture, signedPicture, spectrum } from "explorer/draw.js";
import { change, choose, on, state } from "explorer/state.js";

const SIDES = [[16, 8], [64, 8], [256, 16], [1024, 32], [4096, 64]];

export function showCode() {
  const root = document.getElementById("code");
  const title = el("h3", {}, "Code");
  const reset = el("button", { type: "button", class: "quiet", onclick: () => move(state.first.code, "") }, "Undo flips");
  const grid = el("div", { class: "grid", role: "group", "aria-label": "Bits of the code: arrow keys move, Space flips, B colours the map" });
  const hint = el("p", { class: "faint small" });
  const decoded = el("div", { class: "decoded" });
  root.append(el("div", { class: "line" }, title, reset), grid, hint, decoded);
  let cells = [], at = 0, side = 8;

  async function move(code, said) {
    try {
      await change(toHex(code), hamming(code, state.first.code) === 0);
      tell(said || "Flips undone");
    } catch (error) { failed(error); }
  }

  function flip(bit) {
    const to = flipped(state.now.code, bit);
    move(to, `Bit ${bit} is now ${bitOf(to, bit)}`);
  }

  function build() {
    const { n_bits: n, is_bits: isBits, n_bytes: nBytes } = state.about;
    title.textContent = `Code · ${nBytes} bytes`;
    grid.hidden = reset.hidden = !isBits;
    if (!isBits) return fill(grid);
    side = SIDES.find(([most]) => n <= most)[1];
    grid.style.setProperty("--side", side);
    grid.classList.toggle("fine", side > 16);
    cells = Array.from({ length: n }, (_, bit) => el("button", { type: "button", class: "bit", "data-bit": bit, tabindex: bit ? "-1" : "0" }));
    title.textContent = `Code · ${n} bits`;
    title.title = `${nBytes} bytes`;
    at = 0;
    return fill(grid, cells);
  }

  function focus(bit) {
    cells[at].tabIndex = -1;
    at = Math.max(0, Math.min(cells.length - 1, bit));
    cells[at].tabIndex = 0;
    cells[at].focus();
  }

  grid.addEventListener("click", (event) => {
    const bit = event.target.dataset.bit;
    if (bit === undefined || !state.now) return;
    cells[at].tabIndex = -1;
    at = Number(bit);
    cells[at].tabIndex = 0;
    flip(at);
  });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: side, ArrowUp: -side, Home: -at, End: cells.length }[event.key];
    if (step !== undefined) { event.preventDefault(); focus(at + step); }
    if (event.key === "b" || event.key === "B") choose(at);
  });
  const explain = (event) => { if (event.target.dataset.bit !== undefined) say(Number(event.target.dataset.bit)); };
  grid.addEventListener("pointerover", explain);
  grid.addEventListener("focusin", explain);
  grid.addEventListener("pointerleave", () => say(null));

  function say(bit) {
    if (bit === null) hint.textContent = "Press a bit to flip it.";
    else {
      const words = state.bits.words?.[bit];
      hint.textContent = `Bit ${bit}: set in ${share(state.bits.share[bit])} of the rows${words?.length ? `; ${words.slice(0, 4).join(", ")}` : ""}.`;
    }
  }

  function draw() {
    const { now, first, before, about } = state;
    if (!now) return;
    if (about.is_bits) {
      const last = before && now !== first ? new Set(differing(now.code, before.code, about.n_bits)) : new Set();
      cells.forEach((cell, bit) => {
        const value = bitOf(now.code, bit), other = value !== bitOf(first.code, bit), said = `${value}${other}${last.has(bit)}`;
        if (cell.said === said) return;
        cell.said = said;
        cell.setAttribute("aria-pressed", String(value === 1));
        cell.setAttribute("aria-label", `bit ${bit}${other ? ", flipped" : ""}`);
        cell.classList.toggle("flipped", other);
        cell.classList.toggle("last", last.has(bit));
      });
      const n = hamming(now.code, first.code);
      reset.disabled = n === 0;
      reset.textContent = n ? `Undo ${n} flip${n > 1 ? "s" : ""}` : "Undo flips";
      if (!hint.textContent) say(null);
    } else hint.textContent = `A code of ${about.n_bytes} bytes, each of them a place in a table: it has no single bits to flip.`;
    fill(decoded, about.picture ? pictures() : curves(), reads());
  }

  const figure = (drawn, caption) => el("figure", {}, drawn, el("figcaption", {}, caption));

  function pictures() {
    const { now, first, about } = state, shown = [];
    const original = first.vector;
    if (original) shown.push(figure(picture(grades(original, about.brightness), about.picture, "the query"), "query"));
    if (first.decoded && now !== first) shown.push(figure(picture(grades(first.decoded, about.brightness), about.picture, "what its own code stands for"), "its code"));
    if (now.decoded) shown.push(figure(picture(grades(now.decoded, about.brightness), about.picture, "what the code stands for"), now === first ? "its code, decoded" : "with flips"));
    if (now.decoded && now !== first) {
      const change = now.decoded.map((x, i) => x - first.decoded[i]);
      const most = Math.max(...change.map(Math.abs)) || 1;
      shown.push(figure(signedPicture(change, about.picture, most, "what the flips add and take away"), "change"));
    }
    return shown.length ? el("div", { class: "pictures" }, shown) : null;
  }

  function curves() {
    const { now, first, about } = state;
    if (!now.decoded) return el("p", { class: "faint small" }, `${about.model} has no decoder: its codes can be compared, not drawn.`);
    const behind = first.vector || (now === first ? null : first.decoded);
    const line = first.vector ? "line: the query" : "line: before the flips";
    return figure(spectrum(now.decoded, { width: 320, height: 84, behind, label: "the vector that the code stands for, a bar per dimension" }),
      `What the code stands for, ${about.width} numbers${behind ? ` (${line})` : ""}`);
  }

  // Texts cannot be drawn from a vector; those nearest to it say what it is about.
  function reads() {
    const { now, about } = state, found = now.columns.decoder || now.columns.hamming;
    if (!about.text || !found || now.decoded === null) return null;
    return el("div", { class: "reads" }, el("h3", {}, "Reads like"),
      el("ul", {}, found.ids.slice(0, 3).map((id) => el("li", {}, now.rows.get(id).text || `row ${id}`))));
  }

  on("open", () => { build(); fill(decoded); hint.textContent = ""; });
  on("answer", draw);
  on("theme", draw);
  on("bit", () => cells.forEach((cell, bit) => cell.classList.toggle("chosen", bit === state.bit)));
}
