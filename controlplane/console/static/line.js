import { h } from "./dom.js";

const room = 48; // values

// Line is a small line of the latest values, without axes. It is decoration: the
// values are beside it.
export class Line {
  #canvas = null;
  #values = [];

  // canvas is made when it is first seen: most connections of a long list never are.
  get canvas() {
    this.#canvas ??= h("canvas", { width: 2 * 96, height: 2 * 24, "aria-hidden": "true" });
    return this.#canvas;
  }

  add(value) {
    this.#values.push(value);
    if (this.#values.length > room) this.#values.shift();
  }

  draw() {
    const { width, height } = this.canvas, draw = this.canvas.getContext("2d");
    const most = Math.max(...this.#values, 1);
    draw.clearRect(0, 0, width, height);
    draw.strokeStyle = getComputedStyle(this.canvas).color;
    draw.lineWidth = 3;
    draw.beginPath();
    this.#values.forEach((v, i) => {
      draw.lineTo((i + room - this.#values.length) * width / (room - 1), height - 3 - (height - 6) * v / most);
    });
    draw.stroke();
  }
}
