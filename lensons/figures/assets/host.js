// Finds the figures of a page, also those of outputs that come later, and brings CircuitsVis where the page carries it.
// Fetches nothing.

lensons.painted = []; // what is to be painted anew when the page turns light or dark
lensons.circuitsvis = async () => {
  if (typeof CircuitsVis !== "undefined") return true; // a site has it in a file of its own
  const packed = document.querySelector("script.lensons-circuitsvis");
  if (!packed || typeof DecompressionStream === "undefined") return false; // our own pictures stay
  lensons.bundle ??= lensons.unpack(packed.textContent.trim(), "gzip").then((bytes) => {
    const script = document.createElement("script"); // a classic script sets the global CircuitsVis
    script.textContent = new TextDecoder().decode(bytes);
    document.head.append(script);
  });
  await lensons.bundle;
  return true;
};

lensons.scan = async () => {
  const fresh = [...document.querySelectorAll("figure.lensons-figure:not([data-ready])")];
  fresh.forEach((figure) => { figure.dataset.ready = ""; });
  const carried = fresh.length > 0 && (await lensons.circuitsvis());
  for (const figure of fresh) {
    figure.querySelectorAll(".static-hint").forEach((hint) => hint.remove());
    const image = figure.querySelector("img.picture");
    if (image) lensons.inline(image);
    const block = figure.querySelector("script.lensons-board");
    if (block && typeof DecompressionStream !== "undefined") {
      const data = JSON.parse(block.textContent), numbers = await lensons.patterns(data.packed, data.labels.length, data.causal);
      new (data.layers ? lensons.AllHeads : lensons.PatternView)(figure, data, numbers, figure.querySelector(".picture-place"));
      figure.dataset.live = figure.querySelector("[data-painted]").dataset.painted;
    } else if (figure.querySelector("svg g > title")) lensons.walkable(figure);
    const live = figure.querySelector("script.lensons-live");
    if (live && carried) {
      const view = JSON.parse(live.textContent), shown = figure.querySelector(".live"), place = shown.querySelector(".view");
      place.id = `${figure.id || "view"}-view`; // CircuitsVis finds its place by id
      shown.hidden = false;
      CircuitsVis.render(place.id, CircuitsVis[view.component], view.props);
      figure.dataset.live = "circuitsvis";
    }
  }
};

// CircuitsVis has come after the figures: it paints them anew.
lensons.again = async () => { if (await lensons.circuitsvis()) lensons.painted.forEach((paint) => paint(true)); };

// In a notebook a picture is an image, for where scripts are off. As SVG in the page it has titles and the page's colours.
lensons.inline = (image) => {
  const [kind, data] = image.src.split(";base64,");
  if (kind !== "data:image/svg+xml") return;
  const text = new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
  const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (svg.localName !== "svg") return;
  svg.querySelectorAll("style, script").forEach((element) => element.remove());
  image.replaceWith(document.importNode(svg, true));
};

// A grid of scores, walked by arrow keys: the score is said.
lensons.walkable = (figure) => {
  const place = figure.querySelector(".picture-place"), cells = [...figure.querySelectorAll("svg g")].filter((cell) => cell.querySelector(":scope > title"));
  if (!place || !cells.length) return;
  const square = (cell) => cell.querySelector("rect"), number = (cell, name) => Number(square(cell).getAttribute(name));
  const middle = (cell) => number(cell, "x") + number(cell, "width") / 2;
  // The next one up or down: in the nearest row that way, the one that is closest to being above or below.
  const across = (from, way) => {
    const rows = cells.filter((cell) => way * (number(cell, "y") - number(from, "y")) > 0);
    const far = Math.min(...rows.map((cell) => Math.abs(number(cell, "y") - number(from, "y"))));
    const near = rows.filter((cell) => Math.abs(number(cell, "y") - number(from, "y")) === far);
    return near.sort((a, b) => Math.abs(middle(a) - middle(from)) - Math.abs(middle(b) - middle(from)))[0];
  };
  const said = lensons.element("p", { class: "said", role: "status" });
  let at = -1;
  const show = (next) => {
    if (at >= 0) square(cells[at]).classList.remove("focus");
    at = next;
    square(cells[at]).classList.add("focus");
    said.textContent = cells[at].querySelector("title").textContent;
  };
  place.after(said);
  place.setAttribute("role", "application");
  for (const [name, value] of Object.entries(lensons.ownKeys)) place.setAttribute(name, value);
  place.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = at < 0 ? 0 : step[0] ? cells.indexOf(across(cells[at], step[0])) : at + step[1];
    if (cells[next]) show(next);
  });
  place.addEventListener("click", (event) => { const i = cells.findIndex((cell) => cell.contains(event.target)); if (i >= 0) show(i); });
};

// Light and dark: the host page's own switch, or the system's.
lensons.repaint = () => { cancelAnimationFrame(lensons.frame); lensons.frame = requestAnimationFrame(() => lensons.painted.forEach((paint) => paint())); };
const watched = new MutationObserver(lensons.repaint);
for (const element of [document.documentElement, document.body])
  watched.observe(element, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "data-jp-theme-name", "class"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", lensons.repaint);
matchMedia("print").addEventListener("change", () => lensons.painted.forEach((paint) => paint())); // on paper it is always light
lensons.ready = lensons.scan();
