"""Make the toy model from nothing: ``python -m training.make``. About 25 minutes on two cores.

Stage 1 teaches it to look back: random blocks of tokens, repeated. Nothing in them can be known but by finding the
earlier copy. For the first steps some heads are nudged: a small extra loss rewards one head of layer 0 for looking at
the previous token, another for looking at earlier copies, and one head in each of layers 1 and 2 for looking at what
came after an earlier copy, or at the first token where there is no such copy. The reward fades to nothing by step
NUDGED; all later training is on next-token prediction alone. Without the nudge
the same data gave the same loss, but smeared over many heads (see the model card), which is no good for teaching.

Stage 2 adds the project's own English, while blocks go on, so that both stay.

Everything is seeded. A run that was cut off goes on where its last checkpoint was.
"""

import argparse
import io
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from tqdm import tqdm
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from lensons.files import written_whole
from lensons.scores.targets import Positions, find_targets
from training.text import LESSON_SENTENCES, Storyteller, sample

BOS = "<|endoftext|>"
CONTEXT = 128
LAYERS, HEADS, WIDTH, INNER = 4, 4, 256, 512
STEPS, BLOCKS_ONLY, NUDGED = 2_400, 500, 900
RATE, WARM_UP, NUDGE = 1e-3, 50, 0.1
NUDGED_HEADS = {
    "previous_token": [(0, 0)],
    "duplicate_token": [(0, 1)],
    "induction": [(1, 0), (2, 1)],
}
# Sentences whose patterns are kept while the heads form.
FIXED = (LESSON_SENTENCES[0], LESSON_SENTENCES[4])
KINDS = ("previous_token", "duplicate_token", "induction", "first_token")


def moments() -> list[int]:
    """The steps that go into the record: more than 40, close together where much happens."""
    early = [0, *range(10, 100, 10), *range(100, 500, 25)]
    late = np.unique(np.geomspace(500, STEPS, 18).round().astype(int)).tolist()
    return sorted({*early, *late})


def pattern_moments() -> list[int]:
    """Twelve of them, at which the patterns of the fixed sentences are kept."""
    every = moments()
    return [every[i] for i in np.linspace(0, len(every) - 1, 12).round().astype(int)]


# --- tokenizer --------------------------------------------------------------------------------------------------


