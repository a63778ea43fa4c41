// Begins: opens the source, then every part of the page.
import { unpack } from "explorer/bytes.js";
import { showBits } from "explorer/bitview.js";
import { showCode } from "explorer/code.js";
import { showCost } from "explorer/cost.js";
import { el, failed, fill, notice, whole } from "explorer/dom.js";
import { forgetColours } from "explorer/draw.js";
import { showMap } from "explorer/map.js";
import { showNeighbours } from "explorer/neighbours.js";
import { showQuery } from "explorer/query.js";
import { openSource } from "explorer/source.js";
import { ask, say, state } from "explorer/state.js";

const $ = (id) => document.getElementById(id);

export async function start() {
  theme();
  for (const show of [showQuery, showCode, showMap, showNeighbours, showBits, showCost]) show();
  try {
    const data = JSON.parse($("data").textContent);
    const opened = await openSource(data);
    if (!opened.names.length) throw new Error("There is no collection here.");
    const asked = new URLSearchParams(location.hash.slice(1)).get("collection");
    const first = opened.names.includes(asked) ? asked : opened.names[0];
    if (opened.names.length > 1) {
      const select = el("select", { "aria-label": "Collection", onchange: () => open(opened, select.value) },
        opened.names.map((name) => el("option", { value: name, selected: name === first }, name)));
      fill($("which"), select);
    }
    await open(opened, first);
  } catch (error) { failed(error); }
}

async function open(opened, name) {
  document.body.classList.add("busy");
  try {
    const source = opened.open(name);
    const [about, map, bits] = await Promise.all([source.about(), source.map(), source.bits()]);
    map.codes = unpack(map.codes);
    for (const basis of Object.values(map.bases)) for (const part of ["points", "mean", "directions"]) basis[part] = unpack(basis[part]);
    for (const colouring of map.colourings) colouring.values = unpack(colouring.values);
    for (const part of ["share", "on", "off", "correlations", "templates"]) bits[part] = unpack(bits[part]);
    Object.assign(state, { source, about, map, bits, first: null, now: null, before: null, bit: null });
    notice("");
    facts(about, source);
    say("open");
    if (about.n) await ask({ id: map.ids[Math.floor(map.ids.length / 3)] });
    document.body.dataset.ready = name;
  } catch (error) { failed(error); } finally { document.body.classList.remove("busy"); }
}

function facts(about, source) {
  const said = [`${whole(about.n)} rows`, `${about.n_bits} bits`, `${about.model}`, `${about.width} dimensions`, about.metric];
  fill($("facts"), said.flatMap((text, at) => [at ? el("span", { class: "dot", "aria-hidden": "true" }, "·") : null, el("span", {}, text)]));
  if (source.local && about.n_sample < about.n) {
    notice(`This file holds ${whole(about.n_sample)} of ${whole(about.n)} rows; neighbours are those among them.`);
  }
  const links = $("links");
  fill(links);
  if (source.atlas) {
    const part = about.n_sample < about.n ? ` (${whole(about.n_sample)} of ${whole(about.n)} rows)` : "";
    links.append(el("button", { type: "button", class: "quiet", title: "A Parquet file with positions, neighbours and columns", onclick: () => keep(source, about) }, `Export for Embedding Atlas${part}`));
  }
}

async function keep(source, about) {
  try {
    const address = URL.createObjectURL(await source.atlas());
    el("a", { href: address, download: `${about.name}.parquet` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  } catch (error) { failed(error); }
}

// Light and dark follow the system until somebody presses the button.
function theme() {
  const root = document.documentElement, button = $("theme"), media = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : media.matches);
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.title = `Show the page ${isDark() ? "light" : "dark"}`;
    forgetColours();
    say("theme");
  };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  media.addEventListener("change", name);
  name();
}
