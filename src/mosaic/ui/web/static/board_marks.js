// Marks over the picture of a board: coordinates, the view from the other side, arrows of a policy, sounds. Rectangles are
// [left, top, width, height] in fractions of the picture, as the server sends them; nothing here knows a game.

// Returns the rectangle as it is seen from the other side of the board.
export function turned([x, y, width, height], [left, top, w, h]) {
  return [2 * left + w - x - width, 2 * top + h - y - height, width, height];
}

export function cellRect({ area: [left, top, width, height], rows, columns }, row, column) {
  return [left + (column * width) / columns, top + (row * height) / rows, width / columns, height / rows];
}

// Copies the picture; from the other side cell by cell, so that pieces stay upright.
export function paint(source, canvas, layout, fromOtherSide) {
  if (canvas.width !== source.width || canvas.height !== source.height) [canvas.width, canvas.height] = [source.width, source.height];
  const context = canvas.getContext("2d");
  context.drawImage(source, 0, 0);
  if (!fromOtherSide) return;
  const pixels = ([x, y, w, h]) => [x * source.width, y * source.height, w * source.width, h * source.height];
  for (let row = 0; row < layout.rows; row++)
    for (let column = 0; column < layout.columns; column++) {
      const rect = cellRect(layout, row, column);
      context.drawImage(source, ...pixels(rect), ...pixels(turned(rect, layout.area)));
    }
}

// Returns the names of rows and columns with the cells at whose edge they stand.
export function coordinates(layout, fromOtherSide) {
  const side = fromOtherSide ? layout.columns - 1 : 0, end = fromOtherSide ? 0 : layout.rows - 1;
  return [
    ...layout.row_names.map((text, row) => ({ text, edge: "row", rect: cellRect(layout, row, side) })),
    ...layout.column_names.map((text, column) => ({ text, edge: "column", rect: cellRect(layout, end, column) })),
  ];
}

export const middle = ([x, y, width, height]) => [(x + width / 2) * 100, (y + height / 2) * 100];

let audio = null;

// Plays a short tone, two for the end; several kinds follow each other.
export function play(...kinds) {
  audio ??= new AudioContext();
  const tones = kinds.flatMap((kind) => ({ move: [440], own: [330], end: [392, 523], start: [660] })[kind]);
  for (const [place, pitch] of tones.entries()) {
    const tone = audio.createOscillator(), volume = audio.createGain(), start = audio.currentTime + 0.14 * place;
    tone.type = "triangle";
    tone.frequency.value = pitch;
    volume.gain.setValueAtTime(0.12, start);
    volume.gain.exponentialRampToValueAtTime(0.001, start + 0.13);
    tone.connect(volume).connect(audio.destination);
    tone.start(start);
    tone.stop(start + 0.14);
  }
}

// Keys of matches that this browser has, each with its agent; "" is the owner's. Two tabs may play two agents.
const STORE = "mosaic match keys", MOST_KEYS = 50;
const keptKeys = () => JSON.parse(localStorage.getItem(STORE) ?? "[]");

export function keepKey(match, key, agent = "") {
  const others = keptKeys().filter(([id, , whose = ""]) => id !== match || whose !== agent);
  localStorage.setItem(STORE, JSON.stringify([[match, key, agent], ...others].slice(0, MOST_KEYS)));
}

// Returns the keys that a page with this agent shows: the one in the part of its link that browsers do not send, or those that it has kept.
export function matchKeys(match, agent) {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) {
    keepKey(match, given, agent);
    history.replaceState(history.state, "", location.pathname + location.search);
    return [given];
  }
  return keptKeys().filter(([id, , whose = ""]) => id === match && ["", agent].includes(whose)).map(([, key]) => key);
}

export function clockText(seconds) {
  const left = Math.max(0, seconds), whole = Math.ceil(left);
  return left < 10 ? left.toFixed(1) : `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
