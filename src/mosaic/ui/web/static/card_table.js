// A card table: seats around what lies in the middle, the viewer's own seat nearest. The server says which cards are seen
// and what they mean; nothing here knows a game. A card without a rank is seen from the back.
export default {
  template: `
<div class="c-table" role="group" aria-label="Card table">
  <section v-for="seat in above" class="c-seat" :class="{turn: acting.includes(seat.agent)}" :aria-label="seat.agent"><header><b>{{ seat.agent }}</b><span v-if="acting.includes(seat.agent)" class="c-turn">to move</span><span v-for="f in seat.facts" class="c-fact">{{ f.label }} <b>{{ f.value }}</b></span></header>
    <div class="c-rows"><card-row v-for="row in seat.rows" :row="row"></card-row></div></section>
  <div class="c-middle"><p v-if="table.facts.length" class="c-facts"><span v-for="f in table.facts" class="c-fact">{{ f.label }} <b>{{ f.value }}</b></span></p>
    <div class="c-rows"><card-row v-for="row in table.middle" :row="row" labelled></card-row></div></div>
  <section v-for="seat in below" class="c-seat own" :class="{turn: acting.includes(seat.agent)}" :aria-label="seat.agent"><header><b>{{ seat.agent }}{{ mine.includes(seat.agent) ? " (you)" : "" }}</b><span v-if="acting.includes(seat.agent)" class="c-turn">to move</span><span v-for="f in seat.facts" class="c-fact">{{ f.label }} <b>{{ f.value }}</b></span></header>
    <div class="c-rows"><card-row v-for="row in seat.rows" :row="row"></card-row></div></section>
</div>`,
  props: { table: Object, mine: { type: Array, default: () => [] }, acting: { type: Array, default: () => [] } },
  computed: {
    below() { // one seat is nearest, also to a spectator
      const own = this.table.seats.filter((seat) => this.mine.includes(seat.agent));
      const near = own.find((seat) => this.acting.includes(seat.agent)) ?? own[0] ?? this.table.seats[0];
      return [near];
    },
    above() { return this.table.seats.filter((seat) => !this.below.includes(seat)); },
  },
  components: {
    CardRow: {
      template: `<div class="c-row" :class="{small: row.small}"><span class="c-label" :class="{hide: !labelled && row.label === 'Hand'}">{{ row.label }}</span>
  <div class="c-cards" role="list"><span v-for="card in row.cards" role="listitem" class="c-place"><span role="img" class="c-card" :class="[card.colour, {back: !card.rank && !card.absent, absent: card.absent, word: card.suit.length > 1, meld: card.group}]" :aria-label="[card.name, ...card.notes].join(', ')" :title="card.name"><template v-if="card.rank"><b>{{ card.rank }}</b><i>{{ card.suit }}</i></template><i v-else-if="card.suit">{{ card.suit }}</i></span>
    <span v-for="note in card.notes" class="c-note" aria-hidden="true">{{ note }}</span></span></div>
  <span v-if="row.note" class="c-note">{{ row.note }}</span></div>`,
      props: { row: Object, labelled: Boolean },
    },
  },
};
