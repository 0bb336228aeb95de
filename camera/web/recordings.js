// The view "Recordings": days, a time line that is the player's slider, and a table of the files.

import { DayPlayer } from "./player.js";
import { words } from "./activity.js";
import { Problem, PROBLEMS } from "./problems.js";
import { $, bytes, clock, duration, make, setText, shortClock, toggleFullscreen, zone } from "./tools.js";

const DAY_S = 86400;
const WINDOWS_S = [86400, 6 * 3600, 2 * 3600, 1800, 600, 120];
const NAMES = ["24 h", "6 h", "2 h", "30 min", "10 min", "2 min"];
const STEPS_S = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400];
const STEP_S = { ArrowLeft: -10, ArrowRight: 10, ArrowDown: -10, ArrowUp: 10, PageDown: -600, PageUp: 600 };
const RELOAD_MS = 10000;
const SVG = "http://www.w3.org/2000/svg";

export class RecordingsView {
  constructor(api) {
    this.api = api;
    this.day = null;
    this.days = [];
    this.entries = [];
    this.events = [];
    this.zoom = 0;
    this.from = 0; // of the time line's window, in seconds of the day
    this.visible = false;
    this.timer = null;
    this.player = new DayPlayer(api, $("playback"), (problem) => this.#playbackProblem(problem));
  }

  start() {
    $("day").addEventListener("change", () => this.load($("day").value));
    $("day-before").addEventListener("click", () => this.#step(-1));
    $("day-after").addEventListener("click", () => this.#step(1));
    $("play").addEventListener("click", () => this.toggle());
    $("back").addEventListener("click", () => this.seek(this.now - 10));
    $("forward").addEventListener("click", () => this.seek(this.now + 10));
    $("speed").addEventListener("change", () => {
      const video = $("playback");
      video.defaultPlaybackRate = video.playbackRate = Number($("speed").value); // loading sets the default again
    });
    $("zoom-in").addEventListener("click", () => this.#zoomBy(1));
    $("zoom-out").addEventListener("click", () => this.#zoomBy(-1));
    const video = $("playback");
    for (const name of ["play", "pause", "ended"]) video.addEventListener(name, () => this.#playing());
    video.addEventListener("timeupdate", () => this.#moved());
    video.addEventListener("seeking", () => this.#moved());
    video.addEventListener("loadeddata", () => $("playback-stage").classList.add("live"));
    video.addEventListener("emptied", () => $("playback-stage").classList.remove("live"));
    video.addEventListener("click", () => this.toggle());
    video.addEventListener("dblclick", () => toggleFullscreen($("playback-stage")));
    video.addEventListener("resize", () => {
      if (video.videoWidth) $("playback-stage").style.setProperty("--ratio", String(video.videoWidth / video.videoHeight));
    });
    const line = $("timeline");
    line.addEventListener("keydown", (event) => this.#key(event));
    line.addEventListener("pointerdown", (event) => {
      line.setPointerCapture(event.pointerId);
      this.#point(event);
    });
    line.addEventListener("pointermove", (event) => {
      if (line.hasPointerCapture(event.pointerId)) this.#point(event);
    });
    setText($("zone"), `Times are in ${zone()}.`);
  }

  get now() { return this.player.time; }

  show(visible) {
    this.visible = visible;
    clearTimeout(this.timer);
    if (!visible) return $("playback").pause();
    this.load(this.day);
  }

  setEvents(events) {
    this.events = events;
    if (this.visible && this.entries.length) this.#drawTimeline();
  }

  async load(day = null) {
    clearTimeout(this.timer);
    try {
      const list = await this.api.json(`/api/v1/recordings${day ? `?day=${day}` : ""}`);
      this.#loaded(list);
    } catch (problem) {
      this.#note(problem instanceof Problem ? problem : PROBLEMS.unreachable());
    }
    if (this.visible) this.timer = setTimeout(() => this.load(this.day), RELOAD_MS);
  }

  toggle() {
    const video = $("playback");
    if (video.paused) this.player.play();
    else video.pause();
  }

  /** Goes to a second of the day; in a gap to what follows. */
  seek(second, { play = false } = {}) {
    $("playback-problem").hidden = true;
    this.player.seek(Math.min(Math.max(second, 0), DAY_S - 1));
    if (play) this.player.play();
    this.#keepInView(this.now);
    this.#moved();
  }

  #loaded({ recording, days, day, recordings }) {
    const isOther = day !== this.day;
    Object.assign(this, { day, days });
    this.start_s = day ? Date.parse(`${day}T00:00:00Z`) / 1000 : 0;
    this.entries = recordings.map((entry) => ({ ...entry, from: entry.start_s - this.start_s,
      to: entry.start_s - this.start_s + entry.duration_s }));
    this.#drawDays();
    const empty = this.entries.length === 0;
    $("player").hidden = empty;
    $("recordings-table").hidden = empty;
    if (empty) {
      return this.#note(recording
        ? { title: "No recordings yet", text: "The first one appears a few seconds after the camera has started.", hint: "" }
        : { title: "This camera does not record", text: "Give it a folder to record into.",
            hint: "veilcam camera run --record DIR, or record.folder in the settings." });
    }
    $("recordings-note").hidden = true;
    this.player.setDay(day, this.start_s, this.entries);
    if (isOther) this.#begin();
    this.#drawTable();
    this.#drawTimeline();
  }

  /** A new day: the window fits its recordings, and the player waits at the last one's first picture. */
  #begin() {
    const [first, last] = [this.entries[0], this.entries.at(-1)];
    const span = last.to - first.from;
    this.zoom = WINDOWS_S.findLastIndex((seconds) => seconds >= span * 1.05);
    if (this.zoom < 0) this.zoom = 0;
    this.#frame((first.from + last.to) / 2);
    this.seek(last.from);
  }

  #note({ title, text, hint }) {
    const children = [make("h3", {}, title), make("p", {}, text)];
    if (hint) children.push(make("p", { className: "soft" }, hint));
    $("recordings-note").replaceChildren(...children);
    $("recordings-note").hidden = false;
  }

  #drawDays() {
    const select = $("day");
    const known = [...select.options].map((option) => option.value).reverse().join();
    if (known !== this.days.join()) {
      const name = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
      select.replaceChildren(...[...this.days].reverse().map((day) =>
        make("option", { value: day }, name.format(new Date(`${day}T00:00:00Z`)))));
    }
    if (this.day) select.value = this.day;
    const place = this.days.indexOf(this.day);
    $("day-before").disabled = place <= 0;
    $("day-after").disabled = place < 0 || place >= this.days.length - 1;
    select.disabled = this.days.length === 0;
  }

  #step(by) {
    const day = this.days[this.days.indexOf(this.day) + by];
    if (day) this.load(day);
  }

  #drawTable() {
    const rows = [...this.entries].reverse().map((entry) => {
      const from = shortClock(entry.start_s);
      const play = make("button", { type: "button", className: "plain", "aria-label": `Play from ${clock(entry.start_s)}` }, "Play");
      play.addEventListener("click", () => {
        this.seek(entry.from + 0.01, { play: true });
        $("playback-stage").scrollIntoView({ block: "nearest" });
      });
      const actions = make("td", { className: "actions" }, play);
      actions.append(entry.is_open ? make("span", { className: "soft small" }, "still recording") : this.#download(entry, from));
      const mark = entry.is_open ? [make("span", { className: "dot", title: "still recording" })] : [];
      return make("tr", {}, make("td", {}, clock(entry.start_s), ...mark), make("td", {}, duration(entry.duration_s)),
        make("td", {}, bytes(entry.num_bytes)), actions);
    });
    const table = $("recordings-table").tBodies[0];
    const text = rows.map((tr) => tr.textContent).join();
    if (table.dataset.text === text) return; // do not take the focus away from a button
    table.dataset.text = text;
    table.replaceChildren(...rows);
  }

  #download(entry, from) {
    const path = `/api/v1/recordings/${entry.day}/${entry.name}`;
    const title = "The whole file with its sealed original, for verify and decode";
    if (!this.api.token) return make("a", { className: "button plain", href: path, download: entry.name, title, "aria-label": `Download from ${from}` }, "Download");
    const button = make("button", { type: "button", className: "plain", title, "aria-label": `Download from ${from}` }, "Download");
    button.addEventListener("click", async () => { // a link cannot carry the token
      button.disabled = true;
      try {
        const blob = await (await this.api.get(path)).blob();
        const link = make("a", { href: URL.createObjectURL(blob), download: entry.name });
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      } catch (problem) {
        this.#note(problem);
      }
      button.disabled = false;
    });
    return button;
  }

  // the time line

  get span() { return WINDOWS_S[this.zoom]; }

  #frame(middle) {
    this.from = Math.min(Math.max(middle - this.span / 2, 0), DAY_S - this.span);
  }

  #keepInView(second) {
    if (second < this.from || second > this.from + this.span) {
      this.#frame(second);
      this.#drawTimeline();
    }
  }

