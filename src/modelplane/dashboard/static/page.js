// Shows times as ages, and replaces the fragments of the page that change. Works without: the page is complete.
"use strict";

const SILENT_AFTER_MS = 15000;
let skew = 0; // the server's clock minus this one, in milliseconds
let heard = Date.now();
let stream = null;

function age(milliseconds) {
  const s = Math.max(Math.round(milliseconds / 1000), 0);
  if (s < 90) return `${s} s ago`;
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  if (s < 129600) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86400)} days ago`;
}

function showAges() {
  const now = Date.now() + skew;
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    if (!time.title) time.title = time.textContent;
    const text = age(now - at);
    if (time.textContent !== text) time.textContent = text;
  }
}

function showPulse() {
  const pulse = document.getElementById("pulse");
  if (!document.body.hasAttribute("data-stream")) return;
  const silent = Date.now() - heard > SILENT_AFTER_MS;
  const stale = document.querySelector("#problems .notice") !== null;
  const text = silent ? `Not live: last heard ${age(Date.now() - heard)}` : stale ? "Out of date" : "Live";
  if (pulse.textContent !== text) pulse.textContent = text;
  pulse.classList.toggle("silent", silent || stale);
  pulse.classList.toggle("live", !silent && !stale);
}

function replace(id, html) {
  const part = document.getElementById(id);
  if (!part || !part.hasAttribute("data-live")) return void location.reload(); // the page has other parts now
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  part.innerHTML = html; // rendered by the server, which escapes every value
  if (focused !== null) {
    for (const each of part.querySelectorAll("a[href]")) {
      if (each.getAttribute("href") === focused) { each.focus({ preventScroll: true }); break; }
    }
  }
}

function open() {
  if (stream || document.hidden || !document.body.hasAttribute("data-stream")) return;
  const page = encodeURIComponent(location.pathname + location.search);
  stream = new EventSource(`/live?page=${page}&version=${encodeURIComponent(document.body.dataset.version)}`);
  stream.addEventListener("beat", (event) => {
    heard = Date.now();
    skew = Number(event.data) - heard;
    showPulse();
  });
  stream.addEventListener("fragments", (event) => {
    heard = Date.now();
    const { fragments, version } = JSON.parse(event.data);
    for (const [id, html] of Object.entries(fragments)) replace(id, html);
    document.body.dataset.version = version;
    showAges();
    showPulse();
  });
  stream.addEventListener("page", () => location.reload());
}

function close() {
  if (stream) stream.close();
  stream = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
showAges();
showPulse();
open();
setInterval(() => { showAges(); showPulse(); }, 1000);
