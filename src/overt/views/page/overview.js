// One small picture of every head, a row of them for every attention.

import { MASKED, pooled } from "./cells.js";
import { Scale } from "./shades.js";
import { element } from "./inspector.js";

export class Overview {
  constructor(app) {
    this.app = app;
    this.thumbs = new Map();
    const host = document.getElementById("overview");
    if (app.parts.length === 1 && app.part.H === 1) {
      host.hidden = true;
      return;
    }
    host.classList.toggle("many", app.parts.reduce((sum, part) => sum + part.H, 0) > 24);
    app.parts.forEach((part, index) => {
      const heads = Array.from({ length: part.H }, (_, h) => {
        const canvas = element("canvas", { width: 64, height: 64, "aria-hidden": "true" });
        const button = element(
          "button",
          {
            class: "thumb",
            "aria-label": `${app.title(part)}, head ${h}`,
            title: `${app.title(part)}, head ${h}`,
            onclick: () => {
              app.how = "one";
              app.choose(index, h);
            },
          },
          canvas,
        );
        this.thumbs.set(`${index} ${h}`, { button, canvas, part, h });
        return button;
      });
      host.append(
        element(
          "div",
          { class: "heads", role: "group", "aria-label": app.title(part) },
          element("span", { class: "name" }, app.title(part)),
          element("div", {}, ...heads),
        ),
      );
    });
  }

  draw(part, h) {
    const { app } = this,
      thumb = this.thumbs.get(`${app.parts.indexOf(part)} ${h}`),
      scan = part.scan(app.row < part.B ? app.row : 0, h);
    if (!thumb || !scan) return;
    const { ramp, masked } = app.theme,
      g = thumb.canvas.getContext("2d"),
      size = 64;
    const R = Math.min(size, scan.rows),
      C = Math.min(size, scan.columns);
    const values = pooled(
      scan.largest,
      0,
      scan.rows,
      0,
      scan.columns,
      scan.rows,
      scan.columns,
      R,
      C,
      new Float32Array(R * C).fill(MASKED),
    );
    const scale = new Scale(values, app.wish),
      image = g.createImageData(C, R);
    for (let i = 0; i < values.length; i++) {
      if (values[i] === MASKED) continue;
      const at = 3 * Math.round(scale.level(values[i]) * 255);
      image.data.set([ramp[at], ramp[at + 1], ramp[at + 2], 255], 4 * i);
    }
    const small = document.createElement("canvas");
    [small.width, small.height] = [C, R];
    small.getContext("2d").putImageData(image, 0, 0);
    g.imageSmoothingEnabled = false;
    g.fillStyle = masked;
    g.fillRect(0, 0, size, size);
    g.drawImage(small, 0, 0, size, size);
  }

  drawAll() {
    for (const { part, h } of this.thumbs.values()) this.draw(part, h);
  }

  // Say which heads are shown.
  mark() {
    const { app } = this;
    for (const [key, { button }] of this.thumbs) {
      const [index, head] = key.split(" ").map(Number);
      button.setAttribute(
        "aria-pressed",
        String(app.parts[index] === app.part && (app.how !== "one" || head === app.head)),
      );
    }
  }
}
