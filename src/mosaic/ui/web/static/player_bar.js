// Name, side, clock and policy of one agent of a match.
import { clockText } from "/static/board_marks.js";

export const PlayerBar = {
  props: { a: Object, s: Object, icons: Object, policies: Array, labels: Object, left: Number, captured: Number },
  emits: ["send"],
  template: `
    <div class="p-agent" :class="{turn: a.acting && !s.real_time, mine: a.mine}" :data-agent="a.agent">
      <i v-if="a.side !== a.agent" class="p-side" :class="a.side.toLowerCase()" aria-hidden="true">{{ a.side.length === 1 ? a.side : "" }}</i>
      <span class="p-who"><b><span class="clip" :title="who">{{ who }}</span><span v-if="a.side !== a.agent" class="muted"> · {{ a.side }}</span></b><span class="faint small">{{ a.agent }}{{ s.agents.length > 1 || s.step ? " · return " + number(a.return) : "" }}{{ captured === undefined ? "" : " · captured " + captured }}</span></span>
      <span v-if="status || left !== undefined || a.may_assign" class="end"><span v-if="status" class="small" :class="a.acting ? 'p-turn' : 'muted'">{{ status }}</span>
        <span v-if="left !== undefined" class="p-clock" :class="{low: left < 10, on: s.clocks.running.includes(a.agent)}" role="timer" :aria-label="'Time of ' + a.side">{{ clock }}</span>
        <template v-if="a.may_assign"><select :aria-label="'Policy of ' + a.agent" :value="a.policy" @change="assign"><option v-for="p in offered" :value="p">{{ p === "human" ? "a person" : labels[p] ?? p }}</option><option value="?">another policy…</option></select>
        <button type="button" class="m-btn small" @click="$emit('send', 'assign', {agent: a.agent, policy: a.human ? null : 'human'})"><i v-html="a.human ? icons.user : icons.hand"></i>{{ a.human ? "Hand back" : "Take over" }}</button></template></span></div>`,
  computed: {
    who() { return this.a.mine ? "You" : this.a.human ? "Another person" : this.labels[this.a.policy] ?? this.a.policy; },
    status() { return this.s.phase !== "playing" || this.s.real_time || !this.a.acting ? "" : this.a.mine ? "your move" : this.a.human ? "their move" : "thinking…"; },
    offered() { return [...new Set([this.a.policy, ...this.policies, this.a.back])]; },
    clock() { return clockText(this.left); },
  },
  methods: {
    number,
    assign(event) {
      let policy = event.target.value;
      if (policy === "?") policy = window.prompt("Which policy? For example: random, minimax:depth=4, run:NAME@best", this.a.policy);
      if (policy && policy !== this.a.policy) this.$emit("send", "assign", { agent: this.a.agent, policy });
      event.target.value = this.a.policy;
    },
  },
};

export function number(value) { return (Math.round(value * 100) / 100).toLocaleString("en").replace("-", "\u2212"); }
