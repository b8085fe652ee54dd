// Moves of a game in turns: of two sides beside each other, as chess players write them, else one below the other.
// In a replay each move is a button that shows its position.
export const MoveList = {
  props: { moves: Array, sides: Array, step: Number, jumps: Boolean }, // sides: the two agents of a board, the first one begins
  emits: ["go"],
  template: `
    <ol v-if="sides" class="p-pairs" ref="list" tabindex="0" aria-label="Moves"><li v-for="row in rows"><span class="n">{{ row.number }}.</span>
      <template v-for="m in row.pair"><button v-if="jumps && m" type="button" :class="{last: m.step === step}" @click="$emit('go', m.step)">{{ m.text }}</button><span v-else :class="{last: m?.step === step}">{{ m ? m.san || m.text : "…" }}</span></template></li></ol>
    <ol v-else class="p-list" ref="list" tabindex="0" aria-label="Moves"><li v-for="m in moves" :class="{last: m.step === step}"><span class="n">{{ m.step }}</span><span>{{ m.text }}</span><span class="faint clip">{{ m.agent }}</span></li></ol>`,
  computed: {
    rows() {
      const rows = [];
      for (const m of this.moves) {
        const second = m.agent === this.sides[1];
        if (!second || !rows.length || rows.at(-1).pair[1]) rows.push({ number: Math.ceil(m.step / 2), pair: [null, null] });
        rows.at(-1).pair[second ? 1 : 0] = m;
      }
      return rows;
    },
  },
  watch: { step: { handler: "follow", flush: "post" }, "moves.length": { handler: "follow", flush: "post" } },
  mounted() { this.follow(); },
  methods: {
    follow() { // the list scrolls, the page does not
      const list = this.$refs.list, last = list.querySelector(".last");
      if (!last) return void (list.scrollTop = 0);
      const box = list.getBoundingClientRect(), { top, bottom } = last.getBoundingClientRect();
      if (top < box.top) list.scrollTop -= box.top - top;
      else if (bottom > box.bottom) list.scrollTop += bottom - box.bottom;
    },
  },
};
