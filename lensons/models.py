"""Loading a model, and running it. The only module that knows TransformerLens.

TransformerLens 3.x has ``HookedTransformer``; 4.x has ``TransformerBridge`` only (3.x has it too). Both name
their hooks alike, so one class, :class:`LoadedModel`, stands for either. Everybody else in lensons sees that
class, and asks for a *stage* of attention in a layer, never for the name of a hook.
"""

import copy
import importlib.metadata
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args, overload
from weakref import WeakKeyDictionary

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from lensons.errors import AttentionMissingError, InputError, ModelError
from lensons.hub import ALLOWED, HUB_IDS, first_line, locate, weight_files
from lensons.options import yes_or_no

Stage = Literal["q", "k", "v", "scores", "pattern", "z", "attn_out"]
"""A moment of attention at which the model can be watched.

``q``, ``k``: what enters the dot product, [batch, pos, head, d_head]. ``v``: the values. ``scores``: after
scaling and mask, [batch, head, query, key]. ``pattern``: after softmax. ``z``: weight x value, summed.
``attn_out``: what the whole layer of heads adds to the residual stream, [batch, pos, d_model].
"""

Hook = Callable[[Tensor], Tensor | None]
"""Sees a stage's value; what it returns, if anything, takes that value's place."""

_MAJORS = {"3", "4"}
# Any of these is a tokenizer; without one, Hugging Face makes an empty one without a word.
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
# Hugging Face's names for activations, and TransformerLens' names for the same functions.
_ACTIVATIONS = {
    "gelu_new": "gelu_new",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "gelu_fast": "gelu_fast",
}


