// A recorded episode with a time slider. The server replays it in the background; pictures are fetched one at a time and
// cached by the browser, so that the slider can be dragged.
export default {
  template: `
<div class="rp">
  <p v-if="error" class="p-problem" role="alert" style="grid-column:1/-1"><i v-html="icons.alert"></i><span>{{ error }}</span></p>
  <template v-if="r">
  <div class="stack" style="gap:10px;min-width:0">
    <div class="p-board" :style="{'--ratio': ratio}"><img ref="image" :alt="'Step ' + step + ' of ' + title" @load="loaded" @error="failed"></div>
    <div class="p-bar"><button type="button" class="m-btn icon" :aria-label="playing ? 'Pause' : 'Play'" @click="toggle"><i v-html="playing ? icons.pause : icons.play"></i></button>
      <button type="button" class="m-btn icon" aria-label="One step back" @click="go(step - 1)"><i v-html="icons.step" style="transform:scaleX(-1)"></i></button>
      <button type="button" class="m-btn icon" aria-label="One step forward" @click="go(step + 1)"><i v-html="icons.step"></i></button>
      <input type="range" min="0" :max="r.env_steps" :value="step" @input="go(+$event.target.value)" aria-label="Step of the episode">
      <span class="num muted">{{ step }} of {{ r.env_steps }}</span>
      <select :value="speed" @change="speed = +$event.target.value" aria-label="Steps per second" class="rp-speed"><option v-for="v in [1, 2, 5, 10, 30]" :value="v">{{ v }}/s</option></select></div>
    <p class="p-said" role="status">{{ step ? r.moves[step - 1] ?? "" : "The first position." }}</p>
  </div>
  <div class="stack gap-4">
    <section class="m-panel"><header><h2 class="m-h2">Episode</h2></header><div class="m-body">
      <p>{{ verdict }}</p><div class="p-keys"><template v-for="(policy, agent) in r.policies"><div class="strong">{{ agent }}</div><div>{{ policy }} · {{ number(sofar[agent] ?? 0) }} of {{ number(r.returns[agent] ?? 0) }}</div></template></div>
      <p class="m-note">Seed {{ r.seed }}. The numbers are returns: until this step, and in the end.</p></div></section>
    <section class="m-panel"><header><h2 class="m-h2">Steps</h2></header><div class="m-body tight"><ol class="p-list" tabindex="0" aria-label="Steps"><li v-for="n in listed" :class="{last: n === step}"><span class="n">{{ n }}</span><button type="button" class="clip" @click="go(n)">{{ r.moves[n - 1] }}</button><span></span></li></ol></div></section>
  </div></template>
  <p v-else-if="!error" class="m-note">Playing it again…</p>
</div>`,
  props: { replay_id: String, title: String, icons: Object },
  data: () => ({ r: null, error: "", step: 0, playing: false, speed: 2, ratio: 1 }),
  computed: {
    verdict() {
      if (this.r.error) return this.r.error;
      if (this.r.same === null) return `Played again up to step ${this.r.drawn}.`;
      return this.r.same ? `Played again bit for bit the same, ${this.r.env_steps} env steps.` : `The replay differs from the record at ${this.r.difference}.`;
    },
    listed() { // a window around the step: an episode may have thousands
      const first = Math.max(1, Math.min(this.step - 50, this.r.moves.length - 100));
      return Array.from({ length: Math.min(101, this.r.moves.length - first + 1) }, (_, i) => first + i);
    },
    sofar() {
      const sums = {};
      for (const rewards of this.r.rewards.slice(0, this.step)) for (const [agent, value] of Object.entries(rewards)) sums[agent] = (sums[agent] ?? 0) + value;
      return sums;
    },
  },
  mounted() { this.fetch(true); },
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
    go(step) {
      this.step = Math.max(0, Math.min(this.r.env_steps, step));
      if (this.step === this.r.env_steps) this.playing = false;
      const address = `/replays/${this.replay_id}/pictures/${Math.floor(this.step / this.r.every) * this.r.every}`;
      if (this.$refs.image && !this.$refs.image.src.endsWith(address)) this.$refs.image.src = address;
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
    loaded() { this.error = ""; this.ratio = this.$refs.image.naturalWidth / this.$refs.image.naturalHeight; this.$refs.image.dataset.step = this.step; },
    async failed() {
      const answer = await fetch(this.$refs.image.src);
      if (!answer.ok) { this.error = (await answer.json()).error; this.playing = false; }
    },
    number(value) { return (Math.round(value * 100) / 100).toLocaleString("en").replace("-", "\u2212"); },
  },
};
