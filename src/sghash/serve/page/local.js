// Answers without a server: the same searches, over the rows that stand in this file.
import { bitOf, distancesTo, fromHex, rowOf, unpack } from "explorer/bytes.js";
import { grades } from "explorer/draw.js";

export class LocalSource {
  constructor(data) {
    this.data = data;
    this.local = true;
    this.codes = unpack(data.map.codes);
    this.rowNumber = new Map(data.map.ids.map((id, at) => [id, at]));
    this.vectors = data.vectors ? new Rounded(data.vectors) : null;
    // Codes of bytes are not taken apart: what each stands for is here instead.
    this.decoded = data.decoded ? new Rounded(data.decoded) : null;
    if (data.decoder) {
      this.decoder = {
        origin: unpack(data.decoder.origin), directions: unpack(data.decoder.directions), squares: unpack(data.decoder.squares),
      };
    }
  }

  async about() { return this.data.about; }
  async bits() { return this.data.bits; }
  async map() { return this.data.map; }
  async tradeoff() { return this.data.tradeoff; }
  async image(row) { return row.image; }
  async rows(ids) { return ids.map((id) => this.row(this.rowNumber.get(id))); }

  decode(code) {
    if (!this.decoder) return null;
    const { origin, directions } = this.decoder, found = origin.slice();
    for (let bit = 0; bit < this.data.about.n_bits; bit++) {
      if (!bitOf(code, bit)) continue;
      const template = rowOf(directions, bit);
      for (let i = 0; i < found.length; i++) found[i] += template[i];
    }
    return found;
  }

  row(at) {
    const row = this.data.rows[at];
    if (!row.code) {
      row.code = rowOf(this.codes, at);
      const { picture, brightness } = this.data.about;
      const vector = picture && (this.vectors?.row(at) || this.decoded?.row(at) || this.decode(row.code));
      if (vector) row.picture = grades(vector, brightness);
    }
    return row;
  }

  async find(words) {
    const { rows, about } = this.data;
    this.texts ||= rows.map((row) => [row.id, row.key, row.text, row.label, ...Object.values(row.columns || {})].join(" ").toLowerCase());
    const phrase = words.toLowerCase().trim(), parts = phrase.split(/\s+/), found = [];
    const exact = this.rowNumber.get(phrase);
    if (exact !== undefined) found.push(exact);
    const passes = [(text) => text.includes(phrase), (text) => parts.every((part) => text.includes(part))];
    for (const fits of passes) {
      for (let at = 0; at < rows.length && found.length < 12; at++) {
        if (fits(this.texts[at]) && !found.includes(at)) found.push(at);
      }
    }
    return about && found.map((at) => this.row(at));
  }

  async ask(question, k) {
    const begin = performance.now(), { about } = this.data;
    const at = this.place(question);
    const code = at === null ? fromHex(question.code) : rowOf(this.codes, at);
    const vector = at !== null && this.vectors ? this.vectors.row(at) : null;
    const decoded = this.decoded ? this.decoded.row(at) : this.decode(code), given = vector || decoded, columns = {};
    const distances = about.is_bits ? distancesTo(this.codes, code) : null;
    if (distances) columns.hamming = nearest(distances, k, at);
    if (this.decoder && given) columns.decoder = nearest(this.decoderScores(given), k, at);
    if (this.decoded) columns.decoder = nearest(this.decoded.scores(given, about.metric), k, at);
    if (this.vectors && given) columns.vectors = nearest(this.vectors.scores(given, about.metric), k, at);
    const rows = new Map();
    for (const column of Object.values(columns)) {
      column.ids = column.places.map((place) => this.data.map.ids[place]);
      column.places.forEach((place, i) => rows.set(column.ids[i], this.row(place)));
    }
    const id = at === null ? null : this.data.map.ids[at];
    if (id !== null) rows.set(id, this.row(at));
    const shells = distances && new Int32Array(about.n_bits + 1);
    if (distances) for (const distance of distances) shells[distance]++;
    return { id, code, columns, rows, vector, decoded, shells, milliseconds: performance.now() - begin };
  }