def make_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """A byte-level BPE like GPT-2's, in which every word of the stories is one token, with its space."""
    stories = [*sample(20_000), *LESSON_SENTENCES]
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces = sorted({piece for story in stories for piece, _ in splitter.pre_tokenize_str(story)})
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=20_000,  # never reached: it stops when every word is one token
        min_frequency=1,
        special_tokens=[BOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    byte_of = {shown: byte for byte, shown in _byte_alphabet().items()}
    words = [bytes(byte_of[c] for c in piece).decode() for piece in pieces]
    tokenizer.train_from_iterator(words, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=BOS, unk_token=BOS, model_max_length=CONTEXT
    )
    made.save_pretrained(folder)
    return made


def _byte_alphabet() -> dict[int, str]:
    from lensons.tokens import _byte_alphabet as alphabet

    return {byte: shown for shown, byte in alphabet().items()}


# --- data -------------------------------------------------------------------------------------------------------


class Data:
    """Batches of random blocks and of stories. Both generators are part of a checkpoint."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
        self.tokenizer = tokenizer
        self.bos = tokenizer.bos_token_id
        self.ordinary = torch.tensor([i for i in range(len(tokenizer)) if i != self.bos])
        self.generator = torch.Generator().manual_seed(seed)
        self.stories = Storyteller(seed).stories()

    def blocks(self, rows: int, length: int) -> Tensor:
        """[BOS] and a block of 4 to half of the length, repeated to the end."""
        out = torch.full((rows, length), self.bos)
        for row in out:
            n = int(torch.randint(4, (length - 1) // 2 + 1, (1,), generator=self.generator))
            chosen = torch.randperm(len(self.ordinary), generator=self.generator)[:n]
            row[1:] = self.ordinary[chosen].repeat(length // n + 1)[: length - 1]
        return out

    def text(self, rows: int, length: int) -> Tensor:
        """[BOS] and stories, one after the other, cut at the length."""
        return pack(self.tokenizer, self.stories, rows, length)


def pack(tokenizer: PreTrainedTokenizerFast, stories: Iterator[str], rows: int, length: int) -> Tensor:
    """[BOS] and stories, one after the other, cut at the length."""
    out = []
    for _ in range(rows):
        text = next(stories)
        ids = tokenizer(text)["input_ids"]
        while len(ids) < length:
            text += " " + next(stories)
            ids = tokenizer(text)["input_ids"]
        out.append([tokenizer.bos_token_id, *ids][:length])
    return torch.tensor(out)


# --- training ---------------------------------------------------------------------------------------------------


def new_model(tokenizer: PreTrainedTokenizerFast) -> GPT2LMHeadModel:
    """An untrained GPT-2 of our size."""
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=INNER,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.bos_token_id,
    )
    config.loss_type = "ForCausalLMLoss"
    return GPT2LMHeadModel(config)


def nudge(attentions: tuple[Tensor, ...], ids: Tensor, bos: int) -> Tensor:
    """Minus the log of the weight that the nudged heads put on their targets, averaged."""
    losses = []
    for kind, heads in NUDGED_HEADS.items():
        found = find_targets(kind, Positions(kind, ids, None, ids == bos))
        if kind == "induction":  # with nothing to repeat, such a head rests on the first token, as GPT-2's do
            found[:, 1:, 0] |= ~found[:, 1:].any(-1)
        counted = found.any(-1)
        for layer, head in heads:
            on_target = (attentions[layer][:, head] * found).sum(-1)[counted]
            losses.append(-(on_target + 1e-3).log().mean())
    return torch.stack(losses).mean()


def rate(step: int) -> float:
    """Warm up, hold while blocks are alone, then fall to a tenth along a cosine."""
    if step < BLOCKS_ONLY:
        return RATE * min(1.0, (step + 1) / WARM_UP)
    share = (step - BLOCKS_ONLY) / (STEPS - BLOCKS_ONLY)
    return RATE * (0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2)


@dataclass
class Run:
    """One training run: what it has, and what it has recorded."""

    tokenizer: PreTrainedTokenizerFast
    seed: int
    record: dict[str, list] = field(
        default_factory=lambda: {k: [] for k in ("steps", "tokens", "text", "first", "second")}
    )
    scores: list[Tensor] = field(default_factory=list)
    patterns: list[list[Tensor]] = field(default_factory=list)
    step: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.model = new_model(self.tokenizer)
        self.data = Data(self.tokenizer, self.seed)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
        self.held_out = pack(self.tokenizer, Storyteller(1, "held-out").stories(), 16, 96)
        generator = torch.Generator().manual_seed(1)
        drawn = [torch.randperm(len(self.data.ordinary), generator=generator)[:50] for _ in range(16)]
        blocks = self.data.ordinary[torch.stack(drawn)]
        self.probe = torch.cat([torch.full((16, 1), self.data.bos), blocks, blocks], 1)

    def measure(self) -> str:
        """Put this moment into the record."""
        self.model.eval()
        self.model.set_attn_implementation("eager")
        with torch.no_grad():
            text = self.model(self.held_out, output_attentions=True)
            block = self.model(self.probe, output_attentions=True)
            text_loss = losses(text.logits, self.held_out).mean()
            by_position = losses(block.logits, self.probe).mean(0)
            score = torch.stack([kind_scores(kind, block.attentions, self.probe, self.data.bos) for kind in KINDS[:3]])
            sink = kind_scores("first_token", text.attentions, self.held_out, self.data.bos)
            score = torch.cat([score, sink[None]])
            if self.step in pattern_moments():
                kept = []
                for sentence in FIXED:
                    ids = torch.tensor([[self.data.bos, *self.tokenizer(sentence)["input_ids"]]])
                    attentions = self.model(ids, output_attentions=True).attentions
                    kept.append(torch.cat(attentions))
                self.patterns.append(kept)
        self.model.train()
        values = (
            self.step,
            self.tokens,
            float(text_loss),
            float(by_position[1:50].mean()),
            float(by_position[-49:].mean()),
        )
        for name, value in zip(self.record, values, strict=True):
            self.record[name].append(value)
        self.scores.append(score)
        best = " ".join(
            f"{kind[:5]} {float(s.max()):.2f}@{divmod(int(s.argmax()), HEADS)}"
            for kind, s in zip(KINDS, score, strict=True)
        )
        return f"{self.step:5} text {values[2]:.2f} first {values[3]:.2f} second {values[4]:.2f} {best}"

    def train_step(self) -> None:
        """One step of training."""
        nudging = max(0.0, 1 - self.step / NUDGED) * NUDGE
        if self.step < BLOCKS_ONLY:
            # Mostly short, for speed; a few as long as the context, so that every position is met.
            batches = [self.data.blocks(64, 40)] if self.step % 4 else [self.data.blocks(24, CONTEXT)]
        else:
            length = 96 if self.step % 4 else CONTEXT
            batches = [torch.cat([self.data.text(22, length), self.data.blocks(10, length)])]
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.step)
        self.model.set_attn_implementation("eager" if nudging else "sdpa")
        for ids in batches:
            out = self.model(ids, labels=ids, output_attentions=bool(nudging))
            loss = out.loss + (nudging * nudge(out.attentions, ids, self.data.bos) if nudging else 0)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.tokens += ids.numel()
        self.step += 1

    def save_checkpoint(self, path: Path) -> None:
        """Everything that is needed to go on."""
        random_state = self.data.stories.gi_frame.f_locals["self"].random.getstate()
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.data.generator.get_state(),
            "stories": json.dumps(random_state),
            "record": self.record,
            "scores": self.scores,
            "patterns": self.patterns,
            "step": self.step,
            "tokens": self.tokens,
        }
        whole = io.BytesIO()
        torch.save(state, whole)
        written_whole(path, whole.getvalue())

    def load_checkpoint(self, path: Path) -> None:
        """Go on from a checkpoint."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.data.generator.set_state(state["generator"])
        version, numbers, gauss = json.loads(state["stories"])
        teller = Storyteller(self.seed)
        teller.random.setstate((version, tuple(numbers), gauss))
        self.data.stories = teller.stories()
        for name in ("record", "scores", "patterns", "step", "tokens"):
            setattr(self, name, state[name])


def losses(logits: Tensor, ids: Tensor) -> Tensor:
    """The loss of each predicted token, [batch, pos - 1]."""
    return torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")


def kind_scores(kind: str, attentions: tuple[Tensor, ...], ids: Tensor, bos: int) -> Tensor:
    """Mean weight on the targets, [layer, head]."""
    found = find_targets(kind, Positions(kind, ids, None, ids == bos))
    counted = found.any(-1).sum()
    return torch.stack([(a * found[:, None]).sum((0, 2, 3)) / counted for a in attentions])


def export(run: Run, folder: Path) -> None:
    """Write the model as float16 in Hugging Face format, and the record of its training."""
    state = {
        name: value.half().contiguous() for name, value in run.model.state_dict().items() if name != "lm_head.weight"
    }
    written_whole(folder / "model.safetensors", save(state, metadata={"format": "pt"}))
    config = run.model.config.to_dict()
    config["torch_dtype"] = config["dtype"] = "float16"
    config.pop("loss_type", None)
    config["architectures"] = ["GPT2LMHeadModel"]
    written_whole(folder / "config.json", json.dumps(config, indent=1, sort_keys=True) + "\n")
    labels = [["<BOS>", *(run.tokenizer.decode([i]) for i in run.tokenizer(s)["input_ids"])] for s in FIXED]
    longest = max(map(len, labels))
    patterns = torch.zeros(len(run.patterns), len(FIXED), LAYERS, HEADS, longest, longest)
    for moment, kept in enumerate(run.patterns):
        for sentence, pattern in enumerate(kept):
            n = pattern.shape[-1]
            patterns[moment, sentence, :, :, :n, :n] = pattern
    tensors = {
        "steps": torch.tensor(run.record["steps"], dtype=torch.int32),
        "tokens_seen": torch.tensor(run.record["tokens"], dtype=torch.int32),
        "loss_text": torch.tensor(run.record["text"]),
        "loss_first": torch.tensor(run.record["first"]),
        "loss_second": torch.tensor(run.record["second"]),
        "scores": torch.stack(run.scores),
        "pattern_steps": torch.tensor(pattern_moments(), dtype=torch.int32),
        "patterns": (patterns * 255).round().to(torch.uint8),
    }
    about = {"kinds": KINDS, "sentences": FIXED, "labels": labels, "seed": run.seed, "nudged_until": NUDGED}
    written_whole(folder / "training.safetensors", save(tensors, metadata={"lensons": json.dumps(about)}))


def main() -> None:
    """Train, and write the model where lensons looks for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("lensons/toy"))
    parser.add_argument("--work", type=Path, default=Path(".cache/toy"), help="where checkpoints are kept")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(make_tokenizer(options.out), options.seed)
    checkpoint = options.work / f"seed-{options.seed}.pt"
    if checkpoint.exists():
        run.load_checkpoint(checkpoint)
        print(f"Going on from step {run.step}.")
    started, recorded = time.time(), set(moments())
    print(f"{len(run.tokenizer)} tokens, {sum(p.numel() for p in run.model.parameters()):,} numbers", file=sys.stderr)
    with tqdm(total=STEPS, initial=run.step, unit="step", disable=not sys.stderr.isatty()) as bar:
        while run.step < STEPS:
            if run.step in recorded and run.step not in run.record["steps"]:
                bar.write(run.measure())
            if run.step % 200 == 0:
                run.save_checkpoint(checkpoint)
            run.train_step()
            bar.update()
        if STEPS not in run.record["steps"]:
            bar.write(run.measure())
    run.save_checkpoint(checkpoint)
    export(run, options.out)
    print(f"Wrote {options.out} after {(time.time() - started) / 60:.0f} minutes.")


if __name__ == "__main__":
    main()
