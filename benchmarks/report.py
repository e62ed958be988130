"""The measured figures as a page of the docs: ``python -m benchmarks.report`` writes ``docs/about/neighbours.md``.

Every number and every sentence about who is better comes from the JSON file. ``--check`` only compares.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.budgets import measured

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
PAGE = ROOT / "docs" / "about" / "neighbours.md"
OURS = "lensons"
SCORES = ("lensons", "detect_head mul", "detect_head mul, exclude_bos", "detect_head abs", "usual stripe")
NAMES = {
    "detect_head mul": '`detect_head`, "mul"',
    "detect_head mul, exclude_bos": "`exclude_bos`",
    "detect_head abs": '"abs"',
}
INTRODUCTION = """# Beside the neighbours

How lensons compares with the tools that people use today, measured. [Why lensons](why.md) says in words
which tool to take for what.

Each figure is a ratio inside one run on one machine: both sides take turns, so what else the machine does falls on
both. The middle value of all turns stands first, the smallest and the largest in brackets. Under 1 means that lensons
needs less. To measure on your machine: `nox -s bench`. To make this page from what was measured:
`python -m benchmarks.report`.
"""

_BETTER = """## Where a neighbour is better

Of what was measured here, against lensons' page as it is saved. Up to 64 tokens that page carries CircuitsVis; drawn by
lensons itself, as in a notebook, it is the row "own drawing" above.

