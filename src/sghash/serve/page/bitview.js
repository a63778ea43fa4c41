// Every bit: its template, how often it is set, its relatives, and what switches it on.
import { bitOf, rowOf } from "explorer/bytes.js";
import { el, failed, fill, labelled, share, tell } from "explorer/dom.js";
import { CLASSES, signedPicture, spectrum } from "explorer/draw.js";
import { tile } from "explorer/neighbours.js";
import { ask, choose, on, state } from "explorer/state.js";

const FIRST = 256;

export function showBits() {
  const root = document.getElementById("bits");
  const order = el("select", { onchange: gallery }, [["number", "number"], ["share", "how often set"], ["strength", "strength"]].map(([value, text]) => el("option", { value }, text)));
  const about = el("p", { class: "faint" });
  const tiles = el("div", { class: "templates" });
  const more = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => { all = true; gallery(); } });
  const detail = el("div", { class: "detail" });
  root.append(el("div", { class: "bits-of" },
    el("div", {}, el("div", { class: "toolbar" }, about, labelled("Order by", order)), tiles, more), detail));
  let all = false, turn = 0, usual = 0;

  const template = (bit) => state.bits.templates && rowOf(state.bits.templates, bit);

  function drawing(bit, big) {
    const values = template(bit), { picture } = state.about;
    if (!values) return null;
    if (picture) return signedPicture(values, picture, Math.max(40, ...values.map(Math.abs)));
    return spectrum(values, big ? { width: 300, height: 90 } : { width: 84, height: 30, most: 64 });
  }

  function gallery() {
    const { bits, about: { n_bits: n, is_bits: isBits } } = state;
    if (!isBits) return;
    const numbers = Array.from({ length: n }, (_, bit) => bit);
    if (order.value === "share") numbers.sort((a, b) => bits.share[b] - bits.share[a]);
    if (order.value === "strength") { const s = numbers.map(strength); numbers.sort((a, b) => s[b] - s[a]); }
    const shown = all ? numbers : numbers.slice(0, FIRST);
    tiles.classList.toggle("wide", !state.about.picture);
    fill(tiles, shown.map((bit) => el("button", {
      type: "button", class: "template", "data-bit": bit, "aria-pressed": String(bit === state.bit), title: `Bit ${bit}: set in ${share(bits.share[bit])}`, onclick: () => choose(bit === state.bit ? null : bit),
    }, drawing(bit, false), el("span", { class: "share" }, el("i", { style: `width:${100 * bits.share[bit]}%` })), el("span", { class: "number" }, el("span", { class: "hidden" }, "Bit "), `${bit}`, bits.words?.[bit]?.[0] ? el("b", {}, ` ${bits.words[bit][0]}`) : null, el("span", { class: "hidden" }, ` set in ${share(bits.share[bit])} of the rows`)))));
    more.hidden = shown.length === n;
    more.textContent = `Show all ${n} bits`;
  }

  // A bit to begin with: the strongest of those that are set neither always nor never.
  function telling() {
    let best = 0, most = -1;
    for (let bit = 0; bit < state.about.n_bits; bit++) {
      const part = state.bits.share[bit], own = (strength(bit) || 1) * part * (1 - part);
      if (own > most) { most = own; best = bit; }
    }
    return best;
  }

  const strength = (bit) => (template(bit) || []).reduce((sum, x) => sum + x * x, 0);

  // What share of each class has the bit.
  function classes(bit) {
    const { map } = state, colouring = map.colourings.find((c) => c.names && c.column === state.about.label) || map.colourings.find((c) => c.names);
    if (!colouring) return null;
    const total = new Array(colouring.names.length).fill(0), set = total.slice(), width = map.codes.shape[1];
    for (let i = 0; i < map.ids.length; i++) {
      const at = colouring.values[i];
      if (at < 0) continue;
      total[at]++;
      set[at] += bitOf(map.codes.subarray(i * width, (i + 1) * width), bit);
    }
    return el("div", {}, el("h4", {}, `Set, by ${colouring.column}`), el("ul", { class: "bars" }, colouring.names.map((name, at) => {
      const part = total[at] ? set[at] / total[at] : 0;
      return el("li", {}, el("span", { class: "name" }, name), el("span", { class: "track" }, el("i", { style: `width:${100 * part}%;background:${CLASSES[at % CLASSES.length]}` })), el("span", { class: "value" }, share(part)));
    })));
  }

  async function explain() {
    const { bits, map, source } = state, mine = ++turn, bit = state.bit ?? usual;
    for (const tile_ of tiles.children) tile_.setAttribute("aria-pressed", String(Number(tile_.dataset.bit) === state.bit));
    const numbers = { on: [...rowOf(bits.on, bit)], off: [...rowOf(bits.off, bit)] };
    for (const list of Object.values(numbers)) while (list.at(-1) === -1) list.pop();
    let examples;
    try { examples = await source.rows([...numbers.on, ...numbers.off].map((at) => map.ids[at])); } catch (error) { return failed(error); }
    if (mine !== turn) return null;
    // Rows may be gone by now: each is known by its id, not by its place.
    const there = new Map(examples.map((row) => [row.id, row]));
    const still = (list) => list.map((at) => there.get(map.ids[at])).filter(Boolean);
    const lists = { on: still(numbers.on), off: still(numbers.off) };
    const rows = (title, list) => el("div", {}, el("h4", {}, title), list.length
      ? el("ul", { class: "examples" }, list.map((row) => el("li", {}, el("button", { type: "button", class: "row", onclick: () => { ask({ id: row.id }).catch(failed); } }, tile(row, { small: true })))))
      : el("p", { class: "faint small" }, "No row."));
    const partners = bits.partners[bit];
    fill(detail,
      el("div", { class: "head" }, drawing(bit, true) && el("div", { class: "big" }, drawing(bit, true)),
        el("div", {}, el("h3", {}, `Bit ${bit}`), el("p", {}, `Set in ${share(bits.share[bit])} of the rows.`),
          bits.words?.[bit]?.length ? el("p", {}, "Words: ", el("b", {}, bits.words[bit].join(", "))) : null,
          partners.length ? el("p", { class: "chips" }, el("span", {}, "Goes with"), partners.slice(0, 5).map(([other, r]) => el("button", { type: "button", class: "chip", title: `Correlation ${r}`, onclick: () => choose(other) }, `${other} `, el("em", { class: r < 0 ? "minus" : "plus" }, `${r > 0 ? "+" : "−"}${Math.abs(r).toFixed(2)}`)))) : null)),
      relatives(bit),
      rows("Switched on by", lists.on), rows("Switched off by", lists.off), classes(bit));
    if (state.bit !== null) tell(`Bit ${bit}, set in ${share(bits.share[bit])} of the rows; the map is coloured by it`);
    return null;
  }

  // All bits beside each other: how each goes with the chosen one.
  function relatives(bit) {
    if (!state.bits.correlations) return null;
    const values = rowOf(state.bits.correlations, bit).slice();
    values[bit] = 0;
    const most = Math.max(20, ...values.map(Math.abs));
    return el("figure", { class: "relatives" }, spectrum(values, { width: 320, height: 44, most, label: `correlations of bit ${bit} with all bits` }),
      el("figcaption", {}, `Correlation with each other bit, up to ±${(most / 127).toFixed(2)}`));
  }

  on("open", () => {
    all = false;
    const { about: { is_bits: isBits, model, decodes }, bits } = state;
    root.closest("section").hidden = !isBits;
    if (!isBits) return;
    about.textContent = !bits.templates ? "How often each bit is set, and what switches it on."
      : decodes ? "What each bit adds to the decoded vector: orange adds, purple takes away. Choose one to colour the map."
        : `${model} has no decoder: shown is the mean of the rows with a bit minus the mean of those without.`;
    usual = telling();
    gallery();
    explain();
  });
  on("bit", explain);
  on("theme", () => { if (state.bits) { gallery(); explain(); } });
}
