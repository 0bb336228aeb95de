// Plays a day's recordings as one film through Media Source Extensions: a second of the day is a second of the
// video, the camera sends one segment at a time without its sealed layer, and gaps are passed over.

import { Problem, PROBLEMS } from "./problems.js";

const AHEAD_S = 12;
const BEHIND_S = 30;
const DAY_S = 86400;
const HAVE_FUTURE_DATA = 3;
const EDGE_S = 0.15; // the browser's own ranges end a little before or after ours

export class DayPlayer {
  constructor(api, video, onProblem) {
    Object.assign(this, { api, video, onProblem });
    this.entries = [];
    this.day = null;
    this.source = null;
    this.buffer = null;
    this.current = null; // entry whose head the buffer has
    this.indexes = new Map();
    this.abort = new AbortController();
    this.pumping = false;
    this.wanted = 0; // second of the day while the source opens
    this.placed = false; // the video stands at a second that was asked for
    for (const name of ["timeupdate", "seeking", "waiting", "playing"]) video.addEventListener(name, () => this.#pump());
    setInterval(() => this.#pump(), 1000);
  }

  get time() { return this.placed ? this.video.currentTime : this.wanted; }

  /** Entries: day, name, from, to (seconds of the day), duration_s, is_open; in order. */
  setDay(day, start_s, entries) {
    if (day !== this.day) this.#close();
    Object.assign(this, { day, start_s, entries });
    for (const entry of entries) { // what grows, or got its final name, is looked at again
      const known = this.indexes.get(entry.name);
      if (known && known.duration_s !== entry.duration_s) this.indexes.delete(entry.name);
    }
  }

  async play() {
    if (!this.placed) await this.seek(this.wanted);
    await this.video.play().catch((error) => {
      if (error.name !== "AbortError") this.onProblem(PROBLEMS.undecodable());
    });
  }

  async seek(second) {
    const place = this.#placeOf(second) ?? this.entries.at(-1)?.from ?? 0;
    this.wanted = place;
    this.abort.abort();
    this.abort = new AbortController();
    await this.#open();
    if (this.source?.readyState === "open") {
      this.video.currentTime = this.wanted;
      this.placed = true;
    }
    this.#pump();
  }

  /** The second itself where something is recorded, else where the next recording begins. */
  #placeOf(second) {
    const entry = this.entries.find((e) => e.to - EDGE_S > second);
    return entry && Math.max(second, entry.from + 0.001);
  }

  #close() {
    if (this.placed) this.wanted = this.video.currentTime;
    this.placed = false;
    this.abort.abort();
    this.abort = new AbortController();
    if (this.video.src) {
      this.video.pause();
      URL.revokeObjectURL(this.video.src);
      this.video.removeAttribute("src");
      this.video.load();
    }
    this.indexes.clear();
    Object.assign(this, { source: null, buffer: null, current: null });
  }

