// Owns the curves of one page: history over HTTP, new points over the run's event socket, drawn into ui.echart elements.
// Smoothing, toggles and theme are answered from the arrays in memory; another axis or part of it is asked for again.
import { pickRange } from "/static/range_picker.js";

const DASH = ["solid", [6, 3], [2, 3], [8, 3, 2, 3], [4, 4], [1, 4]];
const POINTS = 500;
const APPENDED = 500; // so many new points at full detail, then the server thins the whole curve again
const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const trim = (text) => (text.length > 22 ? text.slice(0, 21) + "…" : text);
const short = (v) => {
  const a = Math.abs(v);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (a >= limit) return (+(v / limit).toPrecision(3) + "\u202f" + unit).replace("-", "−");
  return (+v.toPrecision(3) + "").replace("-", "−");
};
const two = (n) => String(Math.floor(n)).padStart(2, "0");
const clock = (s) => (s >= 3600 ? `${Math.floor(s / 3600)}:${two((s % 3600) / 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`);
const AXIS = {
  env_steps: { name: "env steps", format: short },
  timestamp: { name: "since the start", format: clock },
  episodes_total: { name: "episodes", format: short },
  training_iteration: { name: "iterations", format: short },
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
  props: { sources: Array, charts: Array, first_axis: { type: String, default: "env_steps" } },
  async mounted() {
    Object.assign(this, { axis: this.first_axis, weight: 0.6, bands: true, hidden: new Set(), data: new Map(), sockets: new Map(), appended: 0, zoom: null, picked: new WeakSet() });
    this.watcher = new MutationObserver(() => this.redraw()); // dark <-> light
    this.watcher.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.onShown = () => document.hidden || this.redraw();
    document.addEventListener("visibilitychange", this.onShown);
    this.$watch(() => JSON.stringify([this.sources, this.charts]), () => this.reload());
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
      const metrics = [...new Set(this.charts.flatMap((chart) => chart.lines.map((line) => line.metric)))];
      if (!metrics.length || !this.sources.length) return;
      const parts = [];
      for (let i = 0; i < metrics.length; i += 40) parts.push(metrics.slice(i, i + 40));
      const axis = this.axis;
      const answers = await Promise.all(parts.map((part) => this.fetch(part, axis)));
      if (this.closed || asked !== this.asked) return; // a newer question is under way
      if (answers.some((answer) => !answer)) return setTimeout(() => !this.closed && this.reload(), 2000);
      this.data = new Map(answers.flatMap((answer) => answer.series).map((series) => [series.ref + "\n" + series.metric, series]));
      this.started = answers[0].started;
      await this.ready();
      this.attend();
      this.redraw();
      this.listen(answers[0].last_seq);
    },
    async fetch(metrics, axis) {
      const query = new URLSearchParams([...this.sources.map((s) => ["ref", s.ref]), ...metrics.map((m) => ["metric", m]), ["x", axis], ["points", POINTS], ...(this.zoom ? [["start", this.zoom[0]], ["stop", this.zoom[1]]] : [])]);
      try {
        const answer = await fetch(`/series?${query}`);
        return answer.ok ? await answer.json() : null;
      } catch {
        return null; // the server is away for a moment: asked again
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
      if (event.kind === "resumed") return void (this.appended = Infinity); // earlier points may be void now
      const x = this.axis === "timestamp" ? event.timestamp - (this.started[ref] ?? 0) : event[this.axis];
      if (typeof x !== "number" || (this.zoom && x > this.zoom[1])) return;
      const values = flatten(event, event.kind === "iteration" ? "" : event.kind, {});
      const drawn = new Set(this.charts.flatMap((chart) => chart.lines.map((line) => line.metric)));
      for (const metric in values) {
        const series = this.data.get(ref + "\n" + metric);
        if (!series && drawn.has(metric)) this.appended = Infinity; // its first point: asked for anew
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
    set_shown(label, on) { on ? this.hidden.delete(label) : this.hidden.add(label); this.redraw(); },
    redraw() {
      for (const chart of this.charts) {
        const drawn = getElement(chart.id)?.chart;
        if (drawn) drawn.setOption(this.option(chart, drawn.getHeight() < 200, drawn.getWidth()), { replaceMerge: ["series"], lazyUpdate: true });
      }
    },
    curves({ lines }) {
      const stride = Math.max(1, ...this.charts.map((chart) => chart.lines.length));
      const found = [];
      this.sources.forEach((source, i) => lines.forEach((line) => {
        const series = this.data.get(source.ref + "\n" + line.metric);
        const many = this.sources.length > 1;
        const name = lines.length === 1 ? source.label : many ? `${source.label} · ${line.label}` : line.label;
        if (series && !this.hidden.has(line.label) && !this.hidden.has(source.label)) found.push({ name, key: source.ref + line.metric, place: (i * stride + line.place) % 6, series });
      }));
      return found;
    },
    option(chart, compact, width) {
      const [line, faint, text, raised] = ["--line", "--faint", "--text", "--raised"].map(css);
      const axis = AXIS[this.axis];
      const series = [];
      const curves = this.curves(chart);
      for (const { name, key, place, series: { x, low, high, mean } } of curves) {
        const color = css(`--s${place + 1}`);
        const [l, h, m] = [low, high, mean].map((values) => smooth(values, this.weight));
        const banded = x.map((_, i) => i).filter((i) => l[i] !== null && h[i] !== null);
        if (this.bands && banded.some((i) => l[i] < h[i])) series.push({
          id: key + ":band", type: "custom", silent: true, z: 1, clip: true, tooltip: { show: false },
          data: banded.flatMap((i) => [[x[i], l[i]], [x[i], h[i]]]),
          renderItem: (params, api) => params.dataIndex !== 0 ? null : {
            type: "polygon", style: { fill: color, opacity: compact ? 0.12 : 0.15 },
            shape: { points: [...banded.map((i) => api.coord([x[i], h[i]])), ...banded.map((i) => api.coord([x[i], l[i]])).reverse()] },
          },
        });
        series.push({
          id: key, name, type: "line", showSymbol: x[0] === x[x.length - 1], symbolSize: 5, data: x.map((v, i) => [v, m[i]]), z: 2, emphasis: { disabled: true },
          color, lineStyle: { width: compact ? 1.5 : 2, type: DASH[place], color },
          endLabel: { show: !compact && width > 520, formatter: () => trim(name), color, fontSize: 12, fontWeight: 500, distance: 6 },
          labelLayout: { moveOverlap: "shiftY" },
        });
      }
      const longest = Math.max(0, ...curves.map(({ name }) => Math.min(22, name.length)));
      const label = { color: faint, fontSize: 11, hideOverlap: true };
      return {
        animation: false, aria: { enabled: true, label: { description: `${chart.title}: ${curves.map((c) => c.name).join(", ") || "no points yet"}` } },
        textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
        grid: compact ? { left: 40, right: 10, top: 10, bottom: 22 } : { left: 48, right: width > 520 ? 16 + 7.4 * longest : 14, top: 14, bottom: 26 },
        xAxis: { type: "value", min: this.zoom?.[0] ?? "dataMin", max: this.zoom?.[1] ?? "dataMax", splitNumber: compact ? 3 : 6, axisLine: { onZero: false, lineStyle: { color: line } }, axisTick: { show: false }, splitLine: { show: false },
          axisLabel: { ...label, formatter: axis.format, showMaxLabel: false, showMinLabel: false } },
        yAxis: { type: "value", scale: true, splitNumber: compact ? 2 : 5, splitLine: { lineStyle: { color: line } }, axisLabel: { ...label, formatter: short } },
        tooltip: { trigger: "axis", confine: true, backgroundColor: raised, borderColor: line, padding: [8, 10], textStyle: { color: text, fontSize: 12 }, axisPointer: { lineStyle: { color: faint, type: "solid" } },
          formatter: (items) => this.words(items.filter((item) => item.seriesType === "line" && typeof item.value?.[1] === "number"), axis, faint) },
        series,
      };
    },
    words(items, axis, faint) { // none where the curve was replaced under the pointer
      if (!items.length) return "";
      const rows = items.map((item) => `<div style="display:flex;gap:16px;justify-content:space-between"><span>${item.marker}${escape(item.seriesName)}</span><b>${short(item.value[1])}</b></div>`);
      return `<div style="color:${faint}">${axis.format(items[0].value[0])} ${axis.name}</div>` + rows.join("");
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
