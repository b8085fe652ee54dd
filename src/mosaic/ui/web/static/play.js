// A match on its own WebSocket: the picture on a canvas, legal moves as real buttons over it, all players, the policy's
// action probabilities. Messages from the server are the whole state (text) or a picture (frame_message.js).
// The server knows the rules; nothing here knows a game.
import CardTable from "/static/card_table.js";
import { PictureRate, drawPicture, readFrame } from "/static/frame_message.js";
import { MoveList } from "/static/move_list.js";
import { PlayerBar, number } from "/static/player_bar.js";
import { cellRect, coordinates, keepKey, matchKeys, middle, paint, play, turned } from "/static/board_marks.js";

const NAMES = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Space: "Space", Enter: "Enter" };
const OWN = { KeyP: "pause", Period: "step" }; // keys of the page itself, unless the game uses them
const FIELDS = "input, textarea, select, [contenteditable], [role=dialog]";

export default {
  components: { CardTable, MoveList, PlayerBar },
  template: `
<div class="p-grid">
  <p v-if="gone" class="m-panel p-gone" role="alert"><span>{{ gone }}</span><a class="m-btn primary" href="/play">New match</a></p>
  <template v-else-if="s">
  <div class="stack gap-4 p-left">
    <section class="m-panel"><header><h2 class="m-h2">Match</h2><span class="end"><a class="m-link small" href="/play">New match</a></span></header>
      <div class="m-body">
        <label v-if="s.real_time" class="p-rate"><span class="row between"><span>Speed</span><span class="muted">{{ Math.round(s.rate_hz) }} steps/s</span></span>
          <input v-if="s.owner" type="range" min="1" max="60" :value="s.rate_hz" @change="send('rate', {hz: +$event.target.value})" aria-label="Env steps per second"></label>
        <p v-if="!controls" class="m-note">You watch this match: its players and its owner control it.{{ s.seed === null ? "" : " Seed " + s.seed + "." }}</p>
        <template v-else><form class="p-seed" @submit.prevent="reseed"><label for="p-seed">Seed</label><input id="p-seed" type="text" inputmode="numeric" class="p-text" :value="s.seed ?? ''" :placeholder="s.seed === null ? 'shown at the end' : ''"><button class="m-btn small">Play this seed</button></form>
        <label class="row between"><span>Keep the episodes</span><input type="checkbox" class="p-switch" role="switch" :checked="s.recording" @change="send('record', {on: $event.target.checked})"></label>
        <p v-if="s.kept.length" class="m-note">Kept: {{ s.kept.length }}. <a class="m-link" :href="'/replay?name=' + encodeURIComponent(s.kept.at(-1))">Replay the last one</a></p>
        <label class="row between"><span>Record as demonstration</span><input type="checkbox" class="p-switch" role="switch" :checked="!!s.demo" @change="send('demo', {name: $event.target.checked ? demo : null}); $event.target.checked = !!s.demo"></label>
        <input v-if="!s.demo" type="text" class="p-text" v-model.trim="demo" maxlength="80" aria-label="Name of the demonstration">
        <p v-if="s.demo || s.demo_episodes" class="m-note">{{ s.demo ? "Episodes are added to " + s.demo + " when they end, including this one from its start." : "" }} Added: {{ s.demo_episodes }}. <a class="m-link" :href="'/demos?name=' + encodeURIComponent(s.demo || demo)">Show</a></p></template>
        <label v-if="s.axes" class="row between"><span>{{ touch ? "Steer by touch" : "Steer with the mouse" }}</span><input type="checkbox" class="p-switch" role="switch" v-model="mouse" @change="mouse || steer([])"></label>
        <label class="row between"><span>Sounds</span><input type="checkbox" class="p-switch" role="switch" :checked="sounds" @change="setSounds($event.target.checked)"></label>
        <div class="stack gap-1" v-if="s.agents.length > 1 && s.owner">
          <span class="m-note">Play with another person: send a link. They need this server's token.</span>
          <button v-for="a in invited" type="button" class="m-btn small" @click="invite(a)"><i v-html="icons.link"></i>{{ copied === a.agent ? "Copied" : "Link for " + a.agent }}</button>
          <button v-if="!s.revealed && s.claims.length" v-for="a in s.agents.filter((a) => a.human && !a.mine)" type="button" class="m-btn small" @click="send('assign', {agent: a.agent, policy: 'human'})"><i v-html="icons.user"></i>Play {{ a.agent }} here too</button>
        </div>
        <p v-if="!s.revealed" class="m-note">Each player sees what their own agent may see. The episode can be downloaded and replayed when it is over.</p>
        <div v-else class="row wrap"><a class="m-btn small" :href="'/matches/' + match_id + '/episode'" download><i v-html="icons.export"></i>Download episode</a>
        <a class="m-btn small" v-if="s.step" :href="'/replay?match=' + match_id">Replay</a></div>
      </div></section>
    <section class="m-panel p-keypanel" v-if="s.keys.length || typed.length"><header><h2 class="m-h2">Keys</h2><span v-if="me.length" class="small faint clip">you are {{ me.map((a) => a.agent).join(", ") }}</span><span class="end">
        <button v-if="s.own_keys" type="button" class="m-link small" @click="resetKeys">Reset</button>
        <button v-if="s.keys.length" type="button" class="m-link small" :aria-pressed="editing" @click="editing = !editing; asked = null">{{ editing ? "Done" : "Edit" }}</button></span></header>
      <div class="m-body"><div class="p-keys">
        <template v-if="typed.length && !editing && (onButtons || !s.keys.some((b) => b.keys[0].startsWith('Digit')))"><div><kbd v-if="typed.length < 5" v-for="t in typed">{{ t.key }}</kbd><template v-else><kbd>{{ typed[0].key }}</kbd> – <kbd>{{ typed.at(-1).key }}</kbd></template></div><div>{{ typed.length > 1 ? (beside.some((t) => !t.key) ? "choose a move; others by their buttons" : "choose a move") : typed[0].label }}</div></template>
        <template v-if="editing" v-for="(b, i) in s.keys"><div><button type="button" class="m-btn small" :class="{on: asked === i}" @click="asked = i" :aria-label="'Another key for ' + b.label">{{ asked === i ? "press a key" : keyName(b) }}</button></div>
          <div>{{ b.label }}<span v-if="b.agent" class="faint"> · {{ b.agent }}</span></div></template>
        <template v-else-if="!onButtons" v-for="g in grouped"><div><kbd v-for="k in g.names">{{ k }}</kbd></div><div>{{ g.label }}<span v-if="g.agent" class="faint"> · {{ g.agent }}</span></div></template>
        <template v-if="!editing"><div><kbd>P</kbd></div><div>pause or resume</div><div><kbd>.</kbd></div><div>one step</div></template>
      </div></div></section>
  </div>
  <div class="stack p-middle" :class="{crowd: above.length > 1}">
    <player-bar v-for="a in above" :key="a.agent" :a="a" :s="s" :icons="icons" :policies="policies" :labels="labels" :left="left(a)" :captured="s.layout?.captured[s.agents.indexOf(a)]" @send="send"></player-bar>
    <card-table v-if="s.table" :table="s.table" :mine="mine" :acting="acting"></card-table>
    <div v-else class="p-board" :class="{many: onPicture.length > 60, points: s.layout?.points, observed: !s.pictures}" :style="{'--ratio': ratio, '--less': less}" ref="board">
      <pre v-if="!s.pictures" class="p-observed" tabindex="0" aria-label="Your observation" @click="resume">{{ s.text || "Nothing is shown to spectators of this game before it is over." }}</pre>
      <template v-else>
      <canvas ref="canvas" tabindex="0" role="img" :class="{steered: mouse && s.axes}" :aria-label="'Picture of ' + title + ', step ' + s.step" @click="click" @pointermove="point" @pointerdown="point" @pointerup="lift" @pointercancel="lift" @contextrestored="paint"></canvas>
      <template v-if="s.layout">
        <span v-for="c in names" class="p-coord" :class="c.edge" :style="place(c)" aria-hidden="true">{{ c.text }}</span>
        <span v-for="rect in s.last" class="p-last" :class="{placed: s.last.length === 1}" :style="place({rect})"></span>
        <span v-for="[row, column] in s.layout.line" class="p-won" :style="place({rect: cell(row, column)})"></span></template>
      <svg v-if="arrows.length" class="p-arrows" viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true"><defs><marker id="p-head" viewBox="0 0 4 4" refX="2.4" refY="2" markerWidth="2.6" markerHeight="2.6" orient="auto"><path d="M0 0 4 2 0 4z"></path></marker></defs>
        <line v-for="w in arrows" :x1="w.from[0]" :y1="w.from[1]" :x2="w.to[0]" :y2="w.to[1]" :stroke-width="0.6 + 2.4 * w.share" :opacity="0.35 + 0.6 * w.share" marker-end="url(#p-head)"></line></svg>
      <span v-for="t in onBoard" class="p-share" :style="{...place({rect: t.places.at(-1)}), '--share': t.probability}" aria-hidden="true"><b>{{ share(t) }}</b></span>
      <span v-if="thoughts.length && s.advice.value !== null" class="p-value" aria-hidden="true">{{ valueWords }} <b>{{ number(s.advice.value) }}</b></span>
      <span v-for="a in marked" class="p-mine" :class="{left: a.place[0] < 0.04, right: a.place[0] + a.place[2] > 0.96, top: a.place[1] < 0.04}" :style="place({rect: a.place})" aria-hidden="true"><b>You</b></span>
      <template v-if="s.chooser && !s.paused">
        <button v-for="t in s.selected" v-show="t.rect" type="button" class="p-picked" :aria-label="t.label + ', chosen'" aria-pressed="true" :style="place(t)" @click="press(t)" @pointerdown="grab(t, $event)"></button>
        <button v-for="t in s.others" :key="'o' + t.id" v-show="t.rect" type="button" class="p-spot other" :aria-label="t.label" :style="place(t)" @click="press(t)" @pointerdown="grab(t, $event)"></button>
        <button v-for="t in onPicture" :key="t.id + s.path.length" type="button" class="p-spot" :class="{glyph: t.glyph, marked: t.mark, piece: !t.mark && !t.glyph}" :aria-label="t.label" :title="t.label" :style="place(t)" @click="press(t)" @pointerdown="grab(t, $event)"><b v-if="t.glyph">{{ t.glyph }}</b><kbd v-else-if="t.key && onPicture.length < 12">{{ t.key }}</kbd></button>
      </template>
      <canvas v-show="drag" ref="ghost" class="p-ghost" :style="ghost" aria-hidden="true"></canvas></template>
      <button v-if="s.ready && me.length && s.phase === 'playing'" type="button" class="p-ready" @click="send('ready')"><b v-if="s.ready.starts_in_s !== null" class="count">{{ Math.max(1, Math.ceil(countdown)) }}</b>
        <template v-else-if="s.ready.mine"><b>Ready</b><span>Waiting for {{ s.ready.people - s.ready.ready }} more.</span></template>
        <template v-else><b>{{ touch ? "Tap" : "Press a key or click" }} to start</b><span>You play {{ me.map((a) => a.agent).join(" and ") }}<template v-if="s.ready.people > 1"> · {{ s.ready.ready }} of {{ s.ready.people }} ready</template></span>
          <span v-if="touch && s.axes">Steer with a finger on the picture.</span>
          <span class="p-legend"><span v-for="g in grouped.slice(0, 8)"><kbd v-for="k in g.names">{{ k }}</kbd>{{ g.label }}</span></span></template></button>
      <div v-else-if="s.paused && s.phase === 'playing'" class="p-paused">Paused{{ away ? (touch ? ": tap to resume" : ": press a key or click to resume") : "" }}</div>
    </div>
    <p class="hud p-pace" v-if="s.real_time">step {{ (s.pictures ? shown.step : s.step).toLocaleString("en") }} · {{ Math.round(s.rate_hz) }} steps/s<template v-if="s.pictures"> · {{ rate }} pictures/s</template></p>
    <div v-if="s.phase === 'over' || s.phase === 'failed'" class="p-end"><p role="status"><b v-if="s.phase === 'over' && s.verdict" class="p-verdict">{{ s.verdict }}</b><span>{{ ending }}</span></p>
      <span v-if="controls" class="row wrap"><button type="button" class="m-btn primary" @click="send('restart')"><i v-html="icons.restart"></i>Play again</button><button v-if="s.phase === 'over'" type="button" class="m-btn small" :disabled="s.in_demo" @click="saveDemo"><i v-html="icons.record"></i>{{ s.in_demo ? "Saved as demonstration" : "Save as demonstration" }}</button></span></div>
    <div v-if="beside.length && s.chooser" class="p-choices" role="group" aria-label="Your actions"><button v-for="t in beside" :key="t.id" type="button" class="m-btn" :disabled="s.paused" @click="press(t)" @pointerdown="lean(t)" @pointerup="lean(null)" @pointerleave="lean(null)" @pointercancel="lean(null)">{{ t.label }}<kbd v-if="t.key && !s.real_time">{{ t.key }}</kbd></button></div>
    <p v-if="s.error" class="p-problem" role="alert"><i v-html="icons.alert"></i><span>{{ s.error }}</span></p>
    <p v-if="s.note" class="p-problem warn"><i v-html="icons.info"></i><span>{{ s.note }}</span></p>
    <p v-if="told" class="p-problem warn" role="status"><i v-html="icons.info"></i><span>{{ told }}</span></p>
    <p class="p-said" role="status" aria-live="polite">{{ refused || line }}</p>
    <player-bar v-for="a in below" :key="a.agent" :a="a" :s="s" :icons="icons" :policies="policies" :labels="labels" :left="left(a)" :captured="s.layout?.captured[s.agents.indexOf(a)]" @send="send"></player-bar>
    <div class="p-ctl"><template v-if="controls"><button v-if="!ended" type="button" class="m-btn" @click="send('pause', {on: !s.paused})"><i v-html="s.paused ? icons.play : icons.pause"></i>{{ s.paused ? "Resume" : "Pause" }}</button>
      <button v-if="!ended" type="button" class="m-btn" @click="send('step')"><i v-html="icons.step"></i>Step</button>
      <button v-if="!ended" type="button" class="m-btn" @click="send('restart')"><i v-html="icons.restart"></i>Restart</button></template>
      <button v-if="s.undo" type="button" class="m-btn" @click="send('undo')"><i v-html="icons.undo"></i>Take back</button>
      <button v-if="s.layout?.turns" type="button" class="m-btn" :aria-pressed="spun" @click="spun = !spun"><i v-html="icons.flip"></i>Turn board</button>
      <button v-if="s.agents.length > 1 && s.owner" type="button" class="m-btn" @click="send('swap')"><i v-html="icons.swap"></i>Swap sides</button></div>
  </div>
  <div class="stack gap-4 p-right">
    <section class="m-panel"><header><h2 class="m-h2">What the policy would play</h2><span class="end"><button type="button" class="m-link small" :aria-pressed="s.thinking" @click="send('thoughts', {on: !s.thinking})">{{ s.thinking ? "Hide" : "Show" }}</button></span></header>
      <div class="m-body" v-if="s.thinking"><template v-if="s.advice">
        <p class="m-note">{{ labels[s.advice.policy] ?? s.advice.policy }} for {{ s.advice.agent }}</p>
        <p v-if="s.advice.note" class="m-note">{{ s.advice.note }}</p>
        <div class="stack gap-1"><div v-for="(t, i) in s.advice.thoughts" class="p-prob" :class="{best: i === 0}"><span class="clip">{{ t.san || t.label }}</span><span class="track"><i :style="{width: t.probability * 100 + '%'}"></i></span><span class="num">{{ share(t) }}</span></div></div>
        <p v-if="s.advice.thoughts.some((t) => t.visits)" class="m-note">Numbers count the simulations of the search.</p>
        <p v-if="s.advice.value !== null" class="row between small"><span class="muted">{{ valueWords }}</span><b>{{ number(s.advice.value) }}</b></p></template>
        <p v-else class="m-note">No advice yet.</p></div>
      <div class="m-body" v-else><p class="m-note">Hidden, so that it does not play for you.</p></div></section>
    <section v-if="s.pictures && !s.revealed && s.text" class="m-panel"><header><h2 class="m-h2">Your observation</h2></header><div class="m-body tight"><pre class="p-seen" tabindex="0" aria-label="Your observation">{{ s.text }}</pre></div></section>
    <section v-if="!s.real_time" class="m-panel"><header><h2 class="m-h2">Moves</h2><span class="end small faint">{{ s.moves.length || "" }}</span></header>
      <div class="m-body tight"><move-list :moves="s.moves" :sides="sides" :step="s.step"></move-list>
        <p v-if="!s.moves.length" class="m-note p-none">No move yet.</p></div></section>
    <section v-if="many.length" class="m-panel"><header><h2 class="m-h2">Agents</h2><span class="end small faint">{{ many.length }}</span></header>
      <div class="m-body tight"><ul class="p-agents" tabindex="0" aria-label="Agents"><li v-for="a in many"><span class="clip"><b>{{ a.agent }}</b><br><span class="faint small clip">{{ a.mine ? "You" : a.human ? "Another person" : labels[a.policy] ?? a.policy }} · {{ number(a.return) }}</span></span>
        <button v-if="a.may_assign" type="button" class="m-btn small" @click="send('assign', {agent: a.agent, policy: a.human ? null : 'human'})">{{ a.human ? "Hand back" : "Take over" }}</button></li></ul></div></section>
  </div></template>
  <p v-else class="m-note">Opening the match…</p>
</div>`,
  props: { match_id: String, agent: String, title: String, policies: Array, labels: Object, icons: Object },
  data: () => ({ s: null, demo: "", gone: "", refused: "", mouse: matchMedia("(hover: none)").matches, editing: false, asked: null, copied: "", ratio: 1, rate: 0, shown: { step: 0 }, spun: false, drag: null, away: false, touch: matchMedia("(hover: none)").matches, told: "", sounds: localStorage.getItem("mosaic sounds") === "on", now: 0, stateAt: 0 }),
  computed: {
    mine() { return this.s.agents.filter((a) => a.mine).map((a) => a.agent); },
    acting() { return this.s.agents.filter((a) => a.acting).map((a) => a.agent); },
    ended() { return this.s.phase === "over" || this.s.phase === "failed"; },
    near() { // this browser's players, as at a table
      const all = this.s.agents, mine = all.filter((a) => a.mine);
      if (this.s.table) mine.sort((a, b) => b.acting - a.acting); // as the card table: who is to move sits nearest
      return all.length === 1 ? all : (mine.length ? mine : all.slice(0, 1)).slice(0, all.length === 2 ? 1 : 4);
    },
    below() { return this.s.layout?.turns && this.spun ? this.s.agents.filter((a) => !this.near.includes(a)) : this.near; }, // at the lower edge
    above() { return this.s.agents.length > 4 ? [] : this.s.agents.filter((a) => !this.below.includes(a)); },
    me() { return this.s.agents.filter((a) => a.mine); },
    controls() { return this.s.owner || this.me.length > 0 || !this.s.agents.some((a) => a.human); },
    onButtons() { return !this.s.real_time && !this.s.own_keys && this.s.keys.length > 0 && this.s.keys.every((b) => b.keys[0].startsWith("Digit")); }, // the keys are shown on the buttons of legal actions
    marked() { return this.s.agents.length > 1 ? this.me.filter((a) => a.place) : []; },
    fromOtherSide() { return !!this.s?.layout?.turns && this.s.agents.indexOf(this.below[0]) === 1; },
    names() { return coordinates(this.s.layout, this.fromOtherSide); },
    less() { return (this.beside.length ? 44 : 0) + (["over", "failed"].includes(this.s.phase) ? 74 : 0) + "px"; },
    countdown() { return this.s.ready.starts_in_s - (this.now - this.stateAt) / 1000; },
    sides() { return this.s.layout?.sides === 2 && this.s.agents.length === 2 ? this.s.agents.map((a) => a.agent) : null; },
    thoughts() { return this.s.thinking && this.s.phase === "playing" ? this.s.advice?.thoughts ?? [] : []; },
    valueWords() { return this.s.advice.proven ? "exact return" : "expected return"; },
    onBoard() { return this.thoughts.filter((t) => t.places.length === 1 && t.probability >= 0.005); },
    arrows() {
      return this.thoughts.filter((t) => t.places.length > 1 && t.probability >= 0.02).slice(0, 6).map((t) => ({ from: middle(this.seen(t.places[0])), to: middle(this.seen(t.places.at(-1))), share: t.probability }));
    },
    ending() {
      const { phase, verdict, reason, result } = this.s;
      if (phase === "failed") return "The episode cannot continue.";
      const told = verdict && reason.startsWith(verdict + ": ") ? reason.slice(verdict.length + 2) : reason; // not twice
      if (!verdict) return result;
      return this.s.agents.some((a) => told.startsWith(a.agent)) ? told : told.charAt(0).toUpperCase() + told.slice(1); // names stay as they are
    },
    ghost() { return this.drag ? { left: this.drag.x + "px", top: this.drag.y + "px", width: this.drag.width + "px", height: this.drag.height + "px" } : {}; },
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
    typed() { return this.s.real_time ? [] : this.s.spots.filter((t) => t.key).sort((a, b) => (a.key === "0") - (b.key === "0") || a.key.localeCompare(b.key)); }, // 0 is the tenth
    line() {
      const s = this.s;
      if (s.phase !== "playing" || s.paused) return "";
      if (s.chooser) return s.spots.some((t) => t.glyph) ? "Choose a piece." : s.path.length ? "Choose a destination." : s.real_time ? "" : `Your turn${s.agents.length > 1 ? " as " + s.agents.find((a) => a.agent === s.chooser).side : ""}.`;
      if (s.claims.length && !this.me.length) return `You watch: ${s.claims.join(", ")} is played by another person or a policy.`;
      const waits = s.agents.filter((a) => a.acting);
      return s.real_time || !waits.length ? "" : waits.some((a) => a.human) ? `Waiting for ${waits[0].side}.` : `${this.labels[waits[0].policy] ?? waits[0].policy} is thinking.`;
    },
  },
  watch: { fromOtherSide() { this.paint(); } },
  mounted() {
    this.held = new Set();
    this.pictures = new PictureRate();
    this.onKey = (event) => this.key(event);
    this.onBlur = () => { // a window without focus must not keep keys held, and its game must not continue
      this.release();
      if (this.s?.real_time && this.s.phase === "playing" && !this.s.paused && !this.s.ready && this.me.length) { this.away = true; this.send("pause", { on: true }); }
    };
    this.source = document.createElement("canvas"); // the picture as the server sends it
    this.source.getContext("2d", { willReadFrequently: true }); // in memory: a phone may take a graphics context away
    this.onDrag = (event) => this.move(event);
    this.onDrop = (event) => this.drop(event);
    this.ticks = setInterval(() => (this.now = performance.now()), 100);
    window.addEventListener("pointermove", this.onDrag);
    window.addEventListener("pointerup", this.onDrop);
    window.addEventListener("keydown", this.onKey);
    window.addEventListener("keyup", this.onKey);
    window.addEventListener("blur", this.onBlur);
    this.pads = setInterval(() => this.pad(), 25);
    this.open();
  },
  beforeUnmount() {
    this.closed = true;
    clearInterval(this.pads);
    clearInterval(this.ticks);
    window.removeEventListener("pointermove", this.onDrag);
    window.removeEventListener("pointerup", this.onDrop);
    clearInterval(this.leaning);
    window.removeEventListener("keydown", this.onKey);
    window.removeEventListener("keyup", this.onKey);
    window.removeEventListener("blur", this.onBlur);
    this.socket?.close();
  },
  methods: {
    open() {
      const scheme = location.protocol === "https:" ? "wss://" : "ws://";
      const asked = this.claims?.length === 1 ? this.claims[0] : this.agent;
      const keys = matchKeys(this.match_id, asked);
      const own = this.claims?.length ? this.claims : asked && !keys.length ? [asked] : []; // a key gives its agent
      const query = "?" + new URLSearchParams([...own.map((agent) => ["agent", agent]), ...(asked && keys.length ? [["has_key", "true"]] : [])]);
      const socket = (this.socket = new WebSocket(`${scheme}${location.host}/matches/${this.match_id}/stream${query}`));
      socket.binaryType = "arraybuffer";
      socket.onopen = () => {
        this.held.clear();
        for (const key of keys) this.send("identify", { key });
        this.remembered();
      };
      socket.onmessage = ({ data }) => (typeof data === "string" ? this.message(JSON.parse(data)) : this.frame(socket, data).catch((error) => (this.gone = error.message)));
      socket.onclose = ({ code, reason }) => this.closed || (code === 4410 ? (this.gone = reason) : this.again());
    },
    async again() {
      let answer = null;
      try { answer = await fetch("/matches/" + this.match_id, { headers: { Accept: "application/json" } }); } catch { this.refused = "The server does not respond. The match continues when it is back."; }
      if (answer?.status === 404) this.gone = "This match has ended.";
      else if (answer && answer.status >= 400 && answer.status < 500) this.gone = (await answer.json()).error;
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
      this.demo ||= data.env.split("/").at(-1).replace(/[^A-Za-z0-9_]+/g, "-").replace(/^[-_]+/, "").slice(0, 70) + "-demo";
      this.hear(data);
      if (this.s?.paused && !data.paused) this.away = false; // not on a state that was sent before the pause arrived
      this.s = data;
      this.keepClaims(data.claims);
      this.stateAt = this.now = performance.now();
      if (moved) this.refused = "";
    },
    hear(data) { // what is new: reassigned agents in words, moves as sounds
      const fresh = (this.s ? data.news.filter((n) => n.number > (this.s.news[0]?.number ?? 0)) : []).map((n) => n.text);
      if (fresh.length) {
        this.told = fresh.reverse().join(" ");
        clearTimeout(this.forget);
        this.forget = setTimeout(() => (this.told = ""), 12000);
      }
      if (!this.sounds || !this.s) return;
      if (data.phase === "over" && this.s.phase !== "over") play("end");
      else if (this.s.ready && !data.ready) play("start");
      else if (!data.real_time) {
        const mine = data.agents.filter((a) => a.mine).map((a) => a.agent);
        const kinds = new Set(data.moves.filter((m) => m.step > this.s.step).map((m) => (mine.includes(m.agent) ? "own" : "move")));
        if (kinds.size) play(...kinds);
      }
    },
    setSounds(on) {
      this.sounds = on;
      localStorage.setItem("mosaic sounds", on ? "on" : "off");
      if (on) play("start");
    },
    async frame(socket, buffer) {
      const { facts, picture } = readFrame(buffer);
      const drawn = await drawPicture(picture, async () => {
        await this.$nextTick(); // the canvas comes with the state that allows pictures
        return this.socket === socket && this.$refs.canvas ? this.source : null;
      });
      if (this.socket !== socket) return;
      if (drawn && this.$refs.canvas) {
        this.ratio = drawn.width / drawn.height;
        this.paint();
        this.$refs.canvas.dataset.step = facts.step;
      }
      this.send("seen"); // one picture is in flight at a time, and the next one is the newest
      this.rate = this.pictures.count();
      this.shown = facts;
    },
    keepClaims(claims) { // after a reload or a restart of the server it must be the same agent
      if (String(this.claims ?? "") === String(claims)) return;
      this.claims = claims;
      for (const a of this.s.agents) if (a.mine && a.held && a.key) keepKey(this.match_id, a.key, a.agent);
      const address = new URL(location);
      if (claims.length === 1) address.searchParams.set("agent", claims[0]);
      else if (!claims.length) address.searchParams.delete("agent");
      history.replaceState(history.state, "", address);
    },
    reseed(event) {
      const text = event.target.elements["p-seed"].value.trim();
      if (!/^\d{1,10}$/.test(text) || +text >= 2 ** 31) return void this.message({ type: "refused", text: "A seed is a whole number from 0 to 2147483647." });
      this.send("restart", { seed: +text });
    },
    saveDemo() { // this episode alone
      this.send("demo", { name: this.demo });
      this.send("demo", { name: null });
    },
    paint() {
      if (this.source.width && this.$refs.canvas) paint(this.source, this.$refs.canvas, this.s.layout, this.fromOtherSide);
    },
    seen(rect) { return this.fromOtherSide ? turned(rect, this.s.layout.area) : rect; },
    cell(row, column) { return cellRect(this.s.layout, row, column); },
    share(t) { return t.visits ? t.visits.toLocaleString("en") : Math.round(t.probability * 100) + "%"; },
    left(a) {
      const clocks = this.s.clocks;
      if (!clocks || !(a.agent in clocks.left_s)) return undefined;
      return clocks.left_s[a.agent] - (clocks.running.includes(a.agent) ? (this.now - this.stateAt) / 1000 : 0);
    },
    grab(spot, event) { // a piece is dragged as well as clicked
      if (spot.mark || spot.glyph || event.button || !this.s.layout) return;
      this.held_ = { spot, x: event.clientX, y: event.clientY };
    },
    move(event) {
      const held = this.held_;
      if (!held) return;
      if (!this.drag && Math.hypot(event.clientX - held.x, event.clientY - held.y) < 6) return;
      const box = this.$refs.canvas.getBoundingClientRect(), [x, y, w, h] = this.seen(held.spot.rect), ghost = this.$refs.ghost, canvas = this.$refs.canvas;
      if (!this.drag) {
        if (this.s.path[0] !== held.spot.id) this.press(held.spot);
        [ghost.width, ghost.height] = [w * canvas.width, h * canvas.height];
        ghost.getContext("2d").drawImage(canvas, x * canvas.width, y * canvas.height, ghost.width, ghost.height, 0, 0, ghost.width, ghost.height);
      }
      const [width, height] = [w * box.width, h * box.height];
      this.drag = { x: event.clientX - box.left - width / 2, y: event.clientY - box.top - height / 2, width, height };
    },
    drop(event) {
      const held = this.held_, dragged = this.drag;
      this.held_ = this.drag = null;
      if (!dragged) return;
      this.dropped = performance.now(); // the click that follows belongs to the drag
      const [x, y] = this.at(event), [left, top, w, h] = held.spot.rect;
      if (x < 0 || x > 1 || y < 0 || y > 1) return this.send("press", { spot: held.spot.id }); // outside: it goes back
      if (!(x >= left && x < left + w && y >= top && y < top + h)) this.send("click", { x, y });
    },
    press(spot) {
      if (this.s.ready && !this.s.ready.mine) this.send("ready");
      if (performance.now() - (this.dropped ?? -1e9) > 80) this.send("press", { spot: spot.id });
    },
    lean(spot) { // in real time a button acts as long as it is held
      clearInterval(this.leaning);
      if (spot && this.s.real_time) this.leaning = setInterval(() => this.press(spot), 30);
    },
    at(event) {
      const box = this.$refs.canvas.getBoundingClientRect();
      const [x, y] = this.seen([(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height, 0, 0]);
      return [x, y];
    },
    click(event) {
      if (this.resume() || performance.now() - (this.dropped ?? -1e9) < 80) return;
      if (this.s.real_time || !this.s.chooser) return;
      const [x, y] = this.at(event);
      this.send("click", { x, y });
    },
    point(event) {
      if (!this.mouse || !this.s.axes) return;
      const [x, y] = this.at(event);
      this.steer([2 * x - 1, 1 - 2 * y]);
    },
    lift({ pointerType }) { // a finger that has left steers no more
      if (pointerType === "touch" && this.mouse && this.s.axes) this.steer([]);
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
    resume() { // after the window had lost its focus
      if (!this.away || !this.s.paused) return false;
      this.away = false;
      this.send("pause", { on: false });
      return true;
    },
    uses(event) { return this.s.keys.some((b) => b.keys.includes(event.code)) || this.typed.some((t) => t.key === event.key); },
    key(event) {
      if (!this.s || event.metaKey || event.ctrlKey || event.altKey || event.target.closest?.(FIELDS)) return;
      if (event.type === "keyup") return void (this.held.delete(event.code) && this.send("key", { code: event.code, key: event.key, down: false }));
      if (this.asked !== null) return this.bind(event);
      if (["Space", "Enter"].includes(event.code) && event.target.closest?.("button, a, summary")) return; // the key activates that element
      if (this.s.ready && !this.s.ready.mine && this.me.length) { event.preventDefault(); this.send("ready"); }
      this.resume();
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
    name(code) { return NAMES[code] ?? code.replace(/^(Key|Digit|Numpad)/, ""); },
    keyName(b) { return b.keys.map((k) => this.name(k)).join(" + "); },
    number,
    place({ rect, mark }) {
      if (!rect) return {};
      const [left, top, width, height] = this.seen(rect).map((value) => value * 100 + "%");
      return { left, top, width, height, ...(mark ? { "--mx": mark[0] * 100 + "%", "--my": mark[1] * 100 + "%" } : {}) };
    },
    async invite({ agent, key }) { // the key is in the part of the link that browsers do not send
      const link = `${location.origin}/play?match=${this.match_id}&agent=${encodeURIComponent(agent)}#key=${key}`;
      if (!(await mosaicCopy(link))) return void window.prompt("Copy this link:", link);
      this.copied = agent;
      setTimeout(() => (this.copied = ""), 2000);
    },
  },
};
