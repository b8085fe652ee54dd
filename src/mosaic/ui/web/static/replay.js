// A recorded episode with a time slider. The server replays it in the background; pictures are fetched one at a time and
// cached by the browser, so that the slider can be dragged.
import { cellRect, coordinates } from "/static/board_marks.js";
import CardTable from "/static/card_table.js";
import { MoveList } from "/static/move_list.js";

export default {
  components: { CardTable, MoveList },
  template: `
<div class="rp">
  <p v-if="error" class="p-problem" role="alert" style="grid-column:1/-1"><i v-html="icons.alert"></i><span>{{ error }}</span></p>
  <template v-if="r">
  <div class="stack" style="gap:10px;min-width:0">
    <template v-if="r.tables"><label class="row between c-seen"><span class="muted">Seen by</span><select class="rp-speed" v-model="seer" @change="show()" aria-label="Seen by"><option value="">everyone, all cards</option><option v-for="(policy, agent) in r.policies" :value="agent">{{ agent }} ({{ labels[policy] ?? policy }})</option></select></label>
      <card-table v-if="table" :table="table" :mine="seer ? [seer] : []" :data-step="shownStep"></card-table></template>
    <div v-else class="p-board" :class="{points: r.layout?.points}" :style="{'--ratio': ratio}"><img ref="image" :alt="'Step ' + step + ' of ' + title" @load="loaded" @error="failed">
      <template v-if="r.layout"><span v-for="c in names" class="p-coord" :class="c.edge" :style="place(c.rect)" aria-hidden="true">{{ c.text }}</span>
        <span v-for="rect in last" class="p-last" :class="{placed: last.length === 1}" :style="place(rect)"></span>
        <span v-for="[row, column] in line" class="p-won" :style="place(cell(row, column))"></span></template></div>
    <div class="p-bar"><button type="button" class="m-btn icon" :aria-label="playing ? 'Pause' : 'Play'" @click="toggle"><i v-html="playing ? icons.pause : icons.play"></i></button>
      <button type="button" class="m-btn icon" aria-label="One step back" @click="go(step - 1)"><i v-html="icons.step" style="transform:scaleX(-1)"></i></button>
      <button type="button" class="m-btn icon" aria-label="One step forward" @click="go(step + 1)"><i v-html="icons.step"></i></button>
      <input type="range" min="0" :max="r.env_steps" :value="step" @input="go(+$event.target.value)" aria-label="Step of the episode">
      <span class="num muted">{{ step }} of {{ r.env_steps }}</span>
      <select :value="speed" @change="speed = +$event.target.value" aria-label="Steps per second" class="rp-speed"><option v-for="v in [1, 2, 5, 10, 30]" :value="v">{{ v }}/s</option></select></div>
    <p class="p-said" role="status">{{ told }}</p>
    <section v-if="reports.length" class="m-panel rp-said" aria-label="Transcript"><header><h2 class="m-h2">Transcript</h2><span class="muted small">{{ !said.length ? "" : step < r.env_steps ? "decision for step " + (step + 1) : "the decision that failed" }}</span>
      <span class="end"><button type="button" class="m-btn small" :disabled="before === null" @click="go(before)">Previous decision</button><button type="button" class="m-btn small" :disabled="after === null" @click="go(after)">Next decision</button></span></header><div class="m-body">
      <p v-if="!said.length" class="m-note">No policy reported on a decision in this position.</p>
      <article v-for="report in said"><h3 class="strong">{{ report.agent }}</h3>
        <p class="rp-numbers muted small"><span v-for="(value, name) in report.numbers">{{ name }} <b class="strong">{{ figure(value) }}</b></span></p>
        <div v-for="line in report.transcript" :class="['rp-line', line.role, {bad: line.note.includes('not a legal action')}]"><div class="row between small"><b>{{ line.role }}</b><span class="muted">{{ line.note }}</span></div><pre>{{ line.text || "(empty)" }}</pre></div></article></div></section>
  </div>
  <div class="stack gap-4">
    <section class="m-panel"><header><h2 class="m-h2">Episode</h2></header><div class="m-body">
      <p>{{ verdict }}</p><div class="p-keys"><template v-for="(policy, agent) in r.policies"><div class="strong">{{ who(agent) }}</div><div>{{ labels[policy] ?? policy }} · {{ number(sofar[agent] ?? 0) }} of {{ number(r.returns[agent] ?? 0) }}</div></template></div>
      <p class="m-note">Seed {{ r.seed }}. The numbers are returns: until this step, and in the end.</p></div></section>
    <section class="m-panel" aria-label="Play on from here"><header><h2 class="m-h2">Play on from here</h2></header><div class="m-body">
      <template v-if="Object.keys(r.policies).length <= 8"><label v-for="(policy, agent) in r.policies" class="rp-on"><span class="clip" :title="agent">{{ r.sides[agent] ?? agent }}</span><select class="rp-speed" :aria-label="'Policy of ' + agent" :value="chosen[agent] ?? policy" @change="choose(agent, $event)"><option v-for="p in offered(agent)" :value="p">{{ p === "human" ? "a person" : labels[p] ?? p }}</option><option value="?">another policy…</option></select></label></template>
      <button type="button" class="m-btn primary" :disabled="opening" @click="playOn"><i v-html="icons.play"></i>Play on from step {{ step }}</button>
      <p v-if="refused" class="p-problem" role="alert"><i v-html="icons.alert"></i><span>{{ refused }}</span></p></div></section>
    <section v-if="r.board_moves.length" class="m-panel"><header><h2 class="m-h2">Moves</h2><span class="end small faint">{{ r.board_moves.length }}</span></header><div class="m-body tight"><move-list :moves="r.board_moves" :sides="Object.keys(r.sides)" :step="step" jumps @go="go"></move-list></div></section>
    <section v-else class="m-panel"><header><h2 class="m-h2">Steps</h2></header><div class="m-body tight"><ol class="p-list" tabindex="0" aria-label="Steps"><li v-for="n in listed" :class="{last: n === step}"><span class="n">{{ n }}</span><button type="button" class="clip" @click="go(n)">{{ r.moves[n - 1] }}</button><span></span></li></ol></div></section>
  </div></template>
  <p v-else-if="!error" class="m-note">Replaying…</p>
</div>`,
  props: { replay_id: String, title: String, icons: Object, policies: Array, labels: Object },
  data: () => ({ chosen: {}, opening: false, refused: "", r: null, table: null, shownStep: 0, seer: "", reports: [], error: "", step: 0, playing: false, speed: 2, ratio: 1 }),
  computed: {
    verdict() {
      if (this.r.error) return this.r.error;
      if (this.r.same === null) return `Replayed up to step ${this.r.drawn}.`;
      return this.r.same ? `Replayed bit for bit the same, ${this.r.env_steps} env steps.` : `The replay differs from the record at ${this.r.difference}.`;
    },
    move() { return this.r.board_moves.find((m) => m.step === this.step); },
    told() { return !this.step ? "The first position." : this.move ? `${this.r.sides[this.move.agent]}: ${this.move.text}` : this.r.moves[this.step - 1] ?? ""; },
    names() { return coordinates(this.r.layout, false); },
    last() { return this.move?.places ?? []; },
    line() { return this.step === this.r.env_steps ? this.r.layout.line : []; },
    listed() { // a window around the step: an episode may have thousands
      const first = Math.max(1, Math.min(this.step - 50, this.r.moves.length - 100));
      return Array.from({ length: Math.min(101, this.r.moves.length - first + 1) }, (_, i) => first + i);
    },
    said() { return this.reports.filter((report) => report.step === this.step); },
    before() { return this.reports.findLast((report) => report.step < this.step)?.step ?? null; },
    after() { return this.reports.find((report) => report.step > this.step)?.step ?? null; },
    sofar() {
      const sums = {};
      for (const rewards of this.r.rewards.slice(0, this.step)) for (const [agent, value] of Object.entries(rewards)) sums[agent] = (sums[agent] ?? 0) + value;
      return sums;
    },
  },
  mounted() { this.fetch(true); this.fetchReports(); },
  beforeUnmount() { this.closed = true; clearTimeout(this.timer); },
  methods: {
    async fetch(first) {
      try {
        const answer = await fetch("/replays/" + this.replay_id, { headers: { Accept: "application/json" } });
        const document_ = await answer.json();
        if (!answer.ok) return void (this.error = document_.error);
        this.r = document_;
      } catch { this.error = "The server does not respond."; return; }
      if (first) this.$nextTick(() => this.go(0));
      if (!this.r.done && !this.closed) setTimeout(() => this.fetch(false), 400);
    },
    async fetchReports() { // once: an episode of a language model may have megabytes of text
      const answer = await fetch(`/replays/${this.replay_id}/reports`, { headers: { Accept: "application/json" } });
      if (answer.ok) this.reports = await answer.json();
      else this.error = (await answer.json()).error;
    },
    go(step) {
      this.refused = "";
      this.step = Math.max(0, Math.min(this.r.env_steps, step));
      if (this.step === this.r.env_steps) this.playing = false;
      if (this.r.tables) return void this.show();
      const address = `/replays/${this.replay_id}/pictures/${Math.floor(this.step / this.r.every) * this.r.every}`;
      if (this.$refs.image && !this.$refs.image.src.endsWith(address)) this.$refs.image.src = address;
    },
    offered(agent) { return [...new Set([this.r.policies[agent], ...this.policies, ...Object.values(this.r.policies), ...(this.chosen[agent] ? [this.chosen[agent]] : [])])]; },
    choose(agent, { target }) {
      const policy = target.value === "?" ? window.prompt("Which policy? For example: random, minimax:depth=4, run:NAME@best") : target.value;
      if (policy) this.chosen = { ...this.chosen, [agent]: policy };
      else target.value = this.chosen[agent] ?? this.r.policies[agent];
    },
    async playOn() {
      this.opening = true;
      const body = JSON.stringify({ step: this.step, agents: { ...this.r.policies, ...this.chosen } });
      const answer = await fetch(`/replays/${this.replay_id}/matches`, { method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" }, body });
      const opened = await answer.json();
      this.opening = false;
      if (!answer.ok) return void (this.refused = opened.error);
      location.assign(`/play?match=${opened.match_id}#key=${opened.owner_key}`); // browsers do not send the part with the key
    },
    async show() { // the table of this step
      const step = this.step, query = this.seer ? "?agent=" + encodeURIComponent(this.seer) : "";
      const answer = await fetch(`/replays/${this.replay_id}/tables/${step}${query}`, { headers: { Accept: "application/json" } });
      const found = await answer.json();
      if (this.closed || step !== this.step) return;
      if (!answer.ok) return void ((this.error = found.error), (this.playing = false));
      [this.table, this.shownStep] = [found.table, step];
    },
    toggle() {
      this.playing = !this.playing;
      if (this.playing && this.step === this.r.env_steps) this.go(0);
      this.tick();
    },
    tick() {
      clearTimeout(this.timer);
      if (!this.playing || this.closed) return;
      this.timer = setTimeout(() => { this.go(this.step + 1); this.tick(); }, 1000 / this.speed);
    },
    loaded({ target }) { // may arrive after the page was left: the image is taken from the event
      if (this.closed) return;
      this.error = ""; this.ratio = target.naturalWidth / target.naturalHeight; target.dataset.step = this.step;
    },
    async failed({ target }) {
      if (this.closed) return;
      const answer = await fetch(target.src);
      if (!answer.ok && !this.closed) { this.error = (await answer.json()).error; this.playing = false; }
    },
    cell(row, column) { return cellRect(this.r.layout, row, column); },
    place(rect) {
      const [left, top, width, height] = rect.map((value) => value * 100 + "%");
      return { left, top, width, height };
    },
    who(agent) { return this.r.sides[agent] ? `${this.r.sides[agent]} · ${agent}` : agent; },
    figure(value) {
      if (Array.isArray(value)) return value.map((each) => this.figure(each)).join(", ");
      return typeof value === "number" ? String(+value.toPrecision(4)).replace("-", "\u2212") : value ? "yes" : "no";
    },
    number(value) { return (Math.round(value * 100) / 100).toLocaleString("en").replace("-", "\u2212"); },
  },
};
