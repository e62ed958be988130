"""Traces: the model's own numbers, and the check that says so."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lensons
from lensons import Trace
from lensons.errors import CheckError, FileError, HeadIndexError, InputError, LensonsError, ModelError
from lensons.models import _from_hugging_face, load_model
from tests.conftest import SENTENCE
from tests.test_models import TL3


@pytest.fixture(scope="module")
def traced(small_gpt2):
    return lensons.trace(small_gpt2, SENTENCE)


def test_every_stage_by_a_slow_loop_over_hugging_faces_weights(gpt2_folder, traced):
    """q, k, v, scores, pattern, z and the written vectors equal a loop over Hugging Face's weights."""
    from transformers import AutoModelForCausalLM

    hf = AutoModelForCausalLM.from_pretrained(gpt2_folder, attn_implementation="eager", dtype=torch.float32).eval()
    inputs = {}
    for layer, block in enumerate(hf.transformer.h):
        block.ln_1.register_forward_hook(lambda m, a, out, layer=layer: inputs.update({layer: out[0].double()}))
    with torch.no_grad():
        hf(torch.tensor([traced.tokens.ids]))
    n, heads, d_head = len(traced), 4, 8
    for layer, block in enumerate(hf.transformer.h):
        qkv = inputs[layer] @ block.attn.c_attn.weight.double() + block.attn.c_attn.bias.double()
        q, k, v = qkv.detach().split(heads * d_head, dim=-1)
        w_o = block.attn.c_proj.weight.detach().double()
        for head in range(heads):
            part = slice(head * d_head, (head + 1) * d_head)
            for mine, theirs in ((traced.q, q), (traced.k, k), (traced.v, v)):
                np.testing.assert_allclose(mine[layer, head], theirs[:, part].detach(), atol=2e-5)
            for query in range(n):
                dots = [float(q[query, part] @ k[key, part]) / math.sqrt(d_head) for key in range(query + 1)]
                top = max(dots)
                exps = [math.exp(x - top) for x in dots]
                shares = [e / sum(exps) for e in exps]
                np.testing.assert_allclose(traced.scores[layer, head, query, : query + 1], dots, atol=5e-5)
                np.testing.assert_allclose(traced.pattern[layer, head, query, : query + 1], shares, atol=2e-5)
                assert torch.all(traced.scores[layer, head, query, query + 1 :] == -torch.inf)
                assert torch.all(traced.pattern[layer, head, query, query + 1 :] == 0)
                z = sum(share * v[key, part] for key, share in enumerate(shares))
                np.testing.assert_allclose(traced.z[layer, head, query], z.detach(), atol=5e-5)
                np.testing.assert_allclose(traced.written[layer, head, query], (z @ w_o[part]).detach(), atol=2e-4)


@pytest.mark.parametrize("which", ["small_gpt2", "small_llama", "toy"])
def test_the_check_passes(which, request):
    """On GPT-2's shape, on grouped keys with rotary positions, and on the toy, every stage agrees to 1e-5."""
    trace = lensons.trace(request.getfixturevalue(which), SENTENCE)
    check = trace.check()
    assert set(check) == {"scores", "mask", "pattern", "z", "attn_out"}
    assert check.largest <= 1e-5
    assert not check.unchecked
    assert all(check.relative[s] <= check.absolute[s] for s in check)


