// Keys of the frame: ⌘K or Ctrl+K opens the palette, `g` and a letter opens a page. Answered here, so that keys pressed
// in a game never travel to the server twice.
let waiting = 0;
window.addEventListener("keydown", (event) => {
  if (event.repeat) return;
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    document.querySelector(".m-search")?.click();
    return;
  }
  if (event.metaKey || event.ctrlKey || event.altKey || event.target.closest?.("input, textarea, select, [role=dialog]")) return;
  const now = performance.now();
  if (event.key === "g") waiting = now;
  else if (now - waiting < 1000) {
    waiting = 0;
    document.querySelector(`.m-side a[data-key="${CSS.escape(event.key)}"]`)?.click();
  }
});
