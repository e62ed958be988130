// Figures that answer: walk over a pattern by pointer, touch or arrow keys; choose a head; zoom into a long text.

const WINDOW = 32, NARROW = 16, WHOLE = 64; // tokens in the window of a long text; on a phone; that are shown at once
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// One pattern of a figure, or of several heads to choose from.
lensons.PatternView = class {
  constructor(figure, data, numbers, place) {
    Object.assign(this, { figure, data, ...numbers, names: data.heads, labels: data.labels, causal: data.causal, words: data.words });
    const n = this.n = this.labels.length, start = data.row ?? n - 1;
    this.state = { head: 0, row: data.row, query: start, key: this.largest(0, start) };
    this.long = n > WHOLE;
    this.count = !this.long ? n : place.clientWidth < 480 ? NARROW : WINDOW;
    this.stronger = data.stronger ?? this.long;
    this.said = lensons.element("p", { class: "said", role: "status" });
    this.select = lensons.element("select", {}, ...this.names.map((name, i) => lensons.element("option", { value: i }, name)));
    this.select.addEventListener("change", () => this.choose({ head: Number(this.select.value) }));
    this.chooser = lensons.element("label", { class: "choose-head" }, this.words.head + " ", this.select);
    this.chooser.hidden = this.names.length < 2;
    const box = lensons.element("input", { type: "checkbox" });
    box.checked = this.stronger;
    box.addEventListener("change", () => { this.stronger = box.checked; this.draw(); });
    const controls = lensons.element("div", { class: "controls" }, this.chooser, lensons.element("label", {}, box, " " + this.words.stronger));
    this.grid = lensons.element("div", { class: "grid", tabindex: "0", ...lensons.ownKeys, role: "application", "aria-roledescription": this.words.role });
    for (const name of ["tabindex", "role", "aria-label"]) place.removeAttribute(name); // the grid has its own
    const pictures = lensons.element("div", this.long ? { class: "pictures-side" } : {}, ...(this.long ? [this.makeOverview()] : []), this.grid);
    place.replaceChildren(controls, pictures, this.said);
    this.board = new lensons.Board(this.grid, { causal: this.causal, onCell: (query, key, chosen) => (chosen ? this.choose({ query, key }) : this.say(query, key)) });
    this.grid.addEventListener("keydown", (event) => this.walk(event));
    this.grid.addEventListener("pointerleave", () => this.say());
    this.corner = this.long ? [this.cornerAt(this.state.query), this.cornerAt(this.state.key)] : [0, 0];
    this.draw();
    figure.lensons = this;
    lensons.painted.push((other) => this.paint(other));
  }

  largest(head, query) { // the key with the largest share, the first token left out where there is another
    let best = query > 0 ? 1 : 0;
    for (let k = best; k <= (this.causal ? query : this.n - 1); k++) if (this.share(head, query, k) > this.share(head, query, best)) best = k;
    return best;
  }
  seen(query, key) { return !this.causal || key <= query; }
  cornerAt(position) { return Math.max(0, Math.min(this.n - this.count, position - (this.count >> 1))); }

  // Numbers from elsewhere: more heads than the figure carries itself.
  source(names, share, exact) {
    Object.assign(this, { names, share, exact: exact ?? (() => true), under: undefined });
    this.chooser.hidden = this.said.hidden = true; // whoever gives the numbers has the controls, and says what is chosen
  }

  // What is looked at now: head, query, key, and the row that is ringed.
  choose(change, quiet = false) {
    const before = this.state, state = (this.state = { ...before, ...change });
    if ("query" in change && before.row !== null && !("row" in change)) state.row = state.query;
    if (!("key" in change) && !this.seen(state.query, state.key)) state.key = state.query;
    if (this.long) for (const [axis, position] of [state.query, state.key].entries())
      if (position < this.corner[axis] || position >= this.corner[axis] + this.count) { this.corner[axis] = this.cornerAt(position); this.moved = true; }
    if (state.head !== before.head || this.moved) this.draw(state.head !== before.head);
    this.moved = false;
    this.mark();
    this.say();
    if (!quiet) this.figure.dispatchEvent(new CustomEvent("lensons:choice", { detail: { ...state }, bubbles: true }));
  }

  walk(event) {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation(); // a notebook would go to another cell of its own
    const { query, key } = this.state, last = this.n - 1, far = event.shiftKey ? 10 : 1;
    this.choose({ query: Math.max(0, Math.min(last, query + step[0] * far)), key: Math.max(0, Math.min(last, key + step[1] * far)) });
  }

  mark() {
    const { row, query, key } = this.state;
    this.board.mark(row, [query, key]);
    if (!this.long) return;
    const [y, x] = this.corner, size = this.count;
    for (const [name, value] of Object.entries({ x, y, width: size, height: size })) this.frame.setAttribute(name, value);
  }

  sentence(query, key) {
    const values = { query: this.labels[query], key: this.labels[key] };
    if (!this.seen(query, key)) return lensons.fill(this.words.hidden, values);
    const share = this.share(this.state.head, query, key), exact = this.exact(this.state.head);
    const shown = share === 0 && this.under && !exact ? lensons.fill(this.words.under, { under: this.under }) : (exact ? "" : this.words.about + " ") + lensons.three(share);
    return lensons.fill(this.words.said, { ...values, share: shown });
  }
  say(query = this.state.query, key = this.state.key) { this.said.textContent = this.sentence(query, key); }

  draw(other = false) {
    const { head } = this.state;
    const name = this.names[head];
    this.select.value = String(head);
    this.grid.setAttribute("aria-label", lensons.fill(this.words.label, { head: name, n: this.n }));
    this.board.draw({ labels: this.labels, first: this.corner, count: this.count, share: (q, k) => this.share(head, q, k), name, stronger: this.stronger });
    this.figure.querySelector(".legend")?.classList.toggle("stronger", this.stronger);
    if (this.long && (other || !this.drawn)) this.paintOverview();
    if (other) this.table();
    this.drawn = true;
    this.mark();
    this.say();
  }

  paint(other = false) {
    if (!this.figure.isConnected) return;
    if (other || this.board.root.dataset.painted === "lensons") this.board.paint(); // CircuitsVis' colours are turned by CSS
    if (this.long) this.paintOverview();
  }

  // A long text: every cell of the overview is the strongest of a block, so that no bright one is lost.
  makeOverview() {
    const { n } = this;
    this.frame = lensons.drawn("rect", { class: "chosen", "vector-effect": "non-scaling-stroke" });
    const svg = lensons.drawn("svg", { class: "lensons-picture", viewBox: `0 0 ${n} ${n}`, "aria-hidden": "true" });
    if (this.causal) svg.append(...lensons.hatched(`M0 0H${n}V${n}Z`, n / 80));
    svg.append(this.frame);
    this.canvas = lensons.element("canvas");
    const root = lensons.element("div", { class: "overview" }, this.canvas, svg), block = Math.ceil(n / 512);
    const go = (event) => {
      const box = root.getBoundingClientRect(), at = (x) => Math.max(0, Math.min(n - 1, Math.floor(x * n)));
      const query = at((event.clientY - box.top) / box.height), key = at((event.clientX - box.left) / box.width);
      this.corner = [this.cornerAt(query), this.cornerAt(key)];
      this.moved = true;
      this.choose({ query, key });
    };
    root.addEventListener("click", go);
    root.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
    const words = lensons.fill(this.words.overview, { n, count: this.count }) + (block > 1 ? " " + lensons.fill(this.words.blocks, { block }) : "");
    return lensons.element("div", {}, root, lensons.element("p", { class: "note" }, words));
  }
  paintOverview() {
    const { n, causal } = this, { head } = this.state, block = Math.ceil(n / 512), m = Math.ceil(n / block);
    const strongest = (y, x) => {
      if (causal && x > y) return -1;
      let most = 0;
      for (let q = y * block; q < Math.min(n, (y + 1) * block); q++)
        for (let k = x * block; k < Math.min(causal ? q + 1 : n, (x + 1) * block); k++) most = Math.max(most, this.share(head, q, k));
      return lensons.stronger(most);
    };
    lensons.paint(this.canvas, m, m, strongest, lensons.colours(this.frame.ownerSVGElement));
  }

  // The numbers behind the picture are those of the head that is shown.
  table() {
    const body = this.figure.querySelector("tbody"), { head } = this.state, rows = [];
    if (!body || body.rows[0]?.cells.length !== 3) return;
    for (let q = 0; q < this.n; q++) {
      let keys = Array.from({ length: this.causal ? q + 1 : this.n }, (_, k) => k);
      if (this.long) keys = keys.sort((a, b) => this.share(head, q, b) - this.share(head, q, a) || a - b).slice(0, 3);
      for (const k of keys) {
        const share = this.share(head, q, k), cell = lensons.element("td", { class: "bar", style: `--w:${share.toFixed(4)}` }, lensons.three(share));
        cell.title = this.exact(head) ? String(share) : `${this.words.about} ${share}`;
        rows.push(lensons.element("tr", {}, lensons.element("th", { scope: "row" }, this.labels[q]), lensons.element("td", {}, this.labels[k]), cell));
      }
    }
    body.replaceChildren(...rows);
  }
};

