// Curves of one page: history over HTTP, new points over the run's event socket, drawn into ui.echart elements.
// Smoothing, toggles and theme use the arrays in memory; another axis or range is requested again.
import { pickRange } from "/static/range_picker.js";

const DASH = ["solid", [6, 3], [2, 3], [8, 3, 2, 3], [4, 4], [8, 3, 2, 3, 2, 3]];
const COLOURS = 6;
const FEW = 6; // more curves get a list of names instead of a name at each end, and no bands
const ROWS = 10; // of the tooltip, before a second column
const COMPACT_POINTS = 250;
const SMOOTHED = 20; // points from which on a curve is smoothed before a viewer chooses: else its end is not its value
const APPENDED = 500; // new points kept at full detail before the server downsamples the whole curve again
const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const trim = (text) => (text.length > 22 ? `${text.slice(0, 14)}…${text.slice(-7)}` : text); // names of seeds and trials differ at their ends
const short = (v, digits = 3) => {
  const a = Math.abs(v);
  if (a >= 1e3 && a < 1e4) return (+v.toPrecision(Math.max(4, digits))).toLocaleString("en").replace("-", "−"); // such as ratings
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (a >= limit) return (+(v / limit).toPrecision(digits) + "\u202f" + unit).replace("-", "−");
  return (+v.toPrecision(digits) + "").replace("-", "−");
};
// As many digits as tell the ticks of an axis apart, where its values differ little from each other.
const digitsOf = (values) => {
  const known = values.filter((v) => v !== null), most = known.reduce((a, v) => Math.max(a, Math.abs(v)), 0);
  const span = known.reduce((a, v) => Math.max(a, v), -Infinity) - known.reduce((a, v) => Math.min(a, v), Infinity);
  return span > 0 ? Math.min(8, Math.max(3, Math.ceil(Math.log10((10 * most) / span)) + 1)) : 3;
};
// Each place has its own pair of colour and dash, as in theme.series_look in Python.
const look = (place) => ({ color: css(`--s${(place % COLOURS) + 1}`), dash: DASH[(place + Math.floor(place / COLOURS)) % DASH.length] });
const key = ({ color, dash }) => `<svg width="20" height="8" style="margin-right:6px"><path d="M0 4h20" fill="none" stroke="${color}" stroke-width="2.5" stroke-dasharray="${dash === "solid" ? "" : dash.join(" ")}"/></svg>`;
const symbol = (x, many) => (x[0] === x[x.length - 1] ? { symbol: "circle", showSymbol: true } : { symbol: many ? "none" : "emptyCircle", showSymbol: false });
const last = (values) => values.findLast((v) => v !== null) ?? -Infinity;
const two = (n) => String(Math.floor(n)).padStart(2, "0");
const clock = (s) => (s >= 3600 ? `${Math.floor(s / 3600)}:${two((s % 3600) / 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`);
const STAGE = "curriculum/stage"; // one point where each stage of a curriculum begins: drawn as a mark
const AXIS = {
  env_steps: { name: "env steps", format: (v) => short(v) },
  timestamp: { name: "since the start", format: clock },
  episodes_total: { name: "episodes", format: (v) => short(v) },
  training_iteration: { name: "iterations", format: (v) => short(v) },
};

function smooth(values, weight) {
  let last = null;
  return values.map((v) => (v === null ? null : (last = last === null ? v : last * weight + v * (1 - weight))));
}

function flatten(value, name, out) {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) for (const key in value) flatten(value[key], name ? `${name}/${key}` : key, out);
  else if (typeof value === "number") out[name] = value;
  return out;
}

