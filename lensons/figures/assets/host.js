// Adds CircuitsVis' views below the pictures. Fetches nothing.
(async () => {
  const blocks = document.querySelectorAll("script.lensons-live");
  if (!blocks.length) return;
  if (typeof CircuitsVis === "undefined") { // a site has it in a file of its own; one page carries it, packed
    const packed = document.getElementById("lensons-circuitsvis");
    if (!packed || typeof DecompressionStream === "undefined") return; // the pictures stay
    const bytes = Uint8Array.from(atob(packed.textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script"); // a classic script sets the global CircuitsVis
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }
  for (const block of blocks) {
    const figure = block.closest("figure");
    const live = figure.querySelector(".live");
    const place = live.querySelector(".view");
    const view = JSON.parse(block.textContent);
    place.id = figure.id + "-view"; // CircuitsVis finds its place by id
    live.hidden = false;
    CircuitsVis.render(place.id, CircuitsVis[view.component], view.props);
    figure.dataset.live = "circuitsvis";
  }
})();
