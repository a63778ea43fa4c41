// Where answers come from: a server, or what stands in this very file. Both give the same objects.
import { fromHex, rowOf, unpack } from "explorer/bytes.js";
import { LocalSource } from "explorer/local.js";
import { el } from "explorer/dom.js";

export async function openSource(data) {
  if (data.collections) {
    return { names: Object.keys(data.collections), open: (name) => new LocalSource(data.collections[name]), local: true };
  }
  const server = new Server(data.server);
  const { collections } = await server.get("");
  return { names: collections, open: (name) => new ServerSource(server, name), local: false };
}

export class Refused extends Error {}

class Server {
  constructor(address) {
    this.address = address;
    this.key = sessionStorage.getItem("sghash-key") || "";
  }

  async fetch(path, options = {}) {
    for (;;) {
      const headers = { ...(options.headers || {}) };
      if (this.key) headers.Authorization = `Bearer ${this.key}`;
      let response;
      try {
        response = await fetch(this.address + path, { ...options, headers });
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Refused("The server does not answer: start it again, then load this page anew.");
      }
      if (response.status === 401 || (response.status === 403 && this.key)) {
        this.key = await askForKey(Boolean(this.key));
        sessionStorage.setItem("sghash-key", this.key);
        continue;
      }
      if (response.ok) return response;
      const body = await response.json().catch(() => ({}));
      throw new Refused(body.detail && typeof body.detail === "string" ? body.detail : `The server refused (${response.status}).`);
    }
  }

  async get(path, options) { return (await this.fetch(path, options)).json(); }
}

let asking = null;

// One dialog for all requests that wait for a key.
function askForKey(wrong) {
  asking ||= new Promise((resolve) => {
    const input = el("input", { type: "password", autocomplete: "off", required: true, id: "key", "aria-describedby": "key-why" });
    const dialog = el("dialog", { "aria-labelledby": "key-title" },
      el("form", { method: "dialog" },
        el("h2", { id: "key-title" }, "A key is needed"),
        el("p", { id: "key-why" }, wrong ? "That key was refused. " : "", "This server gives answers to holders of a key."),
        el("label", { for: "key" }, "Key"), input,
        el("button", { type: "submit" }, "Go on")));
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => { asking = null; dialog.remove(); resolve(input.value.trim()); });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

export function withRows(said) {
  const codes = unpack(said.codes), pictures = unpack(said.pictures);
  said.rows.forEach((row, at) => {
    row.code = rowOf(codes, at);
    if (pictures) row.picture = rowOf(pictures, at);
  });
  return said.rows;
}

class ServerSource {
  constructor(server, name) {
    this.server = server;
    this.path = `/${encodeURIComponent(name)}`;
    this.known = new Map();
    this.images = new Map();
    this.local = false;
  }

  about() { return this.server.get(`${this.path}/about`); }
  bits() { return this.server.get(`${this.path}/bits`); }
  map() { return this.server.get(`${this.path}/map`); }
  tradeoff() { return this.server.get(`${this.path}/tradeoff`); }

  async ask(question, k) {
    this.running?.abort();
    this.running = new AbortController();
    const said = await this.server.get(`${this.path}/ask`, {
      method: "POST", body: JSON.stringify({ ...question, k }), signal: this.running.signal,
      headers: { "Content-Type": "application/json" },
    });
    const rows = new Map(withRows(said).map((row) => [row.id, row]));
    rows.forEach((row) => this.known.set(row.id, row));
    return {
      ...said, rows, code: fromHex(said.code), vector: unpack(said.vector),
      decoded: unpack(said.decoded), shells: unpack(said.shells),
    };
  }

  async find(words) {
    return withRows(await this.server.get(`${this.path}/find?words=${encodeURIComponent(words)}`));
  }

  async rows(ids) {
    const missing = ids.filter((id) => !this.known.has(id));
    if (missing.length) {
      for (const row of withRows(await this.server.get(`${this.path}/rows?ids=${missing.join(",")}`))) this.known.set(row.id, row);
    }
    return ids.map((id) => this.known.get(id)).filter(Boolean);
  }

  image(row) {
    if (row.image !== "file") return Promise.resolve(row.image);
    if (!this.images.has(row.id)) {
      this.images.set(row.id, this.server.fetch(`${this.path}/image/${row.id}`).then((r) => r.blob()).then((b) => URL.createObjectURL(b)));
    }
    return this.images.get(row.id);
  }

  // The table for Embedding Atlas, as a file to keep.
  async atlas() { return (await this.server.fetch(`${this.path}/atlas.parquet`)).blob(); }
}
