// Neighbours by every measure, side by side, and what changed rank.
import { bitOf, hamming } from "explorer/bytes.js";
import { distanceText, el, failed, fill, segments } from "explorer/dom.js";
import { barcode, CLASSES, picture } from "explorer/draw.js";
import { ask, on, state } from "explorer/state.js";

export const MEASURES = {
  hamming: ["Hamming", "Bits in which two codes differ"],
  decoder: ["Decoder", "Distance to what each code stands for"],
  vectors: ["Vectors", "Distance to the vectors that are kept"],
};

export function labelColour(row) {
  const colouring = state.map.colourings.find((c) => c.column === state.about.label);
  const at = colouring?.names?.indexOf(String(row.label)) ?? -1;
  return at < 0 ? null : CLASSES[at % CLASSES.length];
}

// A row as a small picture with a caption, a text, or its columns.
export function tile(row, { small = false, large = false } = {}) {
  const { about, source } = state;
  const parts = [];
  if (row.image) {
    const image = el("img", { alt: "", loading: "lazy", class: "photo" });
    source.image(row).then((address) => { image.src = address; }, () => image.remove());
    parts.push(image);
  } else if (row.picture && about.picture) parts.push(picture(row.picture, about.picture));
  const caption = el("span", { class: "caption" });
  if (row.label !== undefined) {
    const colour = labelColour(row);
    caption.append(el("span", { class: "label" }, colour ? el("i", { class: "swatch", style: `background:${colour}` }) : null, row.label));
  }
  if (row.text) caption.append(el("span", { class: "text" }, row.text));
  if (row.key) caption.append(el("span", { class: "key" }, row.key));
  if (!row.text && row.columns && (!small || !parts.length)) {
    const columns = Object.entries(row.columns).slice(0, large ? 12 : 4);
    caption.append(el("span", { class: "columns" }, columns.map(([name, value]) => el("span", {}, el("b", {}, name), ` ${value}`))));
  }
  if (large || (!row.text && !row.key && row.label === undefined && !row.columns)) caption.append(el("span", { class: "id" }, `row ${row.id}`));
  return el("span", { class: `tile${large ? " large" : ""}${parts.length ? " pictured" : ""}` }, parts, caption);
}

export function showNeighbours() {
  const root = document.getElementById("near");
  const bar = el("div", { class: "toolbar" });
  const columns = el("div", { class: "columns-of" });
  const note = el("p", { class: "faint small" });
  root.append(bar, columns, note);
  let mode = "all", touched = false, choice = null;

  function modes() {
    const { measures } = state.about;
    if (measures.length < 2) return fill(bar);
    const narrow = root.clientWidth < 430 && state.about.text !== null;
    if (!touched || (mode !== "all" && !measures.includes(mode))) mode = narrow ? measures.at(-1) : "all";
    choice = segments("Measure", [["all", "Side by side"], ...measures.map((name) => [name, ...MEASURES[name]])], mode, (value) => { touched = true; mode = value; draw(); });
    return fill(bar, choice);
  }

  function draw() {
    const { now, about } = state;
    if (!now) return;
    const shown = about.measures.filter((name) => now.columns[name] && (mode === "all" || mode === name));
    columns.style.setProperty("--n", shown.length);
    columns.classList.toggle("single", shown.length === 1);
    columns.classList.toggle("brief", about.text === null);
    fill(columns, shown.map((name) => column(name)));
    const flips = state.first !== now;
    note.textContent = flips
      ? "Arrows: ranks gained or lost since the last flip. A changed code stands for what it decodes to."
      : about.measures.length > 1 ? "Arrows: ranks gained or lost against Hamming distance." : "";
    if (about.measures.includes("vectors") && !state.source.local) note.textContent += " Vectors decide between the 1,000 nearest codes.";
  }

  // Ranks to compare with: before the flip, or by Hamming distance.
  function earlier(name) {
    const { now, before, first } = state;
    const list = now !== first && before ? before.columns[name] : name === "hamming" ? null : now.columns.hamming;
    return list && new Map(list.ids.map((id, at) => [id, at]));
  }

  function column(name) {
    const { now, about } = state, { ids, distances } = now.columns[name], ranks = earlier(name);
    const items = ids.map((id, at) => {
      const row = now.rows.get(id), was = ranks?.get(id);
      const gained = was === undefined ? null : was - at;
      const moved = ranks && (was === undefined ? "new" : gained > 0 ? `▲${gained}` : gained < 0 ? `▼${-gained}` : "");
      const spoken = !ranks ? "" : was === undefined ? "new" : gained ? `${gained > 0 ? "up" : "down"} ${Math.abs(gained)}` : "";
      const bits = about.is_bits ? hamming(now.code, row.code) : null;
      return el("li", { "data-id": id },
        el("button", {
          type: "button", class: "row", onclick: () => ask({ id }).catch(failed), onpointerenter: () => light(id), onpointerleave: () => light(null), onfocus: () => light(id), onblur: () => light(null),
        },
        el("span", { class: "rank" }, `${at + 1}`, moved ? el("em", { class: moved[0] === "▲" ? "up" : moved[0] === "▼" ? "down" : "new", "aria-hidden": "true" }, moved) : null, spoken ? el("span", { class: "hidden" }, spoken) : null),
        tile(row, { small: true }),
        el("span", { class: "distance" }, el("span", { class: "hidden" }, "distance "), distanceText(distances[at])),
        bits === null ? null : barcode(row.code, now.code, about.n_bits, bitOf)));
    });
    return el("div", { class: "measure" }, el("h3", { title: MEASURES[name][1] }, MEASURES[name][0]), el("ol", {}, items));
  }

  function light(id) {
    for (const item of columns.querySelectorAll("li")) item.classList.toggle("lit", id !== null && item.dataset.id === id);
    state.lit = id;
    document.dispatchEvent(new CustomEvent("lit"));
  }

  on("open", () => { modes(); fill(columns); });
  on("answer", draw);
  on("theme", draw);
}
