// What is being looked at, and who wants to know when it changes.

export const state = {
  source: null, about: null, map: null, bits: null,
  // What was asked first, what is shown now (the same, or with bits flipped), and the one before.
  first: null, now: null, before: null,
  bit: null,
};

const listeners = new Map();

export function on(event, listener) {
  if (!listeners.has(event)) listeners.set(event, []);
  listeners.get(event).push(listener);
}

export function say(event) {
  for (const listener of listeners.get(event) || []) listener();
}

export const K = 12;

let turn = 0;

// Ask something new: a row, a key, a vector, a code.
export async function ask(question) {
  const mine = ++turn;
  const answer = await state.source.ask(question, K);
  if (mine !== turn) return;
  state.first = state.now = answer;
  state.before = null;
  say("answer");
}

// Ask about the same query with other bits.
export async function change(hex, isFirst) {
  const mine = ++turn, clock = performance.now();
  const answer = isFirst ? state.first : await state.source.ask({ code: hex }, K);
  if (mine !== turn) return;
  state.before = state.now;
  state.now = answer;
  state.took = performance.now() - clock;
  say("answer");
}

export function choose(bit) {
  state.bit = bit;
  say("bit");
}
