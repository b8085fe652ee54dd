// Live picture of a run on its own WebSocket, drawn on a canvas. The server sends the newest picture for each credit, never
// a queue.
import { PictureRate, drawPicture, readFrame } from "/static/frame_message.js";

const WORDS = {
  waiting: "waiting for the first picture",
  stalled: "no new picture: the worker is busy",
  finished: "the run has ended; this was its last picture",
  died: "the worker has died; this was its last picture",
};

export default {
  template: `
    <div class="m-canvas" :class="{ blank }">
      <canvas ref="canvas" :aria-label="label" role="img" width="768" height="432"></canvas>
      <div class="hud"><span ref="stats">waiting for the first picture</span></div>
    </div>`,
  props: { url: String, label: String },
  data: () => ({ blank: true }), // a black box says less than a line of text
  mounted() {
    this.rate = new PictureRate();
    this.$watch(() => this.url, () => { this.socket?.close(); this.open(); });
    this.onShown = () => document.hidden || this.freeze(this.frozen);
    document.addEventListener("visibilitychange", this.onShown);
    this.open();
  },
  beforeUnmount() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.onShown);
    this.socket?.close();
  },
  methods: {
    open() {
      const scheme = location.protocol === "https:" ? "wss://" : "ws://";
      const socket = (this.socket = new WebSocket(scheme + location.host + this.url));
      socket.binaryType = "arraybuffer";
      socket.onopen = () => this.credit(socket);
      socket.onmessage = ({ data }) => this.message(socket, data).catch((error) => this.$refs.stats && (this.$refs.stats.textContent = error.message));
      socket.onclose = ({ code, reason }) => {
        if (this.closed || this.socket !== socket) return;
        if (code === 1000 && !this.drawn) this.$emit("unseen"); // there is no picture, and none will come
        if (code === 1000) this.$refs.stats.textContent = this.drawn ? `the run is ${reason}; this was its last picture` : `the run is ${reason} and showed no picture`;
        else if (reason) this.$refs.stats.textContent = reason;
        if (code !== 1000 && code < 4000) setTimeout(() => this.closed || this.socket !== socket || this.open(), 1500);
      };
    },
    credit(socket) {
      if (this.frozen || document.hidden) return void (this.owed = socket); // frozen or hidden: request no picture
      if (socket.readyState === 1) socket.send("1");
    },
    async message(socket, buffer) {
      const { facts, picture } = readFrame(buffer);
      if (!picture) return void (facts.state in WORDS && (this.$refs.stats.textContent = WORDS[facts.state]));
      if (!(await drawPicture(picture, () => (this.socket === socket ? this.$refs.canvas : null)))) return;
      this.drawn = true;
      this.blank = false;
      this.credit(socket);
      this.count(facts);
    },
    count(facts) {
      const rate = this.rate.count();
      const now = performance.now();
      if (now - (this.shown ?? 0) < 250) return;
      this.shown = now;
      const so_far = facts.return === null || facts.return === undefined ? "" : `  ·  return so far ${+facts.return.toFixed(2)}`;
      this.$refs.stats.textContent = `step ${facts.step.toLocaleString("en")}  ·  ${rate} pictures/s${so_far}`;
    },
    freeze(on) {
      this.frozen = on;
      if (!on && this.owed) { const socket = this.owed; this.owed = null; this.credit(socket); }
    },
  },
};
