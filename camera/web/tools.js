// Small things that every part of the page uses.

export const $ = (id) => document.getElementById(id);

const fields = Object.fromEntries([...document.querySelectorAll("[data-field]")].map((e) => [e.dataset.field, e]));

/** Sets a field's text; touching the document only when it changes keeps screen readers quiet. */
export function put(name, value) {
  setText(fields[name], String(value));
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** An element with properties and children; text only, never markup. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

export const sentence = (text) =>
  text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export const megabits = (bps) => (bps / 1e6).toFixed(bps < 1e6 ? 2 : 1);

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = n < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(n) / 3));
  return `${(n / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

export function duration(seconds) {
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  if (minutes >= 10) return `${minutes} min`;
  return minutes ? `${minutes} min ${Math.floor(seconds) % 60} s` : `${Math.floor(seconds)} s`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const SHORT = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export const clock = (seconds) => CLOCK.format(new Date(seconds * 1000));
export const shortClock = (seconds) => SHORT.format(new Date(seconds * 1000));

/** The time, with the date unless it is today's. */
export function when(seconds) {
  const date = new Date(seconds * 1000);
  return date.toDateString() === new Date().toDateString() ? CLOCK.format(date) : `${DATE.format(date)}, ${CLOCK.format(date)}`;
}

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

export function toggleFullscreen(element) {
  if (document.fullscreenElement) return document.exitFullscreen();
  return element.requestFullscreen?.().catch(() => {});
}
