// A match on its own WebSocket: the picture on a canvas, legal moves as real buttons over it, all players, the policy's
// action probabilities. Messages from the server are the whole state (text) or a picture (frame_message.js).
// The server knows the rules; nothing here knows a game.
import { PictureRate, drawPicture, readFrame } from "/static/frame_message.js";

const NAMES = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Space: "Space", Enter: "Enter" };
const OWN = { KeyP: "pause", Period: "step" }; // keys of the page itself, unless the game uses them
const FIELDS = "input, textarea, select, [contenteditable], [role=dialog]";

export default {
  template: `
<div class="p-grid">
  <p v-if="gone" class="m-panel p-gone" role="alert"><span>{{ gone }}</span><a class="m-btn primary" href="/play">New match</a></p>
  <template v-else-if="s">
  <div class="stack gap-4 p-left">
    <section class="m-panel"><header><h2 class="m-h2">Match</h2><span class="end"><a class="m-link small" href="/play">New match</a></span></header>
      <div class="m-body">
        <label v-if="s.real_time" class="p-rate"><span class="row between"><span>Speed</span><span class="muted">{{ Math.round(s.rate_hz) }} steps/s</span></span>
          <input type="range" min="1" max="60" :value="s.rate_hz" @change="send('rate', {hz: +$event.target.value})" aria-label="Env steps per second"></label>
        <label class="row between"><span>Keep the episodes</span><input type="checkbox" class="p-switch" role="switch" :checked="s.recording" @change="send('record', {on: $event.target.checked})"></label>
        <p v-if="s.kept.length" class="m-note">Kept: {{ s.kept.length }}. <a class="m-link" :href="'/replay?name=' + encodeURIComponent(s.kept.at(-1))">Replay the last one</a></p>
        <label v-if="s.axes" class="row between"><span>Steer with the mouse</span><input type="checkbox" class="p-switch" role="switch" v-model="mouse" @change="mouse || steer([])"></label>
        <div class="stack gap-1" v-if="s.agents.length > 1">
          <span class="m-note">Play with another person: send a link. They need this server's token.</span>
          <button v-for="a in invited" type="button" class="m-btn small" @click="invite(a.agent)"><i v-html="icons.link"></i>{{ copied === a.agent ? "Copied" : "Link for " + a.agent }}</button>
        </div>
        <div class="row wrap"><a class="m-btn small" :href="'/matches/' + match_id + '/episode'" download><i v-html="icons.export"></i>Download episode</a>
        <a class="m-btn small" v-if="s.step" :href="'/replay?match=' + match_id">Replay</a></div>
      </div></section>
    <section class="m-panel p-keypanel" v-if="s.keys.length || typed.length"><header><h2 class="m-h2">Keys</h2><span class="end">
        <button v-if="s.own_keys" type="button" class="m-link small" @click="resetKeys">Reset</button>
        <button v-if="s.keys.length" type="button" class="m-link small" :aria-pressed="editing" @click="editing = !editing; asked = null">{{ editing ? "Done" : "Edit" }}</button></span></header>
      <div class="m-body"><div class="p-keys">
        <template v-if="typed.length && !editing && !s.keys.some((b) => b.keys[0].startsWith('Digit'))"><div><kbd v-if="typed.length < 5" v-for="t in typed">{{ t.key }}</kbd><template v-else><kbd>{{ typed[0].key }}</kbd> – <kbd>{{ typed.at(-1).key }}</kbd></template></div><div>{{ typed.length > 1 ? "choose a move" : typed[0].label }}</div></template>
        <template v-if="editing" v-for="(b, i) in s.keys"><div><button type="button" class="m-btn small" :class="{on: asked === i}" @click="asked = i" :aria-label="'Another key for ' + b.label">{{ asked === i ? "press a key" : keyName(b) }}</button></div>
          <div>{{ b.label }}<span v-if="b.agent" class="faint"> · {{ b.agent }}</span></div></template>
        <template v-else v-for="g in grouped"><div><kbd v-for="k in g.names">{{ k }}</kbd></div><div>{{ g.label }}<span v-if="g.agent" class="faint"> · {{ g.agent }}</span></div></template>
        <template v-if="!editing"><div><kbd>P</kbd></div><div>pause or resume</div><div><kbd>.</kbd></div><div>one step</div></template>
      </div></div></section>
  </div>
  <div class="stack p-middle">
    <div v-for="a in above" class="p-agent" :class="{turn: a.acting && !s.real_time}">
      <span class="p-who"><b>{{ who(a) }}</b><span class="faint small">{{ a.agent }}{{ s.agents.length > 1 || s.step ? " · return " + number(a.return) : "" }}</span></span>
      <span class="end"><span class="small" :class="a.acting ? 'p-turn' : 'muted'">{{ status(a) }}</span>
        <select :aria-label="'Policy of ' + a.agent" :value="a.policy" @change="assign(a, $event)"><option v-for="p in offered(a)" :value="p">{{ p === "human" ? "a person" : p }}</option><option value="?">another policy…</option></select>
        <button type="button" class="m-btn small" @click="send('assign', {agent: a.agent, policy: a.human ? null : 'human'})"><i v-html="a.human ? icons.user : icons.hand"></i>{{ a.human ? "Hand back" : "Take over" }}</button></span></div>
    <div class="p-board" :class="{many: onPicture.length > 60}" :style="{'--ratio': ratio, '--less': beside.length ? '44px' : '0px'}" ref="board">
      <canvas ref="canvas" tabindex="0" role="img" :aria-label="'Picture of ' + title + ', step ' + s.step" @click="click" @pointermove="point"></canvas>
      <template v-if="s.chooser && !s.paused">
        <span v-for="t in s.selected" v-show="t.rect" class="p-picked" :style="place(t)"></span>
        <button v-for="t in s.others" :key="'o' + t.id" v-show="t.rect" type="button" class="p-spot other" :aria-label="t.label" :style="place(t)" @click="press(t)"></button>
        <button v-for="t in onPicture" :key="t.id + s.path.length" type="button" class="p-spot" :class="{glyph: t.glyph, marked: t.mark}" :aria-label="t.label" :title="t.label" :style="place(t)" @click="press(t)"><b v-if="t.glyph">{{ t.glyph }}</b><kbd v-else-if="t.key && onPicture.length < 12">{{ t.key }}</kbd></button>
      </template>
      <div v-if="s.phase === 'over' || s.phase === 'failed'" class="p-end"><p role="status">{{ s.phase === "over" ? s.result : "The episode cannot continue." }}</p><button type="button" class="m-btn primary" @click="send('restart')"><i v-html="icons.restart"></i>Play again</button></div>
      <div v-else-if="s.paused" class="p-paused">Paused</div>
      <div class="hud" v-if="s.real_time"><span>step {{ shown.step.toLocaleString("en") }} · {{ rate }} pictures/s</span></div>
    </div>
    <div v-if="beside.length && s.chooser && !s.paused" class="p-choices" role="group" aria-label="Your actions"><button v-for="t in beside" :key="t.id" type="button" class="m-btn" @click="press(t)" @pointerdown="lean(t)" @pointerup="lean(null)" @pointerleave="lean(null)" @pointercancel="lean(null)">{{ t.label }}<kbd v-if="t.key && !s.real_time">{{ t.key }}</kbd></button></div>
    <p v-if="s.error" class="p-problem" role="alert"><i v-html="icons.alert"></i><span>{{ s.error }}</span></p>
    <p v-if="s.note" class="p-problem warn"><i v-html="icons.info"></i><span>{{ s.note }}</span></p>
    <p class="p-said" role="status" aria-live="polite">{{ refused || line }}</p>
    <div v-for="a in below" class="p-agent" :class="{turn: a.acting && !s.real_time}">
      <span class="p-who"><b>{{ who(a) }}</b><span class="faint small">{{ a.agent }}{{ s.agents.length > 1 || s.step ? " · return " + number(a.return) : "" }}</span></span>
      <span class="end"><span class="small" :class="a.acting ? 'p-turn' : 'muted'">{{ status(a) }}</span>
        <select :aria-label="'Policy of ' + a.agent" :value="a.policy" @change="assign(a, $event)"><option v-for="p in offered(a)" :value="p">{{ p === "human" ? "a person" : p }}</option><option value="?">another policy…</option></select>
        <button type="button" class="m-btn small" @click="send('assign', {agent: a.agent, policy: a.human ? null : 'human'})"><i v-html="a.human ? icons.user : icons.hand"></i>{{ a.human ? "Hand back" : "Take over" }}</button></span></div>
    <div class="p-ctl"><button type="button" class="m-btn" @click="send('pause', {on: !s.paused})"><i v-html="s.paused ? icons.play : icons.pause"></i>{{ s.paused ? "Resume" : "Pause" }}</button>
      <button type="button" class="m-btn" @click="send('step')"><i v-html="icons.step"></i>Step</button>
      <button type="button" class="m-btn" @click="send('restart')"><i v-html="icons.restart"></i>Restart</button>
      <button v-if="s.agents.length > 1" type="button" class="m-btn" @click="send('swap')"><i v-html="icons.swap"></i>Swap sides</button></div>
  </div>
  <div class="stack gap-4 p-right">
    <section class="m-panel"><header><h2 class="m-h2">What the policy would play</h2><span class="end"><button type="button" class="m-link small" :aria-pressed="s.thinking" @click="send('thoughts', {on: !s.thinking})">{{ s.thinking ? "Hide" : "Show" }}</button></span></header>
      <div class="m-body" v-if="s.thinking"><template v-if="s.advice">
        <p class="m-note">{{ s.advice.policy }} for {{ s.advice.agent }}</p>
        <p v-if="s.advice.note" class="m-note">{{ s.advice.note }}</p>
        <div class="stack gap-1"><div v-for="(t, i) in s.advice.thoughts" class="p-prob" :class="{best: i === 0}"><span class="clip">{{ t.label }}</span><span class="track"><i :style="{width: t.probability * 100 + '%'}"></i></span><span class="num">{{ Math.round(t.probability * 100) }}%</span></div></div>
        <p v-if="s.advice.value !== null" class="row between small"><span class="muted">expected return</span><b>{{ number(s.advice.value) }}</b></p></template>
        <p v-else class="m-note">Nothing to judge yet.</p></div>
      <div class="m-body" v-else><p class="m-note">Hidden, so that it does not play for you.</p></div></section>
    <section v-if="!s.real_time" class="m-panel"><header><h2 class="m-h2">Moves</h2><span class="end small faint">{{ s.moves.length || "" }}</span></header>
      <div class="m-body tight"><ol class="p-list" ref="moves" tabindex="0" aria-label="Moves"><li v-for="m in s.moves" :class="{last: m.step === s.step}"><span class="n">{{ m.step }}</span><span>{{ m.text }}</span><span class="faint clip">{{ m.agent }}</span></li></ol>
        <p v-if="!s.moves.length" class="m-note p-none">No move yet.</p></div></section>
    <section v-if="many.length" class="m-panel"><header><h2 class="m-h2">Agents</h2><span class="end small faint">{{ many.length }}</span></header>
      <div class="m-body tight"><ul class="p-agents" tabindex="0" aria-label="Agents"><li v-for="a in many"><span class="clip"><b>{{ a.agent }}</b><br><span class="faint small clip">{{ who(a) }} · {{ number(a.return) }}</span></span>
        <button type="button" class="m-btn small" @click="send('assign', {agent: a.agent, policy: a.human ? null : 'human'})">{{ a.human ? "Hand back" : "Take over" }}</button></li></ul></div></section>
  </div></template>
  <p v-else class="m-note">Opening the match…</p>
</div>`,
  props: { match_id: String, agent: String, title: String, policies: Array, icons: Object },
  data: () => ({ s: null, gone: "", refused: "", mouse: false, editing: false, asked: null, copied: "", ratio: 1, rate: 0, shown: { step: 0 } }),
  computed: {
    below() { // this browser's players are at the lower edge, as at a table
      const all = this.s.agents, mine = all.filter((a) => a.mine);
      return all.length === 1 ? all : (mine.length ? mine : all.slice(0, 1)).slice(0, all.length === 2 ? 1 : 4);
    },
    above() { return this.s.agents.length > 4 ? [] : this.s.agents.filter((a) => !this.below.includes(a)); },
    many() { return this.s.agents.length > 4 ? this.s.agents : []; },
    invited() { return this.s.agents.filter((a) => a.human).concat(this.s.agents.filter((a) => !a.human)).slice(0, 4); },
    onPicture() { return this.s.spots.filter((t) => t.rect); },
    beside() { return this.s.spots.filter((t) => !t.rect); },
    grouped() { // one row for each meaning, even if several keys have it
      const rows = new Map();
      for (const b of this.s.keys) {
        const id = b.label + "/" + (b.agent ?? "");
        if (!rows.has(id)) rows.set(id, { label: b.label, agent: b.agent, names: [] });
        rows.get(id).names.push(this.keyName(b));
      }
      return [...rows.values()];
    },
    typed() { return this.s.real_time ? [] : this.s.spots.filter((t) => t.key); },
    line() {
      const s = this.s;
      if (s.phase !== "playing" || s.paused) return "";
      if (s.chooser) return s.spots.some((t) => t.glyph) ? "Choose a piece." : s.path.length ? "Choose where to." : s.real_time ? "" : `Your turn${s.agents.length > 1 ? " as " + s.chooser : ""}.`;
      const waits = s.agents.filter((a) => a.acting);
      return s.real_time || !waits.length ? "" : waits.some((a) => a.human) ? `Waiting for ${waits[0].agent}.` : `${waits[0].policy} is thinking.`;
    },
  },
  mounted() {
    this.held = new Set();
    this.pictures = new PictureRate();
    this.onKey = (event) => this.key(event);
    this.onBlur = () => this.release(); // a window without focus must not keep keys held
    window.addEventListener("keydown", this.onKey);
    window.addEventListener("keyup", this.onKey);
    window.addEventListener("blur", this.onBlur);
    this.pads = setInterval(() => this.pad(), 25);
    this.open();
  },
  beforeUnmount() {
    this.closed = true;
    clearInterval(this.pads);
    clearInterval(this.leaning);
    window.removeEventListener("keydown", this.onKey);
    window.removeEventListener("keyup", this.onKey);
    window.removeEventListener("blur", this.onBlur);
    this.socket?.close();
  },
  methods: {
    open() {
      const scheme = location.protocol === "https:" ? "wss://" : "ws://";
      const query = this.agent ? "?agent=" + encodeURIComponent(this.agent) : "";
      const socket = (this.socket = new WebSocket(`${scheme}${location.host}/matches/${this.match_id}/stream${query}`));
      socket.binaryType = "arraybuffer";
      socket.onopen = () => { this.held.clear(); this.remembered(); };
      socket.onmessage = ({ data }) => (typeof data === "string" ? this.message(JSON.parse(data)) : this.frame(socket, data).catch((error) => (this.gone = error.message)));
      socket.onclose = ({ code, reason }) => this.closed || (code === 4410 ? (this.gone = reason) : this.again());
    },
    async again() {
      let answer = null;
      try { answer = await fetch("/matches/" + this.match_id, { headers: { Accept: "application/json" } }); } catch { /* the server is unavailable: try again */ }
      if (answer && answer.status >= 400 && answer.status < 500) this.gone = (await answer.json()).error;
      else setTimeout(() => this.closed || this.open(), 800);
    },
    send(type, more = {}) {
      if (this.socket.readyState === 1) this.socket.send(JSON.stringify({ type, ...more }));
    },
    message(data) {
      if (data.type === "refused") {
        this.refused = data.text;
        clearTimeout(this.fade);
        this.fade = setTimeout(() => (this.refused = ""), 6000);
        return;
      }
      const moved = !this.s || this.s.step !== data.step;
      this.s = data;
      if (moved) this.refused = "";
      if (moved) this.$nextTick(() => this.$refs.moves && (this.$refs.moves.scrollTop = this.$refs.moves.scrollHeight));
    },
    async frame(socket, buffer) {
      const { facts, picture } = readFrame(buffer);
      const canvas = await drawPicture(picture, async () => {
        if (!this.s) await this.$nextTick();
        return this.socket === socket ? this.$refs.canvas : null;
      });
      if (this.socket !== socket) return;
      if (canvas) {
        this.ratio = canvas.width / canvas.height;
        canvas.dataset.step = facts.step;
      }
      this.send("seen"); // one picture is in flight at a time, and the next one is the newest
      this.rate = this.pictures.count();
      this.shown = facts;
    },
    press(spot) { this.send("press", { spot: spot.id }); },
    lean(spot) { // in real time a button acts as long as it is held
      clearInterval(this.leaning);
      if (spot && this.s.real_time) this.leaning = setInterval(() => this.press(spot), 30);
    },
    at(event) {
      const box = this.$refs.canvas.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    },
    click(event) {
      if (this.s.real_time || !this.s.chooser) return;
      const [x, y] = this.at(event);
      this.send("click", { x, y });
    },
    point(event) {
      if (!this.mouse || !this.s.axes) return;
      const [x, y] = this.at(event);
      this.steer([2 * x - 1, 1 - 2 * y]);
    },
    steer(values) {
      this.wanted = values.map((v) => Math.max(-1, Math.min(1, v)));
      this.sending ??= requestAnimationFrame(() => { this.sending = null; this.send("axes", { values: this.wanted }); });
    },
    pad() {
      const pad = this.s && [...(navigator.getGamepads?.() ?? [])].find(Boolean);
      if (!pad) return this.unplug();
      this.plugged = true;
      const dead = (v) => (Math.abs(v) < 0.12 ? 0 : v);
      if (this.s.axes) {
        const values = pad.axes.map((v, i) => dead(i % 2 ? -v : v));
        if (String(values) !== String(this.lastPad)) this.steer((this.lastPad = values));
        return;
      }
      const [x, y] = [dead(pad.axes[0] ?? 0), dead(pad.axes[1] ?? 0)];
      const down = (i) => pad.buttons[i]?.pressed;
      this.hold("ArrowLeft", x < -0.5 || down(14)); this.hold("ArrowRight", x > 0.5 || down(15));
      this.hold("ArrowUp", y < -0.5 || down(12)); this.hold("ArrowDown", y > 0.5 || down(13));
      this.hold("Space", down(0));
    },
    unplug() { // keys held by the gamepad must not stay held
      if (!this.plugged) return;
      this.plugged = false;
      this.lastPad = null;
      if (this.s?.axes) this.steer([]);
      for (const id of [...this.held]) if (id.startsWith("pad ")) this.hold(id.slice(4), false);
    },
    hold(code, on) {
      const id = "pad " + code;
      if (on && !this.held.has(id)) { this.held.add(id); this.send("key", { code, key: "", down: true }); }
      if (!on && this.held.delete(id)) this.send("key", { code, key: "", down: false });
    },
    uses(event) { return this.s.keys.some((b) => b.keys.includes(event.code)) || this.typed.some((t) => t.key === event.key); },
    key(event) {
      if (!this.s || event.metaKey || event.ctrlKey || event.altKey || event.target.closest?.(FIELDS)) return;
      if (event.type === "keyup") return void (this.held.delete(event.code) && this.send("key", { code: event.code, key: event.key, down: false }));
      if (this.asked !== null) return this.bind(event);
      if (["Space", "Enter"].includes(event.code) && event.target.closest?.("button, a, summary")) return; // the key activates that element
      const used = this.uses(event);
      if (used) event.preventDefault(); // arrows must not scroll
      if (event.repeat || this.held.has(event.code)) return;
      if (!used && OWN[event.code]) return this.send(OWN[event.code], OWN[event.code] === "pause" ? { on: !this.s.paused } : {});
      if (!used) return;
      this.held.add(event.code);
      this.send("key", { code: event.code, key: event.key, down: true });
    },
    release() {
      for (const code of this.held) this.send("key", { code: code.replace("pad ", ""), key: "", down: false });
      this.held.clear();
    },
    store() { return `mosaic keys ${this.s?.env ?? this.title}`; },
    bind(event) {
      event.preventDefault();
      if (event.code !== "Escape") {
        const bindings = this.s.keys.map((b, i) => (i === this.asked ? { ...b, keys: [event.code] } : b));
        localStorage.setItem(this.store(), JSON.stringify(bindings));
        this.send("keys", { bindings });
      }
      this.asked = null;
    },
    resetKeys() {
      localStorage.removeItem(this.store());
      this.editing = false;
      this.send("keys", { bindings: null });
    },
    async remembered() {
      while (!this.s && !this.closed) await new Promise((done) => setTimeout(done, 30));
      const kept = localStorage.getItem(this.store());
      if (kept && !this.s.own_keys) this.send("keys", { bindings: JSON.parse(kept) });
    },
    assign(a, event) {
      let policy = event.target.value;
      if (policy === "?") policy = window.prompt("Which policy? For example: random, minimax:depth=4, run:NAME@best", a.policy);
      if (policy && policy !== a.policy) this.send("assign", { agent: a.agent, policy });
      event.target.value = a.policy;
    },
    offered(a) { return [...new Set([a.policy, ...this.policies, a.back])]; },
    who(a) { return a.mine ? "You" : a.human ? "Another person" : a.policy; },
    status(a) { return this.s.phase !== "playing" || this.s.real_time || !a.acting ? "" : a.mine ? "your move" : a.human ? "their move" : "thinking…"; },
    name(code) { return NAMES[code] ?? code.replace(/^(Key|Digit|Numpad)/, ""); },
    keyName(b) { return b.keys.map((k) => this.name(k)).join(" + "); },
    number(value) { return (Math.round(value * 100) / 100).toLocaleString("en").replace("-", "\u2212"); },
    place({ rect, mark }) {
      if (!rect) return {};
      const [left, top, width, height] = rect.map((value) => value * 100 + "%");
      return { left, top, width, height, ...(mark ? { "--mx": mark[0] * 100 + "%", "--my": mark[1] * 100 + "%" } : {}) };
    },
    async invite(agent) {
      const link = `${location.origin}/play?match=${this.match_id}&agent=${encodeURIComponent(agent)}`;
      if (!(await mosaicCopy(link))) return void window.prompt("Copy this link:", link);
      this.copied = agent;
      setTimeout(() => (this.copied = ""), 2000);
    },
  },
};
