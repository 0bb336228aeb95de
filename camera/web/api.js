// Requests to the camera with this tab's token, which never gets into an address.

import { PROBLEMS, problemOf } from "./problems.js";

const KEY = "veilcam-token";

export class Api {
  constructor() { this.token = takeToken(); }

  use(token) {
    this.token = token;
    sessionStorage.setItem(KEY, token);
  }

  forget() {
    this.token = "";
    sessionStorage.removeItem(KEY);
  }

  headers(headers = {}) {
    return this.token ? { ...headers, Authorization: `Bearer ${this.token}` } : headers;
  }

  /** The response, or a Problem thrown. */
  async get(path, options = {}) {
    let response;
    try {
      response = await fetch(path, { cache: "no-store", ...options, headers: this.headers(options.headers) });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw PROBLEMS.unreachable();
    }
    if (!response.ok) throw await problemOf(response);
    return response;
  }

  async json(path) { return (await this.get(path)).json(); }

  async buffer(path, signal) { return (await this.get(path, { cache: "default", signal })).arrayBuffer(); }
}

/** The token from the address (#token=..., removed at once and never sent) or from this tab's storage. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  return given ?? sessionStorage.getItem(KEY) ?? "";
}
