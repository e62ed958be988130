// A pattern as a board: rows look, columns are looked at. The cells are painted below, by CircuitsVis where the page has
// it; labels, the hatch for what cannot be seen, the ring and the focus lie above as SVG, sharp and in the page's colours.

lensons.element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
lensons.drawn = (name, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// Arrow keys are ours in these elements; JupyterLab would go to another cell, and leaves those alone that say so.
lensons.ownKeys = { "data-lm-suppress-shortcuts": "true" };

// 256 colours from paper to ink, as the page has them now.
lensons.colours = (styled) => {
  const style = getComputedStyle(styled), [l0, l1, c1] = ["--l0", "--l1", "--c1"].map((name) => Number(style.getPropertyValue(name)));
  const canvas = lensons.element("canvas", { width: 256, height: 1 }), context = canvas.getContext("2d", { willReadFrequently: true });
  for (let i = 0; i < 256; i++) {
    context.fillStyle = `oklch(${l0 + (l1 * i) / 255} ${0.008 + (c1 * i) / 255} 265)`;
    context.fillRect(i, 0, 1, 1);
  }
  return new Uint32Array(context.getImageData(0, 0, 256, 1).data.buffer);
};

// Faint cells drawn stronger: .001 as a tenth of the way to ink, .01 as a fifth, .1 as a half.
lensons.stronger = Math.cbrt;

// How wide a label is drawn, in pixels.
lensons.wide = (text) => {
  lensons.ruler ??= lensons.element("canvas").getContext("2d");
  lensons.ruler.font = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
  return lensons.ruler.measureText(text).width;
};

// Paint numbers from 0 to 1 on a canvas, one pixel each; below 0 stays clear.
lensons.paint = (canvas, width, height, value, colours) => {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const v = value(y, x);
    if (v >= 0) pixels[y * width + x] = colours[Math.min(255, Math.round(v * 255))];
  }
  context.putImageData(image, 0, 0);
};

