"""Head scores as pure functions: closed forms, a slow loop, laws, and what is published."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lensons import scores
from lensons.errors import AttentionMissingError, InputError, LensonsWarning
from lensons.scores import KINDS

PAIRWISE = ("previous_token", "duplicate_token", "induction")


def uniform(n):
    """The pattern of a head that looks everywhere alike."""
    return torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]


def random_pattern(n, *lead, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(*lead, n, n, generator=generator) * 2
    return logits.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -torch.inf).softmax(-1)


def slow(kind, pattern, ids, special=(), real=None):
    """The definitions of the design, as a loop over cells, in float64."""
    n = len(ids)
    real = [True] * n if real is None else real
    order = [i for i in range(n) if real[i]]
    rows = []
    for place, q in enumerate(order):
        keys = []
        for seen, k in enumerate(order[: place + 1]):
            if kind == "previous_token":
                hit = seen == place - 1 and k not in special
            elif kind == "duplicate_token":
                hit = k < q and ids[k] == ids[q] and k not in special and q not in special
            elif kind == "induction":
                before = order[seen - 1] if seen else None
                hit = (
                    k < q
                    and before is not None
                    and ids[before] == ids[q]
                    and before not in special
                    and q not in special
                )
            elif kind == "first_token":
                hit = seen == 0 and place > 0
            elif kind == "current_token":
                hit = k == q and place > 0
            else:
                hit = place > 0
            if hit:
                keys.append(k)
        if not keys:
            continue
        if kind == "entropy":
            weights = [float(pattern[q][k]) for k in keys]
            rows.append(-sum(w * math.log(w) for w in weights if w > 0) / math.log(len(keys)))
        else:
            rows.append(sum(float(pattern[q][k]) for k in keys))
    return sum(rows) / len(rows) if rows else math.nan


def by_name(kind, pattern, ids, **options):
    return getattr(scores, kind)(pattern, ids, **options)


ids_lists = st.lists(st.integers(0, 4), min_size=1, max_size=9)


@pytest.mark.parametrize("kind", KINDS)
@given(ids=ids_lists, seed=st.integers(0, 10_000), bos=st.booleans())
def test_scores_equal_the_slow_loop(kind, ids, seed, bos):
    """Every kind equals a loop written from the definitions, with BOS and without."""
    pattern = random_pattern(len(ids), seed=seed)
    expected = slow(kind, pattern.double().tolist(), ids, special=(0,) if bos else ())
    assert float(by_name(kind, pattern, ids, bos=bos)) == pytest.approx(expected, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("kind", KINDS)
@given(ids=st.lists(st.integers(0, 4), min_size=3, max_size=9), seed=st.integers(0, 99), data=st.data())
def test_any_special_positions_and_pads(kind, ids, seed, data):
    """A mask of any shape and any special positions equal the slow loop."""
    n = len(ids)
    real = data.draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    special = data.draw(st.sets(st.integers(0, n - 1)))
    allowed = torch.tensor(real)
    logits = torch.randn(n, n, generator=torch.Generator().manual_seed(seed))
    hidden = ~(torch.ones(n, n, dtype=torch.bool).tril() & allowed[None, :])
    pattern = logits.masked_fill(hidden, -torch.inf).softmax(-1)  # a pad's row may well be NaN
    marked = torch.tensor([i in special for i in range(n)])
    got = by_name(kind, pattern, torch.tensor(ids), bos=marked, attention_mask=allowed.int())
    expected = slow(kind, pattern.double().nan_to_num().tolist(), ids, special & set(np.flatnonzero(real)), real)
    assert float(got) == pytest.approx(expected, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "entropy"])
@given(ids=ids_lists, bos=st.booleans())
def test_a_perfect_head_scores_one(kind, ids, bos):
    """Spreading all weight over the targets gives exactly 1, whatever the length, with BOS or without."""
    targets = scores.targets(kind, ids, bos=bos).double()
    counted = targets.any(-1)
    pattern = torch.where(counted[:, None], targets / targets.sum(-1, keepdim=True).clamp(min=1), torch.eye(len(ids)))
    got = float(by_name(kind, pattern, ids, bos=bos))
    assert got == pytest.approx(1.0) if counted.any() else math.isnan(got)


@pytest.mark.parametrize("kind", KINDS)
@given(ids=ids_lists, bos=st.booleans())
def test_uniform_attention_scores_chance(kind, ids, bos):
    """A head that looks everywhere alike scores exactly the stated chance."""
    got = float(by_name(kind, uniform(len(ids)), ids, bos=bos))
    assert got == pytest.approx(float(scores.chance(kind, ids, bos=bos)), abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("n", [2, 3, 10, 50, 1024])
def test_chance_in_closed_form(n):
    """Chance of the previous token is the mean of 1/(q+1); of the first token the same; and entropy's is 1."""
    harmonic = sum(1 / (q + 1) for q in range(1, n)) / (n - 1)
    for kind in ("previous_token", "first_token", "current_token"):
        assert float(scores.chance(kind, n_pos=n)) == pytest.approx(harmonic, abs=1e-6)
    assert float(scores.chance("entropy", n_pos=n)) == 1.0


