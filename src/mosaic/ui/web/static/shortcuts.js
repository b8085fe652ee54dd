// Keyboard shortcuts of the frame: ⌘K or Ctrl+K opens the palette, ⌘Enter or Ctrl+Enter presses the page's one filled
// button, `g` and a letter opens a page, arrows move within a large group. Handled here, so that keys pressed in a game
// are never sent to the server twice.
document.documentElement.classList.toggle("mac", /Mac|iPhone|iPad/.test(navigator.platform)); // the labels of keys follow it
let waiting = -Infinity; // when `g` was pressed, while waiting for the letter after it
let early = null; // keys pressed after Ctrl+K, before the server has opened the palette and its field has the focus
window.addEventListener("keydown", (event) => {
  if (event.repeat) return;
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (!document.querySelector(".m-palette")) early = { keys: [], until: performance.now() + 10_000 };
    document.querySelector(".m-search")?.click();
    return;
  }
  if ((event.metaKey || event.ctrlKey) && event.key === "Enter" && !event.target.closest?.("[role=dialog]")) {
    document.querySelector(".m-page .m-btn.primary:not([disabled])")?.click();
    return;
  }
  if (event.metaKey || event.ctrlKey || event.altKey || event.target.closest?.("input, textarea, select, [role=dialog]")) return;
  const now = performance.now();
  setTimeout(() => {
    if (event.defaultPrevented) return; // a game that handles it after us uses this key
    if (event.key === "g") waiting = now;
    else if (now - waiting < 1000) {
      waiting = -Infinity;
      document.querySelector(`.m-side a[data-key="${CSS.escape(event.key)}"]`)?.click();
    }
  });
});

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
window.addEventListener("keydown", (event) => {
  const group = STEPS[event.key] && event.target.closest?.("[data-arrows]");
  if (!group) return;
  const members = [...group.querySelectorAll("button")].filter((each) => each.offsetParent);
  event.preventDefault();
  members[members.indexOf(event.target) + STEPS[event.key]]?.focus();
});

window.addEventListener("keydown", (event) => {
  if (!early || event.metaKey || event.ctrlKey || event.altKey || event.target.closest?.(".m-palette")) return;
  if (event.key === "Escape" || performance.now() > early.until) return void (early = null);
  if (event.key.length > 1 && !["Backspace", "Enter"].includes(event.key)) return;
  event.preventDefault();
  event.stopImmediatePropagation(); // a game must not take them
  early.keys.push(event.key);
}, true);
window.addEventListener("focusin", ({ target }) => {
  if (!early || !target.matches(".m-palette input")) return;
  const { keys } = early;
  early = null;
  const text = keys.reduce((text, key) => (key === "Backspace" ? text.slice(0, -1) : key === "Enter" ? text : text + key), "");
  if (!text) return;
  target.value = text;
  target.dispatchEvent(new Event("input", { bubbles: true }));
  if (keys.includes("Enter")) target.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
});
