"""The command line."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest

from lensons.cli import main
from tests.conftest import OTHER, SENTENCE


def run(capsys, *arguments):
    code = main(list(map(str, arguments)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["lesson", "--help"], ["score", "--help"]])
def test_help_and_version(capsys, arguments):
    """Help and version print and exit 0."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    assert "lensons" in capsys.readouterr().out


def test_help_loads_no_torch():
    """`lensons --help` answers without loading torch or TransformerLens."""
    code = (
        "import sys\nfrom lensons.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit('torch' in sys.modules or 'transformer_lens' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_models(capsys):
    """`lensons models` lists toy and gpt2, as text and as JSON."""
    code, out, _ = run(capsys, "models")
    assert code == 0
    assert "toy" in out
    assert "gpt2" in json.loads(run(capsys, "models", "--json")[1])


def test_lesson_writes_a_page(capsys, tmp_path):
    """`lensons lesson attention` writes the page and prints where, and with which model."""
    page = tmp_path / "attention.html"
    code, out, _ = run(capsys, "lesson", "attention", "--text", SENTENCE, "--other", OTHER, "-o", page)
    assert code == 0
    assert str(page) in out
    assert "toy" in out
    text = page.read_text(encoding="utf-8")
    for step in ("it", "grid", "queries-and-keys", "scores-to-shares", "mixing-values", "many-heads"):
        assert f'id="{step}"' in text


def test_lesson_copies_its_notebook(capsys, tmp_path):
    """`--notebook DIR` writes the lesson's notebook there."""
    code, out, _ = run(capsys, "lesson", "attention", "--notebook", tmp_path)
    assert code == 0
    (notebook,) = tmp_path.glob("*.ipynb")
    assert str(notebook) in out
    assert json.loads(notebook.read_text(encoding="utf-8"))["nbformat"] == 4


def test_trace_json_is_the_model_s_own(capsys, toy):
    """`lensons trace --json` prints valid JSON alone, equal to the trace, null where nothing can be seen."""
    import lensons

    code, out, _ = run(capsys, "trace", SENTENCE, "--head", "1.2", "--json")
    assert code == 0
    data = json.loads(out)
    trace = lensons.trace(toy, SENTENCE)
    assert [token["id"] for token in data["tokens"]] == list(trace.tokens.ids)
    for q, row in enumerate(data["pattern"]):
        assert row[: q + 1] == pytest.approx(trace.pattern[1, 2, q, : q + 1].tolist(), abs=1e-6)
        assert row[q + 1 :] == [None] * (len(trace) - q - 1)


def test_trace_csv(capsys):
    """`lensons trace --csv` has one row for each cell that can be seen."""
    code, out, _ = run(capsys, "trace", "It was too tired.", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    n = 1 + max(int(row["query"]) for row in rows)
    assert code == 0
    assert len(rows) == n * (n + 1) // 2


def test_score_json_reads_back(capsys):
    """`lensons score --json` prints JSON alone, which HeadScores reads back."""
    import lensons

    code, out, _ = run(capsys, "score", "--n-prompts", "2", "--block-len", "10", "--json")
    assert code == 0
    table = lensons.HeadScores.from_json(out)
    assert table.values["induction"].shape == (4, 4)


def test_score_text_and_csv(capsys, tmp_path):
    """`lensons score` prints the best heads with chance; `--csv -o` writes a file."""
    code, out, _ = run(capsys, "score", "--n-prompts", "2", "--block-len", "10", "--top", "2")
    assert code == 0
    assert "chance" in out
    code, _, _ = run(capsys, "score", "--n-prompts", "2", "--block-len", "10", "--csv", "-o", tmp_path / "s.csv")
    assert code == 0
    assert len((tmp_path / "s.csv").read_text().splitlines()) >= 17


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trace", ""], "empty"),
        (["trace", "x " * 2000], "at most"),
        (["trace", "hello", "--head", "9.9"], "no layer 9"),
        (["trace", "hello", "--head", "nine"], "does not name a head"),
        (["trace", "hello", "--model", "no-such-model"], "no model or folder"),
        (["trace", "hello", "--model", "."], "config.json"),
        (["trace", "hello", "--save", "/nonexistent/x.safetensors"], "cannot be written"),
        (["lesson", "attention", "-o", "/nonexistent/x.html"], "cannot be written"),
        (["lesson", "attention", "--text", ""], "empty"),
        (["score", "--n-prompts", "0"], "n_prompts"),
        (["score", "--text", "hello", "--block-len", "5"], "block_len"),
    ],
)
def test_bad_input_exits_2_with_one_line(capsys, tmp_path, monkeypatch, arguments, says):
    """What cannot be used: exit code 2, one message, nothing on standard output, no traceback."""
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert says in err
    message = [line for line in err.splitlines() if line.startswith("lensons: ")]
    assert len(message) == 1
    assert "Traceback" not in err


def test_an_interrupt_exits_130(monkeypatch, capsys):
    """Ctrl-C ends with 130 and one line."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("lensons.models.load_model", interrupted)
    assert main(["trace", "hello"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.slow
def test_standard_output_is_pure_in_a_real_process():
    """In a process of its own, `lensons trace --json` prints JSON and nothing else, whatever packages announce."""
    run = subprocess.run(
        [sys.executable, "-m", "lensons", "trace", "It was wide.", "--json"],
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    assert run.returncode == 0, run.stderr
    json.loads(run.stdout)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437", "utf-8"])
def test_a_narrow_terminal(encoding):
    """Tokens that the terminal's encoding lacks are written as escapes; nothing fails half way."""
    done = subprocess.run(
        [sys.executable, "-m", "lensons", "trace", "caf\u00e9 \U0001f642"],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode(encoding)
    assert "looks at" in shown
    assert ("\\u2423" in shown) == (encoding != "utf-8"), "the mark of a space, or its escape"