  async #open() {
    if (this.source) return this.opening;
    const Source = globalThis.ManagedMediaSource ?? globalThis.MediaSource; // iPhones have the managed one only
    if (!Source?.isTypeSupported('video/mp4; codecs="avc1.42c01f"')) return this.onProblem(PROBLEMS.noMse());
    const source = this.source = new Source();
    this.opening = new Promise((resolve) => source.addEventListener("sourceopen", resolve, { once: true }));
    this.video.src = URL.createObjectURL(source);
    await this.opening;
    if (source === this.source) source.duration = DAY_S;
  }

  async #pump() {
    if (this.pumping || !this.placed || this.source?.readyState !== "open" || this.video.error) {
      if (this.video.error && this.source) this.#fail(PROBLEMS.undecodable());
      return;
    }
    this.pumping = true;
    const { signal } = this.abort;
    try {
      while (!signal.aborted && await this.#step(signal));
    } catch (error) {
      if (!signal.aborted && error.name !== "AbortError") this.#fail(error instanceof Problem ? error : PROBLEMS.undecodable());
    } finally {
      this.pumping = false;
      if (signal.aborted && this.source) setTimeout(() => this.#pump());
    }
  }

  #fail(problem) {
    if (problem.code === "gone" && this.entries.length) this.indexes.clear(); // renamed when finished: the list is loaded again
    this.#close();
    this.onProblem(problem);
  }

  /** Gets one more segment if it is needed; false when there is enough. */
  async #step(signal) {
    const now = this.video.currentTime;
    const end = this.#bufferedTo(now);
    if (end !== null && end - now > AHEAD_S) return false;
    const from = end ?? now;
    const entry = this.entries.find((e) => e.to - EDGE_S > from);
    if (!entry) return false;
    if (entry.from > from + EDGE_S) { // a gap lies before the next recording
      const fetched = this.#bufferedTo(entry.from + EDGE_S) !== null;
      if (!fetched) return this.#append(entry, 0, signal); // ahead of time, so that the jump is smooth
      if (this.#isAtEnd(now, end)) this.video.currentTime = entry.from + 0.01;
      return false;
    }
    const index = await this.#index(entry, signal);
    const place = 1e6 * (from + (end === null ? 0 : EDGE_S / 2) - entry.from);
    let number = index.segments.findIndex(([start, length]) => start + length > place);
    if (number < 0) return false;
    return this.#append(entry, number, signal);
  }

  /** Nothing more to show before the gap: browsers stop the clock at their last picture, before its end. */
  #isAtEnd(now, end) {
    const { video } = this;
    if (video.seeking) return false;
    const isStalled = !video.paused && video.readyState < HAVE_FUTURE_DATA;
    return end === null || now >= end - EDGE_S || (isStalled && end - now < 2);
  }

  #bufferedTo(second) {
    const ranges = this.video.buffered;
    for (let k = 0; k < ranges.length; k += 1) {
      if (ranges.start(k) - EDGE_S <= second && second < ranges.end(k) + EDGE_S) return ranges.end(k);
    }
    return null;
  }

  async #index(entry, signal) {
    let index = this.indexes.get(entry.name);
    if (!index) {
      const response = await this.api.get(`${path(entry)}/index`, { signal });
      index = { ...await response.json(), duration_s: entry.duration_s };
      this.indexes.set(entry.name, index);
    }
    return index;
  }

  /** Puts a segment into the buffer; false if it is there already. */
  async #append(entry, number, signal) {
    const index = await this.#index(entry, signal);
    const [start, length] = index.segments[number];
    const middle = entry.from + (start + length / 2) / 1e6;
    if (this.#holds(middle)) return false;
    const segment = await this.api.buffer(`${path(entry)}/${number}`, signal);
    if (signal.aborted) return false;
    await this.#useHead(entry, index, signal);
    await this.#write(segment);
    await this.#forget();
    return true;
  }

  #holds(second) {
    const ranges = this.video.buffered;
    for (let k = 0; k < ranges.length; k += 1) if (ranges.start(k) <= second && second < ranges.end(k)) return true;
    return false;
  }

  async #useHead(entry, index, signal) {
    if (this.current === entry.name) return;
    const type = `video/mp4; codecs="${index.codec}"`;
    const head = await this.api.buffer(`${path(entry)}/head`, signal);
    if (!this.buffer) this.buffer = this.source.addSourceBuffer(type);
    else if (this.type !== type) this.buffer.changeType(type);
    this.type = type;
    this.buffer.timestampOffset = entry.from;
    await this.#write(head);
    this.current = entry.name;
  }

  async #write(data) {
    try {
      await this.#busy(() => this.buffer.appendBuffer(data));
    } catch (error) {
      if (error.name !== "QuotaExceededError") throw error;
      await this.#forget(2);
      await this.#busy(() => this.buffer.appendBuffer(data));
    }
  }

  async #forget(behind = BEHIND_S) {
    const end = this.video.currentTime - behind;
    if (this.buffer.buffered.length && this.buffer.buffered.start(0) < end - 5) await this.#busy(() => this.buffer.remove(0, end));
  }

  #busy(begin) {
    const { buffer } = this;
    return new Promise((resolve, reject) => {
      const end = (settle) => (event) => {
        buffer.removeEventListener("updateend", ended);
        buffer.removeEventListener("error", failed);
        settle(event);
      };
      const ended = end(resolve), failed = end(() => reject(PROBLEMS.undecodable()));
      buffer.addEventListener("updateend", ended);
      buffer.addEventListener("error", failed);
      try {
        begin();
      } catch (error) {
        end(() => reject(error))();
      }
    });
  }
}

const path = (entry) => `/api/v1/recordings/${entry.day}/${entry.name}`;
