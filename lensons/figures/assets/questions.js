// Predict, commit, reveal. Without this script the answer is folded away below its question; with it, the reader
// commits first. Nothing leaves the page; the score is forgotten when it is closed.
(() => {
  const cards = [...document.querySelectorAll("form.question")];
  const score = document.querySelector(".score");
  let right = 0, answered = 0;
  for (const card of cards) {
    const details = card.querySelector("details");
    const button = card.querySelector("button");
    const verdict = card.querySelector(".verdict");
    const answer = details.querySelector("p");
    answer.remove(); // not even a screen reader meets it before the reader commits
    details.hidden = true;
    button.hidden = false;
    card.addEventListener("submit", (event) => {
      event.preventDefault();
      const chosen = card.querySelector("input:checked");
      if (!chosen) {
        verdict.textContent = "Choose one first.";
        return;
      }
      const isRight = chosen.value === card.dataset.answer;
      answered += 1;
      right += isRight;
      for (const input of card.querySelectorAll("input")) {
        input.disabled = true;
        if (input.value === card.dataset.answer) input.parentElement.classList.add("right");
      }
      button.hidden = true;
      verdict.textContent = isRight ? "Yes." : "Not this one. It is:";
      verdict.after(answer);
      if (score) score.textContent = `You answered ${answered} of ${cards.length} questions, ${right} right.`;
    });
  }
})();
