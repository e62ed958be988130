"""Measure the toy model that ships: ``python -m training.measure`` prints every number of its model card as JSON.

By Hugging Face's own code and attentions, in the rounding that ships; lensons' scorers are not used.
"""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from lensons.pairs import FOLLOW_UP, ItPair, it_pairs
from training.text import Storyteller

TOY = Path(__file__).resolve().parent.parent / "lensons" / "toy"


def load(folder: Path = TOY) -> tuple[Any, Any]:
    """The model, in float32 from its float16 weights, and its tokenizer."""
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def block_scores(model: Any, tokenizer: Any, n_prompts: int = 32, n: int = 50, seed: int = 0) -> dict[str, Any]:
    """Head scores and losses on [BOS] + block + block: cells by index arithmetic, [layer, head]."""
    generator = torch.Generator().manual_seed(seed)
    bos = tokenizer.bos_token_id
    ordinary = torch.tensor([i for i in range(len(tokenizer)) if i != bos])
    blocks = torch.stack([ordinary[torch.randperm(len(ordinary), generator=generator)[:n]] for _ in range(n_prompts)])
    ids = torch.cat([torch.full((n_prompts, 1), bos), blocks, blocks], 1)
    with torch.no_grad():
        out = model(ids, output_attentions=True)
    pattern = torch.stack(out.attentions)  # [layer, batch, head, query, key]
    second = range(n + 1, 2 * n + 1)
    cells = {
        "previous_token": [(q, q - 1) for q in range(2, 2 * n + 1)],
        "duplicate_token": [(q, q - n) for q in second],
        "induction": [(q, q - n + 1) for q in second],
    }
    scores = {
        kind: torch.stack([pattern[..., q, k].mean(1) for q, k in places]).mean(0) for kind, places in cells.items()
    }
    loss = losses(out.logits, ids).mean(0)
    return {"scores": scores, "first": float(loss[1:n].mean()), "second": float(loss[-n + 1 :].mean())}


def losses(logits: Tensor, ids: Tensor) -> Tensor:
    """The loss of each predicted token, [batch, pos - 1]."""
    return torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")


def held_out_ids(tokenizer: Any, rows: int = 64, length: int = 96, seed: int = 7) -> Tensor:
    """[BOS] and held-out stories."""
    from training.make import pack

    return pack(tokenizer, Storyteller(seed, "held-out").stories(), rows, length)


def text_numbers(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Loss on held-out text beside a bigram model's, and the weight on the first token."""
    ids = held_out_ids(tokenizer)
    with torch.no_grad():
        out = model(ids, output_attentions=True)
    sink = torch.stack([a[..., 1:, 0].mean((0, 2)) for a in out.attentions])
    return {"loss": float(losses(out.logits, ids).mean()), "bigram": bigram_loss(tokenizer, ids), "first_token": sink}


def bigram_loss(tokenizer: Any, ids: Tensor, rows: int = 4_000) -> float:
    """The loss of a model that knows only the token before: counted on training text, add-0.1 smoothing."""
    from training.make import pack

    seen = pack(tokenizer, Storyteller(3, "training").stories(), rows, 96)
    pairs = Counter(zip(seen[:, :-1].flatten().tolist(), seen[:, 1:].flatten().tolist(), strict=True))
    before = Counter(seen[:, :-1].flatten().tolist())
    size = len(tokenizer)
    each = [
        -math.log((pairs[a, b] + 0.1) / (before[a] + 0.1 * size))
        for a, b in zip(ids[:, :-1].flatten().tolist(), ids[:, 1:].flatten().tolist(), strict=True)
    ]
    return sum(each) / len(each)


def right_nouns(model: Any, tokenizer: Any, pairs: list[ItPair], silenced: tuple[int, int] | None = None) -> float:
    """The share of texts after which the right noun is likelier than the other one; a head may be silenced."""
    handle = None
    if silenced is not None:
        layer, head = silenced
        projection = model.transformer.h[layer].attn.c_proj
        d_head = model.config.n_embd // model.config.n_head

        def silence(_module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            z = inputs[0].clone()
            z[..., head * d_head : (head + 1) * d_head] = 0
            return (z, *inputs[1:])

        handle = projection.register_forward_pre_hook(silence)
    try:
        right = []
        for pair in pairs:
            for text, yes, no in ((pair.text_a, pair.noun_a, pair.noun_b), (pair.text_b, pair.noun_b, pair.noun_a)):
                ids = [tokenizer.bos_token_id, *tokenizer(text + FOLLOW_UP)["input_ids"]]
                with torch.no_grad():
                    logits = model(torch.tensor([ids])).logits[0, -1]
                first = [tokenizer(f" {noun}")["input_ids"][0] for noun in (yes, no)]
                right.append(float(logits[first[0]] > logits[first[1]]))
    finally:
        if handle is not None:
            handle.remove()
    return sum(right) / len(right)


def best(scores: Tensor) -> dict[str, Any]:
    """The highest score and its head."""
    layer, head = divmod(int(scores.argmax()), scores.shape[1])
    return {"head": f"L{layer}H{head}", "score": round(float(scores.max()), 3)}


def measure(folder: Path = TOY) -> dict[str, Any]:
    """Every number of the model card."""
    model, tokenizer = load(folder)
    blocks, text = block_scores(model, tokenizer), text_numbers(model, tokenizer)
    nouns = {}
    for clue in ("end", "front"):
        pairs = it_pairs(60, seed=1, clue=clue)
        whole = right_nouns(model, tokenizer, pairs)
        without = {
            f"L{layer}H{head}": round(right_nouns(model, tokenizer, pairs, (layer, head)), 3)
            for layer in range(model.config.n_layer)
            for head in range(model.config.n_head)
        }
        worst = min(without, key=lambda name: without[name])
        nouns[clue] = {
            "right": round(whole, 3),
            "worst_without": {"head": worst, "right": without[worst]},
            "without": without,
        }
    return {
        "tokens": len(tokenizer),
        "parameters": sum(p.numel() for p in model.parameters()),
        "megabytes": round(
            sum(f.stat().st_size for f in folder.glob("*") if f.suffix != ".py" and f.is_file()) / 1e6, 2
        ),
        **{kind: best(score) for kind, score in blocks["scores"].items()},
        "first_token_on_text": best(text["first_token"]),
        "loss_first_copy": round(blocks["first"], 3),
        "loss_second_copy": round(blocks["second"], 4),
        "loss_text": round(text["loss"], 3),
        "loss_text_bigram": round(text["bigram"], 3),
        "right_noun": nouns,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
