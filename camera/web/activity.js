// Events, viewers and the access log, and the stream that brings events and boxes as they come.

import { $, bytes, clock, duration, make, sentence, setText, when } from "./tools.js";

const RETRY_MS = 3000;
const SHOWN_EVENTS = 200;
const SHOWN_ACCESSES = 100;
const ACCESS_EVERY_MS = 3000;

/** Reads server-sent events with fetch: an EventSource cannot send a token. Goes on for ever. */
export class EventStream {
  constructor(api, onMessage, onState) {
    Object.assign(this, { api, onMessage, onState });
    this.abort = null;
  }

  /** Begins, or begins again (with a new token). */
  start() {
    this.abort?.abort();
    const abort = this.abort = new AbortController();
    this.#run(abort.signal);
  }

  stop() { this.abort?.abort(); }

  async #run(signal) {
    while (!signal.aborted) {
      let code = "unreachable";
      try {
        const response = await this.api.get("/api/v1/events/stream", { signal });
        this.onState("open");
        await this.#read(response.body.getReader());
      } catch (problem) {
        code = problem.code ?? code;
      }
      if (signal.aborted) return;
      this.onState(code);
      if (code === "token") return; // starts again when there is one
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }

  async #read(reader) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) this.#message(block);
    }
  }

  #message(block) {
    let name = "", data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (data) this.onMessage(name, JSON.parse(data));
  }
}

const NOTICES = {
  "live": "The camera is live", "not-live": "The camera is not live", "recording": "Recording",
  "recording-stopped": "Recording has stopped", "viewer-joined": "A viewer joined", "viewer-left": "A viewer left",
  "error": "The camera has failed",
};
const BAD = new Set(["not-live", "recording-stopped", "error"]);

/** An event in words: [text, detail, kind]. */
export function words(event) {
  if (event.type === "notice") return [NOTICES[event.name] ?? event.name, event.detail, BAD.has(event.name) ? "bad" : "notice"];
  const { label, top_score: score, start_time: start, end_time: end } = event.after;
  if (event.type === "new") return [`${sentence(label).slice(0, -1)} appeared`, `${Math.round(100 * score)} %`, "object"];
  return [`${sentence(label).slice(0, -1)} has gone`, `after ${duration(Math.max(0, end - start))}`, "object"];
}

const ACTIONS = {
  "live-opened": () => "opened the live picture",
  "live-closed": () => "closed the live picture",
  "push-began": () => "began to push video to the camera",
  "push-ended": () => "stopped pushing video to the camera",
  "recording-watched": (name) => `watched the recording of ${begin(name)}`,
  "recording-downloaded": (name) => `downloaded the recording of ${begin(name)}`,
  "detections-sent": () => "sent detections",
  "refused": (why) => `was refused: ${why}`,
};

/** When a recording began, from its file's name. */
function begin(name) {
  const [, y, mo, d, h, mi, s] = name.match(/_(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)/) ?? [];
  return y ? when(Date.UTC(y, mo - 1, d, h, mi, s) / 1000) : name;
}

function did({ action, detail, count }) {
  const text = ACTIONS[action]?.(detail) ?? `${action} ${detail}`;
  return count > 1 && !action.startsWith("recording") ? `${text} (${count} times)` : text;
}

export class ActivityView {
  constructor(api, onEvents) {
    Object.assign(this, { api, onEvents });
    this.events = [];
    this.visible = false;
    this.timer = null;
  }

  /** Loads what happened before; called once there is a token, and after every new connection. */
  async load() {
    try {
      const { events, targets } = await this.api.json("/api/v1/events");
      this.events = events;
      this.targets = targets;
      this.#drawEvents();
      this.onEvents(this.events);
    } catch { /* the live view says what is wrong */ }
  }

  add(event) {
    if (event.number <= (this.events.at(-1)?.number ?? 0)) return;
    this.events.push(event);
    if (this.events.length > 500) this.events.shift();
    $("events").prepend(row(event));
    if ($("events").childElementCount > SHOWN_EVENTS) $("events").lastElementChild.remove();
    $("events-empty").hidden = true;
    this.onEvents(this.events);
  }

  state(state) {
    const text = { open: "", token: "A token is needed.", rate: "The camera asks to slow down." }[state]
      ?? "Events are interrupted, trying again.";
    setText($("stream-state"), text);
    if (state === "open") this.load();
  }

  show(visible) {
    this.visible = visible;
    clearTimeout(this.timer);
    if (visible) this.#poll();
  }

  viewers(sessions) {
    if (!this.visible) return;
    const rows = sessions.map((s) => make("tr", {},
      make("td", {}, `${s.number}${s.sealed ? " · with sealed layer" : ""}`), make("td", {}, s.state),
      make("td", {}, duration(s.age_s)), make("td", {}, bytes(s.bytes)), make("td", {}, String(s.skips))));
    $("viewers-table").tBodies[0].replaceChildren(...rows);
    $("viewers-table").hidden = rows.length === 0;
    $("viewers-empty").hidden = rows.length > 0;
  }

  async #poll() {
    try {
      const { entries } = await this.api.json("/api/v1/access");
      const rows = entries.slice(0, SHOWN_ACCESSES).map((e) => make("tr", { className: e.action },
        make("td", {}, when(e.last_s)), make("td", { className: "id" }, e.client),
        make("td", {}, did(e))));
      $("access-table").tBodies[0].replaceChildren(...rows);
      $("access-table").hidden = rows.length === 0;
      $("access-empty").hidden = rows.length > 0;
    } catch { /* said elsewhere */ }
    if (this.visible) this.timer = setTimeout(() => this.#poll(), ACCESS_EVERY_MS);
  }

  #drawEvents() {
    $("events").replaceChildren(...this.events.slice(-SHOWN_EVENTS).reverse().map(row));
    $("events-empty").hidden = this.events.length > 0;
  }
}

function row(event) {
  const [text, detail, kind] = words(event);
  const item = make("li", { className: kind }, make("time", { title: clock(event.time_s) }, when(event.time_s)),
    make("span", {}, text));
  if (detail) item.append(make("i", {}, detail));
  return item;
}