"""


def tables(found: dict[str, Any]) -> str:
    """All tables, one after another."""
    parts = [_machine(found)]
    if not found["small"]:
        parts += _budgets(found)
    parts += [make(found[name]) for name, make in SECTIONS.items() if name in found]
    better = _where_others_are_better(found)
    if better:
        parts.append(_BETTER + "\n".join(f"- {line}" for line in better))
    return "\n\n".join(parts) + "\n"


def page(found: dict[str, Any]) -> str:
    """The whole page of the docs."""
    return INTRODUCTION + "\n" + tables(found)


def _machine(found: dict[str, Any]) -> str:
    about = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
    load = f"load {min(found['load'].values())} to {max(found['load'].values())} (1 is one busy core)"
    note = "\n\n**A small setting: it shows that everything runs. The numbers mean nothing.**" if found["small"] else ""
    return (
        f"Measured on {about['date']}, {about['system']}, {about['processor']}, {about['cores']} cores, torch with "
        f"{about['torch_threads']} thread{'s' if about['torch_threads'] > 1 else ''}, {load}; Python "
        f"{about['python']}, {versions}.{note}"
    )


def _budgets(found: dict[str, Any]) -> list[str]:
    """What was asked beforehand, and whether it was kept."""
    values = measured(found)
    if not values:
        return []
    rows = [
        (budget.what, budget.unit, _digits(budget.bound), _digits(value), "yes" if value <= budget.bound else "**no**")
        for budget, value in values
    ]
    return [
        "## What was asked of lensons",
        "Bounds that were set before anything was built. The sections below say how each was measured.",
        _table(("what", "in", "at most", "measured", "kept"), rows),
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    known = [row for row in rows if set(row[1:]) != {"–"}]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in known)])


def _ratio(value: dict[str, float]) -> str:
    return f"{_digits(value['ratio'])} ({_digits(value['low'])}–{_digits(value['high'])})"


def _span(value: dict[str, float]) -> str:
    return f"{_digits(value['seconds'])} ({_digits(value['low'])}–{_digits(value['high'])})"


def _digits(value: float | None) -> str:
    if value is None:
        return "–"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _scoring(found: dict[str, Any]) -> str:
    rows = [
        (f"four kinds, all heads, {size}", "forward pass", _ratio(entry["against"]["forward pass"]))
        for size, entry in found["four kinds / forward pass"].items()
    ]
    for size, entry in found["three kinds / detect_head"].items():
        rows.append((f"three kinds, all heads, {size}", "`detect_head`", _ratio(entry["against"]["detect_head"])))
    compositions = found["all compositions"]
    rows.append(
        ("Q-, K-, V-composition, all pairs", "forward pass, 8 x 101", _ratio(compositions["against"]["forward pass"]))
    )
    memory = [
        (size, *(_digits(entry.get(what)) for what in ("added by scoring", "scoring", "forward pass")))
        for size, entry in found["peak memory"].items()
    ]
    detector = [
        f"For {size} tokens `detect_head` holds {_digits(entry['detect_head'])} layers' patterns at its peak, lensons "
        f"{_digits(entry['scoring'])}, both with the pass itself."
        for size, entry in found["peak memory of detect_head"].items()
    ]
    grown = [
        (f"{value} {what}", _ratio(entry["against"]["forward pass"]))
        for what, entries in found["growth"].items()
        for value, entry in entries.items()
    ]
    seconds = _digits(compositions["seconds"]["all compositions"])
    return "\n\n".join(
        [
            "## Scoring all heads",
            "A GPT-2 small with random weights, prompts x tokens, batches of 8. The forward pass is Hugging Face's own "
            "model, eager, in inference mode, with logits. Scoring needs no logits, so it can take less than a pass.",
            _table(("lensons", "against", "ratio of time"), rows),
            f"All compositions took {seconds} seconds.",
            "Memory: the most that lives at once in tensors, counted from torch's own record, in patterns of one "
            "layer. Added by scoring is what goes beyond the same pass without it.",
            _table(("prompts x tokens", "added by scoring", "scoring in all", "forward pass"), memory),
            " ".join(detector),
            "How the ratio to the forward pass changes while one thing grows (8 prompts of 101 tokens otherwise):",
            _table(("what grows", "ratio of time"), grown),
        ]
    )


def _lesson(found: dict[str, Any]) -> str:
    traces = [
        (name, str(entry["tokens"]), _ratio(entry["against"]["forward pass"]))
        for name, entry in found["trace / forward pass of the text"].items()
    ]
    lessons = [
        (
            name,
            _digits(entry["seconds"]),
            _digits(entry["seconds"] / entry["forward_pass_seconds"]),
            _digits(entry["page_megabytes"]),
        )
        for name, entry in found["lesson, text to HTML"].items()
    ]
    return "\n\n".join(
        [
            "## A trace and a lesson",
            _table(("a trace", "tokens", "against the forward pass"), traces),
            "A whole lesson, from the text to one HTML file, with all its scores and ablations; once, so without a "
            "spread:",
            _table(("lesson", "seconds", "in forward passes of 8 x the text", "megabytes"), lessons),
        ]
    )


def _pages(found: dict[str, Any]) -> str:
    sizes = {size: tools for size, tools in found.items() if isinstance(tools, dict)}
    tools = list(next(iter(sizes.values())))

    # Whether lensons' page carries CircuitsVis depends on its length, so its fixed part is no fixed number.
    alone = [tool for tool in tools if tool != OURS]

    def rows(key: str, tools: Sequence[str] = tools) -> list[tuple[str, ...]]:
        return [(size, *(_digits(entry[tool].get(key)) for tool in tools)) for size, entry in sizes.items()]

    first = next(iter(sizes.values()))
    keeps = "; ".join(f"{tool}: {first[tool]['keeps']}" for tool in alone)
    missing = f"\n\nNot installed: {', '.join(found['not installed'])}." if found["not installed"] else ""
    return (
        "\n\n".join(
            [
                "## What a page weighs",
                "Megabytes of each tool's own page for the same made-up patterns, heads x tokens, with the scripts "
                "that it fetches from the network (BertViz; npm has RequireJS unminified only, 0.07 MB more). All "
                f"heads are in each page. How exactly the numbers are kept: {keeps}.",
                _table(("with scripts", *tools), rows("megabytes")),
                "The same gzipped, as a server sends it:",
                _table(("gzipped", *tools), rows("gzipped")),
                "Without scripts, styles and whatever else is the same on every page (the page for 1 x 2 is "
                "taken off):",
                _table(("data alone", *alone), rows("without the fixed part", alone)[1:]),
            ]
        )
        + missing
    )


def _browser(found: dict[str, Any]) -> str:
    if "not measured" in found:
        return f"## Time to the picture\n\nNot measured: {found['not measured']}."
    parts = [
        "## Time to the picture",
        f"{found['browser']}, no graphics processor, network blocked; the scripts that BertViz fetches came from this "
        "machine. First: the first frame in which something of the picture can be seen. Full: nothing moves any more, "
        "and the window has been painted. attnview shows one row of one head first; the others a whole head or all. "
        "Sizes are heads x tokens; the ratios are lensons' time / that tool's.",
    ]
    for size, tools in found.items():
        if " x " in size:
            head = (size, "first, s", "ratio", "full, s", "ratio")
            parts.append(_table(head, [(tool, *_drawn(tool, entry)) for tool, entry in tools.items()]))
    shows = [tool for tool, yes in found["shows with scripts off"].items() if yes]
    parts.append(f"With scripts off these still show their picture: {_and(shows) if shows else 'none'}.")
    return "\n\n".join(parts)


def _drawn(tool: str, entry: dict[str, Any]) -> list[str]:
    cells = []
    for key in ("first", "full"):
        cells += [_digits(entry[key]["seconds"]), "–" if tool == OURS else _ratio(entry[f"lensons / this, {key}"])]
    return cells


def _startup(found: dict[str, Any]) -> str:
    rows = [
        (f"`{name}`", _span(entry), _digits(entry["above"]), _ratio(entry["of import transformer_lens"]))
        for name, entry in found.items()
    ]
    return "## Start-up\n\nEach in a process of its own.\n\n" + _table(
        ("command", "seconds", "beyond bare Python", "against `import transformer_lens`"), rows
    )


def _correctness(found: dict[str, Any]) -> str:
    blocks = list(dict.fromkeys(row["block"] for row in found["perfect heads"]))
    parts = [
        "## What the scores say",
        "The usual stripe is the mean of one diagonal, as TransformerLens' demos and ARENA's exercises take it. "
        "`detect_head` is computed by TransformerLens' own functions. `exclude_bos` takes the weight on the first "
        "token out of both sums: a head that rests there and seldom acts scores as one that always acts.",
        "A perfect head puts all weight on the target where there is one, else on the first token. 1 would be right. "
        f"The prompt is a block of tokens that comes twice; the block has {_and(list(map(str, blocks)))} tokens:",
        _by_length(found["perfect heads"]),
        "A head that looks everywhere alike. Its score is the chance level; lensons prints it beside each score:",
        _by_length(found["uniform heads"]),
    ]
    rows = found.get("published patterns of GPT-2 small", [])
    if rows:
        parts += [
            "Heads of the real GPT-2 small that are known for what they do, in patterns that others published:",
            _table(
                ("head", "tokens", "from", *(NAMES.get(name, name) for name in SCORES), "chance"),
                [
                    (
                        f"{row['head']}, {row['kind'].replace('_', ' ')}",
                        f"{row['tokens']}{', BOS' if row['bos'] else ''}",
                        row["from"],
                        *(_digits(row[name]) for name in SCORES),
                        _digits(row["chance"]),
                    )
                    for row in rows
                ],
            ),
        ]
    return "\n\n".join(parts)


def _by_length(rows: list[dict[str, Any]]) -> str:
    """One line per kind, with BOS and without; in each cell the score for every length."""
    kept: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for row in rows:
        kept.setdefault((row["kind"], row["bos"]), []).append(row)
    lines = [
        (
            f"{kind.replace('_', ' ')}{', BOS' if bos else ''}",
            *(" · ".join(_digits(row[name]) for row in same) for name in SCORES),
        )
        for (kind, bos), same in kept.items()
    ]
    return _table(("head", *(NAMES.get(name, name) for name in SCORES)), lines)


def _where_others_are_better(found: dict[str, Any]) -> list[str]:
    """Every comparison in which another tool needs less or is sooner, tool by tool, with both numbers."""
    better: dict[str, list[str]] = {}
    pages, drawn = found.get("pages", {}), found.get("browser", {})
    for key, what in (
        ("megabytes", "a lighter page, megabytes"),
        ("gzipped", "a lighter page once gzipped, megabytes"),
    ):
        _collect(better, what, pages, lambda tool, key=key: tool[key])
    for key, what in (("first", "a sooner first picture, seconds"), ("full", "a sooner full picture, seconds")):
        _collect(better, what, drawn, lambda tool, key=key: tool[key]["seconds"])
    lines = [f"{tool}: {'; '.join(what)}." for tool, what in better.items()]
    starts = found.get("startup", {})
    quicker = [
        name.removeprefix("import ")
        for name, entry in starts.items()
        if name.startswith("import ") and entry["seconds"] < starts["import lensons"]["seconds"]
    ]
    if quicker:
        lines.append(f"Importing is quicker with {_and(quicker)}.")
    for size, entry in found.get("scoring", {}).get("four kinds / forward pass", {}).items():
        if entry["against"]["forward pass"]["ratio"] > 1:
            lines.append(f"Scoring {size} takes longer than Hugging Face's forward pass.")
    return lines


def _collect(
    better: dict[str, list[str]], what: str, sizes: dict[str, Any], value: Callable[[dict[str, Any]], float | None]
) -> None:
    """Note, per tool, the sizes at which its value is less than ours."""
    less: dict[str, list[str]] = {}
    for size, entry in sizes.items():
        if " x " not in size or not isinstance(entry, dict) or size.startswith("1 x 2"):
            continue
        ours = value(entry[OURS])
        for name, tool in entry.items():
            other = value(tool)
            if not name.startswith(OURS) and ours is not None and other is not None and other < ours:
                less.setdefault(name, []).append(f"{size} ({_digits(other)} against {_digits(ours)})")
    for name, places in less.items():
        better.setdefault(name, []).append(f"{what}, at {_and(places)}")


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


SECTIONS: dict[str, Callable[[Any], str]] = {
    "scoring": _scoring,
    "lesson": _lesson,
    "pages": _pages,
    "browser": _browser,
    "startup": _startup,
    "correctness": _correctness,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or check that it is what the JSON says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is not up to date")
    options = parser.parse_args(arguments)
    text = page(json.loads(RESULTS.read_text(encoding="utf-8")))
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE.name} is not what {RESULTS.name} says. Run python -m benchmarks.report.")


if __name__ == "__main__":
    main()
