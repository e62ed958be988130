"""Taking heads out, and scores from the weights."""

import math

import pytest
import torch

import lensons
from lensons import scores
from lensons.ablation import ablate_each, ablate_heads, head_card, token_losses
from lensons.errors import HeadIndexError, InputError
from lensons.models import load_model
from lensons.prompts import repeated_blocks
from tests.test_models import _same, _state


def hugging_face_losses(folder, ids, silenced=()):
    """Loss of each predicted token with some heads' output weights set to 0 in Hugging Face's own model."""
    from transformers import AutoModelForCausalLM

    hf = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    d_head = hf.config.n_embd // hf.config.n_head
    with torch.no_grad():
        for layer, head in silenced:
            hf.transformer.h[layer].attn.c_proj.weight[head * d_head : (head + 1) * d_head] = 0
        logits = hf(ids).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")


def test_zero_ablation_is_zeroing_the_output_weights(gpt2_folder, small_gpt2):
    """The loss without heads equals Hugging Face's with those heads' rows of W_O set to 0, copy by copy."""
    prompts = repeated_blocks(small_gpt2, 3, 8, 2).ids
    ids = torch.tensor(prompts)
    result = ablate_heads(small_gpt2, ["0.1", "L1H3"], ids, block_len=8)
    before, after = hugging_face_losses(gpt2_folder, ids), hugging_face_losses(gpt2_folder, ids, [(0, 1), (1, 3)])
    assert result.before.all == pytest.approx(float(before.mean()), abs=1e-4)
    assert result.after.all == pytest.approx(float(after.mean()), abs=1e-4)
    # Position p of the losses predicts token p + 1; the copies are tokens 1-8 and 9-16, each without its first.
    assert result.after.first == pytest.approx(float(after[:, 1:8].mean()), abs=1e-4)
    assert result.after.second == pytest.approx(float(after[:, 9:16].mean()), abs=1e-4)
    assert result.change.second == pytest.approx(float((after - before)[:, 9:16].mean()), abs=1e-4)
    assert len(result.random) == 20


def test_mean_ablation_uses_the_means_over_the_batch(small_gpt2):
    """mode="mean" puts each head's own mean z over all real tokens in its place."""
    prompts = [[0, 5, 6, 7], [0, 8, 9]]
    z = torch.cat([lensons.trace(small_gpt2, p).z[1, 2] for p in prompts]).mean(0)
    losses = []
    for prompt in prompts:

        def put(value, z=z):
            value = value.clone()
            value[..., 2, :] = z
            return value

        losses.append(token_losses(small_gpt2, torch.tensor([prompt]), {("z", 1): put}).flatten())
    result = ablate_heads(small_gpt2, "1.2", prompts, mode="mean")
    assert result.after.all == pytest.approx(float(torch.cat(losses).mean()), abs=1e-5)


def test_each_head_by_itself_equals_one_at_a_time(small_gpt2):
    """Measuring many heads at once changes no number."""
    ids = torch.tensor(repeated_blocks(small_gpt2, 2, 6).ids)
    together = ablate_each(small_gpt2, ["0.0", "1.1"], ids, block_len=6)
    for name, result in together.items():
        assert result.change == ablate_heads(small_gpt2, name, ids, block_len=6).change


def test_the_toys_induction_needs_its_heads(toy):
    """On the trained toy, without its induction heads the second copy is lost, and with random ones far less so."""
    table = lensons.score_heads(toy, n_prompts=4, kinds=["induction"])
    heads = [head for head, score in table.top("induction", 16) if score > 0.3]
    blocks = repeated_blocks(toy, 4)
    result = ablate_heads(toy, heads, torch.tensor(blocks.ids), block_len=blocks.protocol["block_len"])
    assert result.change.second > 1.0
    assert result.change.second > 3 * abs(result.change.first)


def test_ablation_leaves_the_model_as_it_was(gpt2_folder):
    """Weights, hooks and modes are as found."""
    raw = load_model(gpt2_folder).raw
    raw.train()
    before = _state(raw)
    ablate_heads(raw, ["0.1"], [0, 5, 6, 7], mode="mean")
    _same(before, _state(raw))


def test_a_heads_card(small_gpt2):
    """A card has the scores with interval and chance, both patterns, and the ablation of that head."""
    card = head_card(small_gpt2, "1.2", "the animal", n_prompts=2)
    table = lensons.score_heads(small_gpt2, n_prompts=2)
    assert card.scores["induction"]["score"] == pytest.approx(float(table.values["induction"][1, 2]))
    assert card.scores["induction"]["chance"] == pytest.approx(table.chance["induction"])
    assert card.on_text.name == card.on_block.name == card.ablation.heads[0] == (1, 2)
    assert "chance" in str(card)


