// The live picture: a small WHEP client (draft-ietf-wish-whep-03) and its figures.

import { Problem, PROBLEMS, problemOf } from "./problems.js";
import { $, megabits, put, setText, toggleFullscreen } from "./tools.js";

const FIGURES_EVERY_MS = 1000;
const ICE_TIMEOUT_MS = 10000;
const FIRST_FRAME_TIMEOUT_MS = 10000;
const STALL_MS = 6000;
const MAX_RETRY_MS = 15000;

/** One WHEP session. `onProblem` is called at most once, after which the session is closed. */
class Session {
  constructor(api, video, iceServers, onPlaying, onProblem) {
    Object.assign(this, { api, video, iceServers, onPlaying, onProblem });
    this.closed = false;
    this.url = null;
    this.pc = null;
    this.timer = null;
  }

  async open() {
    try {
      await this.#negotiate();
    } catch (error) {
      this.#fail(error instanceof Problem ? error : PROBLEMS.unreachable());
    }
  }

  async #negotiate() {
    if (!globalThis.RTCPeerConnection) throw PROBLEMS.noWebRtc();
    const codecs = RTCRtpReceiver.getCapabilities?.("video")?.codecs;
    if (codecs && !codecs.some((codec) => codec.mimeType.toLowerCase() === "video/h264")) throw PROBLEMS.noH264();

    const pc = this.pc = new RTCPeerConnection({ bundlePolicy: "max-bundle", iceServers: this.iceServers });
    const { receiver } = pc.addTransceiver("video", { direction: "recvonly" });
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
    pc.ontrack = ({ track }) => this.#play(track);
    pc.onconnectionstatechange = () => this.#connectionChanged();
    await pc.setLocalDescription(await pc.createOffer());
    await gathered(pc, 1000);
    if (this.closed) return;

    const response = await fetch("/whep", {
      method: "POST", body: pc.localDescription.sdp, headers: this.api.headers({ "Content-Type": "application/sdp" }),
    });
    if (response.status !== 201) throw await problemOf(response);
    this.url = new URL(response.headers.get("Location"), response.url).href;
    this.iceServers = iceServersOf(response.headers.get("Link") ?? "");
    if (this.closed) return this.#goodbye();
    this.#after(ICE_TIMEOUT_MS, PROBLEMS.ice);
    await pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
  }

  #play(track) {
    this.video.srcObject = new MediaStream([track]);
    this.video.play().catch(() => {});
    const first = () => {
      if (this.closed) return; // closing can give out one more frame
      clearTimeout(this.timer);
      this.onPlaying();
    };
    if (this.video.requestVideoFrameCallback) this.video.requestVideoFrameCallback(first);
    else this.video.addEventListener("playing", first, { once: true });
  }

  #connectionChanged() {
    const state = this.pc.connectionState;
    if (state === "connected") this.#after(FIRST_FRAME_TIMEOUT_MS, PROBLEMS.noFrames);
    else if (state === "failed") this.#fail(this.video.videoWidth ? PROBLEMS.lost() : PROBLEMS.ice());
    else if (state === "disconnected") this.#after(STALL_MS, PROBLEMS.lost);
  }

  #after(ms, makeProblem) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#fail(makeProblem()), ms);
  }

  #fail(problem) {
    if (this.closed) return;
    this.close();
    this.onProblem(problem);
  }

  #goodbye() {
    if (this.url) fetch(this.url, { method: "DELETE", headers: this.api.headers(), keepalive: true }).catch(() => {});
    this.url = null;
  }

  stalled() { this.#fail(PROBLEMS.lost()); }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.#goodbye();
    this.pc?.close();
  }
}