export default {
  template: "<span hidden></span>",
  props: { sources: Array, charts: Array, points: Number, stride: Number, checkpoints: { type: Array, default: () => [] }, first_axis: { type: String, default: "env_steps" } },
  async mounted() {
    Object.assign(this, { axis: this.first_axis, weight: null, bands: true, log: false, pinned: null, hidden: new Set(), data: new Map(), sockets: new Map(), appended: 0, zoom: null, picked: new WeakSet() });
    this.watcher = new MutationObserver(() => this.redraw()); // dark <-> light
    this.watcher.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.onShown = () => document.hidden || this.redraw();
    document.addEventListener("visibilitychange", this.onShown);
    this.$watch(() => JSON.stringify([this.sources, this.charts]), () => this.reload());
    this.$watch(() => JSON.stringify(this.checkpoints), () => this.redraw());
    await this.reload();
  },
  beforeUnmount() {
    this.closed = true;
    this.watcher.disconnect();
    document.removeEventListener("visibilitychange", this.onShown);
    this.sockets.forEach((socket) => socket.close());
  },
  methods: {
    async reload() {
      const asked = (this.asked = (this.asked ?? 0) + 1);
      this.appended = 0;
      const wanted = [...new Set(this.charts.flatMap((chart) => chart.lines.map((line) => line.metric)))];
      if (!wanted.length || !this.sources.length) return;
      const first = [...wanted.filter((metric) => this.charts[0].lines.some((line) => line.metric === metric)), STAGE];
      const rest = wanted.filter((metric) => !first.includes(metric));
      const parts = [];
      for (const [metrics, points] of [[first, this.points], [rest, COMPACT_POINTS]])
        for (let i = 0; i < metrics.length; i += 40) parts.push(this.fetch(metrics.slice(i, i + 40), points));
      const view = JSON.stringify([this.axis, this.zoom]);
      const data = new Map(view === this.view ? this.data : []);
      this.view = view;
      const seqs = {};
      for (const part of parts) { // the large chart is drawn while the small ones are still loading
        const response = await part;
        if (this.closed || asked !== this.asked) return; // a newer request is under way
        if (!response) return setTimeout(() => !this.closed && this.reload(), 2000);
        for (const series of response.series) data.set(series.ref + "\n" + series.metric, series);
        for (const ref in response.last_seq) seqs[ref] = Math.min(seqs[ref] ?? Infinity, response.last_seq[ref]);
        Object.assign(this, { data, started: response.started });
        await this.ready();
        this.attend();
        this.redraw();
      }
      this.listen(seqs);
    },
    async fetch(metrics, points) {
      const query = String(new URLSearchParams([...this.sources.map((s) => ["ref", s.ref]), ...metrics.map((m) => ["metric", m]), ["x", this.axis], ["points", points], ...(this.zoom ? [["start", this.zoom[0]], ["stop", this.zoom[1]]] : [])]));
      const begun = globalThis.begunSeries; // requested in the page's head, before there was a chart to draw into
      globalThis.begunSeries = null;
      try {
        const response = await (begun && String(new URLSearchParams(begun.query)) === query ? begun.response : fetch(`/series?${query}`));
        return response.ok ? await response.json() : null;
      } catch {
        return null; // the server is briefly unavailable: requested again
      }
    },
    async ready() {
      const all = () => this.charts.every(({ id }) => getElement(id)?.chart);
      while (!all() && !this.closed) await new Promise(requestAnimationFrame);
    },
    attend() {
      for (const { id } of this.charts) {
        const chart = getElement(id)?.chart;
        if (!chart || this.picked.has(chart)) continue;
        this.picked.add(chart);
        pickRange(chart, () => this.zoom ?? this.extent(), (range) => this.look_at(range));
      }
    },
    extent() {
      const ends = [...this.data.values()].filter(({ x }) => x.length).flatMap(({ x }) => [x[0], x[x.length - 1]]);
      return ends.length ? [Math.min(...ends), Math.max(...ends)] : null;
    },
    look_at(range) {
      if (!range && !this.zoom) return;
      this.whole ??= this.extent();
      const [low, high] = this.whole;
      const live = this.sources.some((source) => source.live);
      this.zoom = range && [Math.max(low, range[0]), live ? range[1] : Math.min(high, range[1])];
      if (this.zoom && (this.zoom[0] >= this.zoom[1] || (this.zoom[0] <= low && this.zoom[1] >= high))) this.zoom = null;
      if (!this.zoom) this.whole = null;
      this.$emit("zoomed", Boolean(this.zoom));
      this.redraw();
      this.reload();
    },
    listen(seqs) {
      const live = new Set(this.sources.filter((s) => s.live && s.ref in seqs).map((s) => s.ref));
      this.sockets.forEach((socket, ref) => live.has(ref) || (this.sockets.delete(ref), socket.close()));
      live.forEach((ref) => this.sockets.has(ref) || this.open(ref, seqs[ref]));
      clearInterval(this.timer);
      if (this.sources.some((s) => s.live && !(s.ref in seqs))) this.timer = setInterval(() => (this.closed ? clearInterval(this.timer) : document.hidden || this.reload()), 5000);
    },
    open(ref, seq) {
      const scheme = location.protocol === "https:" ? "wss://" : "ws://";
      const socket = new WebSocket(`${scheme}${location.host}/runs/${encodeURIComponent(ref)}/events?after_seq=${seq}`);
      this.sockets.set(ref, socket);
      socket.onmessage = ({ data }) => {
        for (const line of data.split("\n")) {
          const event = JSON.parse(line);
          seq = event.seq;
          this.append(ref, event);
        }
        if (this.appended > APPENDED) this.reload();
        else this.soon();
      };
      socket.onclose = ({ code }) => {
        if (this.closed || this.sockets.get(ref) !== socket) return;
        this.sockets.delete(ref);
        if (code !== 1000) setTimeout(() => this.closed || this.sockets.has(ref) || this.open(ref, seq), 800);
      };
    },
    append(ref, event) {
      if (event.kind === "resumed") return void (this.appended = Infinity); // earlier points may be invalid now
      const x = this.axis === "timestamp" ? event.timestamp - (this.started[ref] ?? 0) : event[this.axis];
      if (typeof x !== "number" || (this.zoom && x > this.zoom[1])) return;
      const values = flatten(event, event.kind === "iteration" ? "" : event.kind, {});
      const drawn = new Set([STAGE, ...this.charts.flatMap((chart) => chart.lines.map((line) => line.metric))]);
      for (const metric in values) {
        const series = this.data.get(ref + "\n" + metric);
        if (!series && drawn.has(metric)) this.appended = Infinity; // its first point: request it again
        if (!series || series.x[series.x.length - 1] >= x) continue;
        series.x.push(x);
        for (const name of ["low", "high", "mean"]) series[name].push(values[metric]);
      }
      this.appended += 1;
    },
    soon() {
      if (!this.waiting && !document.hidden) this.waiting = requestAnimationFrame(() => ((this.waiting = 0), this.redraw()));
    },
    set_axis(axis) {
      Object.assign(this, { axis, zoom: null, whole: null });
      this.$emit("zoomed", false);
      this.reload();
    },
    set_smoothing(weight) { this.weight = weight; this.redraw(); },
    set_bands(on) { this.bands = on; this.redraw(); },
    set_log(on) { this.log = on; this.redraw(); },
    set_pinned(label) { this.pinned = label; this.redraw(); },
    set_shown(label, on) { on ? this.hidden.delete(label) : this.hidden.add(label); this.redraw(); },
    redraw() {
      for (const chart of this.charts) {
        const drawn = getElement(chart.id)?.chart;
        if (drawn) this.tabulate(chart, drawn.getDom());
        const option = drawn && this.option(chart, drawn.getHeight() < 200, drawn.getWidth(), drawn.getHeight());
        const labelled = option?.series.filter(({ endLabel }) => endLabel?.show).length > 1;
        if (drawn) drawn.setOption(option, { replaceMerge: ["series"], lazyUpdate: !labelled });
        if (labelled) this.spread(drawn, option.series);
      }
    },
    spread(drawn, series) { // names at the ends of curves, moved apart where they would overlap
      const named = series.filter(({ endLabel }) => endLabel?.show).map(({ id, data }) => ({ id, y: drawn.convertToPixel({ yAxisIndex: 0 }, data.findLast(([, value]) => value !== null)?.[1] ?? 0) }));
      named.sort((a, b) => a.y - b.y);
      named.forEach((each, i) => (each.at = i ? Math.max(each.y, named[i - 1].at + 15) : each.y));
      const over = named.at(-1).at - (drawn.getHeight() - 34); // the last ones go up again where there is no room below
      if (over > 0) for (let i = named.length - 1, most = named[i].at - over; i >= 0 && named[i].at > most; most = named[i].at - 15, i--) named[i].at = most;
      drawn.setOption({ series: named.map(({ id, y, at }) => ({ id, endLabel: { offset: [0, at - y] } })) }, { lazyUpdate: true });
    },
    tabulate(chart, element) { // single points tell more in a table than as dots in an empty chart
      const curves = this.curves(chart), axis = AXIS[this.axis];
      const single = curves.length > 0 && curves.every(({ series: { x } }) => x.length && x[0] === x[x.length - 1]);
      element.classList.toggle("r-hollow", single);
      let table = element.querySelector(":scope > .r-single");
      if (!single) return void table?.remove();
      table ??= element.appendChild(Object.assign(document.createElement("div"), { className: "r-single" }));
      table.tabIndex = 0;
      const rows = curves.map(({ name, place, series: { x, mean } }) => `<tr title="${escape(name)}"><td>${curves.length > 1 ? key(look(place)) : ""}${short(last(mean), 4)}</td>${curves.length > 1 ? `<th scope="row">${escape(trim(name))}</th>` : ""}<td class="faint">at ${axis.format(x[0])}${curves.length > 1 ? "" : ` ${axis.name}`}</td></tr>`);
      table.innerHTML = `<table aria-label="${escape(chart.title)}"><tbody>${rows.join("")}</tbody></table>`;
    },
    marks() { // of runs: the stages of a seed group begin at different points
      return this.sources.filter(({ ref }) => !ref.startsWith("group:")).flatMap(({ ref }) => {
        const { x, mean } = this.data.get(ref + "\n" + STAGE) ?? { x: [], mean: [] };
        return x.map((at, i) => ({ xAxis: at, name: `stage ${mean[i]}` }));
      });
    },
    curves({ lines }) {
      const stride = this.stride || Math.max(1, ...this.charts.map((chart) => chart.lines.length));
      const found = [];
      const pins = [...this.sources, ...lines].some(({ label }) => label === this.pinned); // else this chart stays as it is
      this.sources.forEach((source, i) => lines.forEach((line) => {
        const series = this.data.get(source.ref + "\n" + line.metric);
        const many = this.sources.length > 1;
        const name = lines.length === 1 ? source.label : many ? `${source.label} · ${line.label}` : line.label;
        const aside = pins && this.pinned !== line.label && this.pinned !== source.label;
        if (series && !this.hidden.has(line.label) && !this.hidden.has(source.label)) found.push({ name, key: source.ref + line.metric, place: i * stride + line.place, series, aside });
      }));
      return found;
    },
    option(chart, compact, width, height) {
      const [line, faint, text, raised, surface] = ["--line", "--faint", "--text", "--raised", "--surface"].map(css);
      const axis = AXIS[this.axis];
      const series = [];
      const curves = this.curves(chart);
      const many = curves.length > FEW;
      const room = !compact && width > 520; // for names
      const looks = new Map();
      for (const { name, key, place, aside, series: { x, low, high, mean } } of curves) {
        const { color, dash } = look(place);
        looks.set(key, { color, dash });
        const [l, h, m] = (many ? [[], [], mean] : [low, high, mean]).map((values) => smooth(values, this.weight ?? (x.length < SMOOTHED ? 0 : 0.6))).map((values) => (this.log ? values.map((v) => (v > 0 ? v : null)) : values));
        const banded = many ? [] : x.map((_, i) => i).filter((i) => l[i] !== null && h[i] !== null);
        if (this.bands && !aside && banded.some((i) => l[i] < h[i])) series.push({
          id: key + ":band", type: "custom", silent: true, z: 1, clip: true, tooltip: { show: false },
          data: banded.flatMap((i) => [[x[i], l[i]], [x[i], h[i]]]),
          renderItem: (params, api) => params.dataIndex !== 0 ? null : {
            type: "polygon", style: { fill: color, opacity: compact ? 0.12 : 0.15 },
            shape: { points: [...banded.map((i) => api.coord([x[i], h[i]])), ...banded.map((i) => api.coord([x[i], l[i]])).reverse()] },
          },
        });
        series.push({
          id: key, name, type: "line", ...symbol(x, many), symbolSize: 5, data: x.map((v, i) => [v, m[i]]), z: aside ? 2 : 3,
          emphasis: many ? { focus: "series", lineStyle: { width: 3 } } : { disabled: true },
          color, lineStyle: { width: aside ? 1 : compact || many ? (this.pinned === null ? 1.5 : 2.5) : 2, type: dash, color, opacity: aside ? 0.35 : 1 },
          endLabel: { show: room && !many && !aside, formatter: () => trim(name), color, fontSize: 12, fontWeight: 500, distance: 6, backgroundColor: surface, padding: [1, 2] }, // readable where it lies on another curve
        });
      }
      const digits = digitsOf(curves.flatMap(({ series: { mean } }) => mean));
      const marks = this.marks();
      const saved = compact || this.axis !== "env_steps" ? [] : this.checkpoints;
      const lowest = Math.min(...curves.flatMap(({ series: { mean } }) => mean.filter((v) => v !== null)));
      if (saved.length && Number.isFinite(lowest)) series.push({
        id: "checkpoints", type: "scatter", silent: true, z: 4, data: [], tooltip: { show: false },
        markPoint: { silent: true, animation: false, symbol: "triangle", symbolSize: 8, label: { show: false }, data: saved.map(({ x, best }) => ({ coord: [x, lowest], y: height - 30, symbolSize: best ? 11 : 8, itemStyle: { color: best ? css("--accent") : faint } })) },
      });
      const marked = series.find(({ type }) => type === "line");
      if (marked && marks.length) marked.markLine = {
        silent: true, symbol: "none", animation: false, data: marks, lineStyle: { color: faint, type: "dashed", width: 1 },
        label: { show: !compact, formatter: "{b}", position: "insideEndTop", color: faint, fontSize: 11 },
      };
      const longest = Math.max(0, ...curves.map(({ name }) => Math.min(22, name.length)));
      const beside = room ? 16 + 7.4 * longest + (many ? 30 : 0) : 14;
      const listed = [...curves].sort((a, b) => last(b.series.mean) - last(a.series.mean)).map(({ name }) => name);
      const label = { color: faint, fontSize: 11, hideOverlap: true };
      return {
        animation: false, aria: { enabled: true, label: { description: `${chart.title}: ${curves.map((c) => c.name).join(", ") || "no points yet"}${marks.map(({ name, xAxis }) => `; ${name} from ${short(xAxis)}`).join("")}` } },
        textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
        grid: compact ? { left: 40, right: 10, top: 10, bottom: 22 } : { left: 48, right: beside, top: 14, bottom: 26 },
        legend: {
          show: room && many, type: "scroll", orient: "vertical", left: width - beside + 8, top: 6, bottom: 4, itemGap: 4, itemWidth: 26, itemHeight: 7, padding: 2, data: listed, formatter: trim,
          icon: "inherit", itemStyle: { opacity: 0 }, inactiveColor: faint, textStyle: { color: text, fontSize: 12, lineHeight: 13 }, pageTextStyle: { color: faint }, pageIconColor: text, pageIconInactiveColor: faint, pageIconSize: 11,
        },
        xAxis: { type: "value", min: this.zoom?.[0] ?? "dataMin", max: this.zoom?.[1] ?? "dataMax", splitNumber: compact ? 3 : 6, axisLine: { onZero: false, lineStyle: { color: line } }, axisTick: { show: false }, splitLine: { show: false },
          axisLabel: { ...label, formatter: axis.format, showMaxLabel: false, showMinLabel: false } },
        yAxis: { type: this.log ? "log" : "value", scale: true, min: null, max: null, splitNumber: compact ? 2 : 5, splitLine: { lineStyle: { color: line } }, axisLabel: { ...label, formatter: (v) => short(v, digits) } },
        tooltip: { trigger: "axis", confine: true, backgroundColor: raised, borderColor: line, padding: [8, 10], textStyle: { color: text, fontSize: 12 }, axisPointer: { lineStyle: { color: faint, type: "solid" } },
          formatter: (items) => this.words(items.filter((item) => item.seriesType === "line" && typeof item.value?.[1] === "number"), axis, faint, looks) },
        series,
      };
    },
    words(items, axis, faint, looks) { // no items if the curve was replaced under the pointer
      if (!items.length) return "";
      const rows = items.sort((a, b) => b.value[1] - a.value[1]).slice(0, 3 * ROWS).map((item) => `<div style="display:flex;gap:16px;justify-content:space-between;break-inside:avoid"><span>${key(looks.get(item.seriesId))}${escape(trim(item.seriesName))}</span><b>${short(item.value[1])}</b></div>`);
      const more = items.length > rows.length ? `<div style="color:${faint}">and ${items.length - rows.length} more</div>` : "";
      return `<div style="color:${faint}">${axis.format(items[0].value[0])} ${axis.name}</div><div style="columns:${Math.ceil(rows.length / ROWS)};column-gap:20px">${rows.join("")}</div>${more}`;
    },
    file_name(id, ending) {
      const chart = this.charts.find((each) => each.id === id);
      return `${this.sources.map((s) => s.ref).slice(0, 3).join("+")}-${chart.title || "curve"}.${ending}`.replace(/[^\w.+-]+/g, "-");
    },
    save_png(id) {
      const url = getElement(id).chart.getDataURL({ pixelRatio: 2, backgroundColor: css("--surface") });
      Object.assign(document.createElement("a"), { href: url, download: this.file_name(id, "png") }).click();
    },
    save_csv(id) {
      const rows = [`run,metric,${this.axis},mean,low,high`];
      const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
      for (const line of this.charts.find((each) => each.id === id).lines) for (const { ref } of this.sources) {
        const series = this.data.get(ref + "\n" + line.metric);
        series?.x.forEach((x, i) => rows.push([cell(ref), cell(line.metric), x, series.mean[i] ?? "", series.low[i] ?? "", series.high[i] ?? ""].join(",")));
      }
      const url = URL.createObjectURL(new Blob([rows.join("\n") + "\n"], { type: "text/csv" }));
      Object.assign(document.createElement("a"), { href: url, download: this.file_name(id, "csv") }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    },
  },
};
