// The camera's page: a small WHEP client (draft-ietf-wish-whep-03), its figures and its words. No build step.

const STATE_EVERY_MS = 1000;
const FIGURES_EVERY_MS = 1000;
const ICE_TIMEOUT_MS = 10000;
const FIRST_FRAME_TIMEOUT_MS = 10000;
const STALL_MS = 6000;
const MAX_RETRY_MS = 15000;

const $ = (id) => document.getElementById(id);
const fields = Object.fromEntries([...document.querySelectorAll("[data-field]")].map((e) => [e.dataset.field, e]));

/** What went wrong, for a person: a title, an explanation, what to do, and whether trying again may help. */
class Problem extends Error {
  constructor(code, title, text, hint = "", retry = true) {
    super(text);
    Object.assign(this, { code, title, text, hint, retry });
  }
}

const PROBLEMS = {
  unreachable: () => new Problem("unreachable", "The camera does not answer",
    "Nothing replies at this address.", "Is the camera process running? This page tries again by itself."),
  noH264: () => new Problem("no-h264", "This browser cannot play H.264",
    "The stream is H.264 and this browser offers no decoder for it.",
    "Chromium, Chrome, Edge and Safari play it. In Firefox open about:addons, Plugins, and enable OpenH264.", false),
  noWebRtc: () => new Problem("no-webrtc", "This browser has no WebRTC",
    "The live picture needs WebRTC, which is missing or switched off here.",
    "Use a current browser, or allow WebRTC in its settings.", false),
  ice: () => new Problem("ice-failed", "No way through for the video",
    "The camera answered, but its video packets (UDP) do not arrive.",
    "A firewall or VPN in between may block UDP. In Docker, run the camera with host networking."),
  noFrames: () => new Problem("no-frames", "Connected, but no picture arrives",
    "The connection is up and no complete picture has come through.",
    "The network may be losing packets. If it stays so, see the camera's log."),
  lost: () => new Problem("lost", "The stream stopped",
    "No more pictures arrive from the camera.", "It may be restarting. This page tries again by itself."),
};

