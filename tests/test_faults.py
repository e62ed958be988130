"""Faults from outside: interrupts, full disks, hubs that answer slowly or with garbage, files of another kind.

And whatever happens, the caller's model and torch's own state are as they were.
"""

import errno
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lensons
from lensons import cli
from lensons.errors import FileError, LensonsError
from lensons.models import LoadedModel
from tests.conftest import SENTENCE

BLOCKS = [[50, 7, 9, 11, 7, 9, 11], [50, 3, 4, 5, 3, 4, 5]]


def state_of(model):
    """Everything about a model and about torch that a measurement has no business to change."""
    raw = model.raw
    return {
        "weights": [parameter.detach().clone() for parameter in raw.parameters()],
        "buffers": [buffer.detach().clone() for buffer in raw.buffers()],
        "gradients": [parameter.grad is None for parameter in raw.parameters()],
        "grad": [parameter.requires_grad for parameter in raw.parameters()],
        "modes": [part.training for part in raw.modules()],
        "hooks": {name: (len(point.fwd_hooks), len(point.bwd_hooks)) for name, point in raw.hook_dict.items()},
        "flags": {key: value for key, value in vars(raw.cfg).items() if isinstance(value, bool | int | float | str)},
        "device": str(model.device),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "random": torch.get_rng_state(),
        "grad mode": torch.is_grad_enabled(),
        "exact": torch.are_deterministic_algorithms_enabled(),
    }


def same(before, after):
    assert before.keys() == after.keys()
    for key, value in before.items():
        if key in ("weights", "buffers", "random"):
            pairs = [(value, after[key])] if key == "random" else zip(value, after[key], strict=True)
            assert all(torch.equal(a, b) for a, b in pairs), key
        else:
            assert value == after[key], key


CALLS = {
    "trace": lambda model: lensons.trace(model, SENTENCE).check(),
    "score_heads": lambda model: lensons.score_heads(model, BLOCKS),
    "ablate_heads": lambda model: lensons.ablate_heads(model, ["0.1"], BLOCKS, block_len=3),
    "head_card": lambda model: lensons.head_card(model, "1.0", SENTENCE),
    "weight_scores": lambda model: lensons.weight_scores(model, processed=False),
    "attention": lambda model: lensons.AttentionLesson(model).steps,
    "induction": lambda model: lensons.InductionLesson(model).steps,
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_changed(small_gpt2, name):
    """Weights, hooks (the caller's own too), modes, flags, device, and torch's own state are as found."""
    seen = []
    small_gpt2.raw.add_hook("blocks.0.attn.hook_z", lambda value, hook: seen.append(value.shape) or value)
    try:
        before = state_of(small_gpt2)
        CALLS[name](small_gpt2)
        same(before, state_of(small_gpt2))
        if name != "weight_scores":
            assert seen, "the caller's own hook saw the passes"
    finally:
        small_gpt2.raw.reset_hooks()


@pytest.mark.parametrize("name", ["trace", "score_heads", "ablate_heads", "head_card", "attention", "induction"])
@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError])
def test_nothing_is_changed_when_it_is_cut_off(small_gpt2, monkeypatch, name, fault):
    """Ctrl-C, or no memory left, in the middle of a pass: the error comes through, and all is as before."""
    run, passes = LoadedModel.run, []

    def cut_off(self, ids, hooks=None, **options):
        passes.append(1)
        if len(passes) < 2 and name not in ("trace", "score_heads"):
            return run(self, ids, hooks, **options)

        def fail(value):
            raise fault

        return run(self, ids, {**(hooks or {}), ("z", 1): fail}, **{**options, "stop_after": None})

    before = state_of(small_gpt2)
    monkeypatch.setattr(LoadedModel, "run", cut_off)
    with pytest.raises(fault):
        CALLS[name](small_gpt2)
    same(before, state_of(small_gpt2))


@pytest.mark.parametrize("kind", ["html", "json", "trace"])
def test_a_full_disk_keeps_the_good_file(toy, tmp_path, monkeypatch, kind):
    """No space left: one FileError that says so; the file that stood there is whole, and no scrap lies beside it."""
    path = tmp_path / "kept"
    path.write_text("good", encoding="utf-8")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    trace = lensons.trace(toy, "The animal was tired.")
    table = lensons.score_heads(toy, n_prompts=2)
    monkeypatch.setattr(os, "fsync", full)
    writes = {
        "html": lambda: table.figure("induction").save(path.with_suffix(".html")),
        "json": lambda: cli.main(["score", "--json", "-o", str(path)]),
        "trace": lambda: trace.save(path),
    }
    if kind == "json":
        assert writes[kind]() == 2
    else:
        with pytest.raises(FileError, match="No space left"):
            writes[kind]()
    assert path.read_text(encoding="utf-8") == "good"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


@pytest.fixture
def read_only(tmp_path):
    """A folder in which nobody may write; root may in any but the kernel's own."""
    if os.geteuid() != 0:
        tmp_path.chmod(0o555)
        yield tmp_path
        tmp_path.chmod(0o755)
    elif os.path.isdir("/sys/kernel"):
        yield Path("/sys/kernel")
    else:
        pytest.skip("root may write everywhere here")


