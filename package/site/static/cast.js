// Recordings of a terminal, played in the page. Without scripts, the link to the recording remains.
"use strict";

(() => {
  const links = [...document.querySelectorAll('article a[href$=".cast"]')];
  if (!links.length) return;
  const folder = new URL("asciinema/", document.currentScript.src);

  const load = (tag, attributes) =>
    new Promise((resolve, reject) => {
      const element = Object.assign(document.createElement(tag), attributes);
      element.addEventListener("load", resolve);
      element.addEventListener("error", reject);
      document.head.append(element);
    });

  // The text of a recording: what was printed, without the colors and movements of a terminal.
  const text = (cast) =>
    cast
      .trim()
      .split("\n")
      .slice(1)
      .map((line) => JSON.parse(line))
      .filter(([, kind]) => kind === "o")
      .map(([, , output]) => output)
      .join("")
      .replace(/\x1b(?:\[[0-?]*[ -\/]*[@-~]|\][^\x07]*\x07|[=>()][0-9A-B]?)/g, "")
      .replace(/\r\n?/g, "\n");

  const show = async (link) => {
    const answer = await fetch(link.href);
    if (!answer.ok) return;
    const cast = await answer.text();
    const box = document.createElement("div");
    box.className = "cast";
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Recording of a terminal");
    const written = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "The recording as text";
    const lines = document.createElement("pre");
    lines.textContent = text(cast);
    lines.tabIndex = 0;
    written.append(summary, lines);
    link.closest("p, table, ul").after(box, written);
    window.AsciinemaPlayer.create({ data: cast }, box, {
      fit: "width",
      idleTimeLimit: 1.5,
      poster: "npt:0:30",
      theme: "asciinema",
      terminalFontFamily: "var(--font-stack--monospace)",
    });
  };

  Promise.all([
    load("link", { rel: "stylesheet", href: new URL("asciinema-player.css", folder).href }),
    load("script", { src: new URL("asciinema-player.min.js", folder).href }),
  ])
    .then(() => Promise.all(links.map(show)))
    .catch(() => {}); // the links remain
})();