@pytest.mark.parametrize(
    "laid_out",
    [lambda a: a[::-1][::-1], lambda a: np.flip(np.flip(a, 1).copy(), 1), lambda a: a.astype(">f4"), np.asfortranarray],
)
def test_an_array_may_lie_in_memory_as_it_likes(laid_out):
    """Backward strides, another machine's byte order and columns first give the same number, and are not changed."""
    array = random_pattern(5).numpy().astype(np.float32)
    odd = laid_out(array)
    kept = odd.copy()
    assert float(scores.previous_token(odd)) == float(scores.previous_token(array))
    assert np.array_equal(odd, kept)
    assert odd.dtype == kept.dtype


HO01 = [50256, 1, 2, 3, 1, 2, 3]


def ho01(name):
    rows = {
        "P": {q: {q - 1: 1.0} for q in range(1, 7)},
        "D": {4: {1: 1.0}, 5: {2: 1.0}, 6: {3: 1.0}},
        "I": {4: {2: 1.0}, 5: {3: 1.0}, 6: {4: 1.0}},
        "Z": {q: {0: 1.0} for q in range(7)},
    }.get(name)
    if rows is None:
        return uniform(7)
    pattern = torch.zeros(7, 7)
    for q in range(7):
        for k, weight in rows.get(q, {q: 1.0}).items():
            pattern[q, k] = weight
    return pattern


@pytest.mark.parametrize(
    ("head", "means", "shares", "declared"),
    [
        ("P", (1, 0, 0), (0.8571, 0, 0), 1.0),
        ("D", (0, 1, 0), (0, 0.4286, 0), 0.0),
        ("I", (0, 0, 1), (0, 0, 0.4286), 0.0),
        ("U", (0.2655, 0.1698, 0.1698), (0.2276, 0.0728, 0.0728), 0.2186),
        ("Z", (0.1667, 0, 0), (0.1429, 0, 0), 0.0),
    ],
)
def test_ho01(head, means, shares, declared):
    """HO-01: induction is not duplicate-token; the five hand-made heads score as derived, BOS declared or not."""
    pattern = ho01(head)
    assert [round(float(by_name(k, pattern, HO01)), 4) for k in PAIRWISE] == pytest.approx(means, abs=1e-4)
    got = [round(float(by_name(k, pattern, HO01, measure="mass_share")), 4) for k in PAIRWISE]
    assert got == pytest.approx(shares, abs=1e-4)
    assert float(scores.previous_token(pattern, HO01, bos=True)) == pytest.approx(declared, abs=1e-4)