def test_a_read_only_folder(toy, read_only, capsys):
    """Everything that writes says in one FileError, or in one line with exit code 2, that it may not write there; no
    file is left."""
    before = set(read_only.iterdir())
    trace, table = lensons.trace(toy, "It was tired."), lensons.score_heads(toy, n_prompts=2)
    lesson = lensons.AttentionLesson(toy)
    writes = {
        "x.html": table.figure("induction").save,
        "x.svg": table.figure("induction").save,
        "x.csv": table.figure("induction").save,
        "x.safetensors": trace.save,
        "lesson.html": lesson.save,
        "sheet.html": lesson.worksheet,
        "notebooks": lensons.lessons.copy_notebooks,
    }
    for name, write in writes.items():
        with pytest.raises(FileError, match=r"(written|made).*Choose another place"):
            write(read_only / name)
    capsys.readouterr()
    for words in (["score", "--n-prompts", "1"], ["trace", "It was."], ["lesson", "attention"]):
        assert cli.main([*words, "--model", "toy", "-o", str(read_only / "x")]) == 2
        said = capsys.readouterr().err.strip().splitlines()
        assert [line for line in said if line.startswith("lensons: ")] == said[-1:]
    assert set(read_only.iterdir()) == before


@contextmanager
def hub(answer):
    """A loopback server in place of the hub; ``answer`` gets each request's handler."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        do_HEAD = do_GET

        def log_message(self, *given):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def garbage(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"\x00\xff<html>not a model</html>")


def refused(handler):
    handler.send_response(503)
    handler.end_headers()


def silent(handler):
    time.sleep(3)
    handler.close_connection = True


@pytest.mark.parametrize("answer", [garbage, refused, silent, None], ids=["garbage", "503", "slow", "nobody"])
def test_a_hub_that_does_not_help(tmp_path, answer):
    """A hub with garbage, an error, no answer in time, or nobody there: one line that says what was tried, exit code 2,
    and nothing of a model is left in the cache."""
    code = "import sys, lensons.cli; sys.exit(lensons.cli.main(['trace', 'Hello', '--model', 'gpt2']))"
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("HF_", "http_", "https_", "HTTP"))
    } | {
        "HF_HOME": str(tmp_path),
        "HF_HUB_ETAG_TIMEOUT": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }

    def ask(address):
        return subprocess.run(
            [sys.executable, "-c", code],
            env=env | {"HF_ENDPOINT": address},
            capture_output=True,
            text=True,
            timeout=120,
        )

    if answer is None:
        done = ask("http://127.0.0.1:9")
    else:
        with hub(answer) as address:
            done = ask(address)
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("lensons: ")]
    assert "Tried: the local cache" in line
    assert 'the model "toy" needs no network' in line
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.safetensors"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_bytes_of_any_kind_are_no_trace(tmp_path, data):
    """Whatever bytes a file holds, loading it as a trace is one error of ours, and nothing of it is run."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(LensonsError, match=r"x\.safetensors"):
        lensons.Trace.load(path)


@pytest.mark.parametrize("length", [0, 7, 2**31, 2**63 - 1, 2**64 - 1])
def test_a_hostile_header(tmp_path, length):
    """A safetensors header that claims to be of any length is refused at once, however much it claims."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b'{"a": {}}')
    started = time.monotonic()
    with pytest.raises(LensonsError):
        lensons.Trace.load(path)
    assert time.monotonic() - started < 5


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80) | JSON.map(json.dumps))
def test_json_of_any_kind_is_no_table(text):
    """Whatever JSON (or none) is given, reading it as scores is one error of ours."""
    with pytest.raises(LensonsError):
        lensons.HeadScores.from_json(text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_table_with_one_part_changed(small_gpt2_table, data):
    """A saved table with one value replaced by anything is read as a table, or refused with one error of ours."""
    whole = json.loads(small_gpt2_table)
    key = data.draw(st.sampled_from(sorted(whole)))
    whole[key] = data.draw(JSON)
    with suppress(LensonsError):
        assert isinstance(lensons.HeadScores.from_json(json.dumps(whole)), lensons.HeadScores)


@pytest.fixture(scope="module")
def small_gpt2_table(toy):
    return lensons.score_heads(toy, n_prompts=2).to_json()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            ["score", "trace", "lesson", "attention", "models", "--json", "--csv", "--text", "-o", "--head"]
        )
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
        max_size=5,
    )
)
def test_any_command_line(capsys, tmp_path, monkeypatch, arguments):
    """Whatever is typed, the exit code is 0 or 2, and an error is no traceback."""
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main([*arguments, "--model", "no/such-model-here"] if "models" not in arguments else arguments)
    except SystemExit as end:  # argparse's own way
        code = end.code
    assert code in (0, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_notebooks_stay_in_their_folder(tmp_path, capsys):
    """A lesson's name is one of the known ones: a name with a path in it writes nothing anywhere."""
    from lensons.lessons import copy_notebooks

    with pytest.raises(LensonsError, match="There is no lesson"):
        copy_notebooks(tmp_path / "a", ["../evil"])
    assert not (tmp_path / "evil.ipynb").exists()
    assert not list(tmp_path.rglob("*.ipynb"))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=0, max_size=4),
    st.sampled_from([0.0, 0.2, 1.0, -1.0, float("nan"), float("inf"), 1e30]),
    st.sampled_from(["previous_token", "duplicate_token", "induction", "first_token", "current_token", "entropy"]),
)
@pytest.mark.filterwarnings("ignore::lensons.errors.LensonsWarning")
def test_any_tensor_is_scored_or_refused(shape, value, kind):
    """A tensor of any shape and content: a score of the leading axes, or one error of ours; never another error."""
    from lensons import scores

    pattern = torch.full(shape, value)
    kept = pattern.clone()
    ids = list(range(shape[-1])) if shape else [1]
    with suppress(LensonsError):
        found = scores.score(kind, pattern, ids)
        assert found.shape == pattern.shape[:-2]
        assert found.dtype == torch.float32
    assert torch.equal(pattern, kept) or pattern.isnan().any()
