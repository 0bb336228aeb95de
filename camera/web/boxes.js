// Boxes around what a detector found, drawn over the picture: SVG, so that it scales as the video does.

import { $, setText } from "./tools.js";

const OLD_MS = 1500; // boxes without a successor are taken away
const SAY_EVERY_MS = 5000;
const SVG = "http://www.w3.org/2000/svg";
const HUES = { person: 150, car: 205, truck: 215, bus: 225, bicycle: 45, motorcycle: 35, dog: 20, cat: 10 };

export class Boxes {
  constructor() {
    this.svg = $("boxes");
    this.on = true;
    this.timer = null;
    this.said = "";
    this.saidAt = -Infinity;
  }

  show(on) {
    this.on = on;
    if (!on) this.clear();
  }

  clear() {
    clearTimeout(this.timer);
    this.svg.replaceChildren();
  }

  /** `picture`: width, height, detections [{label, score, box_xyxy}]. */
  draw(picture) {
    this.#say(picture.detections);
    if (!this.on) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.clear(), OLD_MS);
    const { width, height } = picture;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const scale = Math.max(width / (this.svg.clientWidth || width), height / (this.svg.clientHeight || height));
    const size = 13 * scale; // of the letters, in pixels of the picture: 13 on the screen whatever its size
    this.svg.replaceChildren(...picture.detections.flatMap((found) => frame(found, size, width)));
  }

  /** For who cannot see the boxes: what is in view, when it changes, at most every five seconds. */
  #say(detections) {
    const counts = new Map();
    for (const { label } of detections) counts.set(label, (counts.get(label) ?? 0) + 1);
    const text = [...counts].map(([label, n]) => `${n} ${label}`).join(", ") || "nothing found";
    const now = performance.now();
    if (text === this.said || now - this.saidAt < SAY_EVERY_MS) return;
    Object.assign(this, { said: text, saidAt: now });
    setText($("seen"), `In view: ${text}`);
  }
}

function frame({ label, score, box_xyxy: [left, top, right, bottom] }, size, width) {
  const hue = String(HUES[label] ?? [...label].reduce((sum, c) => (31 * sum + c.charCodeAt(0)) % 360, 7));
  const colour = `hsl(${hue} 85% 62%)`;
  const box = draw("rect", { x: left, y: top, width: right - left, height: bottom - top, rx: size / 4,
    fill: "none", stroke: colour, "stroke-width": size / 6.5 });
  const text = draw("text", { "font-size": size, "font-weight": 600, fill: "#0b0f0e" });
  text.textContent = `${label} ${Math.round(100 * score)} %`;
  const long = 0.63 * size * text.textContent.length + 0.7 * size;
  const x = Math.max(0, Math.min(left, width - long));
  const y = top > 1.6 * size ? top - 1.5 * size : top + 0.25 * size;
  text.setAttribute("x", x + 0.35 * size);
  text.setAttribute("y", y + 1.05 * size);
  return [box, draw("rect", { x, y, width: long, height: 1.4 * size, rx: size / 4, fill: colour }), text];
}

function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
