// The page of the search: results while a person types.
"use strict";

(() => {
  const root = document.documentElement.dataset.content_root;
  const [box, list, status] = ["search-query", "search-list", "search-status"].map((id) => document.getElementById(id));
  const search = globalThis.createSearch(globalThis.MiniSearch, globalThis.searchPages);

  const element = (tag, className, ...children) => {
    const made = Object.assign(document.createElement(tag), { className });
    made.append(...children);
    return made;
  };
  const mark = (text) => element("mark", "", text);
  const shown = ({ words, before, after }) => [
    before ? "… " : "",
    ...words.flatMap(([word, marked]) => [marked ? mark(word) : word, " "]),
    after ? "…" : "",
  ];
  const item = ({ title, address, section, excerpt }) => {
    const page = Object.assign(element("a", "search-title", title), { href: root + address });
    const made = element("li", "", element("span", "search-section", section), page);
    if (excerpt.anchor) {
      const heading = Object.assign(element("a", "search-heading", excerpt.heading), {
        href: `${root}${address}#${excerpt.anchor}`,
      });
      made.append(heading);
    }
    made.append(element("p", "", ...shown(excerpt)));
    return made;
  };
  const show = () => {
    const query = box.value.trim();
    const results = query ? search(query) : [];
    const [pages, history] = [false, true].map((last) => results.filter((result) => result.last === last));
    list.replaceChildren(...pages.map(item));
    if (history.length) {
      list.append(element("li", "search-group", "Decisions and changelog"), ...history.map(item));
    }
    status.textContent = query ? `${results.length || "No"} result${results.length === 1 ? "" : "s"}` : "";
    keep(query);
  };
  const keep = (query) => {
    const address = new URL(location.href);
    address.search = query ? new URLSearchParams({ q: query }).toString() : "";
    window.history.replaceState(null, "", address);
  };
  box.value = new URLSearchParams(location.search).get("q") ?? "";
  box.addEventListener("input", show);
  box.form.addEventListener("submit", (event) => event.preventDefault());
  show();
  box.focus();
})();
