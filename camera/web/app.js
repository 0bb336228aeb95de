// The camera's page. No build step: the browser loads these modules as they are.

import { ActivityView, EventStream } from "./activity.js";
import { Api } from "./api.js";
import { Boxes } from "./boxes.js";
import { Tiles } from "./edge.js";
import { LiveView } from "./live.js";
import { RecordingsView } from "./recordings.js";
import { $, bytes, duration, make, megabits, put, setText } from "./tools.js";

const STATE_EVERY_MS = 1000;
const VIEWS = ["live", "recordings", "activity", "camera"];

class Page {
  constructor() {
    this.api = new Api();
    this.boxes = new Boxes();
    this.tiles = new Tiles();
    this.live = new LiveView(this.api, this.boxes, this.tiles, () => this.#withToken());
    this.recordings = new RecordingsView(this.api);
    this.activity = new ActivityView(this.api, (events) => this.recordings.setEvents(events));
    this.stream = new EventStream(this.api, (name, body) => this.#message(name, body), (state) => this.activity.state(state));
    this.stateTimer = null;
    this.name = "";
  }

  start() {
    this.recordings.start();
    this.live.start();
    addEventListener("hashchange", () => this.#route({ moved: true }));
    addEventListener("keydown", (event) => this.#key(event));
    addEventListener("pagehide", () => this.stream.stop());
    addEventListener("pageshow", (event) => { if (event.persisted) this.stream.start(); });
    this.#route({ moved: false });
    this.stream.start();
    this.#poll();
  }

  get view() {
    const name = location.hash.replace(/^#\//, "");
    return VIEWS.includes(name) ? name : "live";
  }

  #route({ moved }) {
    const { view } = this;
    for (const name of VIEWS) $(`view-${name}`).hidden = name !== view;
    for (const link of document.querySelectorAll(".tabs a")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.recordings.show(view === "recordings");
    this.activity.show(view === "activity");
    this.#title();
    if (moved) { // as after a page load, screen readers begin with the view's heading
      const asks = view === "live" && !$("token-form").hidden;
      (asks ? $("token") : $(`${view}-title`)).focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }

  #title() {
    const view = { live: "", recordings: "Recordings", activity: "Activity", camera: "Camera" }[this.view];
    document.title = [view, this.name, "veilcam"].filter(Boolean).join(" · ");
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (this.view === "live") this.live.key(event.key);
    else if (this.view === "recordings") this.recordings.key(event.key);
  }

  #withToken() {
    clearTimeout(this.stateTimer);
    this.#poll();
    this.stream.start();
    if (this.view === "recordings") this.recordings.load();
  }

  #message(name, body) {
    if (name === "detections") this.boxes.draw(body);
    else if (name === "tiles") this.tiles.draw(body);
    else if (name === "event") this.activity.add(body);
  }

  async #poll() {
    try {
      this.#camera(await this.api.json("/api/v1/state"));
    } catch (problem) {
      if (problem.code === "token") return; // the live view asks for it
    }
    this.stateTimer = setTimeout(() => this.#poll(), STATE_EVERY_MS);
  }

  #camera(state) {
    this.live.accepted();
    this.activity.viewers(state.sessions);
    this.tiles.state(state.edge);
    if (state.name !== this.name) {
      this.name = state.name;
      setText($("name"), state.name);
      this.#title();
    }
    put("viewers", state.viewers);
    put("maxViewers", `of ${state.max_viewers}`);
    put("epoch", state.key_epoch || "–");
    put("epoch2", state.key_epoch || "–");
    put("segmentAge", state.segment_age_s === null ? "–" : state.segment_age_s.toFixed(1));
    put("cameraState", state.error || state.pipeline);
    put("source", state.source.age_s === null ? state.source.state : `${state.source.state}, last picture ${state.source.age_s.toFixed(1)} s ago`);
    put("reconnects", times(state.source.reconnects));
    put("cameraSize", state.picture.width ? `${state.picture.width} × ${state.picture.height}` : "–");
    put("cameraFps", `${state.picture.fps.toFixed(1)} fps`);
    put("cameraBitrate", `${megabits(state.picture.bitrate_bps)} Mbit/s`);
    put("dropped", Object.entries(state.dropped_frames).map(([why, n]) => `${n} ${why}`).join(", ") || "none");
    put("protector", state.picture.protector || "–");
    put("sealed", `${state.sealed.mode || "none"}, ${bytes(state.sealed.bytes)}`);
    put("segments", state.segments);
    put("recording", state.recording ? state.recording.error || bytes(state.recording.written_bytes) : "off");
    put("free", state.recording ? bytes(state.recording.free_bytes) : "–");
    put("targets", targets(this.activity.targets ?? []));
    put("uptime", duration(state.uptime_s));
    put("version", state.version);
    this.#checks(state.checks);
  }

  #checks(checks) {
    const text = JSON.stringify(checks.map(({ name, ok }) => [name, ok]));
    const list = $("checks");
    if (list.dataset.text !== text) {
      list.dataset.text = text;
      list.replaceChildren(...checks.map(({ name, ok }) => make("li", { className: ok ? "good" : "bad" },
        make("b", {}, name.charAt(0).toUpperCase() + name.slice(1)), make("span", { className: "state" }, ok ? "OK" : "Problem"), make("span", { className: "soft" }))));
    }
    checks.forEach(({ detail }, n) => setText(list.children[n].lastElementChild, detail));
  }
}

const times = (n) => (n === 0 ? "never" : n === 1 ? "once" : `${n} times`);
const targets = (all) => all.map((t) => (t.error ? `${t.name} (${t.error})` : t.name)).join(", ") || "this page only";

new Page().start();