@pytest.mark.slow
def test_the_check_passes_on_a_random_gpt2_of_full_size(small_tokenizer):
    """GPT-2 small's own shape (12 x 12 x 64, width 768), with biases that are not zero."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    hf = GPT2LMHeadModel(
        GPT2Config(bos_token_id=0, eos_token_id=0, attn_implementation="eager", initializer_range=0.06)
    )
    with torch.no_grad():
        for name, parameter in hf.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    model = _from_hugging_face(hf.eval(), small_tokenizer, "random", None, False, torch.device("cpu"))
    trace = lensons.trace(model, SENTENCE)
    assert trace.pattern.shape[:2] == (12, 12)
    assert trace.scale == (8.0,) * 12
    assert trace.check().largest <= 1e-5


@pytest.mark.parametrize(("scaled", "inverse"), [(True, False), (True, True), (False, False), (False, True)])
def test_gpt2s_other_scales(gpt2_folder, small_tokenizer, inverse, scaled):
    """scale_attn_by_inverse_layer_idx divides by (layer + 1) as well; scale_attn_weights=False divides by
    nothing, and is refused where TransformerLens does not follow it."""
    from transformers import AutoModelForCausalLM

    hf = AutoModelForCausalLM.from_pretrained(
        gpt2_folder,
        attn_implementation="eager",
        scale_attn_by_inverse_layer_idx=inverse,
        scale_attn_weights=scaled,
    ).eval()
    with torch.no_grad():
        theirs = hf(torch.tensor([[0, 5, 6, 7, 5]]), output_attentions=True).attentions
    if not scaled and not TL3:  # the bridge divides all the same: another model's numbers
        with pytest.raises(ModelError, match="other numbers"):
            _from_hugging_face(hf, small_tokenizer, "scaled", None, False, torch.device("cpu"))
        return
    model = _from_hugging_face(hf, small_tokenizer, "scaled", None, False, torch.device("cpu"))
    trace = lensons.trace(model, [0, 5, 6, 7, 5])
    torch.testing.assert_close(trace.pattern, torch.stack(theirs)[:, 0], atol=1e-5, rtol=0)
    trace.check()
    base = math.sqrt(8) if scaled else 1.0
    assert trace.scale == pytest.approx([base, base * 2] if inverse else [base, base])


def _planted(name):
    def wrong_scale(t):
        return dataclasses.replace(t, scale=tuple(s * 1.001 for s in t.scale))

    def one_layers_scale(t):
        return dataclasses.replace(t, scale=(t.scale[0], 1.0))

    def transposed_output(t):
        return dataclasses.replace(t, w_o=t.w_o.flatten(1, 2).mT.reshape(t.w_o.shape).contiguous())

    def swapped_heads(t):
        return dataclasses.replace(t, w_o=t.w_o.flip(1))

    def forgotten_bias(t):
        return dataclasses.replace(t, b_o=torch.zeros_like(t.b_o))

    def transposed_pattern(t):
        return dataclasses.replace(t, pattern=t.pattern.mT.contiguous())

    def mask_one_too_many(t):
        n = len(t)
        hidden = torch.ones(n, n, dtype=torch.bool).tril(-1)
        hidden[0, 0] = True
        shifted = t.scores.masked_fill(~hidden, -torch.inf)
        return dataclasses.replace(t, scores=shifted, pattern=shifted.softmax(-1))

    def mask_one_too_few(t):
        n = len(t)
        pattern = t.pattern.clone()
        pattern[..., torch.arange(n - 1), torch.arange(1, n)] = 0.01
        return dataclasses.replace(t, pattern=pattern)

    def keys_shifted(t):
        return dataclasses.replace(t, k=t.k.roll(1, dims=2))

    def values_of_another_head(t):
        return dataclasses.replace(t, v=t.v.roll(1, dims=1))

    def one_cell(t):
        pattern = t.pattern.clone()
        pattern[1, 2, 5, 1] += 1e-4
        return dataclasses.replace(t, pattern=pattern)

    def not_a_number(t):
        z = t.z.clone()
        z[0, 0, 0, 0] = torch.nan
        return dataclasses.replace(t, z=z)

    return locals()[name]


@pytest.mark.parametrize(
    ("fault", "stage"),
    [
        ("wrong_scale", "scores"),
        ("one_layers_scale", "scores"),
        ("keys_shifted", "scores"),
        ("transposed_pattern", "mask"),
        ("mask_one_too_many", "scores"),
        ("mask_one_too_few", "mask"),
        ("one_cell", "pattern"),
        ("values_of_another_head", "z"),
        ("not_a_number", "z"),
        ("transposed_output", "attn_out"),
        ("swapped_heads", "attn_out"),
        ("forgotten_bias", "attn_out"),
    ],
)
def test_planted_faults_are_caught(traced, fault, stage):
    """Each fault planted in a trace makes the check raise, and the first stage it names is the right one."""
    traced.check()
    with pytest.raises(CheckError, match=f"Stage '{stage}'") as caught:
        _planted(fault)(traced).check()
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("point", ["attn.hook_attn_scores", "attn.hook_pattern", "attn.hook_z", "hook_attn_out"])
def test_a_model_that_was_tampered_with_is_caught(gpt2_folder, point):
    """A hook of the caller's that edits one stage of the running model is found by the check."""
    raw = load_model(gpt2_folder).raw
    raw.add_hook(f"blocks.1.{point}", lambda value, hook: value * 1.01)
    with pytest.raises(CheckError, match="layer 1"):
        lensons.trace(raw, SENTENCE).check()


