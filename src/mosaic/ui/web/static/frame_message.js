// Frame message of runs, live sessions and matches: version (u8), length of the facts (u32, little-endian), facts as JSON,
// encoded picture or nothing. The same as in telemetry/pictures/message.py.
const VERSION = 1;
const HEAD = 5; // bytes

// Returns the facts and the encoded picture (null if the message has none).
export function readFrame(buffer) {
  const view = new DataView(buffer);
  const version = buffer.byteLength ? view.getUint8(0) : 0;
  if (version !== VERSION) throw new Error(`The server sent a picture of version ${version}; this page reads version ${VERSION}. Reload the page.`);
  const start = HEAD + view.getUint32(1, true);
  const facts = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, HEAD, start - HEAD)));
  return { facts, picture: buffer.byteLength > start ? new Blob([new Uint8Array(buffer, start)], { type: `image/${facts.format}` }) : null };
}

// Draws an encoded picture on the canvas that `find` returns after decoding, and returns that canvas; none if it finds none.
export async function drawPicture(picture, find) {
  const bitmap = await createImageBitmap(picture);
  const canvas = await find();
  if (canvas) {
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
  }
  bitmap.close();
  return canvas;
}

// Counts the pictures of the last second.
export class PictureRate {
  times = [];

  count() {
    const now = performance.now();
    this.times = this.times.filter((time) => now - time < 1000).concat(now);
    return this.times.length;
  }
}
