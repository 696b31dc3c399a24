// Blocks that scroll can be reached with the keyboard.
"use strict";

(() => {
  const mark = () => {
    for (const block of document.querySelectorAll("pre, .table-wrapper")) {
      if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
      else block.removeAttribute("tabindex");
    }
  };
  mark();
  window.addEventListener("resize", mark);
})();
