"""Scoring every head of a model: against Hugging Face's own attentions, and against TransformerLens' detector."""

import json
import math
import weakref

import numpy as np
import pytest
import torch

import lensons
from lensons import HeadScores, scores
from lensons.errors import InputError, MissingPackageError
from lensons.models import load_model
from lensons.prompts import repeated_blocks
from lensons.scores import KINDS
from tests.conftest import OTHER, SENTENCE
from tests.test_models import _same, _state
from tests.test_scores import slow


def hugging_face_attentions(folder, ids):
    from transformers import AutoModelForCausalLM

    hf = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        return [torch.cat(hf(torch.tensor([prompt]), output_attentions=True).attentions).double() for prompt in ids]


@pytest.mark.parametrize("which", ["gpt2", "llama"])
def test_values_are_the_mean_of_slow_loops_over_hugging_face(which, request):
    """Each value is the mean over prompts of a slow loop over Hugging Face's own eager attentions (1e-5)."""
    folder, model = request.getfixturevalue(f"{which}_folder"), request.getfixturevalue(f"small_{which}")
    table = lensons.score_heads(model, n_prompts=3, block_len=6, seed=5, batch_size=2)
    prompts = repeated_blocks(model, 3, 6, 5).ids
    attentions = hugging_face_attentions(folder, prompts)
    for kind in KINDS:
        for layer in range(model.n_layers):
            for head in range(model.n_heads):
                each = [
                    slow(kind, a[layer, head].tolist(), list(p), {0}) for a, p in zip(attentions, prompts, strict=True)
                ]
                got = float(table.values[kind][layer, head])
                assert got == pytest.approx(sum(each) / 3, abs=1e-5), (kind, layer, head)


def test_prompts_of_unequal_length_equal_single_runs(small_gpt2):
    """Texts in a batch score as each does alone; what is undefined in one is left out of the mean."""
    texts = [SENTENCE, "the the the street", "animal"]
    together = lensons.score_heads(small_gpt2, texts)
    alone = [lensons.score_heads(small_gpt2, text) for text in texts]
    for kind in KINDS:
        each = torch.stack([table.values[kind] for table in alone])
        torch.testing.assert_close(together.values[kind], each.nanmean(0), equal_nan=True)
        assert together.n_prompts[kind] == sum(table.n_prompts[kind] for table in alone)
        assert together.n_queries[kind] == sum(table.n_queries[kind] for table in alone)


