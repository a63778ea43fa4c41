// A map of the rows on a canvas, and the Hamming shells around the query as rings.
import { bitOf, distancesTo } from "explorer/bytes.js";
import { calm, el, failed, fill, labelled, segments, tell, titleOf, whole } from "explorer/dom.js";
import { CLASSES, colourOf, css, ramp } from "explorer/draw.js";
import { tile } from "explorer/neighbours.js";
import { drawPoints } from "explorer/points.js";
import { ask, choose, on, state } from "explorer/state.js";

const SHADES = 24;

export function showMap() {
  const root = document.getElementById("map");
  // Points lie below and are drawn when they change; the query and its neighbours lie above.
  const ground = el("canvas", { class: "map", "aria-hidden": "true" });
  const canvas = el("canvas", { class: "map", tabindex: "0", role: "application", "aria-roledescription": "map", "aria-describedby": "map-said" });
  const said = el("p", { id: "map-said", class: "hidden" });
  const tip = el("div", { class: "tip", hidden: true });
  const legend = el("div", { class: "legend" });
  const basis = el("select", { onchange: () => { layout(); } });
  const colour = el("select", { onchange: () => { if (colour.value === "bit" && state.bit === null) choose(0); else paint(); } });
  const kind = segments("What is shown", [["map", "Map", "Rows by their two principal axes"], ["shells", "Shells", "Rows by Hamming distance to the query"]], "map", (value) => { mode = value; zoomTo(1, 0, 0); fit(); shells(); layout(); });
  const zoom = el("div", { class: "zoom" },
    ...[["+", "Closer", () => zoomBy(1.4)], ["−", "Farther", () => zoomBy(1 / 1.4)], ["⤢", "All", () => zoomTo(1, 0, 0)]].map(([text, name, act]) => el("button", { type: "button", title: name, "aria-label": name, onclick: act }, text)));
  const wrap = el("div", { class: "canvas" }, ground, canvas, zoom, tip);
  const basisField = labelled("Axes", basis), colourField = labelled("Colour", colour);
  root.append(el("div", { class: "toolbar" }, kind, basisField, colourField), wrap, legend, said);

  let mode = "map", places = new Float32Array(0), goal = places, from = places, began = 0, frame = 0, stale = true;
  let groups = [], distances = null, view = { k: 1, x: 0, y: 0 }, size = { w: 0, h: 0, r: 1 }, cursor = -1, numbers = new Map(), rings = [];
  const context = canvas.getContext("2d"), below = ground.getContext("2d");

  // Places between -1 and 1, as wide as the wider axis.
  function mapPlaces() {
    const { points } = state.map.bases[basis.value], n = points.length / 2, found = new Float32Array(2 * n);
    let low = [Infinity, Infinity], high = [-Infinity, -Infinity];
    for (let i = 0; i < 2 * n; i++) { const a = i & 1; if (points[i] < low[a]) low[a] = points[i]; if (points[i] > high[a]) high[a] = points[i]; }
    const middle = low.map((x, a) => (x + high[a]) / 2), reach = low.map((x, a) => (high[a] - x) / 2 || 1);
    for (let i = 0; i < 2 * n; i++) found[i] = ((points[i] - middle[i & 1]) / reach[i & 1]) * (i & 1 ? -1 : 1);
    mapPlaces.scale = (x, y) => [(x - middle[0]) / reach[0], -(y - middle[1]) / reach[1]];
    return found;
  }

  // Where the query lies; a code that was flipped moves.
  function queryPlace() {
    if (mode === "shells") return [0, 0];
    if (!mapPlaces.scale) return null;
    const axes = state.map.bases[basis.value], { now, about } = state, [, width] = axes.directions.shape;
    const value = basis.value === "codes" && about.is_bits ? (i) => bitOf(now.code, i) : ((v) => v && ((i) => v[i]))(now.vector || now.decoded);
    if (!value) return null;
    let x = 0, y = 0;
    for (let i = 0; i < width; i++) { const d = value(i) - axes.mean[i]; x += d * axes.directions[i]; y += d * axes.directions[width + i]; }
    return mapPlaces.scale(x, y);
  }

  // The nearest shell begins a little outside the query, the farthest ends at the edge.
  function ringRadius(distance) {
    const shown = rings.filter((each) => each.distance > 0), low = shown[0]?.distance ?? 1, high = shown.at(-1)?.distance ?? 1;
    return 0.14 + (0.82 * (distance - low)) / Math.max(1, high - low);
  }

  // Every row on the ring of its distance, in the direction in which it lies on the map.
  function shellPlaces() {
    const base = mapPlaces(), n = base.length / 2, found = new Float32Array(2 * n);
    const modeBefore = mode; mode = "map";
    const centre = queryPlace() || [0, 0]; mode = modeBefore;
    for (let i = 0; i < n; i++) {
      const noise = ((i * 2654435761) % 1000) / 1000 - 0.5;
      const angle = Math.atan2(base[2 * i + 1] - centre[1], base[2 * i] - centre[0]) + 0.25 * noise;
      const radius = distances[i] ? ringRadius(distances[i] + 0.5 * noise) : 0;
      found[2 * i] = radius * Math.cos(angle);
      found[2 * i + 1] = radius * Math.sin(angle);
    }
    return found;
  }

  function layout() {
    if (!state.now) return;
    basisField.hidden = mode !== "map" || basis.options.length < 2;
    goal = mode === "map" ? mapPlaces() : shellPlaces();
    from = places.length === goal.length ? places.slice() : goal.slice();
    places = from.slice();
    began = performance.now();
    if (calm()) began -= 1e6;
    paint();
  }

  // Rows by colour: one path of the canvas for each.
  function paint() {
    const { map } = state, n = map.ids.length, how = colour.value;
    if (!state.now) return;
    let places_, names, shades;
    if (how.startsWith("column:")) {
      const chosen = map.colourings[Number(how.slice(7))];
      if (chosen.names) {
        shades = chosen.names.map((_, at) => CLASSES[at % CLASSES.length]);
        names = chosen.names;
        places_ = (i) => chosen.values[i];
      } else {
        let low = Infinity, high = -Infinity;
        for (const x of chosen.values) if (Number.isFinite(x)) { low = Math.min(low, x); high = Math.max(high, x); }
        shades = Array.from({ length: SHADES }, (_, at) => css(ramp(1 - at / (SHADES - 1))));
        places_ = (i) => Number.isFinite(chosen.values[i]) ? Math.min(SHADES - 1, Math.floor((SHADES * (chosen.values[i] - low)) / (high - low || 1))) : -1;
        names = [low, high].map((x) => String(Number(x.toPrecision(4))));
      }
    } else if (how === "bit" && state.bit !== null) {
      shades = [colourOf("--off"), colourOf("--accent")];
      names = [`bit ${state.bit} is 0`, `bit ${state.bit} is 1`];
      const width = map.codes.shape[1], at = state.bit >> 3, shift = 7 - (state.bit & 7);
      places_ = (i) => (map.codes[i * width + at] >> shift) & 1;
    } else if (!distances) {
      [shades, names, places_] = [[colourOf("--between")], [], () => 0];
    } else {
      const shown = rings.filter((ring) => ring.distance > 0).map((ring) => ring.distance), low = Math.min(...shown), high = Math.max(...shown);
      shades = Array.from({ length: SHADES }, (_, at) => css(ramp(at / (SHADES - 1))));
      names = [`${low} bits`, `${high} bits`];
      places_ = (i) => Math.max(0, Math.min(SHADES - 1, Math.floor((SHADES * (distances[i] - low)) / (high - low + 1))));
    }
    groups = shades.map((shade) => ({ shade, rows: [] }));
    const none = { shade: colourOf("--line"), rows: [] };
    for (let i = 0; i < n; i++) (groups[places_(i)] || none).rows.push(i);
    groups.unshift(none);
    if (shades.length === SHADES) groups.reverse();
    explain(names, shades);
    redraw();
  }

  function explain(names, shades) {
    if (shades.length === SHADES) {
      fill(legend, el("span", {}, names[0]), el("i", { class: "ramp", style: `background:linear-gradient(90deg, ${shades.join(",")})` }), el("span", {}, names[1]));
    } else fill(legend, names.map((name, at) => el("span", {}, el("i", { class: "swatch", style: `background:${shades[at]}` }), name)));
    if (state.about.n_sample < state.about.n) legend.append(el("span", { class: "faint" }, `${whole(state.about.n_sample)} of ${whole(state.about.n)} rows`));
  }

  // A shell for each distance that occurs, with the rows of the whole collection in it.
  function shells() {
    if (!state.now) return;
    distances = state.about.is_bits ? distancesTo(state.map.codes, state.now.code) : null;
    rings = [];
    state.now.shells?.forEach((n, distance) => { if (n) rings.push({ distance, n }); });
    const others = rings.filter((ring) => ring.distance > 0).slice(0, 4);
    said.textContent = "Arrow keys go to the next row in that direction, Enter asks with it, plus and minus zoom. "
      + (others.length ? `Shells: ${others.map((ring) => `${whole(ring.n)} at ${ring.distance} bits`).join(", ")}.` : "");
    canvas.setAttribute("aria-label", `${mode === "map" ? "Map" : "Shells"} of ${whole(state.map.ids.length)} rows`);
  }

  const screen = (x, y) => [size.w / 2 + size.rx * view.k * (x - view.x), size.h / 2 + size.ry * view.k * (y - view.y)];

  function draw() {
    if (!frame) frame = requestAnimationFrame(render);
  }

  function redraw() {
    stale = true;
    draw();
  }

  function render(now) {
    frame = 0;
    const t = Math.min(1, Math.max(0, (now - began) / 550)), ease = 1 - (1 - t) ** 3;
    if (places !== goal) {
      if (t >= 1) places = goal;
      else for (let i = 0; i < goal.length; i++) places[i] = from[i] + (goal[i] - from[i]) * ease;
      redraw();
    }
    const n = places.length / 2, radius = Math.max(0.9, Math.min(4.2, (60 / Math.sqrt(n)) * Math.sqrt(size.w / 500))) * Math.min(2.5, Math.sqrt(view.k));
    if (stale) {
      const clock = performance.now();
      stale = places !== goal;
      drawPoints(below, places, groups, { mx: size.w / 2, my: size.h / 2, rx: size.rx * view.k, ry: size.ry * view.k, cx: view.x, cy: view.y }, size, radius);
      root.dataset.frame = (performance.now() - clock).toFixed(2);
    }
    context.setTransform(size.r, 0, 0, size.r, 0, 0);
    context.clearRect(0, 0, size.w, size.h);
    if (mode === "shells") drawRings();
    drawQuery(radius);
  }

  function drawRings() {
    const [x, y] = screen(0, 0), span = (rings.at(-1)?.distance ?? 1) - (rings.find((each) => each.distance > 0)?.distance ?? 0) || 1;
    const every = Math.max(1, Math.ceil((13 * span) / (0.82 * size.ry * view.k)));
    context.lineWidth = 1;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    const first = rings.find((each) => each.distance > 0);
    const marked = rings.filter((ring) => ring.distance > 0 && (ring === first || ring.distance % every === 0));
    context.strokeStyle = colourOf("--line");
    for (const ring of marked) {
      context.beginPath();
      context.arc(x, y, ringRadius(ring.distance) * size.ry * view.k, 0, 7);
      context.stroke();
    }
    drawRings.labels = () => {
      let last = -Infinity;
      for (const ring of marked) {
        const at = y - ringRadius(ring.distance) * size.ry * view.k;
        if (Math.abs(at - last) < 24 || at < 6) continue;
        last = at;
        const text = `${ring.distance} bits · ${whole(ring.n)}`, width = context.measureText(text).width + 10;
        context.fillStyle = colourOf("--card");
        context.globalAlpha = 0.85;
        context.fillRect(x - width / 2, at - 7, width, 14);
        context.globalAlpha = 1;
        context.fillStyle = colourOf("--ink");
        context.fillText(text, x, at + 4);
      }
    };
  }

  function ring(i, radius, colour_, width) {
    const [x, y] = screen(places[2 * i], places[2 * i + 1]);
    context.lineWidth = width;
    context.strokeStyle = colour_;
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.stroke();
  }

  function drawQuery(radius) {
    const { now } = state;
    if (!now) return;
    const ink = colourOf("--ink"), list = Object.values(now.columns)[0], where = queryPlace();
    const spot = where && screen(...where);
    context.lineWidth = 1;
    for (const id of list?.ids || []) {
      const i = numbers.get(id);
      if (i === undefined) continue;
      if (spot && mode === "map") {
        context.strokeStyle = ink; context.globalAlpha = 0.22; context.beginPath(); context.moveTo(...spot); context.lineTo(...screen(places[2 * i], places[2 * i + 1])); context.stroke(); context.globalAlpha = 1;
      }
      ring(i, radius + 2.2, ink, 1.2);
    }
    if (mode === "shells" && drawRings.labels) drawRings.labels();
    for (const i of [numbers.get(state.lit), cursor]) if (i !== undefined && i >= 0) ring(i, radius + 5, colourOf("--accent"), 2.4);
    if (spot) {
      context.fillStyle = colourOf("--card"); context.strokeStyle = colourOf("--accent"); context.lineWidth = 3;
      context.beginPath(); context.arc(...spot, Math.max(6, radius + 3), 0, 7); context.fill(); context.stroke();
      context.fillStyle = colourOf("--accent"); context.beginPath(); context.arc(...spot, 2.2, 0, 7); context.fill();
    }
  }

  function nearestTo(px, py, limit = 18) {
    let best = -1, least = limit * limit;
    for (let i = 0; i < places.length / 2; i++) {
      const [x, y] = screen(places[2 * i], places[2 * i + 1]), d = (x - px) ** 2 + (y - py) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  let wanted = null, pointer = null;
  async function show(i) {
    if (i === cursor) return;
    cursor = i;
    draw();
    tip.hidden = true;
    if (i < 0) return;
    const id = state.map.ids[i];
    wanted = id;
    try {
      const [row] = await state.source.rows([id]);
      if (wanted !== id || cursor !== i || !row) return;
      fill(tip, tile(row, {}), distances ? el("span", { class: "faint small" }, `${distances[i]} bits away`) : null);
      const [x, y] = screen(places[2 * i], places[2 * i + 1]);
      tip.hidden = false;
      tip.style.left = `${Math.max(4, Math.min(size.w - tip.offsetWidth - 4, x + 14))}px`;
      tip.style.top = `${Math.max(4, Math.min(size.h - tip.offsetHeight - 4, y + 14))}px`;
      tell(`${titleOf(row)}${distances ? `, ${distances[i]} bits away` : ""}`);
    } catch (error) { failed(error); }
  }

  const pick = (i) => { if (i >= 0) ask({ id: state.map.ids[i] }).catch(failed); };

  function zoomTo(k, x, y) {
    view = { k: Math.min(60, Math.max(1, k)), x, y };
    const most = 1 - 1 / view.k;
    view.x = Math.min(most, Math.max(-most, view.x));
    view.y = Math.min(most, Math.max(-most, view.y));
    redraw();
  }
  function zoomBy(by, px = size.w / 2, py = size.h / 2) {
    const k = Math.min(60, Math.max(1, view.k * by)), move = (1 / view.k - 1 / k);
    zoomTo(k, view.x + ((px - size.w / 2) / size.rx) * move, view.y + ((py - size.h / 2) / size.ry) * move);
  }

  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas && view.k === 1 && event.deltaY > 0) return;
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { pointer = { x: event.offsetX, y: event.offsetY, view, moved: false }; });
  canvas.addEventListener("pointermove", (event) => {
    if (pointer && event.buttons) {
      const dx = event.offsetX - pointer.x, dy = event.offsetY - pointer.y;
      if (Math.abs(dx) + Math.abs(dy) > 4) pointer.moved = true;
      if (pointer.moved && view.k > 1) zoomTo(view.k, pointer.view.x - dx / (size.rx * view.k), pointer.view.y - dy / (size.ry * view.k));
    } else if (event.pointerType !== "touch") show(nearestTo(event.offsetX, event.offsetY));
  });
  canvas.addEventListener("pointerup", (event) => { if (pointer && !pointer.moved) pick(nearestTo(event.offsetX, event.offsetY, 26)); pointer = null; });
  canvas.addEventListener("pointerleave", () => show(-1));
  canvas.addEventListener("blur", () => show(-1));
  canvas.addEventListener("keydown", (event) => {
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (way) { event.preventDefault(); step(way); }
    else if (event.key === "Enter") pick(cursor);
    else if (event.key === "+" || event.key === "=") zoomBy(1.4);
    else if (event.key === "-") zoomBy(1 / 1.4);
    else if (event.key === "0" || event.key === "Escape") zoomTo(1, 0, 0);
  });

  // The next row in a direction: near, and not far aside.
  function step([dx, dy]) {
    const start = cursor >= 0 ? screen(places[2 * cursor], places[2 * cursor + 1]) : screen(...(queryPlace() || [0, 0]));
    let best = -1, least = Infinity;
    for (let i = 0; i < places.length / 2; i++) {
      const [x, y] = screen(places[2 * i], places[2 * i + 1]), along = (x - start[0]) * dx + (y - start[1]) * dy;
      if (along <= 0.5 || i === cursor) continue;
      const aside = Math.abs((x - start[0]) * dy) + Math.abs((y - start[1]) * dx), cost = along + 2.5 * aside;
      if (cost < least) { least = cost; best = i; }
    }
    if (best >= 0) show(best);
  }

  function fit() {
    const box = wrap.getBoundingClientRect();
    if (!box.width) return;
    size = { w: box.width, h: box.height, r: Math.min(2, window.devicePixelRatio || 1) };
    const least = Math.min(size.w, size.h) / 2 - 16;
    size.rx = mode === "shells" ? least : size.w / 2 - 16;
    size.ry = mode === "shells" ? least : size.h / 2 - 16;
    for (const each of [canvas, ground]) {
      each.width = Math.round(size.w * size.r);
      each.height = Math.round(size.h * size.r);
    }
    redraw();
  }
  new ResizeObserver(fit).observe(wrap);

  on("open", () => {
    const { map, about } = state;
    numbers = new Map(map.ids.map((id, at) => [id, at]));
    places = goal = new Float32Array(0);
    groups = [];
    mapPlaces.scale = null;
    view = { k: 1, x: 0, y: 0 };
    cursor = -1;
    mode = "map";
    kind.select("map");
    kind.hidden = !about.is_bits;
    fill(basis, Object.keys(map.bases).map((name) => el("option", { value: name }, name === "codes" ? "of the codes" : "of the vectors")));
    if (map.bases.vectors) basis.value = "vectors";
    fill(colour, map.colourings.map((c, at) => el("option", { value: `column:${at}` }, c.column)),
      about.is_bits ? [el("option", { value: "distance" }, "distance to the query"), el("option", { value: "bit" }, "one bit")] : []);
    if (!map.colourings.length) colour.value = "distance";
    colourField.hidden = colour.options.length === 0;
    fit();
  });
  // Neighbours and pictures come first; points move when these have been painted.
  let waiting = 0;
  on("answer", () => {
    cursor = -1;
    tip.hidden = true;
    draw();
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      shells();
      if (!places.length || mode === "shells") layout();
      else if (colour.value === "distance") paint();
      else draw();
    }, places.length ? 30 : 0);
  });
  on("bit", () => { if (state.bit !== null) { colour.value = "bit"; paint(); } });
  on("theme", () => { if (state.now) paint(); });
  document.addEventListener("lit", draw);
}
