// Softmax to play with: the model's own scores of one row, until somebody moves one. The shares are computed here, and
// as long as nothing was moved they are the model's, to within rounding.
(() => {
  const digits = (x) => (x >= 0.9995 ? "1.00" : x < 0.0005 ? "0" : x.toFixed(3).replace("0.", "."));
  for (const place of document.querySelectorAll(".playground")) {
    const { labels, scores, query } = JSON.parse(place.querySelector("script").textContent);
    const body = place.querySelector("tbody");
    const times = place.querySelector(".times");
    const unmask = place.querySelector(".unmask");
    const state = place.querySelector(".state");
    const rows = labels.map((label, key) => {
      const row = body.insertRow();
      const name = document.createElement("th");
      name.scope = "row";
      name.textContent = label;
      const value = document.createElement("td");
      value.className = "number";
      const slider = document.createElement("input");
      slider.type = "range";
      slider.min = Math.min(...scores) - 4;
      slider.max = Math.max(...scores) + 4;
      slider.step = "any";
      slider.setAttribute("aria-label", `score of ${label}, position ${key}`);
      const share = document.createElement("td");
      share.className = "bar";
      row.append(name, value);
      row.insertCell().append(slider);
      row.append(share);
      return { row, value, slider, share };
    });
    const moved = () =>
      rows.some(({ slider }, key) => Math.abs(slider.value - scores[key]) > 1e-9) || times.value !== "1" || unmask.checked;
    const draw = () => {
      const seen = rows.map((_, key) => key <= query || unmask.checked);
      const x = rows.map(({ slider }, key) => (seen[key] ? slider.value * times.value : -Infinity));
      const top = Math.max(...x);
      const powers = x.map((score) => Math.exp(score - top));
      const sum = powers.reduce((a, b) => a + b, 0);
      rows.forEach(({ row, value, slider, share }, key) => {
        row.hidden = !seen[key];
        value.textContent = (slider.value * times.value).toFixed(2);
        share.textContent = digits(powers[key] / sum);
        share.title = String(powers[key] / sum);
        share.style.setProperty("--w", (powers[key] / sum).toFixed(4));
      });
      times.nextElementSibling.textContent = Number(times.value).toFixed(2);
      state.textContent = moved() ? "This is not the model any more." : "These are the model's own shares.";
      state.classList.toggle("moved", moved());
    };
    const reset = () => {
      rows.forEach(({ slider }, key) => (slider.value = scores[key]));
      times.value = "1";
      unmask.checked = false;
      draw();
    };
    place.addEventListener("input", draw);
    place.querySelector(".reset").addEventListener("click", reset);
    place.hidden = false;
    reset();
  }
})();