def test_written_is_z_times_the_output_weights(traced):
    """`written` is z W_O per head; `written_length` is the length of v W_O; a head's view agrees with the whole."""
    head = traced.head("L1H2")
    expected = torch.stack([traced.z[1, 2, p] @ traced.w_o[1, 2] for p in range(len(traced))])
    torch.testing.assert_close(head.written, expected)
    torch.testing.assert_close(traced.written[1, 2], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        traced.written_length[1, 2],
        torch.stack([(traced.v[1, 2, p] @ traced.w_o[1, 2]).norm() for p in range(len(traced))]),
    )
    torch.testing.assert_close(head.pattern @ head.written_by_key, head.written, atol=1e-4, rtol=1e-4)
    for name in ("q", "k", "v", "z", "scores", "pattern"):
        assert torch.equal(getattr(head, name), getattr(traced, name)[1, 2])
    assert traced.head((1, 2)).name == traced.head("1.2").name == (1, 2)


def test_grouped_keys_are_repeated(small_llama):
    """On a model with 2 keys for 6 heads, k and v have 6 heads, equal within a group, and n_kv_heads says 2."""
    trace = lensons.trace(small_llama, SENTENCE)
    assert (trace.n_kv_heads, trace.k.shape[1], trace.v.shape[1]) == (2, 6, 6)
    for group in (slice(0, 3), slice(3, 6)):
        for head in range(*group.indices(6)):
            assert torch.equal(trace.k[:, head], trace.k[:, group.start])
    assert not torch.equal(trace.k[:, 0], trace.k[:, 3])


def test_text_and_ids_are_the_same_prompt(small_gpt2, traced):
    """HO-16: a text and its ids give the same trace; with and without BOS the sizes differ by one."""
    again = lensons.trace(small_gpt2, torch.tensor([traced.tokens.ids]))
    assert torch.equal(again.pattern, traced.pattern)
    assert again.tokens.ids == traced.tokens.ids
    bare = lensons.trace(small_gpt2, SENTENCE, prepend_bos=False)
    assert len(bare) == len(traced) - 1 == len(bare.tokens.labels)
    assert not bare.tokens.has_bos


def test_one_token(small_gpt2):
    """HO-03, HO-16: a single token gives a 1 x 1 pattern of 1.0, and the check passes."""
    trace = lensons.trace(small_gpt2, [7])
    assert torch.equal(trace.pattern, torch.ones(2, 4, 1, 1))
    assert trace.check().largest <= 1e-5


def test_the_full_context_is_allowed_and_one_more_is_not(small_gpt2):
    """HO-17: exactly n_ctx tokens run; one more is refused before the model runs."""
    assert len(lensons.trace(small_gpt2, [5] * 64)) == 64
    with pytest.raises(InputError, match=r"65 tokens.*at most 64"):
        lensons.trace(small_gpt2, [5] * 65)


def test_a_callers_ids_are_not_written_to(small_gpt2):
    """The tensor of ids that was given is unchanged."""
    ids = torch.tensor([5, 6, 7])
    lensons.trace(small_gpt2, ids)
    assert ids.tolist() == [5, 6, 7]


def test_a_half_precision_model_gives_float32(gpt2_folder):
    """HO-18: a bfloat16 model is traced to float32 tensors, and checked with bfloat16's own tolerance."""
    raw = load_model(gpt2_folder).raw.to(torch.bfloat16)
    trace = lensons.trace(raw, SENTENCE)
    assert trace.pattern.dtype == trace.q.dtype == trace.written.dtype == torch.float32
    assert trace.provenance["dtype"] == "bfloat16"
    assert trace.check().tolerance == 3e-2