def test_ho02_two_right_keys():
    """HO-02: weight split over two right keys counts in full."""
    ids = [50256, 7, 8, 7, 9, 7]
    duplicate, induction = torch.eye(6), torch.eye(6)
    duplicate[3], duplicate[5] = torch.zeros(6), torch.zeros(6)
    duplicate[3, 1], duplicate[5, 1], duplicate[5, 3] = 1.0, 0.5, 0.5
    induction[3], induction[5] = torch.zeros(6), torch.zeros(6)
    induction[3, 2], induction[5, 2], induction[5, 4] = 1.0, 0.5, 0.5
    assert float(scores.duplicate_token(duplicate, ids)) == 1.0
    assert float(scores.induction(induction, ids)) == 1.0


def test_ho03_undefined_is_not_zero():
    """HO-03: no repeats: NaN with a reason and no warning; a single token: everything is undefined."""
    ids = [464, 2068, 7586, 21831]
    pattern = uniform(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("duplicate_token", "induction"):
            assert math.isnan(float(by_name(kind, pattern, ids)))
            assert scores.why_undefined(kind, ids)
        assert not math.isnan(float(scores.previous_token(pattern, ids)))
        assert not math.isnan(float(scores.first_token(pattern)))
        for kind in KINDS:
            assert math.isnan(float(by_name(kind, torch.ones(1, 1), [50256])))
            assert scores.why_undefined(kind, [50256])
    assert scores.why_undefined("previous_token", ids) is None


def test_ho04_rows_that_do_not_sum_to_one():
    """HO-04: one warning that names the range of the sums and a likely cause; an all-zero row divides by nothing."""
    pattern = torch.tensor([[1.0, 0, 0], [1.1111, 0, 0], [0, 0.5556, 0]])
    with pytest.warns(LensonsWarning, match=r"0\.5556-1\.111.*training mode") as caught:
        value = scores.previous_token(pattern)
    assert len(caught) == 1
    assert float(value) == pytest.approx(0.8333, abs=1e-3)
    pattern[2] = 0
    with pytest.warns(LensonsWarning, match=r"0-1\.111"):
        scores.entropy(pattern)


def test_ho05_ids_decide():
    """HO-05: a word with and without its space are different tokens; repeats are where the ids say."""
    assert math.isnan(float(scores.duplicate_token(uniform(2), [5171, 460])))
    assert scores.queries("duplicate_token", [460, 460]).tolist() == [False, True]
    # BOS When Mary and John went to the store , John gave a drink to Mary
    ids = [50256, 2215, 5335, 290, 1757, 1816, 284, 262, 3650, 11, 1757, 2921, 257, 4144, 284, 5335]
    for kind, keys in (("duplicate_token", {10: 4, 14: 6, 15: 2}), ("induction", {10: 5, 14: 7, 15: 3})):
        found = scores.targets(kind, ids, bos=True).nonzero().tolist()
        assert dict(found) == keys


def test_ho09_two_way_attention_warns():
    """HO-09: weight on later tokens is named in one warning."""
    pattern = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3], [0.4, 0.4, 0.2]])
    with pytest.warns(LensonsWarning, match=r"1\.1 of 3 of the weight is on later tokens"):
        scores.previous_token(pattern)


@pytest.mark.parametrize("given", [(), [], (None, None), None, [None]])
def test_ho14_missing_attentions(given):
    """HO-14: the empty tuple and the tuple of Nones that sdpa gives: an error that names eager attention."""
    with pytest.raises(AttentionMissingError, match="eager"):
        scores.first_token(given)


