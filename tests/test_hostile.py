"""What users bring that nobody thought of: threads, models at the edge, files and numbers of an odd kind."""

import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import lensons
from lensons import scores
from lensons.errors import AttentionMissingError, InputError, LensonsWarning, ModelError
from lensons.files import written_whole
from lensons.lessons import AttentionLesson
from lensons.models import copy_of
from tests.conftest import SENTENCE

BLOCKS = ([[50, 7, 9, 11, 7, 9, 11]], [[50, 3, 4, 5, 3, 4, 5]])


@pytest.fixture
def eager_threads():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def test_threads_share_a_model(small_gpt2, eager_threads):
    """Two threads that score, one that ablates and the caller's own passes, on one model: all get what they get
    alone."""

    def scored(prompts):
        return lensons.score_heads(small_gpt2, prompts, kinds=["induction"]).values["induction"]

    def ablated():
        return lensons.ablate_heads(small_gpt2, ["1.0"], BLOCKS[0]).change.all

    def own():
        with torch.no_grad():
            return small_gpt2.raw(torch.tensor(BLOCKS[1]), return_type="logits")

    jobs = {"a": lambda: scored(BLOCKS[0]), "b": lambda: scored(BLOCKS[1]), "c": ablated, "d": own}
    alone = {name: job() for name, job in jobs.items()}
    wrong, errors = [], []

    def again(name):
        try:
            for _ in range(12):
                found = jobs[name]()
                same = found == alone[name] if name == "c" else torch.equal(found, alone[name])
                if not same:
                    wrong.append(name)
        except Exception as error:
            errors.append((name, error))

    threads = [threading.Thread(target=again, args=(name,)) for name in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert not wrong


def a_gpt2(folder, tokenizer, **config):
    """A small random GPT-2 in a folder."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 420}
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(**sizes | config, bos_token_id=0, eos_token_id=0)).save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def without_bos(gpt2_folder, tmp_path):
    """The small GPT-2's folder with a tokenizer that has no special tokens at all."""
    folder = shutil.copytree(gpt2_folder, tmp_path / "no-bos")
    about = json.loads((folder / "tokenizer_config.json").read_text())
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        about.pop(name, None)
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    return folder


def test_a_tokenizer_without_bos_gets_none(without_bos):
    """A model whose tokenizer has no BOS token is not given one: random blocks have none in front, and a text says that
    there is none to put there."""
    model = lensons.load_model(without_bos)
    assert model.bos_id is None
    assert model.tokenizer.bos_token is None
    assert lensons.score_heads(model, n_prompts=1, block_len=4).protocol["bos"] is False
    with pytest.raises(InputError, match="has no BOS token"):
        lensons.trace(model, "The animal")


@pytest.mark.parametrize("context", [1, 2, 5])
def test_a_short_context(small_tokenizer, tmp_path, context):
    """A model that reads one to five tokens at once is loaded, and traced as far as it reads."""
    model = lensons.load_model(a_gpt2(tmp_path / "short", small_tokenizer, n_positions=context))
    lensons.trace(model, [5] * context).check()
    with pytest.raises(InputError, match=f"reads at most {context} at once"):
        lensons.trace(model, [5] * (context + 1))


def test_a_tokenizer_that_knows_more_than_the_model(small_tokenizer, tmp_path):
    """Tokens were added to the tokenizer, and the model was not made larger: a text that has one is one clear error."""
    import copy

    more = copy.deepcopy(small_tokenizer)
    more.add_tokens(["<user>"])
    folder = a_gpt2(tmp_path / "more", more, vocab_size=len(small_tokenizer))
    with pytest.raises(InputError, match="There is no token"):
        lensons.trace(lensons.load_model(folder), "<user> The animal")


def test_a_folder_without_a_tokenizer(tmp_path):
    """A folder with a model and no tokenizer is refused, where Hugging Face makes an empty tokenizer in silence."""
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        lensons.load_model(a_gpt2(tmp_path / "bare", None))


def test_autocast_stays_outside(small_gpt2):
    """Under the caller's autocast to bfloat16 the numbers are the ones without it."""
    plain = lensons.score_heads(small_gpt2, BLOCKS[0]).values["induction"]
    with torch.autocast("cpu", torch.bfloat16):
        inside = lensons.score_heads(small_gpt2, BLOCKS[0]).values["induction"]
        lensons.trace(small_gpt2, SENTENCE).check()
    assert torch.equal(plain, inside)


def test_a_hook_that_takes_all_hooks_away(small_gpt2):
    """A hook that resets all hooks of the model in the middle of a pass leaves no error and no hook behind."""
    small_gpt2.run(torch.tensor(BLOCKS[0]), {("pattern", 1): lambda value: small_gpt2.raw.reset_hooks()})
    assert not any(point.fwd_hooks for point in small_gpt2.raw.hook_dict.values())


def test_a_mask_that_is_added_to_scores(small_gpt2):
    """A mask of 0 and -10000 is refused by score_heads as by the pure scores, not read the wrong way round."""
    mask = torch.tensor([[0.0, 0, 0, 0, -10000]])
    with pytest.raises(InputError, match=r"from -10000\.0 to 0\.0"):
        lensons.score_heads(small_gpt2, torch.tensor([[5, 6, 5, 6, 0]]), attention_mask=mask)


@pytest.mark.parametrize(
    ("change", "says"),
    [(lambda p: p * 3, "rows sum to 3-3"), (lambda p: p * 0 + 1 / p.shape[-1], "on later tokens"), (lambda p: p, None)],
    ids=["three times", "both ways", "as it is"],
)
def test_a_pattern_that_a_hook_changed(small_gpt2, change, says):
    """A caller's hook that makes something else of a pattern is warned of, once a layer; an honest pattern is not."""
    import warnings

    small_gpt2.raw.add_hook("blocks.1.attn.hook_pattern", lambda value, hook: change(value))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lensons.score_heads(small_gpt2, BLOCKS[0])
    finally:
        small_gpt2.raw.reset_hooks()
    said = [str(warning.message) for warning in caught if isinstance(warning.message, LensonsWarning)]
    assert len(said) == (says is not None)
    assert all(says in line and "layer 1" in line for line in said)


def test_nan_in_the_weights(small_gpt2):
    """NaN in attention's weights: the layer is named, in an error, or in a warning where TransformerLens 3 makes rows
    of 0 of it. NaN that reaches the loss is an error. There is no table of NaN without a word."""
    broken = copy_of(small_gpt2)
    with torch.no_grad():
        next(p for name, p in broken.raw.named_parameters() if "1" in name and p.ndim > 1).fill_(float("nan"))
    said = r"layer 1 (holds NaN|is unusual: its rows sum to 0-0 .* NaN in the weights\?)"
    with pytest.raises((InputError, LensonsWarning), match=said):
        lensons.score_heads(broken, n_prompts=2)
    broken = copy_of(small_gpt2)
    broken.raw.add_hook("blocks.1.hook_attn_out", lambda value, hook: value * float("nan"))
    with pytest.raises(ModelError, match="loss"):
        lensons.ablate_heads(broken, ["0.0"], BLOCKS[0])


def test_infinite_weights_end():
    """Weights that are infinite are refused at once; before, the search for their eigenvalues never ended."""
    for bad in (float("inf"), float("nan")):
        with pytest.raises(InputError, match="w_v holds NaN or infinity"):
            scores.copying(torch.full((2, 8, 4), bad), torch.ones(2, 4, 8))


def test_another_default_type(small_gpt2):
    """With float64 as torch's default type the lesson, chance and the baseline give the same numbers."""
    ids = [1, 2, 1, 2, 3]
    wanted = scores.chance("induction", ids), scores.composition_baseline(16, 4)
    torch.set_default_dtype(torch.float64)
    try:
        assert (scores.chance("induction", ids), scores.composition_baseline(16, 4)) == wanted
        assert len(AttentionLesson(small_gpt2).steps) == 6
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_lesson_on_ids_of_any_form(toy):
    """Ids as a list, a tensor and an array are the same lesson."""
    ids = lensons.trace(toy, "It was tired.").tokens.ids
    wanted = AttentionLesson(toy, list(ids)).trace.pattern
    for given in (torch.tensor(ids), torch.tensor(ids).numpy()):
        lesson = AttentionLesson(toy, given)
        assert torch.equal(lesson.trace.pattern, wanted)
        assert len(lesson.steps) == 6


def test_saving_leaves_the_umask(tmp_path):
    """Files are written by many threads at once; the process's umask, which all share, is what it was, and rules."""
    before = os.umask(0o027)
    try:
        threads = [
            threading.Thread(target=lambda n=n: [written_whole(tmp_path / f"{n}-{i}", "x") for i in range(40)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert os.umask(0o027) == 0o027
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}
    finally:
        os.umask(before)


@pytest.mark.loose
def test_numbers_of_other_libraries(small_gpt2):
    """A head, a position or an option given as NumPy's or torch's whole number is that number; with a fraction it is
    refused, not cut off."""
    one = np.int64(1)
    wanted = lensons.ablate_heads(small_gpt2, (1, 1), BLOCKS[0])
    assert lensons.ablate_heads(small_gpt2, (one, torch.tensor(1)), BLOCKS[0]) == wanted
    trace = lensons.trace(small_gpt2, [np.int64(5), torch.tensor(6), 7])
    assert trace.tokens.ids == (5, 6, 7)
    assert trace.position(one) == trace.position(torch.tensor(1)) == 1
    for half in (1.5, np.float64(1.5), torch.tensor(1.5), torch.tensor([1, 2]), True, torch.tensor(True)):
        for call in (
            lambda half=half: trace.position(half),
            lambda half=half: lensons.trace(small_gpt2, [5, half]),
            lambda half=half: lensons.score_heads(small_gpt2, n_prompts=half),
            lambda half=half: lensons.ablate_heads(small_gpt2, (1, half), BLOCKS[0]),
        ):
            with pytest.raises(InputError):
                call()


@pytest.mark.loose
def test_arrays_in_any_form(small_gpt2):
    """Ids as an array that runs backwards or is of another machine's byte order are those ids."""
    ids = np.array([5, 6, 7, 5, 6])
    wanted = lensons.score_heads(small_gpt2, [ids.tolist()], kinds=["induction"]).values["induction"]
    for given in (ids[::-1][::-1], ids.astype(">i4"), np.array([6, 5, 7, 6, 5])[::-1]):
        assert lensons.trace(small_gpt2, given).tokens.ids == tuple(ids)
        found = lensons.score_heads(small_gpt2, given[None], kinds=["induction"]).values["induction"]
        assert torch.equal(found, wanted)
    table = scores.score("induction", torch.eye(5), np.array([6, 5, 7, 6, 5])[::-1])
    assert torch.equal(table, scores.score("induction", torch.eye(5), ids.tolist()))


@pytest.mark.loose
def test_what_a_fused_kernel_hands_out():
    """A figure of all heads says, as the scores do, that there are no attention weights, and what to do."""
    for given in (None, (), (None,) * 12, [None]):
        for figure in (
            lambda given=given: lensons.figures.all_patterns_figure(["a"], given),
            lambda given=given: lensons.figures.pattern_figure(["a"], given, heads=["x"]),
        ):
            with pytest.raises(AttentionMissingError, match="eager"):
                figure()


def test_results_can_be_compared(toy):
    """Two results of one call are not a puzzle for ==: the same object is equal to itself, another is not."""
    trace = lensons.trace(toy, "It was.")
    head = trace.head("0.0")
    assert head == head
    assert (head == trace.head("0.0")) in (True, False)


def test_weights_of_a_folder(gpt2_folder):
    """A folder given as a path is loaded, as one given as text is."""
    assert torch.equal(lensons.weight_scores(gpt2_folder).copying, lensons.weight_scores(str(gpt2_folder)).copying)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_standard_output_on_a_full_disk():
    """Where standard output cannot be written, the command line says so in one line, with exit code 2."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lensons", "models"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("lensons: ")
