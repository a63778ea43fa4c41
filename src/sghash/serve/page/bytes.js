// Typed arrays out of JSON, and bits out of codes (np.packbits order: the first bit is the highest).

const TYPES = {
  uint8: Uint8Array, int8: Int8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array,
  float32: Float32Array,
};

export function unpack(packed) {
  if (!packed) return null;
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const array = new TYPES[packed.dtype](bytes.buffer);
  array.shape = packed.shape;
  return array;
}

export const rowOf = (array, row) => {
  const width = array.shape[1];
  return array.subarray(row * width, (row + 1) * width);
};

export const bitOf = (code, bit) => (code[bit >> 3] >> (7 - (bit & 7))) & 1;

export function flipped(code, bit) {
  const other = code.slice();
  other[bit >> 3] ^= 1 << (7 - (bit & 7));
  return other;
}

export const toHex = (code) => Array.from(code, (b) => b.toString(16).padStart(2, "0")).join("");

export function fromHex(text) {
  const code = new Uint8Array(text.length / 2);
  for (let i = 0; i < code.length; i++) code[i] = parseInt(text.substr(2 * i, 2), 16);
  return code;
}

// A code out of what was typed: as many 0 and 1 as there are bits, or hexadecimal digits.
export function typedCode(text, nBits, nBytes) {
  const plain = text.replace(/[\s_]/g, "");
  if (plain.length === nBits && /^[01]+$/.test(plain) && nBits > 2 * nBytes) {
    const code = new Uint8Array(nBytes);
    for (let i = 0; i < nBits; i++) if (plain[i] === "1") code[i >> 3] |= 1 << (7 - (i & 7));
    return code;
  }
  return plain.length === 2 * nBytes && /^[0-9a-f]+$/i.test(plain) ? fromHex(plain) : null;
}

const POPULATION = new Uint8Array(256);
for (let i = 1; i < 256; i++) POPULATION[i] = POPULATION[i >> 1] + (i & 1);

export function hamming(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += POPULATION[a[i] ^ b[i]];
  return sum;
}

// Distances of all codes (n, bytes) to one.
export function distancesTo(codes, code) {
  const width = codes.shape[1], n = codes.shape[0], found = new Uint16Array(n);
  for (let row = 0, at = 0; row < n; row++) {
    let sum = 0;
    for (let i = 0; i < width; i++, at++) sum += POPULATION[codes[at] ^ code[i]];
    found[row] = sum;
  }
  return found;
}

export function differing(a, b, nBits) {
  const bits = [];
  for (let i = 0; i < nBits; i++) if (bitOf(a, i) !== bitOf(b, i)) bits.push(i);
  return bits;
}