  place(question) {
    if (question.code && !this.decoded) return null;
    if (question.code) throw new Error("This file can decode the codes of its own rows only: pick one, or run sghash explore.");
    if (question.vector) {
      throw new Error("This file holds no model that makes codes of vectors: pick a row, type a code, or run sghash explore.");
    }
    const known = question.id ?? this.data.rows.find((row) => row.key === question.key)?.id;
    const at = this.rowNumber.get(known);
    if (at === undefined) throw new Error(`This file holds no row ${question.id ?? question.key}.`);
    return at;
  }

  // Smaller is nearer: |q - x|², -q.x or 1 - q.x, with x what a code stands for.
  decoderScores(query) {
    const { metric, n_bits: nBits } = this.data.about, { origin, directions, squares } = this.decoder;
    const l2 = metric === "l2", q = l2 ? query.map((x, i) => x - origin[i]) : metric === "cosine" ? unit(query) : query;
    const slopes = new Float64Array(nBits);
    for (let bit = 0; bit < nBits; bit++) slopes[bit] = (l2 ? -2 : -1) * dot(q, rowOf(directions, bit));
    const offset = l2 ? dot(q, q) : (metric === "cosine" ? 1 : 0) - dot(q, origin);
    // One table of 256 sums for each byte, as in a search.
    const nBytes = this.codes.shape[1], n = this.codes.shape[0], tables = new Float64Array(256 * nBytes);
    for (let byte = 0; byte < nBytes; byte++) {
      for (let value = 1; value < 256; value++) {
        const low = value & -value, bit = 8 * byte + 7 - Math.log2(low);
        tables[256 * byte + value] = tables[256 * byte + (value ^ low)] + (bit < nBits ? slopes[bit] : 0);
      }
    }
    const scores = new Float64Array(n);
    for (let row = 0, at = 0; row < n; row++) {
      let sum = offset + (l2 ? squares[row] : 0);
      for (let byte = 0; byte < nBytes; byte++, at++) sum += tables[256 * byte + this.codes[at]];
      scores[row] = sum;
    }
    return scores;
  }
}

// Vectors rounded to 255 steps each, with the size of a step.
class Rounded {
  constructor({ rows, scales }) {
    this.rows = unpack(rows);
    this.scales = unpack(scales);
  }

  row(at) {
    const scale = this.scales[at];
    return Float32Array.from(rowOf(this.rows, at), (x) => x * scale);
  }

  scores(query, metric) {
    const [n, width] = this.rows.shape;
    this.squares ||= Float64Array.from({ length: n }, (_, row) => dot(rowOf(this.rows, row), rowOf(this.rows, row)) * this.scales[row] ** 2);
    const q = metric === "cosine" ? unit(query) : query, own = dot(q, q), scores = new Float64Array(n);
    for (let row = 0; row < n; row++) {
      let product = 0;
      for (let i = 0, at = row * width; i < width; i++, at++) product += q[i] * this.rows[at];
      product *= this.scales[row];
      if (metric === "l2") scores[row] = Math.max(0, own - 2 * product + this.squares[row]);
      else scores[row] = metric === "ip" ? -product : 1 - product / (Math.sqrt(this.squares[row]) || 1);
    }
    return scores;
  }
}

const dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };
const unit = (a) => { const length = Math.sqrt(dot(a, a)) || 1; return a.map((x) => x / length); };

// The k smallest, ties by the order of rows, which is that of ids; a row is not its own neighbour.
function nearest(scores, k, own) {
  const best = [];
  for (let row = 0; row < scores.length; row++) {
    if (row === own || (best.length === k && scores[row] >= scores[best[k - 1]])) continue;
    let at = best.length;
    while (at > 0 && scores[best[at - 1]] > scores[row]) at--;
    best.splice(at, 0, row);
    if (best.length > k) best.pop();
  }
  return { places: best, distances: best.map((row) => scores[row]) };
}