/** STUN and TURN servers from Link headers (RFC 9725, 4.6). They come with the answer, so the next try uses them. */
function iceServersOf(link) {
  const servers = [];
  for (const [, urls, parameters] of link.matchAll(/<((?:stun|turn)s?:[^>]+)>\s*;\s*rel="ice-server"((?:\s*;\s*[\w-]+="[^"]*")*)/g)) {
    const value = (name) => parameters.match(new RegExp(`;\\s*${name}="([^"]*)"`))?.[1];
    servers.push({ urls, username: value("username") ?? "", credential: value("credential") ?? "" });
  }
  return servers;
}

/** Resolves when ICE gathering is complete, or after `ms`: later candidates are found by the camera itself. */
function gathered(pc, ms) {
  return new Promise((resolve) => {
    if (pc.iceGatheringState === "complete") return resolve();
    const timer = setTimeout(resolve, ms);
    pc.addEventListener("icegatheringstatechange", () => {
      if (pc.iceGatheringState === "complete") { clearTimeout(timer); resolve(); }
    });
  });
}

/** The receiver's figures, as differences between two getStats. */
class Meter {
  constructor() { this.last = null; this.movedAt = performance.now(); }

  async read(pc) {
    const all = [...(await pc.getStats()).values()];
    const rtp = all.find((s) => s.type === "inbound-rtp" && s.kind === "video");
    if (!rtp) return null;
    const pair = all.find((s) => s.type === "candidate-pair" && s.nominated && s.state === "succeeded");
    const codec = all.find((s) => s.id === rtp.codecId);
    const now = { at: rtp.timestamp, bytes: rtp.bytesReceived, frames: rtp.framesDecoded,
      delay: rtp.jitterBufferDelay ?? 0, emitted: rtp.jitterBufferEmittedCount ?? 0 };
    const before = this.last ?? now;
    if (!this.last || now.frames !== before.frames) this.movedAt = performance.now();
    this.last = now;
    const seconds = (now.at - before.at) / 1000;
    const emitted = now.emitted - before.emitted;
    return {
      fps: seconds ? (now.frames - before.frames) / seconds : rtp.framesPerSecond ?? 0,
      bps: seconds ? 8 * (now.bytes - before.bytes) / seconds : 0,
      playoutMs: emitted > 0 ? 1000 * (now.delay - before.delay) / emitted : null,
      roundTripMs: pair?.currentRoundTripTime === undefined ? null : 1000 * pair.currentRoundTripTime,
      codec: codec?.mimeType?.replace("video/", "") ?? "–",
      size: rtp.frameWidth ? `${rtp.frameWidth} × ${rtp.frameHeight}` : "–",
      rtp,
      stillMs: performance.now() - this.movedAt,
    };
  }
}

/** The view "Live": keeps one session open, tries again by itself, asks for a token. */
export class LiveView {
  constructor(api, boxes, tiles, onToken) {
    Object.assign(this, { api, boxes, tiles, onToken });
    this.video = $("video");
    this.session = null;
    this.failures = 0;
    this.retryAt = 0;
    this.wrongToken = false;
    this.frozen = false;
  }

  start() {
    $("retry").addEventListener("click", () => this.connect());
    $("token-form").addEventListener("submit", (event) => { event.preventDefault(); this.#tokenEntered(); });
    $("fullscreen").addEventListener("click", () => toggleFullscreen($("stage")));
    $("boxes-toggle").addEventListener("click", () => this.toggle("boxes"));
    $("tiles-toggle").addEventListener("click", () => this.toggle("tiles"));
    this.video.addEventListener("dblclick", () => toggleFullscreen($("stage")));
    this.video.addEventListener("resize", () => this.#shape());
    addEventListener("pagehide", () => { this.session?.close(); this.frozen = true; });
    addEventListener("pageshow", () => { if (this.frozen) { this.frozen = false; this.connect(); } });
    setInterval(() => this.#figures(), FIGURES_EVERY_MS);
    setInterval(() => this.#countdown(), 250);
    this.connect();
  }

  connect() {
    this.session?.close();
    this.retryAt = 0;
    this.meter = new Meter();
    this.#show("waiting");
    this.#status("connecting", "Connecting");
    const iceServers = this.session?.iceServers ?? [];
    this.session = new Session(this.api, this.video, iceServers, () => this.#playing(), (problem) => this.#problem(problem));
    this.session.open();
  }

  key(key) {
    if (key === "f") toggleFullscreen($("stage"));
    else if (key === "b" && !$("corner").hidden) this.toggle("boxes");
    else if (key === "t" && !$("corner").hidden && !$("tiles-toggle").hidden) this.toggle("tiles");
  }

  /** `name`: boxes or tiles. */
  toggle(name) {
    const button = $(`${name}-toggle`);
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    this[name].show(on);
  }

  /** The camera accepted the token. */
  accepted() { this.wrongToken = false; }

  #playing() {
    this.failures = 0;
    this.#show(null);
    this.#status("live", "Live");
    $("corner").hidden = false;
    $("fullscreen").hidden = !document.fullscreenEnabled;
  }

  #problem(problem) {
    $("corner").hidden = true;
    this.boxes.clear();
    this.tiles.clear();
    put("fps", "–");
    put("bitrate", "–");
    put("connection", "closed");
    if (problem.code === "token") return this.#askForToken();
    setText($("problem-title"), problem.title);
    setText($("problem-text"), problem.text);
    setText($("problem-hint"), problem.hint);
    $("problem").dataset.code = problem.code;
    this.#show("problem");
    this.#status("problem", "Not playing");
    if (problem.retry) this.#retryLater();
    else setText($("countdown"), "");
  }

  #retryLater() {
    const wait = Math.min(MAX_RETRY_MS, 1500 * 2 ** this.failures) * (0.75 + Math.random() / 2);
    this.failures += 1;
    this.retryAt = performance.now() + wait;
    this.#countdown();
  }

  #countdown() {
    if (!this.retryAt) return;
    const left = this.retryAt - performance.now();
    if (left <= 0) return this.connect();
    setText($("countdown"), `again in ${Math.ceil(left / 1000)} s`);
  }

  #askForToken() {
    setText($("token-error"), this.wrongToken ? "That token is not the one. Please check it." : "");
    this.api.forget();
    this.#show("token-form");
    this.#status("waiting", "Token needed");
    if ($("view-live").hidden) location.hash = "#/live"; // which then puts the focus here
    else $("token").focus();
  }

  #tokenEntered() {
    this.api.use($("token").value.trim());
    $("token").value = "";
    this.wrongToken = true;
    this.connect();
    this.onToken();
  }

  #show(id) {
    for (const name of ["waiting", "problem", "token-form"]) $(name).hidden = name !== id;
    $("stage").classList.toggle("live", id === null);
  }

  #status(state, text) {
    const pill = $("status");
    if (pill.dataset.state !== state) pill.dataset.state = state;
    setText($("status-text"), text);
  }

  /** Gives the stage the picture's shape; before the first picture Chromium says 2 x 2. */
  #shape() {
    const { videoWidth: width, videoHeight: height } = this.video;
    if (width > 16 && height > 16) document.documentElement.style.setProperty("--ratio", String(width / height));
  }

  async #figures() {
    const { session, meter } = this;
    if (!session?.pc || session.closed) return;
    put("connection", session.pc.connectionState);
    const now = await meter.read(session.pc);
    if (!now || session.closed) return;
    put("fps", now.fps.toFixed(0));
    put("bitrate", megabits(now.bps));
    put("codec", now.codec);
    put("size", now.size);
    put("framesDecoded", now.rtp.framesDecoded);
    put("framesDropped", now.rtp.framesDropped ?? 0);
    put("freezes", now.rtp.freezeCount ?? 0);
    put("packetsLost", now.rtp.packetsLost);
    put("roundTrip", now.roundTripMs === null ? "–" : `${now.roundTripMs.toFixed(0)} ms`);
    if (now.playoutMs !== null) put("playout", `${now.playoutMs.toFixed(0)} ms`);
    if (now.rtp.framesDecoded && now.stillMs > STALL_MS) session.stalled();
  }
}