// All heads of a model as small pictures, a row a layer: the chosen one is shown large below.
lensons.AllHeads = class {
  constructor(figure, data, numbers, place) {
    const { layers, columns } = data, n = data.labels.length, side = Math.min(n, 40), block = Math.ceil(n / side), gap = 4;
    this.side = Math.ceil(n / block);
    Object.assign(this, { data, numbers, n, block, step: this.side + gap, columns, layers, chosen: data.chosen });
    const width = columns * this.step, height = layers * this.step; // half a gap around each, where the ring goes
    this.canvas = lensons.element("canvas");
    this.ring = lensons.drawn("rect", { class: "chosen", width: this.step - 1, height: this.step - 1, "vector-effect": "non-scaling-stroke" });
    this.svg = lensons.drawn("svg", { class: "lensons-picture", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, this.ring);
    this.index = lensons.element("div", { class: "overview index", tabindex: "0", ...lensons.ownKeys, role: "application", "aria-roledescription": data.words.role_all, "aria-label": data.words.label_all }, this.canvas, this.svg);
    const wide = Math.max(240, Math.min(860, Math.round(width * Math.max(1, 24 / this.side))));
    // Numbers of the layers on the left and of the heads on top; some are left out where they would touch.
    const edge = (kind, letter, count, far) => lensons.element("div", { class: kind, "aria-hidden": "true" }, ...Array.from({ length: count }, (_, i) =>
      i % Math.max(1, Math.ceil(far / (wide * this.step / width))) ? "" : lensons.element("span", { style: `--at:${(100 * (i + 0.5)) / count}%` }, letter + i)));
    const framed = lensons.element("div", { class: "numbered", style: `max-width:${wide + 36}px` }, edge("above", "H", columns, 30), edge("beside", "L", layers, 15), this.index);
    const below = lensons.element("div");
    for (const name of ["tabindex", "role", "aria-label"]) place.removeAttribute(name);
    place.replaceChildren(framed, lensons.element("p", { class: "note" }, data.words.note_all), below);
    this.view = new lensons.PatternView(figure, data, numbers, below);
    this.view.chooser.hidden = false;
    const under = (event) => {
      const box = this.index.getBoundingClientRect(), at = (x, count) => Math.max(0, Math.min(count - 1, Math.floor(x * count)));
      return at((event.clientY - box.top) / box.height, layers) * columns + at((event.clientX - box.left) / box.width, columns);
    };
    this.index.addEventListener("click", (event) => this.go(under(event)));
    this.index.addEventListener("pointermove", (event) => { this.index.title = data.heads[under(event)]; });
    this.index.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      const layer = Math.floor(this.chosen / columns) + step[0], head = (this.chosen % columns) + step[1];
      if (layer >= 0 && layer < layers && head >= 0 && head < columns) this.go(layer * columns + head);
    });
    figure.addEventListener("lensons:choice", (event) => { this.chosen = event.detail.head; this.mark(); });
    this.paint();
    this.view.choose({ head: this.chosen, key: this.view.largest(this.chosen, n - 1) });
    lensons.painted.push(() => this.paint());
  }
  go(head) { this.view.choose({ head }); }
  mark() {
    this.ring.setAttribute("x", (this.chosen % this.columns) * this.step + 0.5);
    this.ring.setAttribute("y", Math.floor(this.chosen / this.columns) * this.step + 0.5);
  }
  paint() {
    const { n, block, side, step, columns, numbers: { share } } = this;
    const strongest = (y, x) => {
      const q0 = (y % step) - 2, k0 = (x % step) - 2, head = Math.floor(y / step) * columns + Math.floor(x / step);
      if (q0 < 0 || k0 < 0 || q0 >= side || k0 >= side || (this.data.causal && k0 > q0)) return -1;
      let most = 0;
      for (let q = q0 * block; q < Math.min(n, (q0 + 1) * block); q++)
        for (let k = k0 * block; k < Math.min(this.data.causal ? q + 1 : n, (k0 + 1) * block); k++) most = Math.max(most, share(head, q, k));
      return lensons.stronger(most);
    };
    lensons.paint(this.canvas, columns * step, this.layers * step, strongest, lensons.colours(this.svg));
  }
};
