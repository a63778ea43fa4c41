// Pictures, spectra and colours on small canvases.

export const CLASSES = [
  "#d55e00", "#0072b2", "#009e73", "#c766a0", "#a87900", "#7b61c9", "#0b9aa0", "#d1495b",
  "#5a8f00", "#2a86d1", "#9c6b3c", "#7a7f87", "#b0603a", "#4f8f8b", "#8a7a00", "#a85fb5",
  "#3a7ca5", "#6b8a1f", "#b3474f", "#9a5fd0", "#c25a45", "#567d46", "#c44ecb", "#5b6ea8", "#888f99",
];

let known = new Map();

// A colour of the style sheet; asking the browser each time would make it lay out the page anew.
export function colourOf(name) {
  if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return known.get(name);
}

export function forgetColours() { known = new Map(); }

const hex = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
const mix = (a, b, t) => a.map((x, i) => Math.round(x + (b[i] - x) * t));
export const css = (rgb) => `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;

// From near (or many) to far: the accent fades into the paper's own grey.
export function ramp(t) {
  const stops = [hex(colourOf("--near")), hex(colourOf("--between")), hex(colourOf("--far"))];
  const x = Math.min(1, Math.max(0, t)) * 2;
  return x < 1 ? mix(stops[0], stops[1], x) : mix(stops[1], stops[2], x - 1);
}

// What adds is orange, what takes away is purple, nothing is the paper.
export function signedScale() {
  const plus = hex(colourOf("--plus")), minus = hex(colourOf("--minus")), zero = hex(colourOf("--zero"));
  return (t) => (t >= 0 ? mix(zero, plus, Math.min(1, t)) : mix(zero, minus, Math.min(1, -t)));
}

export function canvasOf(width, height, label) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  if (label) { canvas.setAttribute("role", "img"); canvas.setAttribute("aria-label", label); }
  else canvas.setAttribute("aria-hidden", "true");
  return canvas;
}

// Grades 0..255 as a picture of height x width (x 3).
export function picture(grades, shape, label) {
  const [height, width] = shape, colours = shape.length === 3;
  const canvas = canvasOf(width, height, label);
  canvas.className = "picture";
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = colours ? grades[3 * i + c] : grades[i];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export function grades(vector, [low, high]) {
  const found = new Uint8ClampedArray(vector.length);
  for (let i = 0; i < vector.length; i++) found[i] = (255 * (vector[i] - low)) / (high - low);
  return found;
}

// Numbers of both signs as a picture; colours are averaged.
export function signedPicture(values, shape, most, label) {
  const [height, width] = shape, depth = shape[2] || 1;
  const canvas = canvasOf(width, height, label);
  canvas.className = "picture";
  const context = canvas.getContext("2d"), image = context.createImageData(width, height), scale = signedScale();
  for (let i = 0; i < width * height; i++) {
    let value = 0;
    for (let c = 0; c < depth; c++) value += values[depth * i + c] / depth;
    // Small numbers must be seen beside large ones: a power below 1 lifts them.
    image.data.set([...scale(Math.sign(value) * (Math.abs(value) / (most || 1)) ** 0.7), 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

const pooled = (values, n) => {
  if (values.length <= n) return values;
  const found = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    const from = Math.floor((i * values.length) / n), to = Math.floor(((i + 1) * values.length) / n);
    for (let j = from; j < to; j++) found[i] += values[j] / (to - from);
  }
  return found;
};

// Bars up and down from the middle; `behind` is drawn as a fainter outline.
export function spectrum(values, { width = 300, height = 72, most = null, behind = null, label = "" } = {}) {
  const scaleBy = Math.min(2, window.devicePixelRatio || 1);
  const canvas = canvasOf(width * scaleBy, height * scaleBy, label);
  canvas.className = "spectrum";
  const context = canvas.getContext("2d");
  context.scale(scaleBy, scaleBy);
  const n = Math.min(values.length, Math.floor(width / 2));
  const shown = pooled(values, n), under = behind && pooled(behind, n);
  let top = most;
  if (!top) for (const list of [shown, under || []]) for (const x of list) top = Math.max(top || 0, Math.abs(x));
  const middle = height / 2, step = width / n, reach = (middle - 2) / (top || 1);
  const plus = colourOf("--plus"), minus = colourOf("--minus");
  for (let i = 0; i < n; i++) {
    const h = Math.max(0.5, Math.abs(shown[i]) * reach);
    context.fillStyle = shown[i] >= 0 ? plus : minus;
    context.fillRect(i * step, shown[i] >= 0 ? middle - h : middle, Math.max(1, step - (step > 3 ? 1 : 0)), h);
  }
  if (under) {
    context.strokeStyle = colourOf("--ink");
    context.globalAlpha = 0.55;
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 0; i < n; i++) context.lineTo((i + 0.5) * step, middle - under[i] * reach);
    context.stroke();
  }
  return canvas;
}

// The bits of two codes as a strip; those that differ stand out.
export function barcode(code, other, nBits, bitOf) {
  const n = Math.min(nBits, 512), canvas = canvasOf(n, 1);
  canvas.className = "barcode";
  const context = canvas.getContext("2d");
  const same = colourOf("--line"), different = colourOf("--accent");
  for (let i = 0; i < n; i++) {
    context.fillStyle = bitOf(code, i) === bitOf(other, i) ? same : different;
    context.fillRect(i, 0, 1, 1);
  }
  return canvas;
}