def test_ho15_row_zero_does_not_count():
    """HO-15: uniform attention on seven tokens is 0.2655 for the first token, not 0.3704."""
    assert float(scores.first_token(uniform(7))) == pytest.approx(0.2655, abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("grad", [False, True])
def test_ho18_any_float_type(dtype, grad):
    """HO-18: half types and gradients are no trouble; the result is float32 and right to 0.0005."""
    pattern = uniform(300).to(dtype).requires_grad_(grad)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = scores.previous_token(pattern)
    assert value.dtype == torch.float32
    assert not value.requires_grad
    assert float(value) == pytest.approx(0.01767, abs=5e-4)


def test_ho19_a_batch_is_its_prompts():
    """HO-19: the second prompt is undefined and the first 0.8; the 3-d and the 4-d form agree."""
    ids = torch.tensor([[50256, 5, 6, 5], [50256, 7, 8, 9]])
    pattern = uniform(4).repeat(2, 1, 1, 1)
    pattern[0, 0, 3] = torch.tensor([0.1, 0.8, 0.05, 0.05])
    got = scores.duplicate_token(pattern, ids, bos=True)
    assert got.shape == (2, 1)
    assert float(got[0, 0]) == pytest.approx(0.8)
    assert math.isnan(float(got[1, 0]))
    single = scores.duplicate_token(pattern[0], ids[0], bos=True)
    assert torch.equal(single, got[0])
    assert scores.why_undefined("duplicate_token", ids, bos=True) == [None, "no token comes twice"]


@given(seed=st.integers(0, 999), n=st.integers(2, 7), batch=st.integers(1, 3))
def test_batch_equals_loop(seed, n, batch):
    """A batch gives what each prompt gives alone; a list of layers gives the layers stacked in front."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 3, (batch, n), generator=generator)
    layers = [random_pattern(n, batch, 2, seed=seed + i) for i in range(3)]
    for kind in KINDS:
        together = by_name(kind, layers, ids)
        assert together.shape == (3, batch, 2)
        for layer in range(3):
            for item in range(batch):
                alone = by_name(kind, layers[layer][item], ids[item])
                torch.testing.assert_close(together[layer, item], alone, equal_nan=True)
        torch.testing.assert_close(by_name(kind, tuple(layers), ids), together, equal_nan=True)


@given(ids=ids_lists, seed=st.integers(0, 99))
def test_laws(ids, seed):
    """Permuting heads permutes scores; other names for the ids change nothing; the input is not written to."""
    pattern = random_pattern(len(ids), 4, seed=seed)
    before = pattern.clone()
    order = torch.randperm(4, generator=torch.Generator().manual_seed(seed))
    renamed = [1000 - 7 * token for token in ids]
    for kind in KINDS:
        value = by_name(kind, pattern, ids)
        torch.testing.assert_close(by_name(kind, pattern[order], ids), value[order], equal_nan=True)
        torch.testing.assert_close(by_name(kind, pattern, renamed), value, equal_nan=True)
    assert torch.equal(pattern, before)


@given(ids=st.lists(st.integers(0, 4), min_size=2, max_size=8), pads=st.integers(1, 4), left=st.booleans())
def test_padding_changes_nothing(ids, pads, left):
    """A padded prompt, on either side, scores as the prompt alone, even where a pad's row is NaN."""
    n = len(ids)
    alone = random_pattern(n, 2, seed=n)
    padded = torch.full((2, n + pads, n + pads), torch.nan)
    place = slice(pads, pads + n) if left else slice(0, n)
    padded[:, place] = 0
    padded[:, place, place] = alone
    mask = torch.zeros(n + pads, dtype=torch.long)
    mask[place] = 1
    wide = torch.zeros(n + pads, dtype=torch.long)
    wide[place] = torch.tensor(ids)
    for kind in KINDS:
        for bos in (False, True):
            got = by_name(kind, padded[None], wide[None], bos=bos, attention_mask=mask[None])[0]
            torch.testing.assert_close(got, by_name(kind, alone, ids, bos=bos), equal_nan=True)


@given(ids=ids_lists, seed=st.integers(0, 99))
def test_splitting_weight_over_right_targets_changes_nothing(ids, seed):
    """Moving weight from one right key to another right key leaves duplicate and induction scores alone."""
    pattern = random_pattern(len(ids), seed=seed).double()
    for kind in ("duplicate_token", "induction"):
        targets = scores.targets(kind, ids)
        moved = pattern.clone()
        for q in range(len(ids)):
            keys = targets[q].nonzero().flatten()
            if len(keys) > 1:
                moved[q, keys[0]] += moved[q, keys[1]]
                moved[q, keys[1]] = 0
        torch.testing.assert_close(by_name(kind, moved, ids), by_name(kind, pattern, ids), equal_nan=True)


@given(ids=ids_lists, seed=st.integers(0, 99))
def test_a_token_never_seen_before_changes_no_repeat(ids, seed):
    """A new token at the end, looked at by none of the others, leaves duplicate and induction scores alone."""
    n = len(ids)
    pattern = random_pattern(n + 1, seed=seed)
    for kind in ("duplicate_token", "induction"):
        longer = by_name(kind, pattern, [*ids, 99])
        torch.testing.assert_close(by_name(kind, pattern[:n, :n], ids), longer, equal_nan=True)


def detector_targets(kind, ids):
    """TransformerLens' documented detection patterns, cell by cell."""
    n = len(ids)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            if kind == "previous_token":
                found[i, j] = j == i - 1
            elif kind == "duplicate_token":
                found[i, j] = j < i and ids[i] == ids[j]
            else:
                found[i, j] = j > 0 and j - 1 < i and ids[j - 1] == ids[i]
    return found


@pytest.mark.parametrize("kind", PAIRWISE)
@given(ids=st.lists(st.integers(0, 2), min_size=2, max_size=8), seed=st.integers(0, 99))
def test_mass_share_is_the_detectors(kind, ids, seed):
    """mass_share equals sum(P x D) / sum(P) with the detector's cells, runs of one token and repeated BOS included."""
    pattern = random_pattern(len(ids), seed=seed)
    cells = detector_targets(kind, ids)
    got = float(by_name(kind, pattern, ids, measure="mass_share"))
    expected = float((pattern.numpy() * cells).sum() / pattern.sum()) if cells.any() else math.nan
    assert got == pytest.approx(expected, abs=1e-6, nan_ok=True)


@pytest.mark.loose
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: scores.previous_token(torch.ones(1, 5)), "last two axes"),
        (lambda: scores.previous_token(torch.tensor([[1, 0], [1, 0]])), "int64"),
        (lambda: scores.previous_token("pattern"), "not a pattern"),
        (lambda: scores.previous_token(torch.full((2, 2), torch.nan)), "NaN"),
        (lambda: scores.previous_token(torch.full((2, 2), torch.inf)), "infinity"),
        (lambda: scores.previous_token(torch.zeros(0, 0)), "last two axes"),
        (lambda: scores.previous_token([torch.eye(2), torch.eye(3)]), "differ in shape"),
        (lambda: scores.duplicate_token(torch.eye(3), [1, 2]), "n_pos"),
        (lambda: scores.duplicate_token(torch.eye(3), None), "no token_ids"),
        (lambda: scores.duplicate_token(torch.eye(3), [1.0, 2.0, 3.0]), "whole numbers"),
        (lambda: scores.duplicate_token(torch.eye(3), [[1, 2, 3], [1, 2]]), "cannot be read"),
        (lambda: scores.duplicate_token(torch.eye(3).repeat(3, 1, 1), [[1, 2, 1]] * 2), "2 prompts"),
        (lambda: scores.previous_token(torch.eye(3), bos=1), "bos=1"),
        (lambda: scores.previous_token(torch.eye(3), bos=torch.tensor([True])), "shaped like token_ids"),
        (lambda: scores.previous_token(torch.eye(3), measure="mean"), "query_mean"),
        (lambda: scores.score("entropy", torch.eye(3), measure="mass_share"), "no targets"),
        (lambda: scores.chance("previous"), "not a kind"),
        (lambda: scores.chance("previous_token"), "How many positions"),
        (lambda: scores.chance("previous_token", n_pos=0), "n_pos=0 was given"),
        (lambda: scores.chance("previous_token", n_pos=-1), "n_pos=-1 was given"),
        (lambda: scores.chance("previous_token", n_pos=2.0), "n_pos=2.0 was given"),
        (lambda: scores.chance("previous_token", n_pos=True), "n_pos=True was given"),
        (lambda: scores.chance("first_token", [1, 2], attention_mask=[0, -10000]), "from -10000 to 0"),
        (lambda: scores.chance("first_token", [1, 2], attention_mask=[2, 1]), "1 for a real token"),
        (lambda: scores.chance("first_token", [1, 2], attention_mask=[0.0, 1.0]), "float32"),
        (lambda: scores.targets("induction", [[1, 1]] * 3, bos=torch.tensor([[True, False]] * 2)), "shaped like"),
        (lambda: scores.targets("induction", [torch.tensor([1, 2]), torch.tensor([3])]), "cannot be read"),
        (lambda: scores.targets("induction", n_pos=4), "no token_ids"),
        (lambda: scores.targets("first_token", [1, 2], attention_mask=[1, 1, 1]), "same shape"),
    ],
)
def test_bad_input_is_one_clear_error(call, says):
    """What cannot be scored is a ValueError that says what was given."""
    with pytest.raises(InputError, match=says) as caught:
        call()
    assert isinstance(caught.value, ValueError)


