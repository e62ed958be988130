"""Every message that a user can meet, met here: by what a user would do, and in the words a user would read."""

import importlib.metadata
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import lensons
from lensons import cli, figures, lessons, pairs, scores
from lensons.errors import LensonsError
from lensons.figures import circuitsvis, png
from lensons.lessons import evidence, words
from lensons.lessons.circuit import Circuit
from lensons.models import LoadedModel, copy_of
from tests.conftest import OTHER, SENTENCE
from tests.test_messages import messages

SQUARE = torch.eye(3)
WEIGHTS = [torch.zeros(1, 2, 8, 4), torch.zeros(1, 2, 8, 4), torch.zeros(1, 2, 8, 4), torch.zeros(1, 2, 4, 8)]
COLUMNS = {"title": "t", "caption": "c"}


@dataclass
class Here:
    """What a row of the table can use: models, an empty folder, and a way to make something go wrong."""

    toy: Any
    gpt2: Any
    llama: Any
    gpt2_folder: Path
    llama_folder: Path
    folder: Path
    patch: pytest.MonkeyPatch

    def without(self, package):
        """As if the package were not installed."""
        self.patch.setitem(sys.modules, package, None)

    def versions(self, **installed):
        """As if these versions (None: not at all) were installed."""
        known = importlib.metadata.version

        def version(name):
            found = installed.get(name.replace("-", "_"), known(name))
            if found is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return found

        for place in ("importlib.metadata.version", "lensons.figures.circuitsvis.version"):
            self.patch.setattr(place, version)

    def changed(self, model, **changes):
        """The model with something about it replaced; the model itself stays as it is."""
        known = {name: getattr(model, name) for name in LoadedModel.__dataclass_fields__}
        return LoadedModel(**{**known, **changes})

    def tokenizer_with(self, **changes):
        """The small GPT-2 whose tokenizer is another one."""
        return self.changed(self.gpt2, tokenizer=SimpleNamespace(**{"bos_token_id": None, **changes}))

    def copied(self, folder, without=()):
        """A model's folder that may be broken, next to nothing else."""
        made = self.folder / "copied"
        shutil.copytree(folder, made, ignore=shutil.ignore_patterns(*without))
        return made

    def toy_files(self, **content):
        """As if the toy model's folder held these files only."""
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            (self.folder / name).touch()
        for name, text in content.items():
            (self.folder / f"{name}.safetensors").write_text(text)
        self.patch.setattr("lensons.toy.files", lambda package: self.folder)

    def table(self, model=None):
        return lensons.score_heads(model or self.toy, [[1, 2, 3, 1, 2, 3]], kinds=["induction"])

    def config(self, folder, **changes):
        """A copy of a model's folder with its config changed."""
        import json

        made = self.copied(folder)
        config = json.loads((made / "config.json").read_text())
        (made / "config.json").write_text(json.dumps(config | changes))
        return made


def broken_browser(here):
    """A Chromium that ends before it begins."""
    pytest.importorskip("playwright")
    here.patch.setattr(png.shutil, "which", lambda name: "/bin/false")
    png.photographed("<figure></figure>")


def disagreeing(here):
    """A model whose weights are not those of Hugging Face's any more when both are compared."""
    here.patch.setattr(
        "lensons.models.LoadedModel.run",
        lambda self, ids: (
            torch.zeros(*ids.shape, self.d_vocab).fill_diagonal_(1)
            if ids.ndim == 1
            else torch.randn(*ids.shape, self.d_vocab, generator=torch.Generator().manual_seed(0)) * 9
        ),
    )
    lensons.load_model(here.gpt2_folder)


def another_engine(here):
    """A kind of model that TransformerLens' bridge does not take."""
    from transformer_lens.model_bridge import TransformerBridge

    def refuse(*given, **options):
        raise ValueError("no such architecture")

    here.patch.setattr(TransformerBridge, "boot_transformers", refuse)
    lensons.load_model(here.llama_folder)


def a_trace(here, **changes):
    """A trace with one of its stages changed by hand."""
    from dataclasses import replace

    trace = lensons.trace(here.toy, "It was tired.")
    return replace(trace, **{name: getattr(trace, name) * factor for name, factor in changes.items()})


def hugging_face(here):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(here.gpt2_folder)


def command(here, *words):
    """What the command line says, as the error it makes a line of."""
    options = cli._parser().parse_args([*words, "--model", "toy"])
    options.run(options)


def both_ways(model):
    copied = copy_of(model)
    copied.raw.cfg.attention_dir = "bidirectional"
    return copied


def poisoned(model):
    """A copy with NaN in its first weights."""
    copied = copy_of(model)
    with torch.no_grad():
        next(copied.raw.parameters()).fill_(float("nan"))
    return copied