  #zoomBy(by) {
    this.zoom = Math.min(Math.max(this.zoom + by, 0), WINDOWS_S.length - 1);
    this.#frame(this.now);
    this.#drawTimeline();
  }

  #drawTimeline() {
    const { from, span } = this;
    const x = (second) => 1000 * (second - from) / span;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 1000 44");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    for (const entry of this.entries) {
      if (entry.to < from || entry.from > from + span) continue;
      const left = Math.max(0, x(entry.from)), right = Math.min(1000, x(entry.to));
      svg.append(shape("rect", { x: left, y: 8, width: Math.max(right - left, 1.5), height: 28, class: entry.is_open ? "band open" : "band" }));
    }
    const marks = this.events.filter((event) => event.type === "new" || event.name === "not-live" || event.name === "recording-stopped");
    for (const event of marks) {
      const second = event.time_s - this.start_s;
      if (second < from || second > from + span) continue;
      const mark = shape("rect", { x: x(second) - 1.2, y: 2, width: 2.4, height: 40, rx: 1.2, class: `mark-${words(event)[2]}` });
      const title = document.createElementNS(SVG, "title");
      title.textContent = `${clock(event.time_s)} ${words(event)[0]}`;
      mark.append(title);
      svg.append(mark);
    }
    const head = make("span", { className: "playhead" });
    const hours = make("div", { className: "hours" });
    const step = STEPS_S.find((seconds) => span / seconds <= 8);
    const local = (this.start_s + from) - new Date((this.start_s + from) * 1000).getTimezoneOffset() * 60;
    for (let second = from + (step - local % step) % step; second <= from + span; second += step) {
      const share = (second - from) / span;
      if (share < 0.03 || share > 0.97) continue; // half a label would show
      const label = make("span", {}, shortClock(this.start_s + second));
      label.style.setProperty("left", `${100 * share}%`);
      hours.append(label);
    }
    $("timeline").replaceChildren(svg, head, hours);
    setText($("zoom"), NAMES[this.zoom]);
    $("zoom-in").disabled = this.zoom === WINDOWS_S.length - 1;
    $("zoom-out").disabled = this.zoom === 0;
    this.#moved();
  }

  #moved() {
    const line = $("timeline"), second = this.now;
    const text = clock(this.start_s + second);
    line.setAttribute("aria-valuenow", String(Math.round(second)));
    line.setAttribute("aria-valuetext", text);
    setText($("playback-clock"), text);
    const head = line.querySelector(".playhead");
    if (!head) return;
    if (!$("playback").paused) this.#keepInView(second);
    const share = (second - this.from) / this.span;
    head.style.setProperty("left", `${100 * Math.min(Math.max(share, 0), 1)}%`);
    head.hidden = share < 0 || share > 1;
  }

  #point(event) {
    const box = $("timeline").getBoundingClientRect();
    this.seek(this.from + this.span * (event.clientX - box.left) / box.width);
  }

  #key(event) {
    if (event.key in STEP_S) this.seek(this.now + STEP_S[event.key]);
    else if (event.key === "Home") this.seek(this.entries[0].from);
    else if (event.key === "End") this.seek(this.entries.at(-1).from);
    else if (event.key === " " || event.key === "Enter") this.toggle();
    else return;
    event.preventDefault();
  }

  key(key) {
    if (key === "k" && !$("player").hidden) this.toggle();
  }

  #playing() {
    const paused = $("playback").paused;
    $("play").classList.toggle("playing", !paused);
    $("play").setAttribute("aria-label", paused ? "Play" : "Pause");
  }

  #playbackProblem({ title, text, hint }) {
    const [a, b, c] = $("playback-problem").querySelectorAll("h3, p");
    setText(a, title);
    setText(b, text);
    setText(c, hint);
    $("playback-problem").hidden = false;
  }
}

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
