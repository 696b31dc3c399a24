// A menu next to the title of each page: its Markdown, and the MCP server for assistants.
"use strict";

(() => {
  const heading = document.querySelector("article h1");
  const link = document.querySelector('link[rel="alternate"][type="text/markdown"]');
  if (!heading || !link) return;
  const server = { command: "modelplane", args: ["mcp"] };
  const cursor =
    "cursor://anysphere.cursor-deeplink/mcp/install?name=modelplane&config=" +
    encodeURIComponent(btoa(JSON.stringify(server)));
  const code = "vscode:mcp/install?" + encodeURIComponent(JSON.stringify({ name: "modelplane", ...server }));

  const status = document.createElement("span");
  status.className = "page-menu-status";
  status.setAttribute("role", "status");

  const say = (text) => {
    status.textContent = text;
    window.setTimeout(() => (status.textContent = ""), 3000);
  };
  const copy = async (text, done) => {
    try {
      await navigator.clipboard.writeText(text);
      say(done);
    } catch {
      say("The browser refused to copy. Open the page as Markdown instead.");
    }
  };
  const page = async () => {
    try {
      const answer = await fetch(link.href);
      if (!answer.ok) throw new Error(String(answer.status));
      await copy(await answer.text(), "Copied as Markdown");
    } catch {
      say("The page could not be read. Open it as Markdown instead.");
    }
  };

  const menu = document.createElement("details");
  menu.className = "page-menu";
  const summary = document.createElement("summary");
  summary.textContent = "Copy page";
  const list = document.createElement("ul");
  const entries = [
    ["Copy page", "Copy the page as Markdown", page],
    ["View as Markdown", "Open the page as Markdown", link.href],
    ["Copy MCP server", "Copy the command of the MCP server", () => copy("modelplane mcp", "Copied the command")],
    ["Connect to Cursor", "Install the MCP server in Cursor", cursor],
    ["Connect to VS Code", "Install the MCP server in VS Code", code],
  ];
  for (const [name, about, action] of entries) {
    const item = document.createElement("li");
    const entry = document.createElement(typeof action === "string" ? "a" : "button");
    entry.textContent = name;
    entry.title = about;
    if (typeof action === "string") {
      entry.href = action;
    } else {
      entry.type = "button";
      entry.addEventListener("click", () => {
        menu.open = false;
        action();
      });
    }
    item.append(entry);
    list.append(item);
  }
  menu.append(summary, list);
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      menu.open = false;
      summary.focus();
    }
  });
  const row = document.createElement("div");
  row.className = "page-menu-row";
  row.append(menu, status);
  heading.after(row);
})();
