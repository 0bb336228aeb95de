// What can go wrong, in words for people: a title, an explanation, what to do, and whether trying again may help.

import { sentence } from "./tools.js";

export class Problem extends Error {
  constructor(code, title, text, hint = "", retry = true) {
    super(text);
    Object.assign(this, { code, title, text, hint, retry });
  }
}

export const PROBLEMS = {
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
  noMse: () => new Problem("no-mse", "This browser cannot play recordings in the page",
    "Playback needs Media Source Extensions with H.264, which are missing here.",
    "Download the recording and open it in a video player: it is an ordinary MP4 file.", false),
  undecodable: () => new Problem("undecodable", "This part cannot be played",
    "The browser refuses what the recording holds here.",
    "Choose another time, or download the recording and open it in a video player.", false),
};

/** Turns the camera's refusal (problem details, RFC 9457) into a Problem. */
export async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  const detail = body.detail ? sentence(body.detail) : `HTTP status ${response.status}.`;
  const hint = body.hint ?? "";
  switch (response.status) {
    case 401: return new Problem("token", "A token is needed", detail, hint, false);
    case 403: return new Problem("refused", "Not from here", detail, hint, false);
    case 404: return new Problem("gone", "It is not there", detail, hint, false);
    case 406: return PROBLEMS.noH264();
    case 409: return new Problem("not-live", "The camera is not live", "It runs, but its source gives no pictures at the moment.",
      "This page starts by itself as soon as there is one.");
    case 429: return new Problem("rate", "Too many attempts", "The camera asks to slow down.", "Wait a moment.");
    case 503: return new Problem("full", "All places are taken", detail, hint);
    default: return new Problem("http", "The camera refused", detail, hint);
  }
}
