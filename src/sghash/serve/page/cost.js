// Recall against bytes: sliders over what was measured on rows that no model had seen.
import { bytes, el, failed, fill, labelled, share, whole } from "explorer/dom.js";
import { on, state } from "explorer/state.js";

const SVG = "http://www.w3.org/2000/svg";
const svg = (tag, attributes, text) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

export function showCost() {
  const root = document.getElementById("cost");
  const chart = el("div", { class: "chart" });
  let found = null, loaded = null, draw = () => {};
  const settings = { length: 0, shortlist: 3, kept: "none", n: 1e7, price: 3 };

  const seen = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) load(); }, { rootMargin: "200px" });
  seen.observe(root);

  async function load() {
    const { source } = state;
    if (!source || loaded === source) return;
    loaded = source;
    if (!source.local) fill(root, el("p", { class: "faint" }, "Learning codes of other lengths on a sample; this takes some seconds …"));
    try {
      const said = await source.tradeoff();
      if (source === state.source) { found = said; build(); }
    } catch (error) { failed(error); }
  }

  // Bytes of a row, and the share of the ten true neighbours among what is found.
  function outcome(point) {
    const [each, more] = found.kept_bytes[settings.kept];
    const kept = settings.kept === "none" ? 0 : each * found.width + more;
    const at = settings.kept === "none" ? 0 : settings.shortlist;
    const list = settings.kept === "none" ? point.decoder || point.hamming : point.hamming || point.decoder;
    return { bytes: point.n_bits / 8 + kept, recall: list[at] };
  }

  function build() {
    if (found.missing) return fill(root, el("p", { class: "faint" }, `${found.missing} Create the collection with --keep-vectors to see this.`));
    const { points, shortlists } = found;
    settings.length = Math.max(0, points.findIndex((point) => point.n_bits === state.about.n_bits));
    settings.shortlist = Math.min(3, shortlists.length - 1);
    settings.kept = "none";
    const slider = (name, most, text) => {
      const output = el("output", {}, text());
      const input = el("input", { type: "range", min: "0", max: String(most), step: "1", "aria-valuetext": text(), oninput: () => { settings[name] = Number(input.value); output.textContent = text(); input.setAttribute("aria-valuetext", text()); draw(); } });
      input.value = String(settings[name]);
      return { node: el("label", { class: "field slider" }, el("span", {}, { length: "Code", shortlist: "Shortlist" }[name]), input, output), input };
    };
    const length = slider("length", points.length - 1, () => `${points[settings.length].n_bits} bits`);
    const shortlist = slider("shortlist", shortlists.length - 1, () => `${shortlists[settings.shortlist]} rows`);
    const kept = el("select", { onchange: () => { settings.kept = kept.value; draw(); } }, Object.keys(found.kept_bytes).map((name) => el("option", { value: name }, name === "none" ? "none, the decoder decides" : name)));
    if (!points[0].decoder) kept.options[0].textContent = "none, Hamming distance decides";
    const number = (name, text, least, step) => {
      const input = el("input", { type: "number", min: String(least), step: String(step), value: String(settings[name]), oninput: () => { if (input.value > 0) { settings[name] = Number(input.value); draw(); } } });
      return labelled(text, input);
    };
    const numbers = el("dl", { class: "numbers" });
    fill(chart);
    draw = () => {
      shortlist.input.disabled = settings.kept === "none";
      shortlist.node.classList.toggle("off", settings.kept === "none");
      fill(chart, curve());
      fill(numbers, said());
    };
    fill(root, el("div", { class: "cost-of" },
      el("div", { class: "controls" }, length.node, labelled("Kept vectors", kept), shortlist.node,
        number("n", "Vectors", 1, 1), number("price", "US$ per GB and month", 0.01, 0.01)),
      chart, numbers),
    el("p", { class: "faint small" }, `Share of the ${found.k} truly nearest that are found, for ${found.n_queries} rows left out of ${whole(found.n_rows)}; ${points.length > 1 ? `${found.model} learned anew for each length, with few steps. ` : ""}A square is this collection's own model, which may have seen these rows. With kept vectors the shortlist comes by Hamming distance and they decide. Recall falls as a collection grows; the price is yours to set.`));
    draw();
    return null;
  }

  function said() {
    const one = outcome(found.points[settings.length]), total = one.bytes * settings.n, raw = 4 * found.width * settings.n;
    const cost = (x) => `$${(x / 1e9 * settings.price).toLocaleString("en", { maximumFractionDigits: x / 1e9 * settings.price < 100 ? 2 : 0 })}`;
    return [["Recall", share(one.recall)], ["Bytes per vector", one.bytes.toLocaleString("en")], ["In all", bytes(total)], ["Per month", cost(total)], ["As float32", `${bytes(raw)}, ${cost(raw)}`]]
      .map(([name, value], at) => el("div", { class: at ? "" : "main" }, el("dt", {}, name), el("dd", {}, value)));
  }

  function curve() {
    const w = Math.max(280, Math.min(1000, chart.clientWidth || 560)), h = w < 420 ? 210 : w < 700 ? 250 : 310, left = 44, right = 14, top = 14, bottom = 38;
    const points = found.points.map(outcome), own = outcome(found.own), chosen = points[settings.length];
    const low = Math.log2(Math.min(own.bytes, ...points.map((p) => p.bytes))) - 0.3, high = Math.log2(Math.max(own.bytes, ...points.map((p) => p.bytes))) + 0.3;
    const x = (b) => left + ((Math.log2(b) - low) / (high - low || 1)) * (w - left - right), y = (r) => top + (1 - r) * (h - top - bottom);
    const image = svg("svg", { width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `Recall against bytes per vector: ${points.map((p) => `${share(p.recall)} with ${p.bytes}`).join(", ")}` });
    for (const r of [0, 0.25, 0.5, 0.75, 1]) {
      image.append(svg("line", { x1: left, x2: w - right, y1: y(r), y2: y(r), class: "gridline" }), svg("text", { x: left - 8, y: y(r) + 4, "text-anchor": "end" }, `${100 * r} %`));
    }
    let last = -Infinity;
    for (const p of points) {
      if (x(p.bytes) - last < 38) continue;
      last = x(p.bytes);
      image.append(svg("text", { x: last, y: h - 16, "text-anchor": "middle" }, p.bytes.toLocaleString("en")));
    }
    image.append(svg("text", { x: (left + w - right) / 2, y: h - 2, "text-anchor": "middle" }, "bytes per vector"));
    image.append(svg("polyline", { points: points.map((p) => `${x(p.bytes)},${y(p.recall)}`).join(" "), class: "curve" }));
    points.forEach((p) => image.append(svg("circle", { cx: x(p.bytes), cy: y(p.recall), r: 3.5, class: "point" })));
    image.append(svg("rect", { x: x(own.bytes) - 4.5, y: y(own.recall) - 4.5, width: 9, height: 9, class: "own" }));
    image.append(svg("circle", { cx: x(chosen.bytes), cy: y(chosen.recall), r: 7.5, class: "chosen" }));
    return image;
  }

  let width = 0;
  new ResizeObserver(() => { if (chart.clientWidth !== width) { width = chart.clientWidth; if (found && !found.missing) draw(); } }).observe(chart);

  on("open", () => { found = null; loaded = null; fill(root, el("p", { class: "faint" }, "…")); if (state.source.local || root.getBoundingClientRect().top < innerHeight + 200) load(); });
}
