"""Files that look right and are not: each part of a saved trace or table replaced by something of another kind."""

import copy
import json
import math

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save

import lensons
from lensons.errors import FileError, InputError
from lensons.files import written_whole
from tests.conftest import SENTENCE

DEEP = "[" * 100_000
KINDS = [None, True, -1, 0, 0.5, math.inf, math.nan, 10**400, "x", "x" * 99, [], ["x"], [None], [[]], {}, {"x": 1}]


@pytest.fixture(scope="module")
def saved(toy, tmp_path_factory):
    """A good trace's description, its tensors, and a place for bad ones."""
    folder = tmp_path_factory.mktemp("saved")
    path = lensons.trace(toy, SENTENCE).save(folder / "good.safetensors")
    with safe_open(str(path), framework="pt") as file:
        return json.loads(file.metadata()["lensons"]), load_tensors(path.read_bytes()), folder


def load(saved, about, **changed):
    """What Trace.load makes of this description and these tensors."""
    _, tensors, folder = saved
    text = about if isinstance(about, str) else json.dumps(about)
    path = folder / "bad.safetensors"
    path.write_bytes(save({**tensors, **changed}, metadata={"lensons": text}))
    return lensons.Trace.load(path)


def places(whole, path=()):
    """The way to every part of plain data, two levels deep."""
    for key in whole:
        yield (*path, key)
        if isinstance(whole[key], dict) and not path:
            yield from places(whole[key], (key,))


def put(whole, path, value):
    changed = copy.deepcopy(whole)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def test_each_part_of_a_trace_replaced(saved):
    """Refused with one error of ours; or, where the value is allowed there, a trace that can be used whole."""
    about = saved[0]
    refused = []
    for path in places(about):
        for value in KINDS:
            try:
                trace = load(saved, put(about, path, value))
            except FileError as error:
                refused.append(str(error))
            else:
                assert repr(trace)
                assert trace.tokens.text == SENTENCE
                assert trace.head((0, 0)).tokens is trace.tokens
                trace.errors()
    assert len(refused) > 150
    assert all("is not a whole trace" in message for message in refused)


@pytest.mark.parametrize("name", ["ids", "bytes", "texts", "labels", "pieces", "special"])
def test_one_entry_too_few_or_too_many(saved, name):
    """Every list about tokens has one entry for each token."""
    entries = saved[0]["tokens"][name]
    for changed in (entries[:-1], [*entries, entries[-1]]):
        with pytest.raises(FileError, match="not a whole trace"):
            load(saved, put(saved[0], ("tokens", name), changed))


@pytest.mark.parametrize("name", ["q", "k", "v", "z", "scores", "pattern", "attn_out", "w_o", "b_o"])
@pytest.mark.parametrize(
    "spoil",
    [
        torch.Tensor.long,
        torch.Tensor.half,
        torch.Tensor.double,
        lambda t: t.to(torch.complex64),
        lambda t: t[:0].clone(),
        lambda t: t.flatten()[0].clone(),
        lambda t: t[None].clone(),
    ],
    ids=["long", "half", "double", "complex", "empty", "one number", "one axis more"],
)
def test_each_tensor_of_another_kind(saved, name, spoil):
    """Numbers of another kind, no numbers, or other axes: refused when loading, not when drawing."""
    with pytest.raises(FileError, match="not a whole trace"):
        load(saved, saved[0], **{name: spoil(saved[1][name])})


def test_json_nested_without_end(saved):
    """JSON nested deeper than Python can read is a broken file like any other."""
    with pytest.raises(FileError, match="not a whole trace"):
        load(saved, DEEP)
    with pytest.raises(InputError, match="not a table of head scores"):
        lensons.HeadScores.from_json(DEEP)


def test_each_part_of_a_table_replaced(toy):
    """Refused with one error of ours; or a table that can be printed, written, compared and read again."""
    whole = json.loads(lensons.score_heads(toy, n_prompts=2, block_len=5).to_json())
    kind = next(iter(whole["scores"]))
    paths = [*places(whole), *(("scores", kind, name) for name in whole["scores"][kind])]
    paths += [("scores", kind, name, 0) for name in ("values", "low", "high")]
    paths += [("scores", kind, name, 0, 0) for name in ("values", "low", "high")]
    refused = []
    for path in paths:
        for value in KINDS:
            try:
                table = lensons.HeadScores.from_json(json.dumps(put(whole, path, value)))
            except InputError as error:
                refused.append(str(error))
            else:
                assert repr(table)
                assert table.to_csv()
                assert table.compare(table, kind)
                if path[0] == "scores":
                    assert lensons.HeadScores.from_json(table.to_json()).kinds == table.kinds
    assert len(refused) > 200
    assert all("not a table of head scores" in message for message in refused)


@pytest.mark.parametrize(("name", "content"), [("a\0b", "x"), ("a", "half \ud800 of a pair"), ("\ud83d" * 3, "\udca9")])
def test_names_and_texts_that_cannot_be_written(tmp_path, name, content):
    """NUL in a name, half of a surrogate pair in a text: one error, and nothing in the folder."""
    (tmp_path / "a").write_text("good")
    with pytest.raises(FileError, match="cannot be written"):
        written_whole(tmp_path / name, content)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["good"]
