// Answers the reader of a lesson without a kernel. Fetches nothing, keeps nothing. Everything works without it, too.
(() => {
  "use strict";
  const lensons = self.lensonsFigures; // the figures' script comes first
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name in element && typeof value !== "string") element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };
  const json = (id) => { const e = document.getElementById(id); return e ? JSON.parse(e.textContent) : null; };
  const { fill, three } = lensons, unpack = (packed) => lensons.unpack(packed, "gzip");

  function half(bits) { // float16 to number
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
    if (exponent === 0) return sign * rest * 2 ** -24;
    return exponent === 31 ? (rest ? NaN : sign * Infinity) : sign * (1 + rest / 1024) * 2 ** (exponent - 15);
  }

  // --- questions: predict, commit, and only then the answer comes into the page ---------------------------------
  const outcome = new Map();
  const forms = [...document.querySelectorAll("form.question[data-form=page]")];
  for (const form of forms) {
    const key = form.querySelector("script"), hidden = JSON.parse(key.textContent);
    key.remove();
    const [button, skip] = [form.querySelector("button[type=submit]"), form.querySelector("button.skip")];
    const answers = [];
    for (let next = form, left = Number(form.dataset.hides ?? 0); left > 0; left--) { next = next.nextElementSibling; answers.push(next); }
    form.querySelector("details").remove();
    button.hidden = false;
    button.disabled = true;
    answers.forEach((part) => { part.hidden = true; });
    const show = () => { answers.forEach((part) => { part.hidden = false; }); if (skip) skip.hidden = true; };
    if (skip) { skip.hidden = false; skip.addEventListener("click", show); }
    form.addEventListener("change", () => { button.disabled = outcome.has(form); });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const picked = form.querySelector("input:checked");
      if (!picked || outcome.has(form)) return; // (the button is disabled until then)
      const mine = Number(picked.value), right = mine === hidden.answer;
      outcome.set(form, right);
      const labels = [...form.querySelectorAll("label")];
      labels[hidden.answer].classList.add("right");
      if (!right) labels[mine].classList.add("mine");
      form.querySelectorAll("input").forEach((input) => { input.disabled = true; });
      button.hidden = true;
      const said = right ? [hidden.right] : [hidden.wrong, hidden.reasons[mine], fill(hidden.said, { letter: "ABCDEFGH"[hidden.answer] })];
      form.querySelector(".result").textContent = [...said, hidden.reasons[hidden.answer]].join(" ");
      show();
      tally();
    });
  }
  function tally() {
    const line = document.querySelector(".tally");
    if (!line) return;
    const values = { right: [...outcome.values()].filter(Boolean).length, asked: outcome.size, left: forms.length - outcome.size };
    line.textContent = fill(values.left ? line.dataset.some : line.dataset.all, values);
    line.hidden = false;
  }

  // --- terms: Escape closes an explanation ----------------------------------------------------------------------
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.activeElement?.classList.contains("term")) document.activeElement.blur();
  });

  // --- one head, one query, one key: the same in steps 2 to 5 ----------------------------------------------------
  async function trace() {
    const t = json("lensons-trace");
    if (!t || typeof DecompressionStream === "undefined") return;
    const n = t.labels.length, cells = (n * (n + 1)) / 2, count = t.heads.length, w = t.words;
    const data = await unpack(t.packed);
    let at = 0;
    const floats = (length) => { const a = new Float32Array(data, at, length); at += 4 * length; return a; };
    const scores = floats(count * cells), pattern = t.unusual ? floats(count * cells) : null;
    const lengths = floats(count * n), added = floats(count * n);
    const halves = () => { const a = new Uint16Array(data, at, count * n * t.d); at += 2 * a.length; return a; };
    const [q, k, v] = [halves(), halves(), halves()];
    const vector = (which, h, p) => Array.from(which.subarray((h * n + p) * t.d, (h * n + p + 1) * t.d), half);
    const row = (which, h, p) => Array.from(which.subarray(h * cells + (p * (p + 1)) / 2, h * cells + (p * (p + 1)) / 2 + p + 1));
    const softmax = (x) => { const top = Math.max(...x), e = x.map((y) => Math.exp(y - top)), s = e.reduce((a, b) => a + b); return e.map((y) => y / s); };
    const shares = (h, p) => (pattern ? row(pattern, h, p) : softmax(row(scores, h, p)));
    const name = (h) => `L${t.heads[h][0]}H${t.heads[h][1]}`;
    const state = { ...t.chosen };
    const figures = (kind) => [...document.querySelectorAll(`section.step figure[data-kind="${kind}"]`)];
    const first = new Map(); // the lesson's own choice, in Python's exact numbers
    for (const kind of ["vectors", "products", "dots", "shares", "values", "mixing", "vocabulary", "pattern"])
      for (const figure of figures(kind)) first.set(figure, figure.innerHTML);

    function table(kind, heading, columns, rows, bars = []) {
      for (const figure of figures(kind)) {
        figure.querySelector("figcaption b").textContent = heading.title;
        figure.querySelector("figcaption span").textContent = heading.caption;
        const target = figure.querySelector("table");
        target.querySelector("thead").replaceChildren(make("tr", {}, ...columns.map((c) => make("th", { scope: "col" }, c))));
        target.querySelector("tbody").replaceChildren(...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) => {
          if (i === 0) return make("th", { scope: "row" }, String(cell));
          const td = make("td", {}, cell === null ? "" : typeof cell === "number" ? three(cell) : String(cell));
          if (typeof cell === "number") {
            td.title = String(cell);
            td.className = bars.includes(i) ? "bar" : "number";
            if (bars.includes(i)) td.style.setProperty("--w", Math.max(0, Math.min(1, cell)).toFixed(4));
          }
          return td;
        }))));
      }
    }
    const heading = (kind, values, caption = "caption") => ({ title: fill(w[kind].title, values), caption: fill(w[kind][caption], values) });

    function draw() {
      const { head: h, query: p, key } = state, [layer] = t.heads[h], scale = t.scale[layer], L = t.labels;
      const a = vector(q, h, p), b = vector(k, h, key), product = a.map((x, i) => x * b[i]);
      const s = row(scores, h, p), dots = s.map((x) => x * scale), share = shares(h, p);
      const dot = key <= p ? dots[key] : product.reduce((x, y) => x + y);
      const common = { query: L[p], key: L[key], head: name(h), d_head: t.d, n, dot, scale };
      strips([a, b, product], common);
      const most = product.map((x, i) => [Math.abs(x), i]).sort((x, y) => y[0] - x[0]).slice(0, 8).map((x) => x[1]);
      const shown = most.reduce((x, i) => x + product[i], 0), c = w.products.columns;
      table("products", heading("products", { ...common, n: most.length }), [c.number, c.query, c.key, c.product], [
        ...most.map((i) => [i, a[i], b[i], product[i]]),
        ...(t.d > most.length ? [[fill(w.products.others, { n: t.d - most.length }), null, null, dot - shown]] : []),
        [w.products.sum, null, null, dot]]);
      const best = dots.indexOf(Math.max(...dots));
      table("dots", heading("dots", { ...common, best: L[best], dot: dots[best] }), Object.values(w.dots.columns), dots.map((x, i) => [L[i], x]));
      const top = Math.max(...s), power = s.map((x) => Math.exp(x - top)), near = Math.min(key, p);
      table("shares", heading("shares", { ...common, key: L[near], dot: dots[near], score: s[near], power: power[near], share: share[near] }),
        Object.values(w.shares.columns).map((x) => fill(x, common)),
        L.map((label, i) => (i <= p ? [label, dots[i], s[i], power[i], share[i]] : [label, null, w.shares.masked, w.shares.masked, null])), [4]);
      const length = Array.from(lengths.subarray(h * n, h * n + p + 1)), part = share.map((x, i) => x * length[i]);
      table("values", heading("values", { ...common, total: added[h * n + p] }), Object.values(w.values.columns),
        share.map((x, i) => [L[i], x, length[i], part[i]]), [1]);
      const values = share.map((_, i) => vector(v, h, i)), z = values[0].map((_, i) => share.reduce((x, y, j) => x + y * values[j][i], 0));
      const large = z.map((x, i) => [Math.abs(x), i]).sort((x, y) => y[0] - x[0]).slice(0, 4).map((x) => x[1]);
      const from = share.map((x, i) => [x, i]).sort((x, y) => y[0] - x[0]).slice(0, 4).map((x) => x[1]);
      table("mixing", heading("mixing", { ...common, n: large.length }, "caption_live"),
        [w.mixing.columns.number, ...from.map((i) => `${L[i]} (${i})`), ...(share.length > 4 ? [w.mixing.others] : []), w.mixing.sum],
        large.map((d) => {
          const terms = from.map((i) => share[i] * values[i][d]), rest = z[d] - terms.reduce((x, y) => x + y);
          return [d, ...terms, ...(share.length > 4 ? [rest] : []), z[d]];
        }));
      figures("vocabulary").forEach((figure) => { figure.hidden = true; }); // needs the model
      grid(common);
    }

    function strips(lines, common) {
      const scale = [...lines.slice(0, 2).flat(), 1e-9].reduce((x, y) => Math.max(x, Math.abs(y)), 0);
      const own = lines[2].reduce((x, y) => Math.max(x, Math.abs(y)), 1e-9);
      for (const figure of figures("vectors")) {
        figure.querySelector("figcaption b").textContent = fill(w.vectors.title, common);
        figure.querySelector("figcaption span").textContent = fill(w.vectors.caption, common);
        figure.querySelector("svg").setAttribute("aria-label", fill(w.vectors.alt, common));
        [...figure.querySelectorAll(".strip")].forEach((strip, which) => {
          const half = Number(strip.querySelector("line").getAttribute("y1")), limit = which === 2 ? own : scale;
          strip.querySelectorAll(".bar").forEach((bar, i) => {
            const x = lines[which][i], size = (Math.abs(x) / limit) * half;
            bar.setAttribute("y", x < 0 ? half : half - size);
            bar.setAttribute("height", size);
            bar.classList.toggle("down", x < 0);
            bar.querySelector("title").textContent = `${i}: ${three(x)}`;
          });
        });
        const body = figure.querySelector("tbody");
        if (body) body.replaceChildren(...lines[0].map((_, i) => make("tr", {}, make("th", { scope: "row" }, String(i)),
          ...lines.map((line) => make("td", { class: "number", title: String(line[i]) }, three(line[i]))))));
      }
    }

    // The picture of the pattern: its own numbers are Python's exact ones, those of other heads come from here.
    let kept = {};
    const line = (h, p) => { // a row of shares, kept for as long as its head is shown
      if (kept.head !== h) kept = { head: h, rows: [] };
      return (kept.rows[p] ??= shares(h, p));
    };
    const views = figures("pattern").map((figure) => figure.lensons).filter(Boolean);
    for (const view of views) {
      const exact = view.share, body = view.figure.querySelector("tbody"), own = body.innerHTML;
      view.source(t.heads.map((_, h) => name(h)), (h, p, key) => (h === t.chosen.head ? exact.call(view, 0, p, key) : line(h, p)[key]));
      view.restore = () => { body.innerHTML = own; };
      view.state.head = t.chosen.head;
      view.figure.addEventListener("lensons:choice", (event) => {
        const { query, key } = event.detail;
        if (key <= query) choose({ query, key });
      });
    }
    function grid(common) {
      for (const view of views) {
        view.figure.querySelector("figcaption b").textContent = fill(w.pattern.title, common);
        view.figure.querySelector("figcaption span").textContent = fill(w.pattern.caption, common);
        view.choose({ head: state.head, query: state.query, key: state.key }, true);
        if (state.head === t.chosen.head) view.restore();
      }
    }

    // The controls, one set a step, all saying the same.
    const bars = [];
    const option = (value, text) => make("option", { value: String(value) }, text);
    for (const step of ["grid", "queries-and-keys", "scores-to-shares", "mixing-values"]) {
      const section = document.querySelector(`section.step[data-step="${step}"]`); // its id may be a site's own heading's
      if (!section || !section.querySelector("figure")) continue;
      const selects = {
        head: make("select", {}, ...t.heads.map((_, i) => option(i, name(i)))),
        query: make("select", {}, ...t.labels.map((label, i) => option(i, `${i} ${label}`))),
        key: make("select", {}, ...t.labels.map((label, i) => option(i, `${i} ${label}`))),
      };
      if (step === "grid" || step === "mixing-values") delete selects.key;
      const reset = make("button", { type: "button" }, w.choose.reset);
      const said = make("p", { class: "said", role: "status" });
      const bar = make("form", { class: "choose", "aria-label": w.choose.label },
        ...Object.entries(selects).map(([which, select]) => make("label", {}, w.choose[which] + " ", select)), reset, said);
      if (!t.all) bar.append(make("p", {}, w.choose.only));
      section.querySelector(":scope>figure,:scope>form.question").before(bar);
      bars.push({ selects, said, reset });
      bar.addEventListener("submit", (event) => event.preventDefault());
      for (const [which, select] of Object.entries(selects)) select.addEventListener("change", () => choose({ [which]: Number(select.value) }));
      reset.addEventListener("click", () => choose(t.chosen));
    }
    function choose(change) {
      Object.assign(state, change);
      if (state.key > state.query && !("key" in change)) state.key = state.query;
      if (state.key > state.query && "key" in change && !("query" in change)) state.query = state.key;
      const own = ["head", "query", "key"].every((x) => state[x] === t.chosen[x]);
      if (own) { for (const [figure, html] of first) if (figure.dataset.kind !== "pattern") { figure.innerHTML = html; figure.hidden = false; } }
      if (!own) draw();
      else grid({ query: t.labels[state.query], head: name(state.head), n });
      say();
      playground();
    }
    function say() {
      const { head, query: p, key } = state;
      const text = fill(w.choose.said, { query: t.labels[p], key: t.labels[key], share: shares(head, p)[key] });
      for (const { selects, said, reset } of bars) {
        for (const [which, select] of Object.entries(selects)) select.value = String(state[which]);
        if (selects.key) [...selects.key.options].forEach((o, i) => { o.disabled = i > p; });
        said.textContent = text;
        reset.disabled = ["head", "query", "key"].every((x) => state[x] === t.chosen[x]);
      }
    }
    // Rows can be clicked, as cells can.
    for (const kind of ["dots", "shares", "values"])
      for (const figure of figures(kind)) figure.addEventListener("click", (event) => {
        const line = event.target.closest("tbody tr");
        if (line && line.rowIndex - 1 <= state.query) choose({ key: line.rowIndex - 1 });
      });

    // --- the softmax playground ----------------------------------------------------------------------------------
    const [shareFigure] = figures("shares");
    const yard = shareFigure && make("div", { class: "playground" });
    if (yard) shareFigure.after(yard);
    function playground() {
      if (!yard) return;
      const { head: h, query: p } = state, words = w.playground, scale = t.scale[t.heads[h][0]];
      const own = t.labels.map((_, i) => (i <= p ? row(scores, h, p)[i] : vector(q, h, p).reduce((x, y, j) => x + y * vector(k, h, i)[j], 0) / scale));
      const top = Math.max(...own.slice(0, p + 1)), now = [...own];
      const factor = make("input", { type: "range", min: "0", max: "3", step: "0.1", value: "1", "aria-label": words.scale });
      const mask = make("input", { type: "checkbox" }), state_ = make("p", { class: "marked", role: "status" }, words.model);
      const factorSaid = make("output", {}, "1");
      const body = make("tbody"), sliders = [], lines = [];
      t.labels.forEach((label, i) => {
        const slider = make("input", { type: "range", min: String(Math.floor(Math.min(own[i], top - 6) - 2)), max: String(Math.ceil(Math.max(own[i], top) + 4)), step: "any", "aria-label": `${words.score}: ${label}` });
        slider.value = String(own[i]);
        const score = make("td", { class: "number" }), share = make("td", { class: "bar" });
        slider.addEventListener("input", () => { now[i] = Number(slider.value); update(true); });
        sliders.push(slider);
        lines.push({ score, share, line: make("tr", {}, make("th", { scope: "row" }, label), make("td", {}, slider), score, share) });
        body.append(lines[i].line);
      });
      const update = (changed) => {
        const seen = mask.checked ? n : p + 1, times = Number(factor.value);
        const result = softmax(now.slice(0, seen).map((x) => x * times));
        lines.forEach(({ score, share, line }, i) => {
          line.hidden = i >= seen;
          score.textContent = three(now[i] * times);
          share.textContent = i < seen ? three(result[i]) : "";
          share.title = i < seen ? String(result[i]) : "";
          share.style.setProperty("--w", i < seen ? result[i].toFixed(4) : "0");
        });
        factorSaid.textContent = three(times);
        yard.classList.toggle("changed", changed);
        state_.textContent = changed ? words.changed : words.model;
        back.disabled = !changed;
      };
      const back = make("button", { type: "button" }, words.reset);
      factor.addEventListener("input", () => update(true));
      mask.addEventListener("change", () => update(true));
      back.addEventListener("click", () => { now.splice(0, n, ...own); sliders.forEach((s, i) => { s.value = String(own[i]); }); factor.value = "1"; mask.checked = false; update(false); });
      yard.replaceChildren(make("h3", {}, words.title), make("p", {}, words.caption), state_,
        make("div", { class: "scroll", tabindex: "0" }, make("table", {}, make("thead", {}, make("tr", {}, ...["", "", words.score, words.share].map((x) => make("th", { scope: "col" }, x)))), body)),
        make("label", {}, words.scale + " ", factor, factorSaid), make("label", {}, mask, " " + words.mask), back);
      update(false);
    }
    say();
    playground();
  }

  // --- all heads: a grid to choose from, and the card of the chosen one --------------------------------------------
  async function heads() {
    const d = json("lensons-heads"), section = document.querySelector("section.step[data-step=many-heads]");
    const fixed = section ? [...section.querySelectorAll("figure[data-kind=all-heads]")] : [];
    if (!d || !fixed.length || typeof DecompressionStream === "undefined") return;
    const pictures = {};
    for (const which of ["text", "block"]) pictures[which] = d[which] && new Uint8Array(await unpack(d[which].packed));
    const w = d.words, rows = d.kinds[0].value.length, columns = d.kinds[0].value[0].length;
    const select = make("select", {}, ...d.kinds.map((kind, i) => make("option", { value: String(i) }, `${kind.mark} ${kind.name}`)));
    select.value = String(Math.max(0, d.kinds.findIndex((kind) => kind.kind === "induction")));
    const grid = make("div", { class: "heads lensons-picture", role: "group", "aria-label": fixed[0].querySelector("figcaption b").textContent });
    grid.style.setProperty("--columns", columns);
    const card = make("div", { class: "card", role: "region", "aria-label": w.pick }, make("p", {}, w.pick));
    const buttons = [], side = (text) => make("span", { "aria-hidden": "true" }, text);
    grid.append(side(""), ...Array.from({ length: columns }, (_, h) => side(`H${h}`)));
    for (let l = 0; l < rows; l++) for (let h = 0; h < columns; h++) {
      if (h === 0) grid.append(side(`L${l}`));
      const button = make("button", { type: "button", tabindex: buttons.length ? "-1" : "0" });
      button.addEventListener("click", () => show(l, h));
      buttons.push(button);
      grid.append(button);
    }
    grid.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key], from = buttons.indexOf(event.target);
      if (!step || !buttons[from + step]) return;
      event.preventDefault();
      buttons[from].tabIndex = -1;
      buttons[from + step].tabIndex = 0;
      buttons[from + step].focus();
    });
    const figure = make("figure", { class: "lensons-figure" }, make("figcaption"), make("label", {}, w.colour + " ", select), make("div", { class: "scroll", tabindex: "0" }, grid), card);
    fixed[0].before(figure);
    fixed.forEach((f) => { f.hidden = true; });
    function colour() {
      const kind = d.kinds[Number(select.value)], order = kind.value.flat().map((x, i) => [x ?? -1, i]).sort((a, b) => b[0] - a[0]).slice(0, 5).map((x) => x[1]);
      figure.querySelector("figcaption").replaceChildren(...[...fixed[Number(select.value)].querySelector("figcaption").childNodes].map((x) => x.cloneNode(true)));
      buttons.forEach((button, i) => {
        const l = Math.floor(i / columns), h = i % columns, x = kind.value[l][h];
        button.style.setProperty("--w", Math.max(0, Math.min(1, x ?? 0)).toFixed(4));
        button.classList.toggle("best", order.includes(i));
        button.replaceChildren(x === null ? "–" : x.toFixed(2).replace("0.", "."));
        button.setAttribute("aria-label", `L${l}H${h}: ${kind.name} ${x === null ? w.not_defined : three(x)}`);
        button.title = button.getAttribute("aria-label");
      });
    }
    function show(l, h) {
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === l * columns + h)));
      const say = (x) => (x === null ? w.not_defined : three(x));
      const table = make("table", {}, make("thead", {}, make("tr", {}, ...[w.measure, w.value, w.interval, w.chance].map((x) => make("th", { scope: "col" }, x)))),
        make("tbody", {}, ...d.kinds.map((kind) => make("tr", {}, make("th", { scope: "row" }, `${kind.mark} ${kind.name}`),
          make("td", { class: "number" }, say(kind.value[l][h])), make("td", { class: "number" }, `${say(kind.low[l][h])} – ${say(kind.high[l][h])}`), make("td", { class: "number" }, say(kind.chance))))));
      const removed = d.removed[`${l}.${h}`];
      const effect = removed ? fill(w.taken_out, { first: signed(removed[0]), second: signed(removed[1]), random: signed(d.random) }) : w.not_measured;
      const views = ["text", "block"].filter((which) => pictures[which]).map((which) => {
        const n = d[which].labels.length, cells = (n * (n + 1)) / 2, start = (l * columns + h) * cells;
        const canvas = make("canvas", { role: "img", "aria-label": `${which === "text" ? w.on_text : w.on_block}: L${l}H${h}` });
        canvas.style.cssText = `width:${n * Math.max(4, Math.floor(220 / n))}px;max-width:100%;image-rendering:pixelated`;
        const share = (a, b) => (b > a ? -1 : (pictures[which][start + (a * (a + 1)) / 2 + b] / 255) ** 2);
        lensons.paint(canvas, n, n, share, lensons.colours(grid));
        return make("figure", {}, canvas, make("figcaption", {}, which === "text" ? w.on_text : w.on_block));
      });
      card.replaceChildren(make("h3", {}, fill(w.title, { head: `L${l}H${h}` })), make("div", { class: "scroll", tabindex: "0" }, table), make("p", {}, effect), make("div", { class: "views" }, ...views));
    }
    const signed = (x) => (x === null || x === undefined ? w.not_defined : (x > 0 ? "+" : "") + three(x));
    select.addEventListener("change", colour);
    colour();
    const scores = d.kinds[Number(select.value)].value.flat().map((x) => x ?? -1), strongest = scores.indexOf(Math.max(...scores));
    if (scores[strongest] >= 0) show(Math.floor(strongest / columns), strongest % columns); // one card, to see what a card is
    card.setAttribute("aria-live", "polite");
  }
  lensons.ready.then(() => {
    trace();
    heads();
  });
})();