@pytest.mark.parametrize("left", [False, True])
def test_padded_tensors_equal_the_prompts(small_gpt2, left):
    """A [batch, pos] tensor with pads on either side gives what the prompts give as lists."""
    prompts = [[0, 5, 6, 5, 6], [0, 7, 8, 7]]
    ids = torch.full((2, 6), 9)
    mask = torch.zeros(2, 6, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        place = slice(6 - len(prompt), 6) if left else slice(0, len(prompt))
        ids[row, place] = torch.tensor(prompt)
        mask[row, place] = 1
    padded = lensons.score_heads(small_gpt2, ids, attention_mask=mask)
    plain = lensons.score_heads(small_gpt2, prompts)
    for kind in KINDS:
        torch.testing.assert_close(padded.values[kind], plain.values[kind], equal_nan=True)


def test_ho19_pooling(small_gpt2):
    """HO-19: the mean over prompts and the pool over queries are what their definitions say; neither is diluted."""
    ids = [[0, 5, 6, 5, 5, 6], [0, 7, 8, 9], [0, 5, 7, 5]]
    trace = [lensons.trace(small_gpt2, prompt).pattern for prompt in ids]
    rows = [scores.targets("duplicate_token", prompt, bos=True) for prompt in ids]
    sums = [(p * r).sum((-1, -2)) for p, r in zip(trace, rows, strict=True)]
    counts = [int(r.any(-1).sum()) for r in rows]
    assert counts == [3, 0, 1]
    by_prompt = (sums[0] / 3 + sums[2]) / 2
    by_query = (sums[0] + sums[2]) / 4
    torch.testing.assert_close(lensons.score_heads(small_gpt2, ids).values["duplicate_token"], by_prompt)
    pooled = lensons.score_heads(small_gpt2, ids, pool="queries")
    torch.testing.assert_close(pooled.values["duplicate_token"], by_query)


def test_chance_is_what_uniform_attention_scores(small_gpt2):
    """The stated chance is the mean over prompts of the closed form."""
    table = lensons.score_heads(small_gpt2, n_prompts=4, block_len=9)
    prompts = repeated_blocks(small_gpt2, 4, 9, 0).ids
    for kind in KINDS:
        each = [float(scores.chance(kind, list(p), bos=True)) for p in prompts]
        assert table.chance[kind] == pytest.approx(sum(each) / 4, abs=1e-6)
        lift = table.lift[kind]
        if kind != "entropy":
            expected = (table.values[kind] - table.chance[kind]) / (1 - table.chance[kind])
            torch.testing.assert_close(lift, expected)


def test_the_interval_is_a_bootstrap_over_prompts(toy):
    """95 % of resampled means lie in the interval; it holds the value; one prompt gives none."""
    table = lensons.score_heads(toy, n_prompts=12, block_len=10, kinds=["induction"])
    value, low, high = (part["induction"] for part in (table.values, table.low, table.high))
    assert bool(((low <= value + 1e-6) & (value <= high + 1e-6)).all())
    per_prompt = torch.stack(
        [
            lensons.score_heads(toy, [list(p)], kinds=["induction"]).values["induction"]
            for p in repeated_blocks(toy, 12, 10, 0).ids
        ]
    )
    draws = np.random.default_rng(1).integers(12, size=(4000, 12))
    means = per_prompt.numpy()[draws].mean(1)
    np.testing.assert_allclose(low, np.quantile(means, 0.025, axis=0), atol=0.02)
    np.testing.assert_allclose(high, np.quantile(means, 0.975, axis=0), atol=0.02)
    single = lensons.score_heads(toy, n_prompts=1, block_len=10)
    assert bool(single.low["induction"].isnan().all())
    assert math.isnan(single.rank_stability["induction"])


def test_the_same_seed_gives_the_same_table(small_gpt2):
    """Same seed, same table, to the last bit; another seed, other prompts."""
    first, again = (lensons.score_heads(small_gpt2, n_prompts=3, block_len=8, seed=3) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert first.to_json() != lensons.score_heads(small_gpt2, n_prompts=3, block_len=8, seed=4).to_json()


def test_random_blocks_are_what_they_say(small_gpt2):
    """[BOS] + block + block of ordinary tokens, none twice in a block; the default fits the context exactly."""
    for ids in repeated_blocks(small_gpt2, 5, None, 0).ids:
        n = (len(ids) - 1) // 2
        assert n == (64 - 1) // 2
        assert ids[0] == small_gpt2.bos_id
        assert ids[1 : n + 1] == ids[n + 1 :]
        assert len(set(ids[1:])) == n
        assert not set(ids[1:]) & small_gpt2.special_ids


def test_the_full_context_is_allowed(small_gpt2):
    """HO-17: a prompt of exactly n_ctx tokens is scored."""
    table = lensons.score_heads(small_gpt2, [[0, *[7] * 63]])
    assert table.n_queries["duplicate_token"] == 62


@pytest.mark.parametrize("fail", [False, True])
def test_the_model_is_left_as_it_was(gpt2_folder, fail, monkeypatch):
    """Hooks, flags, modes and weights are as found, also after an error in the middle; no pattern is kept."""
    raw = load_model(gpt2_folder).raw
    raw.train()
    seen = []
    raw.add_hook("blocks.1.attn.hook_pattern", lambda value, hook: seen.append(1))
    before = _state(raw)
    if fail:
        monkeypatch.setattr("lensons.scoring._Reducer.__call__", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lensons.score_heads(raw, n_prompts=2, block_len=4)
    else:
        lensons.score_heads(raw, n_prompts=2, block_len=4)
        assert seen
    _same(before, _state(raw))


def test_patterns_are_never_all_in_memory(small_gpt2):
    """When a layer's pattern is there, those of the layers before are gone: memory does not grow with layers."""
    seen, alive = [], []

    def watch(pattern):
        alive.append(sum(earlier() is not None for earlier in seen))
        seen.append(weakref.ref(pattern))

    small_gpt2.run(torch.arange(8)[None], {("pattern", layer): watch for layer in range(small_gpt2.n_layers)})
    assert len(seen) == small_gpt2.n_layers > 1
    assert alive == [0] * len(seen)
    assert not any(earlier() is not None for earlier in seen)


def test_json_and_csv_and_frames(small_gpt2, monkeypatch):
    """JSON reads back to the same table, with null for what is undefined; a frame has a row for each head and kind."""
    table = lensons.score_heads(small_gpt2, "animal", kinds=["previous_token", "induction"])
    data = json.loads(table.to_json())
    assert data["scores"]["induction"]["values"][0][0] is None
    assert data["provenance"]["model"] == "small-gpt2"
    back = HeadScores.from_json(table.to_json())
    for part in ("values", "low", "high"):
        for kind in table.kinds:
            torch.testing.assert_close(getattr(back, part)[kind], getattr(table, part)[kind], equal_nan=True)
    assert back.to_json() == table.to_json()
    assert len(table.to_dataframe()) == len(table.to_csv().splitlines()) - 1 == 2 * 8
    assert "nan" not in table.to_csv()
    import builtins

    real = builtins.__import__

    def without_pandas(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(MissingPackageError, match="pandas"):
        table.to_dataframe()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"format": "other"}', '{"format": "lensons head scores 1", "scores": {}}']
)
def test_other_json_is_refused(text):
    """What is not a table of head scores is one clear error."""
    with pytest.raises(InputError, match="not a table"):
        HeadScores.from_json(text)


def test_top_puts_undefined_last(small_gpt2):
    """HO-03: ranks put undefined heads last, and repr says what was found."""
    table = lensons.score_heads(small_gpt2, [SENTENCE, OTHER])
    best = table.top("previous_token", 8)
    assert [score for _, score in best] == sorted((score for _, score in best), reverse=True)
    assert best[0][1] == pytest.approx(float(table.values["previous_token"].max()))
    assert all(math.isnan(score) for _, score in lensons.score_heads(small_gpt2, "animal").top("induction", 3))
    assert "chance" in repr(table)
    with pytest.raises(InputError, match="not in this table"):
        table.top("sinks")


def test_compare_names_what_moved(toy):
    """A table compared with itself moves nothing; on other texts the heads that moved come first."""
    blocks = lensons.score_heads(toy, n_prompts=6, block_len=12)
    assert all(moved == 0 for _, moved, _, _ in blocks.compare(blocks, "induction"))
    text = lensons.score_heads(toy, [SENTENCE, OTHER, "Mary saw John because Mary was tired."])
    rows = blocks.compare(text, "previous_token")
    assert [abs(row[1]) for row in rows] == sorted((abs(row[1]) for row in rows), reverse=True)
    for head, moved, low, high in rows:
        expected = float(text.values["previous_token"][head] - blocks.values["previous_token"][head])
        assert moved == pytest.approx(expected, abs=1e-6)
        assert low <= moved <= high


@pytest.mark.loose
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_prompts": 0}, "n_prompts=0"),
        ({"n_prompts": 2.5}, "n_prompts=2.5"),
        ({"block_len": 1}, "block_len=1"),
        ({"block_len": 32}, "from 2 to 31"),
        ({"seed": -1}, "seed=-1"),
        ({"batch_size": True}, "batch_size=True"),
        ({"kinds": ["inductive"]}, "inductive"),
        ({"kinds": []}, "kinds is empty"),
        ({"pool": "all"}, "pool='all'"),
        ({"prompts": "the", "n_prompts": 4}, "n_prompts cannot be given together"),
        ({"prompts": "the", "block_len": 4}, "block_len cannot be given together"),
        ({"prompts": []}, "prompts is empty"),
        ({"prompts": ["the", [1, 2]]}, "mixes texts and ids"),
        ({"prompts": 7}, "prompts is a int"),
        ({"prompts": torch.zeros(1, 2, 3, dtype=torch.long)}, r"\[1, 2, 3\]"),
        ({"prompts": [[0] * 65]}, "65 tokens"),
        ({"prompts": "the", "attention_mask": [[1]]}, "attention_mask was given, but"),
        ({"attention_mask": [[1]]}, "without prompts"),
        ({"prompts": torch.zeros(1, 2, dtype=torch.long), "attention_mask": [[1]]}, "must be equal"),
    ],
)
def test_bad_options_are_one_clear_error(small_gpt2, options, says):
    """What cannot be used is a ValueError that says what was given."""
    with pytest.raises(InputError, match=says):
        lensons.score_heads(small_gpt2, **options)


@pytest.mark.parametrize("kind", ["previous_token", "duplicate_token", "induction"])
def test_parity_with_transformer_lens_detect_head(gpt2_folder, kind):
    """mass_share on our trace equals `detect_head` (error_measure "mul") on the same model and text."""
    from transformer_lens.head_detector import detect_head

    model = load_model(gpt2_folder)
    names = {
        "previous_token": "previous_token_head",
        "duplicate_token": "duplicate_token_head",
        "induction": "induction_head",
    }
    for text in (SENTENCE + " " + SENTENCE.lower()[:20], "the the the the"):
        theirs = detect_head(model.raw, text, names[kind], error_measure="mul")
        trace = lensons.trace(model, text)
        ours = scores.score(kind, trace.pattern, list(trace.tokens.ids), measure="mass_share")
        torch.testing.assert_close(ours, theirs.float(), atol=1e-5, rtol=0)
