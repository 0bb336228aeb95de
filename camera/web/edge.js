// Detection on edge workers: the tiles of the picture, who has which, and how busy and quick each worker is.

import { $, bytes, make, setText } from "./tools.js";

const OLD_MS = 1500; // tiles without successors are taken away
const LOOK_MS = 700; // a look at the whole picture is one frame: shown long enough to be seen
const SVG = "http://www.w3.org/2000/svg";
const HUES = [200, 32, 145, 280, 55, 345, 175, 240]; // the name stands beside the colour everywhere
const STATES = { "closed": "in use", "open": "left alone", "half-open": "being tried" };

export class Tiles {
  constructor() {
    this.svg = $("tiles");
    this.on = true;
    this.timer = null;
    this.names = []; // in the order of the settings: gives each worker its colour
    this.look = null;
  }

  show(on) {
    this.on = on;
    if (!on) this.clear();
  }

  clear() {
    clearTimeout(this.timer);
    this.svg.replaceChildren();
  }

  hue(name) { return HUES[Math.max(0, this.names.indexOf(name)) % HUES.length]; }

  /** `message`: width, height, latency_ms, sent_bytes, tiles, workers. */
  draw(message) {
    this.workers(message.workers.map((one) => ({ ...one, latency_s: one.latency_ms === null ? null : one.latency_ms / 1000 })));
    setText($("edge-latency"), `${message.latency_ms.toFixed(0)} ms`);
    setText($("edge-sent"), bytes(message.sent_bytes));
    setText($("edge-tiles"), String(message.tiles.filter(({ look }) => !look).length));
    if (!this.on) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.clear(), OLD_MS);
    const { width, height } = message;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const scale = Math.max(width / (this.svg.clientWidth || width), height / (this.svg.clientHeight || height));
    const look = message.tiles.find((tile) => tile.look);
    if (look) this.look = { tile: look, until: performance.now() + LOOK_MS };
    const shown = message.tiles.filter((tile) => !tile.look);
    if (this.look && performance.now() < this.look.until) shown.push(this.look.tile);
    this.svg.replaceChildren(...shown.flatMap((tile) => this.#tile(tile, 12 * scale)));
  }

  #tile({ box: [left, top, right, bottom], worker, owner, kind, look }, size) {
    const missing = kind === "missing";
    const colour = missing ? "hsl(8 80% 62%)" : kind === "local" ? "hsl(0 0% 82%)" : `hsl(${this.hue(worker)} 78% 60%)`;
    const inset = look ? size / 3 : size / 10;
    const area = element("rect", { x: left + inset, y: top + inset, width: Math.max(1, right - left - 2 * inset),
      height: Math.max(1, bottom - top - 2 * inset), fill: colour, "fill-opacity": look ? 0 : 0.1, stroke: colour,
      "stroke-width": size / 8, "stroke-dasharray": look || missing ? `${size / 1.5} ${size / 2}` : "none" });
    area.dataset.worker = worker;
    area.dataset.kind = look ? "look" : kind;
    const name = element("text", { x: left + inset + size / 3, y: bottom - inset - size / 2.5, "font-size": size,
      "font-weight": 600, fill: colour, stroke: "#0b0f0e", "stroke-width": size / 4, "paint-order": "stroke" });
    name.textContent = (look ? "look: " : "") + (missing ? `no answer (${owner})` : worker) + (kind === "moved" ? ` for ${owner}` : "");
    return [area, name];
  }

  /** The camera's state: shows or hides everything about workers. */
  state(edge) {
    $("edge").hidden = !edge;
    $("tiles-toggle").hidden = !edge;
    if (!edge) return;
    this.names = edge.workers.map(({ name }) => name);
    this.workers(edge.workers.map((one) => ({ ...one, share: edge.seen_share[one.name] ?? 0 })));
    setText($("edge-counts"), Object.entries(edge.tiles).map(([kind, n]) => `${n} ${kind}`).join(", "));
    setText($("edge-skipped"), `${edge.frames} detected in, ${edge.skipped} passed over`);
  }

  workers(all) {
    const body = $("edge-table").tBodies[0];
    while (body.rows.length > all.length) body.deleteRow(-1);
    all.forEach((one, n) => this.#row(body.rows[n] ?? row(body), one));
  }

  #row(cells, { name, state, load, latency_s, share, error }) {
    const [title, meter, time, part, how] = cells.cells;
    title.firstElementChild.firstElementChild.setAttribute("fill", `hsl(${this.hue(name)} 78% 55%)`);
    setText(title.lastElementChild, name);
    meter.firstElementChild.value = load;
    setText(meter.lastElementChild, `${Math.round(100 * load)} %`);
    setText(time, latency_s === null ? "–" : `${(1000 * latency_s).toFixed(0)} ms`);
    setText(part, `${Math.round(100 * share)} %`);
    setText(how, STATES[state] + (error && state !== "closed" ? `: ${error}` : ""));
    cells.className = state === "closed" ? "" : "refused";
  }
}

function row(body) {
  const swatch = element("svg", { viewBox: "0 0 10 10", width: 10, height: 10, "aria-hidden": "true" });
  swatch.append(element("rect", { width: 10, height: 10, rx: 2 }));
  const made = make("tr", {},
    make("td", { className: "worker" }, swatch, make("span")),
    make("td", { className: "load" }, make("meter", { min: 0, max: 1, low: 0.7, high: 0.9, optimum: 0, "aria-label": "Load" }), make("span")),
    make("td"), make("td"), make("td"));
  body.append(made);
  return made;
}

function element(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