// What cannot be seen: an area with fine lines across, so many units apart.
lensons.count = 0;
lensons.hatched = (path, gap) => {
  const id = `lensons-hatch-${++lensons.count}`;
  const line = lensons.drawn("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: gap, style: `stroke-width:${gap / 3}` });
  const pattern = lensons.drawn("pattern", { id, width: gap, height: gap, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, line);
  return [lensons.drawn("defs", {}, pattern), lensons.drawn("path", { d: path, fill: `url(#${id})` })];
};

lensons.Board = class {
  // place: where it goes; onCell(query, key, chosen): the pointer is over a cell, or chose it.
  constructor(place, { causal, onCell }) {
    Object.assign(this, { causal, onCell });
    this.cells = lensons.element("div", { class: "cells", "aria-hidden": "true" });
    this.svg = lensons.drawn("svg", { class: "lensons-picture", "aria-hidden": "true", "font-size": "12", "font-family": "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" });
    this.root = lensons.element("div", { class: "board" }, this.cells, this.svg);
    place.append(this.root);
    const cell = (event) => {
      const box = this.svg.getBoundingClientRect(), unit = box.width / this.total;
      const [x, y] = [(event.clientX - box.left) / unit, (event.clientY - box.top) / unit].map((at) => Math.floor((at - this.margin) / this.size));
      return x < 0 || y < 0 || x >= this.count || y >= this.count ? null : [this.first[0] + y, this.first[1] + x];
    };
    this.svg.addEventListener("pointermove", (event) => { const at = cell(event); if (at) this.onCell(...at, false); });
    this.svg.addEventListener("click", (event) => { const at = cell(event); if (at) this.onCell(...at, true); });
  }

  // labels: of all tokens; first: the query and key in the corner; share(query, key): positions in the whole text;
  // stronger: faint cells are drawn as their cube root.
  draw({ labels, first, count, share, name, stronger }) {
    Object.assign(this, { labels, first, count, share, name, stronger });
    const short = (text) => (text.length > 14 ? text.slice(0, 13) + "…" : text), s = (x) => String(Math.round(x * 10) / 10);
    const rows = labels.slice(first[0], first[0] + count), columns = labels.slice(first[1], first[1] + count);
    this.margin = Math.max(...[...rows, ...columns].map((text) => lensons.wide(short(text)))) + 14;
    this.size = count <= 24 ? 26 : Math.max(8, Math.floor(620 / count));
    const { margin, size } = this, side = size * count, step = Math.max(1, Math.ceil(13 / size));
    this.total = margin + side + 4;
    this.root.style.maxWidth = `${Math.round(this.total)}px`;
    this.root.style.minWidth = `${Math.round(this.total * 0.63)}px`; // 12 px letters stay 7.5 px, and the place scrolls
    this.svg.setAttribute("viewBox", `0 0 ${s(this.total)} ${s(this.total)}`);
    const share100 = (x) => `${((100 * x) / this.total).toFixed(4)}%`;
    Object.assign(this.cells.style, { left: share100(margin), top: share100(margin), width: share100(side), height: share100(side) });
    const group = lensons.drawn("g", { transform: `translate(${s(margin)} ${s(margin)})` });
    if (size >= 12) {
      const lines = Array.from({ length: count + 1 }, (_, i) => `M0 ${i * size}H${side}M${i * size} 0V${side}`).join("");
      group.append(lensons.drawn("path", { class: "lines", d: lines }));
    }
    const hidden = Array.from({ length: count }, (_, i) => Math.max(0, Math.min(count, first[0] + i - first[1] + 1)));
    if (this.causal && hidden.some((seen) => seen < count)) {
      const path = hidden.map((seen, i) => (seen < count ? `M${seen * size} ${i * size}H${side}V${(i + 1) * size}H${seen * size}Z` : "")).join("");
      group.append(...lensons.hatched(path, 6));
    }
    group.append(lensons.drawn("rect", { class: "frame", width: side, height: side }));
    const text = (label, attributes) => lensons.drawn("text", { class: "label", ...attributes }, short(label), ...(label.length > 14 ? [lensons.drawn("title", {}, label)] : []));
    for (let i = 0; i < count; i += step) {
      const at = s((i + 0.5) * size + 4);
      if (rows[i] !== undefined) group.append(text(rows[i], { x: "-8", y: at, "text-anchor": "end" }));
      if (columns[i] !== undefined) group.append(text(columns[i], { transform: `translate(${at} -8) rotate(-90)` }));
    }
    this.ring = lensons.drawn("rect", { class: "chosen" });
    this.spot = lensons.drawn("rect", { class: "spot", width: size, height: size });
    group.append(this.ring, this.spot);
    this.svg.replaceChildren(group);
    this.paint();
  }

  // row: the query that is ringed; spot: the cell that has the focus, or null.
  mark(row, spot) {
    const { size, count, first } = this, y = row - first[0], seen = this.causal ? row - first[1] + 1 : count;
    const rect = (element, shown, values) => { element.style.display = shown ? "" : "none"; if (shown) for (const [key, value] of Object.entries(values)) element.setAttribute(key, value); };
    const width = Math.max(0, Math.min(count, seen)) * size;
    rect(this.ring, row !== null && y >= 0 && y < count && width > 0, { x: -1, y: y * size - 1, width: width + 2, height: size + 2 });
    const [q, k] = spot ? [spot[0] - first[0], spot[1] - first[1]] : [-1, -1];
    rect(this.spot, q >= 0 && k >= 0 && q < count && k < count, { x: k * size, y: q * size });
  }

  paint() {
    const { count, first, causal } = this, share = this.stronger ? (q, k) => lensons.stronger(this.share(q, k)) : this.share;
    const shown = (y, x) => (first[0] + y >= this.labels.length || first[1] + x >= this.labels.length || (causal && first[1] + x > first[0] + y) ? -1 : share(first[0] + y, first[1] + x));
    if (typeof CircuitsVis !== "undefined" && this.labels.length <= 64) {
      // Its rows reach 15 px over on either side, so it is given that much less.
      const place = lensons.element("div", { id: `lensons-cells-${++lensons.count}`, style: "margin:0 15px;width:calc(100% - 30px)" });
      this.cells.replaceChildren(place);
      const square = Array.from({ length: count }, (_, y) => Array.from({ length: count }, (_, x) => Math.round(Math.max(0, shown(y, x)) * 1e4) / 1e4));
      CircuitsVis.render(place.id, CircuitsVis.AttentionPattern, {
        attention: square, tokens: this.labels, maskUpperTri: causal, showAxisLabels: false, upperTriColor: "#0000", positiveColor: "#003080", minValue: 0, maxValue: 1,
      });
      this.root.dataset.painted = "circuitsvis";
      return;
    }
    const canvas = lensons.element("canvas");
    lensons.paint(canvas, count, count, shown, lensons.colours(this.svg));
    this.cells.replaceChildren(canvas);
    this.root.dataset.painted = "lensons";
  }
};
