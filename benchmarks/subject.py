"""What is measured on: a GPT-2 with random weights, in TransformerLens and as Hugging Face's own model.

Time does not depend on what the weights are, so nothing has to be fetched.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import lensons

BOS = "<|endoftext|>"


@dataclass(frozen=True)
class Subject:
    """One model twice.

    Attributes:
        hf: Hugging Face's own model, eager.
        model: the same weights as lensons loads them.
    """

    hf: Any
    model: Any

    def forward(self, ids: Any) -> None:
        """The bare forward pass: Hugging Face's own, eager, inference mode, logits and all."""
        with torch.inference_mode():
            self.hf(ids)

    def text(self, ids: Any) -> str:
        """The text whose tokens are these ids again."""
        return str(self.model.tokenizer.decode(list(ids)))


def random_gpt2(small: bool = False, n_layers: int = 12, tokenizer: Any = None) -> Subject:
    """GPT-2 small with random weights; ``small``: a tiny one.

    Args:
        small: 2 layers of 4 heads instead of 12 of 12.
        n_layers: how many layers, where it is not small.
        tokenizer: instead of one in which every id is a word of its own.
    """
    torch.manual_seed(0)
    size = 400 if small else 50257
    shape = {"n_layer": 2, "n_embd": 64, "n_head": 4} if small else {"n_layer": n_layers}
    tokenizer = tokenizer or words(size)
    size = max(size, len(tokenizer))
    bos = tokenizer.bos_token_id
    config = GPT2Config(vocab_size=size, bos_token_id=bos, eos_token_id=bos, attn_implementation="eager", **shape)
    hf = GPT2LMHeadModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        hf.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model = lensons.load_model(Path(folder))
    return Subject(hf, model)


def words(size: int) -> Any:
    """A tokenizer in which every id is a word of its own, so that a text's tokens survive re-tokenization."""
    vocab = {BOS: 0} | {f"Ġw{i}": i for i in range(1, size)}
    inner = Tokenizer(models.WordLevel(vocab, unk_token=BOS))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            pre_tokenizers.Split("Ġ", "merged_with_next"),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=BOS, eos_token=BOS, unk_token=BOS)
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        return AutoTokenizer.from_pretrained(folder)