def with_nan_patterns(model):
    copied = copy_of(model)
    copied.raw.add_hook("blocks.0.attn.hook_pattern", lambda value, hook: value * float("nan"))
    return copied


def one_cell():
    return figures.pattern_figure(["a"], np.eye(1), heads=["x"])


def said_in_a_lesson(text):
    """A text of a lesson, as it is written in its file, with its marks read."""
    return words.Words("attention", "it")._html(text, {})


def random_blocks(here):
    """A model that reads too few tokens for a block that comes twice."""
    lensons.score_heads(here.changed(here.gpt2, n_ctx=4))


# What is said, and what makes lensons say it. "…" stands for numbers and paths that differ from machine to machine.
MET = [
    # ablation
    (
        'No heads were given. At least one is needed. Name them like "5.1".',
        lambda h: lensons.ablate_heads(h.toy, [], [[5, 6]]),
    ),
    (
        "mode='gone' was given. Allowed are zero and mean. Choose one of those.",
        lambda h: lensons.ablate_heads(h.toy, ["0.1"], [[5, 6]], mode="gone"),
    ),
    (
        "A prompt has one token only. The loss needs at least two. Give longer prompts.",
        lambda h: lensons.ablate_heads(h.toy, ["0.1"], [[5]]),
    ),
    (
        "block_len was given, but the prompts differ in length. Give prompts of one length.",
        lambda h: lensons.ablate_heads(h.toy, ["0.1"], [[5, 6, 5, 6], [5, 6, 5, 6, 7]], block_len=2),
    ),
    # the command line
    (
        "--text cannot be used with the induction lesson, which makes its own tokens. Leave it out.",
        lambda h: command(h, "lesson", "induction", "--text", "It was tired."),
    ),
    # figures
    (
        "CircuitsVis is not installed, and a lesson page carries its drawing code. `pip install circuitsvis`.",
        lambda h: (h.versions(circuitsvis=None), circuitsvis.bundle()),
    ),
    (
        "CircuitsVis … has changed its JavaScript bundle, so its views cannot be put on a page. "
        "lensons knows version 1.43.3. `pip install circuitsvis==1.43.3`.",
        lambda h: (h.patch.setattr(circuitsvis, "_COMPONENTS", ("NoSuchView",)), circuitsvis.bundle()),
    ),
    (
        "'Evil' is not a component of CircuitsVis that lensons mounts. "
        "Allowed are AttentionHeads, AttentionPattern, ColoredTokens.",
        lambda h: circuitsvis.view("Evil", {}),
    ),
    (
        "'x.pdf' ends in '.pdf'. Allowed are .html, .svg, .png and .csv. Choose one.",
        lambda h: one_cell().save("x.pdf"),
    ),
    (
        "The figure 't' is a table, not a picture. Save it as .html, .png or .csv.",
        lambda h: figures.table_figure("k", "t", "c", "a", {"token": ["a"]}).save(h.folder / "x.svg"),
    ),
    (
        "to_dataframe needs pandas, which is not installed. Use .table.rows, or `pip install pandas`.",
        lambda h: (h.without("pandas"), one_cell().to_dataframe()),
    ),
    (
        "8 heads on 2,000 tokens are 16,008,000 numbers. A page holds at most 15,000,000. Choose at most 7 heads, or a "
        "shorter text.",
        lambda h: figures.pattern_figure(
            ["a"] * 2000, np.broadcast_to(np.eye(2000), (8, 2000, 2000)), heads=[*"abcdefgh"]
        ),
    ),
    (
        "The pattern holds NaN or infinity. Attention weights are numbers from 0 to 1: of scores before the softmax, "
        "masked ones are -inf. Give the pattern.",
        lambda h: figures.pattern_figure(["a"], np.full((1, 1), -np.inf), heads=["x"]),
    ),
    (
        "The pattern holds numbers from 0 to 2. Attention weights are numbers from 0 to 1. Give the pattern.",
        lambda h: figures.pattern_figure(["a", "b"], np.eye(2) * 2, heads=["x"]),
    ),
    (
        "The pattern looks ahead: up to 0.5 of a row lies on later tokens, and a causal picture would leave that out. "
        "Give causal=False to pattern_figure for a model that reads both ways.",
        lambda h: figures.pattern_figure(["a", "b"], np.full((2, 2), 0.5), heads=["x"]),
    ),
    (
        "5.1 does not name a head: the numbers 5.1 and 5.10 are the same. Write (5, 1) or 'L5H1'.",
        lambda h: figures.pattern_figure(["a"], np.eye(1), heads=[5.1]),
    ),
    (
        "A str cannot be read as numbers (…). Give a tensor or an array; of what Hugging Face's model returns, its "
        "attentions.",
        lambda h: figures.pattern_figure(["a"], "pattern", heads=["x"]),
    ),
    (
        "The values are shaped [2] for 1 tokens. Allowed is one number for each token, [1]. Give NaN where a token "
        "has none.",
        lambda h: figures.token_values_figure(["a"], [1.0, 2.0], what="loss", **COLUMNS),
    ),
    (
        "A value is infinite: no colour stands for that. Give numbers, or NaN where there is none.",
        lambda h: figures.token_values_figure(["a"], [float("inf")], what="loss", **COLUMNS),
    ),
    (
        "The pattern is shaped [1, 3, 3] for 2 tokens. Allowed is [head, 2, 2] (one head, or [head, ...]).",
        lambda h: figures.pattern_figure(["a", "b"], np.eye(3), heads=["x"]),
    ),
    (
        "2 names were given for 1 heads. Give one for each.",
        lambda h: figures.pattern_figure(["a"], np.eye(1), heads=["x", "y"]),
    ),
    (
        "The patterns are shaped [1, 1] for 1 tokens. Allowed is [layer, head, 1, 1], such as trace.pattern. "
        "Give those of one text.",
        lambda h: figures.all_patterns_figure(["a"], np.eye(1)),
    ),
    (
        "A PNG needs Playwright, which is not installed. `pip install playwright` and `playwright install chromium`, "
        "or save as .svg or .html.",
        lambda h: (h.without("playwright"), h.without("playwright.sync_api"), png.photographed("")),
    ),
    (
        "A PNG needs Chromium, and Playwright could not start it (…). `pip install playwright` and `playwright install "
        "chromium`, or save as .svg or .html.",
        broken_browser,
    ),
    (
        "tokens=None was given. Allowed are what trace(...).tokens is, or a list of labels. Give one label for each "
        "token.",
        lambda h: figures.pattern_figure(None, np.eye(1), heads=["x"]),
    ),
    (
        "The columns differ in length, or there are none (a: 1, b: 2). Give columns of one length.",
        lambda h: figures.table_figure("k", "t", "c", "a", {"a": [1], "b": [1, 2]}),
    ),
    (
        "weights is shaped [2] for query 2. Allowed is one finite number for each key, [3] or longer. Give one row of "
        "a pattern, such as head.pattern[2].",
        lambda h: figures.row_figure(lensons.trace(h.toy, "It was.").tokens, [0.5, 0.5], query=2, **COLUMNS),
    ),
    (
        "values is shaped [4]. Allowed are finite numbers [layer, head], or NaN where a score is not defined, "
        'such as table.values["induction"]. Give those.',
        lambda h: figures.all_heads_figure(np.zeros(4), kind="induction", chance=0.1),
    ),
    (
        "A line needs a place, places that are numbers, and numbers that are finite. Give NaN where a line has a gap.",
        lambda h: figures.line_figure("t", "c", "a", ("x", [0, 1]), {"loss": [1.0, float("inf")]}, "y"),
    ),
    # files
    ("None is not a path. Allowed are a text and a Path. Give one of those.", lambda h: one_cell().save(None)),
    (
        "'…' cannot be written (No such file or directory). Allowed is a file in a folder that exists and may be "
        "written to. Choose another place.",
        lambda h: one_cell().save(h.folder / "none" / "x.csv"),
    ),
    # heads
    (
        '\'L5\' does not name a head. Write it as (5, 1), "5.1" or "L5H1"; layers and heads are counted from 0.',
        lambda h: lensons.head_card(h.toy, "L5", SENTENCE),
    ),
    (
        "5.1 is a number, and the numbers 5.1 and 5.10 are the same, so it does not name a head. Write it as (5, 1), "
        '"5.1" or "L5H1"; layers and heads are counted from 0.',
        lambda h: lensons.head_card(h.toy, 5.1, SENTENCE),
    ),
    (
        "There is no layer 12 (asked for: '12.0'). This model has layers 0-3. Choose one of those, or count from the "
        "end with -1 to -4.",
        lambda h: lensons.head_card(h.toy, "12.0", SENTENCE),
    ),
    # the hub
    (
        'There is no model or folder \'no such\'. Allowed are "gpt2", "toy", a folder in Hugging Face format, a '
        'Hugging Face name such as "EleutherAI/pythia-70m", or a HookedTransformer or TransformerBridge that you '
        'already have. To go on without a network, use "toy".',
        lambda h: lensons.load_model("no such"),
    ),
    (
        "'nobody/nothing' could not be had. Tried: the local cache for nobody/nothing (…); no download, since "
        'HF_HUB_OFFLINE is set. Two ways on: the model "toy" needs no network; or give the folder of a copy that has '
        "config.json, model.safetensors and the tokenizer's files.",
        lambda h: lensons.load_model("nobody/nothing"),
    ),
    (
        "revision=7 was given. Allowed are a branch, a tag or a commit, as text.",
        lambda h: lensons.load_model("gpt2", revision=7),
    ),
    (
        "revision='main' was given for 'toy', which is not on the hub. Only a model from the hub has revisions. "
        "Leave it out.",
        lambda h: lensons.load_model("toy", revision="main"),
    ),
    (
        "'…config.json' is a file. A model is a folder in Hugging Face format. Give the folder it is in.",
        lambda h: lensons.load_model(h.gpt2_folder / "config.json"),
    ),
    # lessons
    (
        "Position 5 comes after position 2, so it cannot be looked at from there. Allowed are keys from 0 to 2. "
        "Choose one of those, or a later query.",
        lambda h: lensons.AttentionLesson(h.toy).queries_and_keys(query=2, key=5),
    ),
    (
        "The word 'cow' does not stand in the text 'It was tired.'. Give one of its words, or a position as a whole "
        "number.",
        lambda h: lensons.AttentionLesson(h.toy, "It was tired.").mixing_values(query="cow"),
    ),
    (
        "toy has one layer. An induction head builds on a head in a layer below it, so two are needed. Choose a "
        "deeper model.",
        lambda h: Circuit(h.changed(h.toy, n_layers=1)),
    ),
    (
        "referents=('dog',) was given. Allowed are two words that stand in your text, such as ('animal', 'street').",
        lambda h: lensons.AttentionLesson(h.toy, SENTENCE, OTHER, referents=("dog",)),
    ),
    (
        'referents was given without two texts. It names the two words that "it" may mean in them. Give text and '
        "other, or leave it out.",
        lambda h: lensons.AttentionLesson(h.toy, SENTENCE, referents=("animal", "street")),
    ),
    (
        "other was given without text. It is the second of two texts. Give both.",
        lambda h: evidence.Evidence(h.toy, None, "The dog was tired."),
    ),
    (
        "The lessons' notebooks are not in '…'. They ship with lensons. Install it again.",
        lambda h: (
            h.patch.setattr("lensons.lessons.notebooks.files", lambda package: h.folder / "a"),
            lessons.copy_notebooks(h.folder),
        ),
    ),
    (
        "There is no lesson 'grammar'. Allowed are attention, induction. Choose one of those.",
        lambda h: lessons.copy_notebooks(h.folder, ["grammar"]),
    ),
    (
        "The folder '…' cannot be made (…). Choose another place.",
        lambda h: ((h.folder / "file").touch(), lessons.copy_notebooks(h.folder / "file" / "below")),
    ),
    (
        'The lesson\'s sentence has no "it". Its file text/attention.toml was changed.',
        lambda h: (
            h.patch.setattr("lensons.lessons.step_it.it_position", lambda tokens: None),
            lensons.AttentionLesson(h.toy).it(),
        ),
    ),
    ("The text asks for {head}, which is not there. Known here are none.", lambda h: words.plain("See {head}.")),
    (
        "The term 'nonsense' is marked but not in glossary.toml. Add it there.",
        lambda h: said_in_a_lesson("A [[nonsense]]."),
    ),
    (
        "The source 'nobody' is cited but not in references.bib. Add it there.",
        lambda h: said_in_a_lesson("So it is [@nobody]."),
    ),
    # models
    (
        "small-gpt2 did not hand out its q in layer 0. lensons needs a model that computes its attention weights one "
        'by one ("eager" attention), not one with a fused kernel such as sdpa. Load it with '
        'attn_implementation="eager".',
        lambda h: lensons.trace(h.changed(h.gpt2, _hooks=dict.fromkeys(h.gpt2._hooks, "hook_none")), [1, 2]),
    ),
    ("7 (a int) is not a model. Allowed are …", lambda h: lensons.trace(7, SENTENCE)),
    (
        "A Hugging Face GPT2LMHeadModel was given (its attention is 'sdpa', and lensons needs \"eager\"). Allowed are "
        "… Write it with save_pretrained() together with its tokenizer, and give that folder: it is then loaded with "
        "eager attention.",
        lambda h: lensons.trace(hugging_face(h), SENTENCE),
    ),
    (
        "TransformerLens 5.0.0 is installed. lensons works with versions 3 and 4. "
        '`pip install "transformer-lens>=3,<5"`, or score Hugging Face\'s own attentions with lensons.scores.',
        lambda h: (h.versions(transformer_lens="5.0.0"), lensons.load_model(h.gpt2_folder)),
    ),
    (
        "small-gpt2 gives other numbers in … than in Hugging Face's own code (log probabilities differ by up to …; at "
        "most 0.01 is allowed). TransformerLens does not follow a setting of its config. Score Hugging Face's own "
        "attentions with lensons.scores instead.",
        disagreeing,
    ),
    (
        "TransformerLens cannot run LlamaForCausalLM (ValueError: no such architecture). Allowed are causal language "
        "models that it supports. Try another model, or score Hugging Face's own attentions with lensons.scores.",
        another_engine,
    ),
    (
        "65 tokens were given. small-gpt2 reads at most 64 at once, and a BOS token counts as one of them. Shorten the "
        "text.",
        lambda h: h.gpt2.run(torch.ones(1, 65, dtype=torch.long)),
    ),
    (
        "small-gpt2 also looks at later tokens. Head scores with chance, and lessons, are for models that read left to "
        "right. Its patterns can be traced, and scored one by one with lensons.scores, which warns.",
        lambda h: lensons.score_heads(both_ways(h.gpt2), n_prompts=1),
    ),
    (
        "'soul' is not a stage of attention. Allowed are q, k, v, scores, pattern, z, attn_out.",
        lambda h: h.gpt2.run(torch.ones(1, 2, dtype=torch.long), {("soul", 0): print}),
    ),
    (
        "device was given together with a model that is already loaded. Such a model is taken as it is. Leave the "
        "option out, or give a name to load.",
        lambda h: lensons.load_model(h.gpt2, device="cpu"),
    ),
    (
        "processed='no' was given. Allowed are True and False. Choose one of those.",
        lambda h: lensons.load_model("toy", processed="no"),
    ),
    (
        "The folder '…' has no model.safetensors. A model needs config.json, model.safetensors and its tokenizer's "
        "files side by side. Write them with save_pretrained() of the model and the tokenizer.",
        lambda h: lensons.load_model(h.copied(h.gpt2_folder, without=["model.safetensors"])),
    ),
    (
        "The model in '…' cannot be read (…: …). Needed are a complete config.json, model.safetensors and tokenizer of "
        "one causal language model. Save or download it again.",
        lambda h: lensons.load_model(h.config(h.gpt2_folder, n_embd=40)),
    ),
    (
        "device='abacus' cannot be used (…). Allowed are \"cpu\", or another device that torch finds on this machine. "
        "Leave it out for the CPU.",
        lambda h: lensons.load_model("toy", device="abacus"),
    ),
    # options
    (
        "n_prompts=2.5 was given. Allowed are whole numbers from 1.",
        lambda h: lensons.score_heads(h.toy, n_prompts=2.5),
    ),
    (
        "n_prompts=0 was given. Allowed are whole numbers from 1. Choose one of those.",
        lambda h: lensons.score_heads(h.toy, n_prompts=0),
    ),
    # pairs
    (
        'clue=\'top\' was given. Allowed are "end" and "front". Choose one of them.',
        lambda h: pairs.it_pairs(1, clue="top"),
    ),
    ("n=0 was given. Allowed are whole numbers from 1 to …. Choose one of those.", lambda h: pairs.it_pairs(0)),
    (
        'split=\'all\' was given. Allowed are "held-out" and "training". Choose one of them.',
        lambda h: pairs.it_pairs(1, split="all"),
    ),
    # prompts
    ("small-gpt2 reads 4 tokens at once, too few for a block that comes twice.", random_blocks),
    (
        "prompts is empty. At least one prompt is needed. Leave it out to use random blocks.",
        lambda h: lensons.score_heads(h.toy, []),
    ),
    (
        "prompts mixes texts and ids. Allowed are all texts, or all ids. Split them in two calls.",
        lambda h: lensons.score_heads(h.toy, ["It.", [1, 2]]),
    ),
    (
        "attention_mask is shaped [1, 2], but prompts [1, 3]. They must be equal.",
        lambda h: lensons.score_heads(h.toy, torch.ones(1, 3).long(), attention_mask=torch.ones(1, 2)),
    ),
    (
        "prompts is shaped [1, 1, 3]. Allowed is [batch, pos]. Reshape it.",
        lambda h: lensons.score_heads(h.toy, torch.ones(1, 1, 3).long()),
    ),
    (
        "attention_mask was given, but prompts is not a tensor. A mask goes with ids shaped [batch, pos]. Leave it "
        "out: texts and lists have no pads.",
        lambda h: lensons.score_heads(h.toy, ["It."], attention_mask=torch.ones(1, 2)),
    ),
    (
        "prompts is a int. Allowed are a text, a list of texts, a list of lists of ids, or a tensor shaped "
        "[batch, pos].",
        lambda h: lensons.score_heads(h.toy, 7),
    ),
    # scores
    (
        "measure='mean' was given. Allowed are query_mean and mass_share.",
        lambda h: scores.score("first_token", SQUARE, measure="mean"),
    ),
    (
        "token_ids hold 2 prompts, but the pattern's first axis is 5 long (it is shaped [5, 3, 3]). They must be "
        "equal. Give ids shaped [pos] where every pattern is for the same prompt.",
        lambda h: scores.induction(SQUARE.expand(5, 3, 3), [[1, 2, 1], [1, 2, 1]]),
    ),
    (
        "There are no attention weights: None was given. A pattern is needed. Load the model with "
        'attn_implementation="eager", and ask for output_attentions=True.',
        lambda h: scores.first_token(None),
    ),
    (
        "There are no attention weights: an empty tuple was given. The model ran with a fused kernel such as sdpa, "
        'which hands none out. Load the model with attn_implementation="eager", and ask for output_attentions=True.',
        lambda h: scores.first_token(()),
    ),
    (
        "The pattern is torch.int64. Attention weights are floating-point numbers from 0 to 1. Give the pattern after "
        "the softmax.",
        lambda h: scores.first_token(SQUARE.long()),
    ),
    (
        "The pattern is shaped [1, 3]. Its last two axes, query and key, must be equally long. In generation with a "
        "cache each step gives one row only: run the whole text in one forward pass.",
        lambda h: scores.first_token(SQUARE[:1]),
    ),
    (
        "The pattern holds NaN or infinity. Attention weights are numbers from 0 to 1. A row in which every key is "
        "masked becomes NaN: mark pads with attention_mask.",
        lambda h: scores.first_token(SQUARE * float("nan")),
    ),
    (
        "The layers' patterns differ in shape ([2, 2], [3, 3]). All must be alike. Give the layers of one forward "
        "pass.",
        lambda h: scores.first_token((SQUARE, torch.eye(2))),
    ),
    ("A str is not a pattern. Give a tensor shaped [..., query, key].", lambda h: scores.first_token("pattern")),
    (
        "The pattern cannot be read as numbers (…). Give a tensor [..., query, key].",
        lambda h: scores.first_token([[1.0], [0.5, 0.5]]),
    ),
    (
        "token_ids is torch.bool shaped [3]. Allowed are whole numbers shaped [pos] or [batch, pos], with at least one "
        "position.",
        lambda h: scores.induction(SQUARE, [True, False, True]),
    ),
    (
        "token_ids is torch.float32 shaped [3]. Allowed are whole numbers shaped [pos] or [batch, pos], with at least "
        "one position.",
        lambda h: scores.induction(SQUARE, torch.ones(3)),
    ),
    (
        'measure="mass_share" was asked for entropy, which has no targets. Use "query_mean".',
        lambda h: scores.score("entropy", SQUARE, measure="mass_share"),
    ),
    (
        "'next_token' is not a kind of score. Allowed are previous_token, duplicate_token, induction, first_token, "
        "current_token, entropy. Choose one of those.",
        lambda h: scores.score("next_token", SQUARE),
    ),
    (
        "induction compares tokens, but no token_ids were given. Pass the ids the pattern is for.",
        lambda h: scores.score("induction", SQUARE),
    ),
    (
        "How many positions? first_token was asked for with neither token_ids nor n_pos. Give one.",
        lambda h: scores.chance("first_token"),
    ),
    (
        "token_ids or attention_mask have 4 positions, but n_pos is 3. They must be equal. Are these the ids of this "
        "pattern?",
        lambda h: scores.induction(SQUARE, [1, 2, 1, 2]),
    ),
    (
        "bos='yes' was given. Allowed are True, False, or a bool tensor shaped like token_ids.",
        lambda h: scores.induction(SQUARE, [1, 2, 1], bos="yes"),
    ),
    (
        "bos is a torch.bool tensor shaped [4]. Allowed are True, False, or a bool tensor shaped like token_ids, whose "
        "last axis is 3.",
        lambda h: scores.induction(SQUARE, [1, 2, 1], bos=torch.ones(4).bool()),
    ),
    (
        "token_ids is a int. Allowed are a list of ids, or a tensor shaped [pos] or [batch, pos].",
        lambda h: scores.induction(SQUARE, 7),
    ),
    (
        "attention_mask is shaped [2, 3], which does not go with 5 x 3 positions. token_ids and attention_mask must "
        "have the same shape.",
        lambda h: scores.targets("induction", torch.ones(5, 3).long(), attention_mask=torch.ones(2, 3).long()),
    ),
    (
        "attention_mask holds numbers from -10000 to 0. Allowed are 1 for a real token and 0 for a pad, as a tokenizer "
        "gives them.",
        lambda h: scores.first_token(SQUARE, attention_mask=[0, -10000, 0]),
    ),
    (
        "token_ids cannot be read as whole numbers (…). Allowed are a list of ids, a list of equally long lists, or a "
        "tensor shaped [pos] or [batch, pos].",
        lambda h: scores.induction(SQUARE, [[1, 2], [3]]),
    ),
    (
        "w_v is shaped [8, 4] and w_o [8, 4]. Allowed are [..., d_model, d_head] and [..., d_head, d_model]. Give both "
        "for the same heads.",
        lambda h: scores.copying(torch.zeros(8, 4), torch.zeros(8, 4)),
    ),
    (
        "'o' is not a kind of composition. Allowed are q, k and v. Choose one of those.",
        lambda h: scores.composition("o", *WEIGHTS),
    ),
    (
        "The weights are shaped [2, 8, 4], [1, 2, 8, 4], [1, 2, 8, 4], [1, 2, 4, 8]. Allowed are [layer, head, "
        "d_model, d_head] three times and [layer, head, d_head, d_model]. Repeat shared keys and values for each head.",
        lambda h: scores.composition("q", WEIGHTS[0][0], *WEIGHTS[1:]),
    ),
    (
        "w_v is a ndarray. Allowed is a tensor of weights, a matrix for each head. Give those of a model, such as "
        "block.attn.W_Q.",
        lambda h: scores.copying(np.eye(3), torch.eye(3)),
    ),
    (
        "w_o holds NaN or infinity. Allowed are finite weights. Look where the model got them from.",
        lambda h: scores.copying(torch.eye(3), torch.eye(3) / 0),
    ),
    (
        "The pattern of layer 0 holds NaN or infinity. Attention weights are numbers from 0 to 1. Look for NaN in the "
        "weights, or for a number type that is too small for them.",
        lambda h: lensons.score_heads(with_nan_patterns(h.gpt2), n_prompts=1),
    ),
    (
        "A loss of small-gpt2 is not a finite number. A loss needs finite weights, in a number type that is large "
        "enough for them. Look there.",
        lambda h: lensons.ablate_heads(poisoned(h.gpt2), ["0.0"], [[1, 2, 3]]),
    ),
    # scoring a model's heads
    (
        "prompts cannot be read as whole numbers (…). Allowed is a tensor [batch, pos]. Give ids of a tokenizer, and "
        "its attention mask.",
        lambda h: lensons.score_heads(h.toy, np.array(["It."])),
    ),
    (
        "The table is of small-gpt2, [2, 4] [layer, head]. The model is toy, [4, 4]. Give the table of this model, or "
        "none.",
        lambda h: lensons.head_card(h.toy, "1.1", SENTENCE, table=h.table(h.gpt2)),
    ),
    (
        "3 is not a table of head scores. Allowed is what score_heads gave. Give that.",
        lambda h: h.table().compare(3, "induction"),
    ),
    (
        "kinds='induction' was given. Allowed is a list of previous_token, duplicate_token, induction, first_token, "
        "current_token, entropy. Put one kind in a list as well.",
        lambda h: lensons.score_heads(h.toy, kinds="induction"),
    ),
    (
        "kinds is empty. Allowed are previous_token, duplicate_token, induction, first_token, current_token, entropy. "
        "Choose at least one.",
        lambda h: lensons.score_heads(h.toy, kinds=[]),
    ),
    (
        "The tables have [4, 4] and [2, 4] [layer, head]. They must be of models of the same size. Compare tables of "
        "one model.",
        lambda h: h.table().compare(h.table(h.gpt2), "induction"),
    ),
    (
        "'entropy' is not in this table. It has induction. Choose one of those.",
        lambda h: h.table().top("entropy"),
    ),
    (
        "pool='all' was given. Allowed are … Choose one of those.",
        lambda h: lensons.score_heads(h.toy, pool="all"),
    ),
    (
        "block_len cannot be given together with prompts: they make random prompts. Leave out the one or the other.",
        lambda h: lensons.score_heads(h.toy, ["It."], block_len=5),
    ),
    (
        "attention_mask was given without prompts. It goes with a tensor of ids. Give both.",
        lambda h: lensons.score_heads(h.toy, attention_mask=torch.ones(1, 3)),
    ),
    (
        "to_dataframe needs pandas, which is not installed. Use rows() or to_csv(), or `pip install pandas`.",
        lambda h: (h.without("pandas"), h.table().to_dataframe()),
    ),
    (
        "This is not a table of head scores (…: …). Allowed is what to_json wrote.",
        lambda h: lensons.HeadScores.from_json("{}"),
    ),
    # tokens
    (
        "This is 70 tokens. small-gpt2 reads at most 64 at once, and a BOS token counts as one of them. Shorten it by "
        "6.",
        lambda h: lensons.trace(h.gpt2, [5] * 70),
    ),
    (
        "The text is empty. At least one character is needed. Give a sentence.",
        lambda h: lensons.trace(h.toy, ""),
    ),
    (
        "This model has no tokenizer, so it cannot read a text. Give token ids instead.",
        lambda h: lensons.trace(h.changed(h.gpt2, tokenizer=None), "It."),
    ),
    (
        "The tokenizer made no tokens of 'It.'. Give a text that has some.",
        lambda h: lensons.trace(h.changed(h.gpt2, tokenizer=lambda text, add_special_tokens: {"input_ids": []}), "It."),
    ),
    (
        "A text gets a BOS token in front, but the tokenizer of small-gpt2 has no BOS token. Pass prepend_bos=False to "
        "go without one.",
        lambda h: lensons.trace(
            h.changed(h.gpt2, tokenizer=lambda text, add_special_tokens: {"input_ids": [5]}), "It."
        ),
    ),
    (
        "The list of ids is empty. At least one token is needed. Give some ids or a text.",
        lambda h: lensons.trace(h.toy, []),
    ),
    (
        "The text holds half of a surrogate pair at character 1, which is no character. Any valid Unicode text is "
        "allowed. Decode it again from its source.",
        lambda h: lensons.trace(h.toy, "a\ud800"),
    ),
    (
        "Token ids are whole numbers, but torch.float32 was given. …",
        lambda h: lensons.trace(h.toy, torch.ones(3)),
    ),
    (
        "A batch of 2 prompts was given. One prompt at a time is allowed. Choose one, for instance ids[0].",
        lambda h: lensons.trace(h.toy, torch.ones(2, 3).long()),
    ),
    ("Ids shaped [1, 1, 3] were given. …", lambda h: lensons.trace(h.toy, torch.ones(1, 1, 3).long())),
    ("7 (a int) is neither text nor ids. …", lambda h: lensons.trace(h.toy, 7)),
    (
        "There is no token 999999. toy has ids 0-…. Were these ids made by another model's tokenizer?",
        lambda h: lensons.trace(h.toy, [999999]),
    ),
    ("[1.5] is not a list of token ids, which are whole numbers. …", lambda h: lensons.trace(h.toy, [1.5])),
    ("These ids cannot be read (…). …", lambda h: lensons.trace(h.toy, np.array(["It."]))),
    # the toy model
    (
        "The toy model's file training.safetensors is missing from '…'. It ships with lensons. Install lensons again.",
        lambda h: (h.toy_files(), lensons.load_model("toy")),
    ),
    (
        "The toy model's training record '…' cannot be read (…). Install lensons again.",
        lambda h: (h.toy_files(training="cut off"), lensons.toy.training_record()),
    ),
    # traces
    (
        "'it' is not a position. Positions are whole numbers from 0. Give one of those.",
        lambda h: a_trace(h).position("it"),
    ),
    (
        "There is no position 99. This prompt has positions 0-…. Choose one of those.",
        lambda h: a_trace(h).position(99),
    ),
    (
        "Stage 'z' differs from the model's own hook by … in layer … (absolute …). At most 1e-05 is allowed. Was a "
        "hook or a weight of this model changed, or is its attention of another kind?",
        lambda h: a_trace(h, z=1.1).check(),
    ),
    (
        "There is no file '…'. Give a file that Trace.save wrote.",
        lambda h: lensons.Trace.load(h.folder / "none.safetensors"),
    ),
    (
        "'…' is not a whole trace (…: …). Allowed are files that Trace.save wrote. Trace the text again and save it.",
        lambda h: ((h.folder / "x").write_text("cut off"), lensons.Trace.load(h.folder / "x")),
    ),
    # weights
    (
        "This model has unprocessed weights, and processed ones were asked for. Pass processed=False to take it as it "
        "is, or load it anew with load_model(..., processed=True).",
        lambda h: lensons.weight_scores(h.gpt2),
    ),
]


def pattern_of(text):
    """A regular expression for a message in which "…" stands for anything."""
    return re.compile(".*".join(map(re.escape, text.split("…"))), re.DOTALL)


@pytest.fixture
def here(toy, small_gpt2, small_llama, gpt2_folder, llama_folder, tmp_path, monkeypatch):
    return Here(toy, small_gpt2, small_llama, gpt2_folder, llama_folder, tmp_path, monkeypatch)


@pytest.mark.parametrize(("text", "do"), MET, ids=[text[:50] for text, _ in MET])
@pytest.mark.loose
def test_what_a_user_reads(here, text, do):
    """What a user does is answered by this error, word for word."""
    with pytest.raises(LensonsError) as met:
        do(here)
    assert pattern_of(text).fullmatch(str(met.value)), str(met.value)


@pytest.mark.parametrize("message", list(messages()))
def test_every_message_is_met(message):
    """Each message in the code is one that a row of the table above meets."""
    code = pattern_of(message)
    assert any(code.fullmatch(text.replace("…", "0")) or code.fullmatch(text) for text, _ in MET), message