@pytest.mark.loose
@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda m: ablate_heads(m, [], [0, 1]), InputError, "No heads"),
        (lambda m: ablate_heads(m, ["9.9"], [0, 1]), HeadIndexError, "no layer 9"),
        (lambda m: ablate_heads(m, ["0.0"], [0, 1], mode="half"), InputError, "mode='half'"),
        (lambda m: ablate_heads(m, ["0.0"], [0]), InputError, "one token"),
        (lambda m: ablate_heads(m, ["0.0"], [0, 1, 2], block_len=5), InputError, "block_len=5"),
        (
            lambda m: ablate_heads(m, ["0.0"], [[0, 1, 2, 3, 4], [0, 1, 2, 3]], block_len=2),
            InputError,
            "differ in length",
        ),
    ],
)
def test_bad_input(small_gpt2, call, error, says):
    """What cannot be ablated is one clear error."""
    with pytest.raises(error, match=says):
        call(small_gpt2)


def test_composition_by_a_slow_loop():
    """Q-, K- and V-composition equal the formulas on full matrices, pair by pair; below the diagonal is NaN."""
    generator = torch.Generator().manual_seed(0)
    w_q, w_k, w_v = (torch.randn(3, 2, 12, 4, generator=generator) for _ in range(3))
    w_o = torch.randn(3, 2, 4, 12, generator=generator)
    for kind in ("q", "k", "v"):
        got = scores.composition(kind, w_q, w_k, w_v, w_o)
        for l1 in range(3):
            for l2 in range(3):
                for h1 in range(2):
                    for h2 in range(2):
                        if l2 <= l1:
                            assert math.isnan(float(got[l1, h1, l2, h2]))
                            continue
                        ov = w_v[l1, h1] @ w_o[l1, h1]
                        qk = w_q[l2, h2] @ w_k[l2, h2].T
                        other = {"q": qk, "k": qk.T, "v": w_v[l2, h2] @ w_o[l2, h2]}[kind]
                        expected = (ov @ other).norm() / (ov.norm() * other.norm())
                        torch.testing.assert_close(got[l1, h1, l2, h2], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.loose
def test_copying_by_full_eigenvalues():
    """The copying score equals the eigenvalues of the full W_V W_O; identity copies, minus identity inverts."""
    generator = torch.Generator().manual_seed(0)
    w_v, w_o = torch.randn(5, 12, 4, generator=generator), torch.randn(5, 4, 12, generator=generator)
    values = torch.linalg.eigvals((w_v @ w_o).double())
    torch.testing.assert_close(scores.copying(w_v, w_o), (values.real.sum(-1) / values.abs().sum(-1)).float())
    with pytest.raises(InputError, match="shaped"):
        scores.copying(w_v, w_v)


def test_the_composition_baseline_is_the_published_one():
    """Random heads of GPT-2's size compose at .0362, as published (gap below .0005)."""
    mean, spread = scores.composition_baseline(768, 64)
    assert mean == pytest.approx(0.0362, abs=5e-4)
    assert spread < 0.001


def test_the_toys_induction_head_reads_its_previous_token_head():
    """From the toy's weights alone: what feeds the keys of its best induction head most is its previous-token head."""
    found = lensons.weight_scores("toy")
    heads = lensons.score_heads("toy", n_prompts=4, kinds=["previous_token", "induction"])
    (previous, _), (induction, _) = heads.top("previous_token", 1)[0], heads.top("induction", 1)[0]
    into = found.composition["k"][: induction.layer, :, induction.layer, induction.head]
    assert tuple(divmod(int(into.argmax()), 4)) == previous
    assert float(into.max()) > found.baseline[0] + 5 * found.baseline[1]
    assert found.provenance["weights"] == "processed"


def test_weights_are_processed_unless_you_say_otherwise(small_gpt2):
    """A loaded model with unprocessed weights is refused unless that is what was asked for."""
    with pytest.raises(InputError, match="processed=False"):
        lensons.weight_scores(small_gpt2)
    assert lensons.weight_scores(small_gpt2, processed=False).copying.shape == (2, 4)
    assert "unprocessed" in repr(lensons.weight_scores(small_gpt2, processed=False))