@pytest.mark.loose
def test_numpys_bool_is_a_bool():
    """np.True_, as a comparison of arrays gives it, is as good as True."""
    ids = [50, 1, 2, 1]
    assert torch.equal(scores.targets("induction", ids, bos=np.True_), scores.targets("induction", ids, bos=True))


def test_arrays_and_lists_are_read_too():
    """numpy arrays are as good as tensors, and are not written to."""
    pattern, ids = uniform(4).numpy(), np.array([5, 6, 5, 6])
    kept = pattern.copy()
    assert float(scores.duplicate_token(pattern, ids)) == pytest.approx(
        float(scores.duplicate_token(torch.tensor(pattern), [5, 6, 5, 6]))
    )
    assert np.array_equal(pattern, kept)


def test_hugging_face_attentions(gpt2_folder):
    """HO-14's good side: `output_attentions` of an eager model is taken as it is, [layer, batch, head]."""
    from transformers import AutoModelForCausalLM

    hf = AutoModelForCausalLM.from_pretrained(gpt2_folder, attn_implementation="eager").eval()
    ids = torch.tensor([[0, 5, 6, 5, 6], [0, 7, 8, 9, 7]])
    with torch.no_grad():
        attentions = hf(ids, output_attentions=True).attentions
    got = scores.induction(attentions, ids, bos=True)
    assert got.shape == (2, 2, 4)
    for layer in range(2):
        for item in range(2):
            for head in range(4):
                expected = slow("induction", attentions[layer][item, head].tolist(), ids[item].tolist(), {0})
                assert float(got[layer, item, head]) == pytest.approx(expected, abs=1e-5)