/** Turns the camera's refusal (problem details, RFC 9457) into a Problem. */
async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  const detail = body.detail ? sentence(body.detail) : `HTTP status ${response.status}.`;
  const hint = body.hint ?? "";
  switch (response.status) {
    case 401: return new Problem("token", "A token is needed", detail, hint, false);
    case 403: return new Problem("refused", "Not from here", detail, hint, false);
    case 406: return PROBLEMS.noH264();
    case 409: return new Problem("not-live", "The camera is not live", "It runs, but its source gives no pictures at the moment.",
      "This page starts by itself as soon as there is one.");
    case 429: return new Problem("rate", "Too many attempts", "The camera asks to slow down.", "Wait a moment.");
    case 503: return new Problem("full", "All places are taken", detail, hint);
    default: return new Problem("http", "The camera refused", detail, hint);
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

/** One WHEP session. `onProblem` is called at most once, after which the session is closed. */
class Session {
  constructor(token, video, onPlaying, onProblem) {
    Object.assign(this, { token, video, onPlaying, onProblem });
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

    const pc = this.pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
    const { receiver } = pc.addTransceiver("video", { direction: "recvonly" });
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
    pc.ontrack = ({ track }) => this.#play(track);
    pc.onconnectionstatechange = () => this.#connectionChanged();
    await pc.setLocalDescription(await pc.createOffer());
    await gathered(pc, 1000);
    if (this.closed) return;

    const response = await fetch("/whep", {
      method: "POST", body: pc.localDescription.sdp, headers: this.#headers({ "Content-Type": "application/sdp" }),
    });
    if (response.status !== 201) throw await problemOf(response);
    this.url = new URL(response.headers.get("Location"), response.url).href;
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

  #headers(headers = {}) {
    return this.token ? { ...headers, Authorization: `Bearer ${this.token}` } : headers;
  }

  #goodbye() {
    if (this.url) fetch(this.url, { method: "DELETE", headers: this.#headers(), keepalive: true }).catch(() => {});
    this.url = null;
  }

  stalled() { this.#fail(PROBLEMS.lost()); }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.pc?.close();
    this.#goodbye();
  }
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

class Page {
  constructor() {
    this.token = takeToken();
    this.video = $("video");
    this.session = null;
    this.failures = 0;
    this.retryAt = 0;
    this.wrongToken = false;
    this.stateTimer = null;
    this.frozen = false;
  }

  start() {
    $("retry").addEventListener("click", () => this.connect());
    $("token-form").addEventListener("submit", (event) => { event.preventDefault(); this.#tokenEntered(); });
    $("fullscreen").addEventListener("click", () => this.#toggleFullscreen());
    this.video.addEventListener("dblclick", () => this.#toggleFullscreen());
    this.video.addEventListener("resize", () => this.#shape());
    addEventListener("pagehide", () => { this.session?.close(); this.frozen = true; });
    addEventListener("pageshow", () => { if (this.frozen) { this.frozen = false; this.connect(); } });
    setInterval(() => this.#figures(), FIGURES_EVERY_MS);
    setInterval(() => this.#countdown(), 250);
    this.connect();
    this.#poll();
  }

  connect() {
    this.session?.close();
    this.retryAt = 0;
    this.meter = new Meter();
    this.#show("waiting");
    this.#status("connecting", "Connecting");
    this.session = new Session(this.token, this.video, () => this.#playing(), (problem) => this.#problem(problem));
    this.session.open();
  }

  #playing() {
    this.failures = 0;
    this.#show(null);
    this.#status("live", "Live");
    $("fullscreen").hidden = !document.fullscreenEnabled;
  }

  #problem(problem) {
    $("fullscreen").hidden = true;
    fields.fps.textContent = fields.bitrate.textContent = "–";
    fields.connection.textContent = "closed";
    if (problem.code === "token") return this.#askForToken();
    $("problem-title").textContent = problem.title;
    $("problem-text").textContent = problem.text;
    $("problem-hint").textContent = problem.hint;
    $("problem").dataset.code = problem.code;
    this.#show("problem");
    this.#status("problem", "Not playing");
    if (problem.retry) this.#retryLater();
    else $("countdown").textContent = "";
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
    $("countdown").textContent = `again in ${Math.ceil(left / 1000)} s`;
  }

  #askForToken() {
    $("token-error").textContent = this.wrongToken ? "That token is not the one. Please check it." : "";
    this.#forget();
    this.#show("token-form");
    this.#status("waiting", "Token needed");
    $("token").focus();
  }

  #tokenEntered() {
    this.token = $("token").value.trim();
    $("token").value = "";
    this.wrongToken = true;
    sessionStorage.setItem("veilcam-token", this.token);
    this.connect();
    clearTimeout(this.stateTimer);
    this.#poll();
  }

  #forget() {
    this.token = "";
    sessionStorage.removeItem("veilcam-token");
  }

  #show(id) {
    for (const name of ["waiting", "problem", "token-form"]) $(name).hidden = name !== id;
    $("stage").classList.toggle("live", id === null);
  }

  #status(state, text) {
    const pill = $("status");
    if (pill.dataset.state !== state) pill.dataset.state = state;
    if ($("status-text").textContent !== text) $("status-text").textContent = text;
  }

  #shape() {
    const { videoWidth: width, videoHeight: height } = this.video;
    if (width && height) document.documentElement.style.setProperty("--ratio", String(width / height));
  }

  async #toggleFullscreen() {
    if (document.fullscreenElement) await document.exitFullscreen();
    else await $("stage").requestFullscreen?.().catch(() => {});
  }

  async #figures() {
    const { session, meter } = this;
    if (!session?.pc || session.closed) return;
    fields.connection.textContent = session.pc.connectionState;
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

  async #poll() {
    try {
      const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
      const response = await fetch("/api/v1/state", { headers, cache: "no-store" });
      if (response.status === 401) return;
      if (response.ok) this.#camera(await response.json());
    } catch { /* the session's own error says it better */ }
    this.stateTimer = setTimeout(() => this.#poll(), STATE_EVERY_MS);
  }

  #camera(state) {
    this.wrongToken = false;
    $("name").textContent = state.name;
    document.title = state.name ? `${state.name} · veilcam` : "veilcam";
    put("viewers", state.viewers);
    put("maxViewers", `of ${state.max_viewers}`);
    put("epoch", state.key_epoch || "–");
    put("segmentAge", state.segment_age_s === null ? "–" : state.segment_age_s.toFixed(1));
    put("cameraState", state.error || state.pipeline);
    put("source", state.source.state);
    put("cameraFps", `${state.picture.fps.toFixed(1)} fps`);
    put("cameraBitrate", `${megabits(state.picture.bitrate_bps)} Mbit/s`);
    put("protector", state.picture.protector || "–");
    put("sealed", `${state.sealed.mode || "none"}, ${bytes(state.sealed.bytes)}`);
    put("recording", state.recording ? state.recording.error || bytes(state.recording.written_bytes) : "off");
    put("uptime", duration(state.uptime_s));
    put("version", state.version);
  }
}

/** The token from the address (#token=..., removed at once and never sent) or from this tab's storage. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("veilcam-token", given);
    history.replaceState(null, "", location.pathname);
  }
  return given ?? sessionStorage.getItem("veilcam-token") ?? "";
}

function put(name, value) {
  const text = String(value);
  if (fields[name].textContent !== text) fields[name].textContent = text;
}

const megabits = (bps) => (bps / 1e6).toFixed(bps < 1e6 ? 2 : 1);

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = n < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(n) / 3));
  return `${(n / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

function duration(seconds) {
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
}

new Page().start();