@pytest.mark.parametrize("given", [13, -14, 99])
def test_positions_out_of_range(small_gpt2, given):
    """A position that is not there: the user's own number and the range."""
    trace = lensons.trace(small_gpt2, [5] * 13)
    assert trace.position(-1) == 12
    with pytest.raises(HeadIndexError, match=rf"no position {given}\b.*0-12"):
        trace.position(given)


def test_save_and_load(traced, tmp_path):
    """A saved trace comes back the same: every tensor bit for bit, tokens, scale and provenance."""
    path = traced.save(tmp_path / "trace.safetensors")
    loaded = Trace.load(path)
    for name in ("q", "k", "v", "z", "scores", "pattern", "attn_out", "w_o", "b_o", "written"):
        assert torch.equal(getattr(loaded, name), getattr(traced, name)), name
    assert loaded.tokens == traced.tokens
    assert loaded.scale == traced.scale
    assert loaded.provenance == traced.provenance
    loaded.check()


def test_a_missing_file(tmp_path):
    """A trace that is not there: one error with its name."""
    with pytest.raises(FileError, match=r"no file.*nothing\.safetensors"):
        Trace.load(tmp_path / "nothing.safetensors")


@given(cut=st.integers(0, 3000), flip=st.integers(0, 3000), bit=st.integers(0, 7))
def test_spoilt_files_never_load_as_something_else(traced_bytes, tmp_path_factory, cut, flip, bit):
    """A file cut off, or with one bit of its header flipped, either says so or is the same trace."""
    folder = tmp_path_factory.getbasetemp()
    (folder / "cut").write_bytes(traced_bytes[:cut])
    with pytest.raises(FileError, match="not a whole trace"):
        Trace.load(folder / "cut")
    flipped = bytearray(traced_bytes)
    flipped[flip] ^= 1 << bit
    (folder / "flip").write_bytes(flipped)
    try:
        loaded = Trace.load(folder / "flip")
    except LensonsError:
        return
    assert len(loaded.tokens.ids) == loaded.pattern.shape[-1]


@pytest.fixture(scope="module")
def traced_bytes(traced, tmp_path_factory):
    return traced.save(tmp_path_factory.mktemp("trace") / "t").read_bytes()


def test_another_safetensors_file_is_not_a_trace(tmp_path):
    """A valid file of another kind is refused by name."""
    from safetensors.torch import save_file

    save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    with pytest.raises(FileError, match="not a whole trace"):
        Trace.load(tmp_path / "x.safetensors")


@pytest.mark.parametrize("name", ["te_ex0", "te_ex1", "te_ex2"])
def test_published_scores_give_published_patterns(reference, name):
    """On published GPT-2 tensors, our own chain raw -> /8 -> mask -> softmax gives the published pattern (2e-7)."""
    data = {key: torch.from_numpy(value) for key, value in reference(f"patterns/{name}").items() if value.ndim == 4}
    n = data["pattern"].shape[-1]
    visible = torch.ones(n, n, dtype=torch.bool).tril()
    scaled = data["scores_raw"] / 8
    torch.testing.assert_close(scaled, data["scores_scaled"], atol=1e-5, rtol=1e-6)
    pattern = data["scores_scaled"].masked_fill(~visible, -torch.inf).softmax(-1)
    torch.testing.assert_close(pattern, data["pattern"], atol=4e-7, rtol=0)


def test_published_q_and_k_pass_the_check(reference):
    """A trace put together from published GPT-2 tensors (q, k, pattern, v, z, output) passes lensons' own check."""
    data = {
        key: torch.from_numpy(value)
        for key, value in reference("patterns/bv_smith9").items()
        if value.dtype.kind == "f"
    }
    n = 9
    visible = torch.ones(n, n, dtype=torch.bool).tril()
    scores = (data["q"] @ data["k"].mT / 8).masked_fill(~visible, -torch.inf)
    torch.testing.assert_close(scores.softmax(-1), data["pattern"], atol=1e-6, rtol=0)
    z = data["pattern"] @ data["v_derived"]
    torch.testing.assert_close(z, data["z_derived"], atol=1e-5, rtol=1e-5)