def test_the_scores_need_torch_only():
    """lensons.scores loads no TransformerLens, transformers, jinja2 or figure."""
    import subprocess
    import sys

    code = (
        "import sys, lensons.scores; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} & "
        "{'transformer_lens','transformers','jinja2','circuitsvis','tokenizers','safetensors','pandas'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["te_ex0", "te_ex1", "te_ex2", "bv_fox10", "bv_smith9"])
def test_published_previous_token_head(reference, name):
    """In every published pattern of GPT-2 small that has all layers, head 4.11 is a previous-token head above .99."""
    pattern = torch.from_numpy(reference(f"patterns/{name}")["pattern"])
    value = scores.previous_token(pattern)
    assert value.shape == (12, 12)
    assert float(value[4, 11]) > 0.99
    assert int(value.argmax()) == 4 * 12 + 11


def test_published_induction_heads(reference):
    """On the published 101-token patterns the induction heads are 5.1, 5.5 and 6.9; all others stay below .47."""
    for layer, heads in ((5, (1, 5)), (6, (9,))):
        data = reference(f"patterns/arena101_L{layer}")
        pattern = torch.from_numpy(data["pattern"])
        ids = torch.from_numpy(data["token_ids"])
        value = scores.induction(pattern, ids, bos=True)
        for head in range(12):
            assert (float(value[head]) > 0.89) == (head in heads), (layer, head, float(value[head]))
            if head not in heads:
                assert float(value[head]) < 0.47
