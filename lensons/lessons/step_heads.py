"""Step 6 of the attention lesson: every head scored, the same tokens twice, and heads taken out."""

from typing import Any

from markupsafe import Markup

from lensons.figures import Figure, all_heads_figure, line_figure
from lensons.heads import parse_head
from lensons.lessons import predict
from lensons.lessons.base import Parts, figure_of
from lensons.lessons.evidence import KINDS, Evidence
from lensons.lessons.published import ROLES
from lensons.lessons.repeated import Repeated
from lensons.lessons.words import Words
from lensons.scoring import HeadScores


def heads_and_their_kinds(words: Words, names: Words, e: Evidence) -> tuple[Parts, dict[str, Any]]:
    """Every head scored; the same tokens twice; what taking heads out does. What is read, and its numbers."""
    table, repeated = e.table, e.repeated
    data: dict[str, Any] = {"table": table, "repeated": repeated}
    parts: Parts = list(words.paragraphs("before"))
    question = predict.looks_one_back(words, table, e.text)
    if question is None:
        data["no_question"] = words.plain("question.left_out")
        parts.append(Markup("<p>{}</p>").format(data["no_question"]))
    else:
        parts.append(question)
    parts += words.paragraphs("kinds")
    for kind in KINDS:
        chance = table.chance[kind]
        made = all_heads_figure(
            table.values[kind], kind=names.raw(kind), chance=chance, low=table.low[kind], high=table.high[kind],
            caption=words.plain("figures.all-heads.caption", kind=names.raw(kind), chance=chance),
        )  # fmt: skip
        parts.append(made)
    parts += [*words.paragraphs("after_grid"), Markup("<h3>{}</h3>").format(words.raw("repeat_title"))]
    learned = repeated.second_copy < 0.8 * repeated.first_copy
    parts += words.paragraphs(
        "repeat" if learned else "repeat_unlearned",
        first=repeated.first_copy,
        second=repeated.second_copy,
        heads=", ".join(map(str, repeated.induction_heads)),
        change=float(repeated.without.change.second or 0.0),
        random=float(repeated.without.random_mean.second or 0.0),
    )
    alone = max(float(repeated.each[head].change.second or 0.0) for head in repeated.induction_heads)
    together = float(repeated.without.change.second or 0.0)
    if learned and len(repeated.induction_heads) > 1 and alone < together / 4:
        parts += words.paragraphs("shared_work", alone=alone, together=together)
    parts += [_losses(words, repeated, learned), _ablations(words, names, table, repeated)]
    if e.model.is_toy:
        parts += [*words.paragraphs("training"), _training(words)]
    if e.model.name == "gpt2":
        parts += [*words.paragraphs("published"), _published(words, names, e)]
    return parts, data


def _losses(words: Words, repeated: Repeated, learned: bool) -> Figure:
    said = {"n_prompts": repeated.n_prompts, "first": repeated.first_copy, "second": repeated.second_copy}
    where = "figures.loss"
    return line_figure(
        words.plain(f"{where}.{'title' if learned else 'title_flat'}"),
        words.plain(f"{where}.caption", **said),
        words.plain(f"{where}.alt", **said),
        (words.raw(f"{where}.x"), [float(i + 1) for i in range(len(repeated.loss))]),
        {words.raw(f"{where}.line"): repeated.loss.tolist()},
        words.raw(f"{where}.y"),
        mark=(float(repeated.has_bos + repeated.block_len), words.raw(f"{where}.again")),
    )


def _ablations(words: Words, names: Words, table: HeadScores, repeated: Repeated) -> Figure:
    ranked = sorted(repeated.each.values(), key=lambda a: -(a.change.second or 0.0))
    random = ranked[0].random_mean
    among = [
        ", ".join(names.raw(kind) for kind in KINDS if a.heads[0] in [head for head, _ in table.top(kind, 5)])
        for a in ranked
    ]
    return figure_of(
        words,
        "ablations",
        {
            "head": [*(str(a.heads[0]) for a in ranked), words.raw("figures.ablations.random")],
            "kind": [*among, ""],
            "first": [*(a.change.first for a in ranked), random.first],
            "second": [*(a.change.second for a in ranked), random.second],
        },
        n_prompts=repeated.n_prompts,
        worst=ranked[0].heads[0],
        change=float(ranked[0].change.second or 0.0),
    )


def _published(words: Words, names: Words, e: Evidence) -> Figure:
    """GPT-2's heads that have a role in print: measured here beside reported there."""
    rows = []
    for kind, heads in ROLES.items():
        every = [head for head, _ in e.table.top(kind, e.table.values[kind].numel())]
        for name in heads:
            head = parse_head(name, e.model.n_layers, e.model.n_heads)
            rows.append((str(head), names.raw(kind), float(e.table.values[kind][head]), 1 + every.index(head)))
    return figure_of(
        words,
        "published",
        {
            "head": [row[0] for row in rows],
            "role": [row[1] for row in rows],
            "score": [row[2] for row in rows],
            "rank": [row[3] for row in rows],
        },
        bars=["score"],
    )


def _training(words: Words) -> Figure:
    """For the toy model: its heads forming while the loss on the second copy falls."""
    from lensons.toy import training_record

    record, where = training_record(), "figures.training"
    lines = {
        words.raw(f"{where}.induction"): record.scores["induction"].flatten(1).amax(1).tolist(),
        words.raw(f"{where}.previous"): record.scores["previous_token"].flatten(1).amax(1).tolist(),
        words.raw(f"{where}.loss"): (record.loss_second / record.loss_first.clamp(min=1e-6)).tolist(),
    }
    return line_figure(
        words.plain(f"{where}.title"),
        words.plain(f"{where}.caption", nudged=record.nudged_until),
        words.plain(f"{where}.alt"),
        (words.raw(f"{where}.x"), record.steps.tolist()),
        lines,
        words.raw(f"{where}.y"),
        log_x=True,
    )
