// Selection of a chart's visible range: by dragging with a mouse or a finger, or with the keys + − ← → and 0.
// `shown()` returns the current range, `choose` gets another one, or null for everything.
const LEAST_PIXELS = 6; // less is a click
const NEXT = {
  "+": ([from, to]) => [from + (to - from) / 4, to - (to - from) / 4],
  "-": ([from, to]) => [from - (to - from) / 2, to + (to - from) / 2],
  ArrowLeft: ([from, to]) => [from - (to - from) / 4, to - (to - from) / 4],
  ArrowRight: ([from, to]) => [from + (to - from) / 4, to + (to - from) / 4],
};

export function pickRange(chart, shown, choose) {
  const host = chart.getDom();
  const mark = Object.assign(document.createElement("div"), { className: "r-range", hidden: true });
  const value = (x) => chart.convertFromPixel({ xAxisIndex: 0 }, x);
  const within = (event) => event.clientX - host.getBoundingClientRect().left;
  let start = null;
  host.append(mark);
  host.tabIndex = 0;
  host.style.touchAction = "pan-y";
  host.addEventListener("pointerdown", (event) => {
    const y = event.clientY - host.getBoundingClientRect().top;
    if (event.button === 0 && chart.containPixel({ gridIndex: 0 }, [within(event), y])) start = within(event);
  });
  host.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const now = within(event);
    mark.hidden = Math.abs(now - start) < LEAST_PIXELS;
    Object.assign(mark.style, { left: `${Math.min(start, now)}px`, width: `${Math.abs(now - start)}px` });
  });
  const end = (event) => {
    const from = start;
    start = null;
    mark.hidden = true;
    if (from === null || event.type !== "pointerup" || Math.abs(within(event) - from) < LEAST_PIXELS) return;
    choose([value(from), value(within(event))].sort((a, b) => a - b));
  };
  for (const name of ["pointerup", "pointerleave", "pointercancel"]) host.addEventListener(name, end);
  host.addEventListener("dblclick", () => choose(null));
  host.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const range = shown();
    const next = NEXT[event.key === "=" ? "+" : event.key];
    if (event.key === "0" || event.key === "Escape") choose(null);
    else if (next && range) choose(next(range));
    else return;
    event.preventDefault();
  });
}