@dataclass(frozen=True, eq=False, repr=False)
class LoadedModel:
    """A model that lensons can watch: a TransformerLens model, and what is known about it.

    Attributes:
        raw: the ``HookedTransformer`` or ``TransformerBridge`` itself.
        name: how the model was asked for, such as ``"gpt2"``.
        revision: the hub's commit, or None where there is none.
        processed: True where layer norm was folded and weights were centred.
        tokenizer: the model's tokenizer, or None.
    """

    raw: Any
    name: str
    revision: str | None
    processed: bool
    tokenizer: Any
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_model: int
    n_ctx: int
    d_vocab: int
    _hooks: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        weights = "processed" if self.processed else "unprocessed"
        return (
            f"LoadedModel({self.name!r}: {self.n_layers} layers x {self.n_heads} heads of {self.d_head}, "
            f"context {self.n_ctx:,}, {weights} weights, {self.engine})"
        )

    @property
    def engine(self) -> str:
        """Which TransformerLens class runs the model, and its version."""
        kind = "HookedTransformer" if _is_hooked(self.raw) else "TransformerBridge"
        return f"{kind}, TransformerLens {importlib.metadata.version('transformer-lens')}"

    @property
    def is_toy(self) -> bool:
        """True for the small model that ships with lensons."""
        return self.name == "toy"

    @property
    def bos_id(self) -> int | None:
        """The id that marks the beginning of a text, or None where the tokenizer has none."""
        found = getattr(self.tokenizer, "bos_token_id", None)
        return None if found is None else int(found)

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text, such as beginning, end and padding."""
        return frozenset(getattr(self.tokenizer, "all_special_ids", ()) or ())

    @property
    def device(self) -> torch.device:
        """Where the weights are now."""
        return next(self.raw.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The weights' number type."""
        return next(self.raw.parameters()).dtype

    def provenance(self) -> dict[str, Any]:
        """What has to be known to get the same numbers again; plain data."""
        versions: dict[str, str | None] = {}
        for package in ("lensons", "transformer-lens", "torch", "transformers"):
            try:
                versions[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:  # lensons run from a folder, not installed
                versions[package] = None
        return {
            "model": self.name,
            "revision": self.revision,
            "weights": "processed" if self.processed else "unprocessed",
            "engine": self.engine,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.device.type,
            "shape": {
                "n_layers": self.n_layers,
                "n_heads": self.n_heads,
                "n_kv_heads": self.n_kv_heads,
                "d_head": self.d_head,
                "d_model": self.d_model,
                "n_ctx": self.n_ctx,
                "d_vocab": self.d_vocab,
            },
            "versions": versions,
        }

    @overload
    def run(
        self, ids: Int[Tensor, "batch pos"], hooks: Mapping[tuple[Stage, int], Hook] | None = None
    ) -> Float[Tensor, "batch pos d_vocab"]: ...

    @overload
    def run(
        self,
        ids: Int[Tensor, "batch pos"],
        hooks: Mapping[tuple[Stage, int], Hook] | None = None,
        *,
        stop_after: tuple[Stage, int] | None,
    ) -> Float[Tensor, "batch pos d_vocab"] | None: ...

    def run(
        self,
        ids: Int[Tensor, "batch pos"],
        hooks: Mapping[tuple[Stage, int], Hook] | None = None,
        *,
        stop_after: tuple[Stage, int] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab"] | None:
        """One forward pass in evaluation mode, without gradients; the model is left as it was found.

        There is no attention mask on purpose: attention is causal, so a pad on the right is never looked at by
        a real token. Put each prompt's tokens first and pads after them.

        Args:
            ids: token ids.
            hooks: for a stage of a layer, the function that sees it (and may replace it).
            stop_after: end the pass once this stage was seen; nothing after it is computed.

        Returns:
            The logits, or None when the pass was stopped.

        Raises:
            AttentionMissingError: a stage was asked for that this model does not hand out.
            InputError: there are more tokens than the model can read.
        """
        if ids.shape[-1] > self.n_ctx:
            raise InputError(
                f"{ids.shape[-1]:,} tokens were given. {self.name} reads at most {self.n_ctx:,} at once, "
                "and a BOS token counts as one of them. Shorten the text."
            )
        wanted = dict(hooks or {})
        if stop_after is not None:
            wanted.setdefault(stop_after, _ignore)
        seen: set[tuple[str, int]] = set()
        forward = [
            (
                self._hook_name(stage, layer),
                self._watcher(stage, layer, fn, seen, stop_after == (stage, layer)),
            )
            for (stage, layer), fn in wanted.items()
        ]
        logits = None
        with (
            _alone_with(self.raw),
            torch.no_grad(),
            torch.autocast(self.device.type, enabled=False),
            _evaluating(self.raw),
            _keeping_no_pattern(self.raw),
            _watching(self.raw, forward),
            suppress(_Stopped),
        ):
            logits = self.raw(ids.to(self.device), return_type="logits")
        missing = sorted(set(wanted) - seen)
        if missing:
            raise _no_attention(self.name, missing[0])
        return logits

    def output_weights(
        self,
    ) -> tuple[Float[Tensor, "layer head d_head d_model"], Float[Tensor, "layer d_model"]]:
        """W_O and b_O of every layer; b_O is zero where the model has none."""
        with torch.no_grad():
            w_o = torch.stack([_output_weight(block.attn, self.n_heads) for block in self.raw.blocks]).detach()
            biases = [getattr(block.attn, "b_O", None) for block in self.raw.blocks]
            zero = torch.zeros(self.d_model, dtype=w_o.dtype, device=w_o.device)
            b_o = torch.stack([zero if bias is None else bias for bias in biases]).detach()
        return w_o, b_o

    def attention_weights(self, which: Literal["W_Q", "W_K", "W_V"]) -> Float[Tensor, "layer head d_model d_head"]:
        """The named weights of every layer; on grouped models W_K and W_V are repeated to ``n_heads``."""
        with torch.no_grad():
            weights = torch.stack([getattr(block.attn, which) for block in self.raw.blocks]).detach()
        if weights.shape[1] != self.n_heads:
            weights = weights.repeat_interleave(self.n_heads // weights.shape[1], dim=1)
        return weights

    def unembedding(self) -> Float[Tensor, "d_model d_vocab"]:
        """W_U: from the residual stream to a score for every word piece."""
        return self.raw.W_U.detach()

    def attention_scale(self, layer: int) -> float:
        """The number by which q.k is divided: sqrt(d_head), or what the model's config says instead."""
        cfg = self.raw.cfg
        stated = getattr(cfg, "attn_scale", None)
        scale = float(stated) if stated is not None and stated > 0 else float(self.d_head) ** 0.5
        if not getattr(cfg, "use_attn_scale", True):
            scale = 1.0
        if getattr(cfg, "scale_attn_by_inverse_layer_idx", False):
            scale *= layer + 1
        return scale

    def unusual_attention(self) -> str | None:
        """Why q.k / scale -> mask -> softmax would not give this model's pattern, or None where it does."""
        cfg = self.raw.cfg
        if (getattr(cfg, "attn_scores_soft_cap", None) or -1.0) > 0:
            return "its scores are capped before the softmax"
        if getattr(cfg, "positional_embedding_type", "standard") in {"alibi", "relative_positional_bias"}:
            return "it adds a bias for distance to its scores"
        window = getattr(cfg, "window_size", None) if getattr(cfg, "use_local_attn", False) else None
        if window is not None:
            return f"some of its layers only see the last {window} tokens"
        if self._looks_ahead():
            return "it also looks at later tokens"
        return None

    def must_look_back(self) -> None:
        """Refuse a model that reads both ways: chance, and what a lesson says, hold for looking back only."""
        if self._looks_ahead():
            raise ModelError(
                f"{self.name} also looks at later tokens. Head scores with chance, and lessons, are for models that "
                "read left to right. Its patterns can be traced, and scored one by one with lensons.scores, which "
                "warns."
            )

    def _looks_ahead(self) -> bool:
        return getattr(self.raw.cfg, "attention_dir", "causal") != "causal"

    def _hook_name(self, stage: Stage, layer: int) -> str:
        if stage not in get_args(Stage):
            raise InputError(f"{stage!r} is not a stage of attention. Allowed are {', '.join(get_args(Stage))}.")
        name = self._hooks[stage].format(layer=layer)
        if name not in self.raw.hook_dict:
            raise _no_attention(self.name, (stage, layer))
        return name

    def _watcher(
        self, stage: Stage, layer: int, fn: Hook, seen: set[tuple[str, int]], last: bool
    ) -> Callable[..., Tensor | None]:
        def watch(value: Any, hook: Any = None) -> Tensor | None:
            if not isinstance(value, Tensor):
                raise _no_attention(self.name, (stage, layer))
            seen.add((stage, layer))
            replacement = fn(value)
            if last:
                raise _Stopped
            return replacement

        return watch


class _Stopped(Exception):
    """Ends a forward pass from inside, once the last value that is needed was seen."""


def _output_weight(attention: Any, n_heads: int) -> Float[Tensor, "head d_head d_model"]:
    """One layer's W_O. Early bridges read a square linear layer's the wrong way round, so it is read here."""
    layer = getattr(getattr(attention, "o", None), "original_component", None)
    if not isinstance(layer, torch.nn.Linear):
        return attention.W_O
    return rearrange(attention.o.weight, "d_model (head d_head) -> head d_head d_model", head=n_heads)


def _ignore(value: Tensor) -> None:
    """A hook that only marks that its stage was reached."""


def _no_attention(name: str, where: tuple[str, int]) -> AttentionMissingError:
    stage, layer = where
    return AttentionMissingError(
        f"{name} did not hand out its {stage} in layer {layer}. lensons needs a model that computes its attention "
        'weights one by one ("eager" attention), not one with a fused kernel such as sdpa. '
        'Load it with attn_implementation="eager".'
    )


_LOCKS: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()  # type: ignore[valid-type]
_LOCKS_LOCK = threading.Lock()


@contextmanager
def _alone_with(raw: Any) -> Iterator[None]:
    """One pass of ours at a time for each model: hooks hang on the model, and every thread shares it."""
    with _LOCKS_LOCK:
        lock = _LOCKS.setdefault(raw, threading.RLock())
    with lock:
        yield


@contextmanager
def _evaluating(raw: Any) -> Iterator[None]:
    """Dropout off for the length of one pass; each part goes back to the mode it was in."""
    # A bridge keeps Hugging Face's model out of its own modules(), though parts of it still run.
    wrapped = getattr(raw, "original_model", None)
    parts = [*raw.modules(), *(wrapped.modules() if isinstance(wrapped, torch.nn.Module) else ())]
    before = [(part, part.training) for part in parts]
    for part, _ in before:
        part.training = False
    try:
        yield
    finally:
        for part, training in before:  # each, and wholes before their parts: early bridges hand a whole's mode down
            part.training = training


@contextmanager
def _watching(raw: Any, hooks: Iterable[tuple[str, Any]]) -> Iterator[None]:
    """Hooks for the length of one pass. Early bridges' own ``hooks()`` takes the caller's away with ours."""
    added, ours = [], threading.get_ident()

    def only_here(watch: Any) -> Any:
        """The caller may run the same model in another thread meanwhile; that pass is none of our business."""
        return lambda value, hook: watch(value, hook) if threading.get_ident() == ours else None

    try:
        for name, watch in hooks:
            point = raw.hook_dict[name]
            point.add_hook(only_here(watch))
            added.append((point, point.fwd_hooks[-1]))
        yield
    finally:
        for point, handle in added:
            handle.hook.remove()
            # Not remove(): a hook of the caller's may have taken all away already.
            point.fwd_hooks[:] = [kept for kept in point.fwd_hooks if kept is not handle]


@contextmanager
def _keeping_no_pattern(raw: Any) -> Iterator[None]:
    """A bridge remembers every layer's last pattern, which nobody reads; here it is let go with its layer.

    Else all layers' patterns would be in memory at once: 4.8 GB for 8 prompts of 1,024 tokens in GPT-2 small.
    """
    before = [(part, part._pattern) for part in raw.modules() if hasattr(part, "_pattern")]

    ours = threading.get_ident()

    def forget(part: Any, inputs: Any, output: Any) -> None:
        if threading.get_ident() == ours:
            part._pattern = None

    handles = [part.register_forward_hook(forget) for part, _ in before]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for part, pattern in before:
            part._pattern = pattern


def load_model(
    name: Any = "gpt2",
    *,
    processed: bool = False,
    device: str | torch.device | None = None,
    revision: str | None = None,
) -> LoadedModel:
    """Load a model to watch.

    Args:
        name: ``"gpt2"`` (from the Hugging Face hub, or its cache on this machine), ``"toy"`` (ships with lensons,
            needs no network), a folder in Hugging Face format, another model's name on the hub such as
            ``"EleutherAI/pythia-70m"``, or a ``HookedTransformer`` or ``TransformerBridge`` that is already
            loaded, which is taken as it is.
        processed: fold layer norm into the weights and centre them, as ``HookedTransformer.from_pretrained``
            does. The patterns stay the same; values and what a head writes do not. By default the numbers
            are the model's own.
        device: where to put the weights; the CPU unless you say otherwise.
        revision: a branch, tag or commit on the hub.

    Returns:
        A :class:`LoadedModel`.

    Raises:
        InputError: the name or an option is not one of those allowed.
        ModelError: there is no such model here, or its files are incomplete or of an unsupported kind.

    Example:
        >>> load_model("toy").d_head
        64
    """
    if isinstance(name, LoadedModel) or _is_transformer_lens(name):
        given = [key for key, value in (("processed", processed), ("device", device), ("revision", revision)) if value]
        if given:
            raise InputError(
                f"{', '.join(given)} was given together with a model that is already loaded. "
                "Such a model is taken as it is. Leave the option out, or give a name to load."
            )
        return as_model(name)
    if isinstance(name, str | os.PathLike):
        processed = yes_or_no("processed", processed)
        place = _device("cpu" if device is None else device)
        folder, label, found_revision = locate(os.fspath(name), revision)
        with torch.random.fork_rng(devices=[]):  # weights that are drawn first and then overwritten
            return _from_folder(folder, label, found_revision, processed, place)
    raise _not_a_model(name)


def as_model(given: Any) -> LoadedModel:
    """Whatever a caller has: a name, a loaded TransformerLens model, or a :class:`LoadedModel` itself."""
    if isinstance(given, LoadedModel):
        return given
    if _is_transformer_lens(given):
        name = getattr(given.cfg, "model_name", None) or "custom"
        return _wrap(given, Path(str(name)).name, None, _looks_processed(given))
    if isinstance(given, str | os.PathLike):
        return load_model(given)
    raise _not_a_model(given)


def model_names() -> dict[str, str]:
    """The names :func:`load_model` knows without a path, and where each comes from."""
    return {"toy": "ships with lensons, needs no network"} | {
        name: f"Hugging Face hub, {hub_id}" for name, hub_id in HUB_IDS.items()
    }


# --- from files to a model --------------------------------------------------------------------------------------


def _from_folder(folder: Path, name: str, revision: str | None, processed: bool, device: torch.device) -> LoadedModel:
    for needed, present in (
        ("config.json", (folder / "config.json").is_file()),
        ("model.safetensors", bool(weight_files(folder))),
        ("tokenizer.json", any((folder / name).is_file() for name in _TOKENIZERS)),
    ):
        if not present:
            raise ModelError(
                f"The folder {str(folder)!r} has no {needed}. A model needs config.json, model.safetensors and its "
                "tokenizer's files side by side. Write them with save_pretrained() of the model and the tokenizer."
            )
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        with _without_loading_bar():
            hf_model = AutoModelForCausalLM.from_pretrained(
                folder,
                attn_implementation="eager",
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
            ).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # broken JSON, a truncated or mismatched weight file, an unknown architecture ...
        raise ModelError(
            f"The model in {str(folder)!r} cannot be read ({type(error).__name__}: {first_line(error)}). "
            "Needed are a complete config.json, model.safetensors and tokenizer of one causal language model. "
            "Save or download it again."
        ) from error
    return _from_hugging_face(hf_model, tokenizer, name, revision, processed, device)


@contextmanager
def _without_loading_bar() -> Iterator[None]:
    """Reading files that are here takes a moment and needs no progress bar; downloads keep theirs."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _from_hugging_face(
    hf_model: Any, tokenizer: Any, name: str, revision: str | None, processed: bool, device: torch.device
) -> LoadedModel:
    """Wrap a Hugging Face model that nobody else holds: it is changed here."""
    _known_version()
    context = getattr(hf_model.config, "max_position_embeddings", None) or 6
    ids = torch.arange(min(6, hf_model.config.vocab_size, context)).unsqueeze(0)
    with torch.no_grad():  # before wrapping: a bridge changes the model it wraps
        expected = hf_model(ids).logits.log_softmax(-1)
    # TransformerLens writes a BOS token into a tokenizer that has none: it gets a copy, and the real one is asked.
    theirs = copy.deepcopy(tokenizer)
    hooked = _hooked_config(hf_model.config, name, processed, device)
    if hooked is not None:
        from transformer_lens import HookedTransformer
        from transformer_lens.pretrained.weight_conversions import convert_gpt2_weights

        raw = HookedTransformer(hooked, tokenizer=theirs, move_to_device=False)
        raw.load_and_process_state_dict(
            convert_gpt2_weights(hf_model, hooked),
            fold_ln=processed,
            center_writing_weights=processed,
            center_unembed=processed,
            fold_value_biases=processed,
        )
        if device.type != "cpu":
            raw.to(device, print_details=False)
    else:
        from transformer_lens.model_bridge import TransformerBridge

        try:
            # By its folder: early 3.x reads the config again, and would ask the hub for one of this name.
            source = getattr(hf_model.config, "_name_or_path", "") or name
            raw = TransformerBridge.boot_transformers(source, hf_model=hf_model, tokenizer=theirs, device=device)
        except Exception as error:
            raise ModelError(
                f"TransformerLens cannot run {type(hf_model).__name__} ({type(error).__name__}: "
                f"{first_line(error)}). Allowed are causal language models that it supports. "
                "Try another model, or score Hugging Face's own attentions with lensons.scores."
            ) from error
        raw.cfg.model_name = name
        if processed:
            raw.enable_compatibility_mode(disable_warnings=True)
    raw.eval()
    loaded = replace(_wrap(raw, name, revision, processed), tokenizer=tokenizer)
    _must_agree(loaded, ids, expected)
    return loaded


def _known_version() -> None:
    """TransformerLens changed its classes with 2.0, 3.0 and 4.0; one that nobody tried must not fail obscurely."""
    found = importlib.metadata.version("transformer-lens")
    if found.partition(".")[0] not in _MAJORS:
        raise ModelError(
            f"TransformerLens {found} is installed. lensons works with versions 3 and 4. "
            '`pip install "transformer-lens>=3,<5"`, or score Hugging Face\'s own attentions with lensons.scores.'
        )


def _must_agree(model: LoadedModel, ids: Tensor, expected: Tensor) -> None:
    """A config switch that TransformerLens does not follow would give another model's numbers: refuse it."""
    off = float((model.run(ids).cpu().log_softmax(-1) - expected).abs().max())
    # float32 adds up to some 1e-4 over a deep model; a forgotten switch is off by far more.
    if not off <= 1e-2:
        raise ModelError(
            f"{model.name} gives other numbers in {model.engine} than in Hugging Face's own code (log probabilities "
            f"differ by up to {off:.2g}; at most 0.01 is allowed). TransformerLens does not follow a setting of its "
            "config. Score Hugging Face's own attentions with lensons.scores instead."
        )


def _hooked_config(config: Any, name: str, processed: bool, device: torch.device) -> Any | None:
    """A HookedTransformerConfig for a plain GPT-2 on TransformerLens 3.x; None where the bridge must do it."""
    if not importlib.metadata.version("transformer-lens").startswith("3.") or config.model_type != "gpt2":
        return None
    if config.activation_function not in _ACTIVATIONS or config.add_cross_attention:
        return None
    from transformer_lens import HookedTransformerConfig

    return HookedTransformerConfig(
        n_layers=config.n_layer,
        n_heads=config.n_head,
        d_model=config.n_embd,
        d_head=config.n_embd // config.n_head,
        d_mlp=config.n_inner or 4 * config.n_embd,
        n_ctx=config.n_positions,
        d_vocab=config.vocab_size,
        act_fn=_ACTIVATIONS[config.activation_function],
        eps=config.layer_norm_epsilon,
        normalization_type="LNPre" if processed else "LN",
        use_attn_scale=config.scale_attn_weights,
        scale_attn_by_inverse_layer_idx=config.scale_attn_by_inverse_layer_idx,
        original_architecture="GPT2LMHeadModel",
        model_name=name,
        default_prepend_bos=True,
        device=str(device),
        seed=None,
    )


def _device(given: object) -> torch.device:
    """A device that exists here; asked before anything is loaded, since loading takes a while."""
    try:
        place = torch.device(given)  # type: ignore[call-overload]
        torch.zeros(1, device=place).item()  # the number has to come back: "meta" holds none
    except Exception as error:  # a name that is none, a device that is not here, torch built without it ...
        raise ModelError(
            f'device={given!r:.100} cannot be used ({first_line(error)}). Allowed are "cpu", or another device that '
            "torch finds on this machine. Leave it out for the CPU."
        ) from error
    return place


def _wrap(raw: Any, name: str, revision: str | None, processed: bool) -> LoadedModel:
    cfg = raw.cfg
    rotary = getattr(cfg, "positional_embedding_type", "standard") == "rotary"
    hooks = {
        "q": "blocks.{layer}.attn.hook_rot_q" if rotary else "blocks.{layer}.attn.hook_q",
        "k": "blocks.{layer}.attn.hook_rot_k" if rotary else "blocks.{layer}.attn.hook_k",
        "v": "blocks.{layer}.attn.hook_v",
        "scores": "blocks.{layer}.attn.hook_attn_scores",
        "pattern": "blocks.{layer}.attn.hook_pattern",
        "z": "blocks.{layer}.attn.hook_z",
        "attn_out": "blocks.{layer}.hook_attn_out",
    }
    return LoadedModel(
        raw=raw,
        name=name,
        revision=revision,
        processed=processed,
        tokenizer=getattr(raw, "tokenizer", None),
        n_layers=int(cfg.n_layers),
        n_heads=int(cfg.n_heads),
        n_kv_heads=int(getattr(cfg, "n_key_value_heads", None) or cfg.n_heads),
        d_head=int(cfg.d_head),
        d_model=int(cfg.d_model),
        n_ctx=int(cfg.n_ctx),
        d_vocab=int(cfg.d_vocab),
        _hooks=hooks,
    )


# --- what a caller brings ---------------------------------------------------------------------------------------


def _class_names(given: object) -> set[str]:
    """Names of its class and their parents: telling a TransformerLens model apart without importing it."""
    return {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(given).__mro__}


def _is_hooked(given: object) -> bool:
    return "transformer_lens.HookedTransformer" in _class_names(given)


def _is_transformer_lens(given: object) -> bool:
    return _is_hooked(given) or "transformer_lens.TransformerBridge" in _class_names(given)


def _looks_processed(raw: Any) -> bool:
    """Folding leaves a mark: a HookedTransformer's layer norm loses its weights, a bridge is in compatibility mode."""
    if _is_hooked(raw):
        return str(getattr(raw.cfg, "normalization_type", "")).endswith("Pre")
    return bool(getattr(raw, "compatibility_mode", False))


def _not_a_model(given: object) -> InputError:
    kind = type(given).__name__
    if "transformers.PreTrainedModel" in _class_names(given):
        attention = getattr(given.config, "_attn_implementation", None)  # type: ignore[attr-defined]
        return InputError(
            f'A Hugging Face {kind} was given (its attention is {attention!r}, and lensons needs "eager"). '
            f"{ALLOWED} Write it with save_pretrained() together with its tokenizer, and give that folder: "
            "it is then loaded with eager attention."
        )
    return InputError(f"{given!r:.100} (a {kind}) is not a model. {ALLOWED}")


def copy_of(model: LoadedModel) -> LoadedModel:
    """A deep copy that may be changed, where the model itself must not be."""
    return replace(model, raw=copy.deepcopy(model.raw))
