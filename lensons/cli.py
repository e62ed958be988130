"""The command line: ``lensons lesson | score | trace | models``.

What was asked for goes to standard output or a file; progress, hints and errors go to standard error. Exit codes:
0 done, 2 the input cannot be used (one line says why), 130 interrupted.
"""

import argparse
import contextlib
import csv
import io
import json
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lensons._version import __version__
from lensons.errors import InputError, LensonsError

if TYPE_CHECKING:
    from lensons.tracing import Check, HeadTrace, Trace

_LESSONS = {"attention": "AttentionLesson", "induction": "InductionLesson"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    # A terminal or a pipe with a narrow encoding shows \u2423 for what it cannot: better than half an answer.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except LensonsError as error:
        print(f"lensons: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lensons: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        sys.stderr.close()
        return 0
    except OSError as error:  # standard output on a full disk
        print(f"lensons: the output cannot be written ({error.strerror or error}).", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lensons", description="How attention works inside GPT-2: lessons, traces and head scores."
    )
    parser.add_argument("--version", action="version", version=f"lensons {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    model = argparse.ArgumentParser(add_help=False)
    model.add_argument(
        "--model",
        default="toy",
        help='"toy" (ships with lensons, the default), "gpt2", a folder in Hugging Face format, or a name on its hub',
    )
    model.add_argument("--processed", action="store_true", help="fold layer norm and centre the weights")
    table = argparse.ArgumentParser(add_help=False)
    form = table.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write JSON")
    form.add_argument("--csv", action="store_true", help="write CSV")
    table.add_argument("-o", "--output", type=Path, help="write to this file instead of standard output")

    lesson = commands.add_parser("lesson", parents=[model], help="write a lesson as one HTML file")
    lesson.add_argument("name", choices=sorted(_LESSONS), help="which lesson")
    lesson.add_argument("--text", help="your own sentence")
    lesson.add_argument("--other", help="a second sentence to compare it with")
    lesson.add_argument("-o", "--output", type=Path, help="the file to write (NAME.html by default)")
    lesson.add_argument("--worksheet", type=Path, metavar="FILE", help="also write the questions, to print on paper")
    lesson.add_argument("--open", action="store_true", help="show it in the browser")
    lesson.add_argument("--notebook", type=Path, metavar="DIR", help="copy the lesson's notebook to DIR instead")
    lesson.set_defaults(run=_lesson)

    score = commands.add_parser("score", parents=[model, table], help="score every head")
    score.add_argument("--text", action="append", help="score on this text (may be repeated); else on random blocks")
    score.add_argument("--n-prompts", type=int, help="how many random prompts (32)")
    score.add_argument("--block-len", type=int, help="tokens in a block (50, or what fits)")
    score.add_argument("--seed", type=int, default=0, help="seed of the random blocks (0)")
    score.add_argument("--top", type=int, default=5, help="how many heads of each kind to print (5)")
    score.set_defaults(run=_score)

    trace = commands.add_parser("trace", parents=[model, table], help="show what one head did with a text")
    trace.add_argument("text", help="the text to trace")
    trace.add_argument("--head", default="0.0", help='which head, such as "1.2" or "L1H2"')
    trace.add_argument("--save", type=Path, metavar="FILE", help="also keep the whole trace as safetensors")
    trace.set_defaults(run=_trace)

    models = commands.add_parser("models", help="list the models that can be named")
    models.add_argument("--json", action="store_true", help="write JSON")
    models.set_defaults(run=_models)
    return parser


@contextlib.contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Other packages announce themselves on standard output, which is kept for what was asked for."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _load(options: argparse.Namespace) -> Any:
    from lensons.models import load_model

    return load_model(options.model, processed=options.processed)


def _emit(text: str, output: Path | None) -> None:
    if output is None:
        print(text.rstrip("\n"))
        return
    from lensons.files import written_whole

    print(f"Wrote {written_whole(output, text)}.", file=sys.stderr)


def _lesson(options: argparse.Namespace) -> None:
    import lensons.lessons

    if options.notebook is not None:
        for path in lensons.lessons.copy_notebooks(options.notebook, [options.name]):
            print(f"Wrote {path}.")
        return
    output = options.output or Path(f"{options.name}.html")
    with _quiet_stdout():
        model = _load(options)
        given = {key: value for key, value in (("text", options.text), ("other", options.other)) if value is not None}
        if options.name != "attention" and given:
            raise InputError(
                f"--{' and --'.join(given)} cannot be used with the {options.name} lesson, which makes its own "
                "tokens. Leave it out."
            )
        lesson = getattr(lensons.lessons, _LESSONS[options.name])(model, **given)
        path = lesson.save(output)
        worksheet = None if options.worksheet is None else lesson.worksheet(options.worksheet)
    print(f"Wrote {path} ({Path(path).stat().st_size / 1e6:.1f} MB), made with {model!r}.")
    if worksheet is not None:
        print(f"Wrote {worksheet}, to print on paper.")
    if options.open:
        webbrowser.open(Path(path).resolve().as_uri())


def _score(options: argparse.Namespace) -> None:
    from lensons.scoring import score_heads

    protocol = {"n_prompts": options.n_prompts, "block_len": options.block_len}
    chosen = {key: value for key, value in protocol.items() if value is not None}
    with _quiet_stdout():
        table = score_heads(_load(options), prompts=options.text, seed=options.seed, **chosen)
    if options.json:
        _emit(table.to_json(), options.output)
    elif options.csv:
        _emit(table.to_csv(), options.output)
    else:
        _emit(_readable_scores(table, options.top), options.output)


def _readable_scores(table: Any, top: int) -> str:
    lines = [repr(table)]
    for kind in table.values:
        lines += ["", kind.replace("_", " ")]
        for head, score in table.top(kind, top):
            low, high = float(table.low[kind][head]), float(table.high[kind][head])
            interval = f"95 % from {low:.3f} to {high:.3f}"
            lines.append(f"  {head!s:8} {score:.3f}   {interval}   chance {table.chance[kind]:.3f}")
    return "\n".join(lines)


def _trace(options: argparse.Namespace) -> None:
    from lensons.tracing import trace

    with _quiet_stdout():
        whole = trace(_load(options), options.text)
    check = whole.check()
    head = whole.head(options.head)
    if options.save is not None:
        print(f"Wrote {whole.save(options.save)}.", file=sys.stderr)
    if options.json:
        _emit(
            json.dumps(_trace_data(whole, head, check), ensure_ascii=False, allow_nan=False, indent=1), options.output
        )
    elif options.csv:
        _emit(_trace_csv(head), options.output)
    else:
        _emit(_readable_trace(whole, head, check), options.output)


def _trace_data(whole: "Trace", head: "HeadTrace", check: "Check") -> dict[str, Any]:
    n = len(whole)
    return {
        "head": str(head.name),
        "tokens": [
            {"id": token_id, "text": text, "label": label, "special": special}
            for token_id, text, label, special in zip(
                whole.tokens.ids, whole.tokens.texts, whole.tokens.labels, whole.tokens.special, strict=True
            )
        ],
        "has_bos": whole.tokens.has_bos,
        "scale": head.scale,
        # null where a token cannot be seen: JSON has no infinity
        "scores": [[float(head.scores[q, k]) if k <= q else None for k in range(n)] for q in range(n)],
        "pattern": [[float(head.pattern[q, k]) if k <= q else None for k in range(n)] for q in range(n)],
        "check": dict(check),
        "provenance": whole.provenance,
    }


def _trace_csv(head: "HeadTrace") -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["query", "query_token", "key", "key_token", "score", "weight"])
    for q, looks in enumerate(head.tokens.texts):
        for k, seen in enumerate(head.tokens.texts[: q + 1]):
            rows.writerow([q, looks, k, seen, float(head.scores[q, k]), float(head.pattern[q, k])])
    return out.getvalue()


def _readable_trace(whole: "Trace", head: "HeadTrace", check: "Check") -> str:
    labels = whole.tokens.labels
    width = max(len(label) for label in labels)
    lines = [
        repr(whole),
        f"agrees with the model's own hooks to {check.largest:.0e}",
        "",
        f"{head.name} looks at:",
    ]
    for q, label in enumerate(labels):
        weights, keys = head.pattern[q, : q + 1].topk(min(3, q + 1))
        most = "   ".join(f"{labels[int(k)]} {float(w):.3f}" for w, k in zip(weights, keys, strict=True))
        lines.append(f"  {q:3}  {label:{width}}  {most}")
    return "\n".join(lines)


def _models(options: argparse.Namespace) -> None:
    from lensons.models import model_names

    names = model_names()
    if options.json:
        print(json.dumps(names, indent=1))
        return
    for name, where in names.items():
        print(f"{name:12} {where}")
    print("\nA folder in Hugging Face format, or another name on its hub, can be given as well.")
