"""Loading models, and running them without changing them."""

import dataclasses
import importlib.metadata
import json
import shutil

import pytest
import torch

import lensons
from lensons.errors import AttentionMissingError, InputError, ModelError
from lensons.models import as_model, load_model, model_names
from lensons.tokens import tokenize
from tests.conftest import SENTENCE

TL3 = importlib.metadata.version("transformer-lens").startswith("3.")


def hugging_face(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


@pytest.mark.parametrize("which", ["gpt2_folder", "llama_folder"])
def test_logits_and_patterns_are_hugging_faces(which, request):
    """A model loaded from a folder gives Hugging Face's own logits and attentions, to 1e-5."""
    folder = request.getfixturevalue(which)
    model = load_model(folder)
    ids = torch.tensor([tokenize(model, SENTENCE).ids])
    patterns = {}
    hooks = {("pattern", layer): (lambda p, layer=layer: patterns.update({layer: p})) for layer in range(2)}
    logits = model.run(ids, hooks)
    with torch.no_grad():
        oracle = hugging_face(folder)(ids, output_attentions=True)
    torch.testing.assert_close(logits, oracle.logits, atol=1e-4, rtol=1e-5)
    for layer, theirs in enumerate(oracle.attentions):
        torch.testing.assert_close(patterns[layer], theirs, atol=1e-5, rtol=0)


def test_the_engine_is_the_one_the_design_names(gpt2_folder, llama_folder):
    """GPT-2 is a HookedTransformer on TransformerLens 3.x and a bridge on 4.x; other architectures are bridges."""
    assert load_model(gpt2_folder).engine.startswith("HookedTransformer" if TL3 else "TransformerBridge")
    assert load_model(llama_folder).engine.startswith("TransformerBridge")


@pytest.mark.skipif(not TL3, reason="TransformerLens 4 has one engine only")
@pytest.mark.parametrize("processed", [False, True])
def test_both_engines_give_the_same_numbers(gpt2_folder, processed, monkeypatch):
    """HookedTransformer and TransformerBridge agree on patterns (1e-5) and scores (1e-5 x largest)."""
    hooked = lensons.trace(load_model(gpt2_folder, processed=processed), SENTENCE)
    monkeypatch.setattr("lensons.models._hooked_config", lambda *_: None)
    bridged_model = load_model(gpt2_folder, processed=processed)
    assert bridged_model.engine.startswith("TransformerBridge")
    bridged = lensons.trace(bridged_model, SENTENCE)
    torch.testing.assert_close(hooked.pattern, bridged.pattern, atol=1e-5, rtol=0)
    finite = hooked.scores.isfinite()
    size = max(1.0, float(hooked.scores[finite].abs().max()))
    torch.testing.assert_close(hooked.scores[finite], bridged.scores[finite], atol=1e-5 * size, rtol=0)
    assert torch.equal(finite, bridged.scores.isfinite())


def test_processed_changes_values_but_not_patterns(gpt2_folder):
    """Folding layer norm leaves patterns (1e-5) and changes values; a trace says which weights it has."""
    own = lensons.trace(load_model(gpt2_folder), SENTENCE)
    folded = lensons.trace(load_model(gpt2_folder, processed=True), SENTENCE)
    torch.testing.assert_close(own.pattern, folded.pattern, atol=1e-5, rtol=0)
    assert (own.v - folded.v).abs().max() > 0.01
    assert (own.provenance["weights"], folded.provenance["weights"]) == ("unprocessed", "processed")
    own.check()
    folded.check()


@pytest.mark.parametrize("cached_as", ["models--openai-community--gpt2", "models--gpt2"])
def test_gpt2_from_the_hub_cache(gpt2_folder, tmp_path, monkeypatch, cached_as):
    """ "gpt2" is found in the hub's cache, under its new name or its old one, and its revision is recorded."""
    revision = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
    snapshot = tmp_path / cached_as / "snapshots" / revision
    shutil.copytree(gpt2_folder, snapshot)
    (tmp_path / cached_as / "refs").mkdir()
    (tmp_path / cached_as / "refs" / "main").write_text(revision)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    model = load_model("gpt2")
    assert (model.name, model.revision, model.processed) == ("gpt2", revision, False)
    assert model.device.type == "cpu"
    assert lensons.trace(model, SENTENCE).provenance["revision"] == revision


def test_gpt2_that_cannot_be_had(tmp_path, monkeypatch):
    """No cache and no network: one error with what was tried and the two ways on. Nothing falls back."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"'gpt2' could not be had. Tried: the local cache") as caught:
        load_model("gpt2")
    for part in (
        "openai-community/gpt2",
        "HF_HUB_OFFLINE",
        'the model "toy" needs no network',
        "folder",
        "model.safetensors",
    ):
        assert part in str(caught.value)


def test_a_half_downloaded_cache_is_not_used(gpt2_folder, tmp_path, monkeypatch):
    """A snapshot without its weights counts as not there, and the error says it is incomplete."""
    snapshot = tmp_path / "models--openai-community--gpt2" / "snapshots" / "abc"
    shutil.copytree(gpt2_folder, snapshot, ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "models--openai-community--gpt2" / "refs").mkdir()
    (tmp_path / "models--openai-community--gpt2" / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="incomplete"):
        load_model("gpt2")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt3", "no model or folder"),
        ("", "no model or folder"),
        ("./missing", "no model or folder"),
        ("a/b/c", "no model or folder"),
        ("~nobody-of-that-name", "no model or folder"),
        ("a" * 5000, "no model or folder"),
        ("a" * 3000 + "/" + "b" * 3000, "no model or folder"),
        ("a\0b", "no model or folder"),
        ("\ud800", "no model or folder"),
    ],
)
def test_unknown_names_are_one_clear_error(name, says, tmp_path, monkeypatch):
    """A name that is nothing: what was given, what is allowed, and "toy" as the way on."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=says) as caught:
        load_model(name)
    assert "toy" in str(caught.value)
    assert len(str(caught.value)) < 800, "a long name is not said in full"


@pytest.mark.loose
@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"device": "banana"}, ModelError, "device='banana' cannot be used"),
        ({"device": ""}, ModelError, "device='' cannot be used"),
        ({"device": "meta"}, ModelError, "device='meta' cannot be used"),
        ({"device": 3.5}, ModelError, "cannot be used"),
        ({"processed": "no"}, InputError, "processed='no' was given. Allowed are True and False"),
        ({"revision": "main"}, InputError, "not on the hub"),
        ({"revision": 7}, InputError, "a branch, a tag or a commit"),
        ({"revision": " "}, InputError, "a branch, a tag or a commit"),
    ],
)
def test_odd_options_are_one_clear_error(options, error, says):
    """A device that is not here, "no" for False, a revision of what has none: refused before anything is loaded."""
    with pytest.raises(error, match=says):
        load_model("toy", **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_here():
    """Asking for a graphics processor on a machine without one names the way on, and loads nothing first."""
    with pytest.raises(ModelError, match="Leave it out for the CPU"):
        load_model("no/such-model", device="cuda")


def test_loading_leaves_torch_alone():
    """Loading a model draws no random numbers of the caller's, and changes no default of torch's."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    before = (torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled())
    load_model("toy")
    assert torch.equal(torch.rand(3), expected)
    assert before == (torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled())


def _without(name):
    def spoil(folder):
        (folder / name).unlink()

    return spoil


def _replaced(name, content):
    def spoil(folder):
        (folder / name).write_bytes(content)

    return spoil


def _cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_without("config.json"), "has no config.json"),
        (_without("model.safetensors"), "has no model.safetensors"),
        (_cut, "cannot be read"),
        (_replaced("model.safetensors", b""), "cannot be read"),
        (_replaced("model.safetensors", b"\xff" * 64), "cannot be read"),
        (_replaced("config.json", b"{"), "cannot be read"),
        (_replaced("config.json", b'{"model_type": "no-such-model"}'), "cannot be read"),
        (_replaced("tokenizer.json", b"{}"), "cannot be read"),
    ],
)
def test_a_spoilt_folder_is_one_clear_error(gpt2_folder, tmp_path, spoil, says):
    """A folder with a file missing, cut off or of the wrong kind: one error that names the folder."""
    folder = tmp_path / "spoilt"
    shutil.copytree(gpt2_folder, folder)
    spoil(folder)
    with pytest.raises(ModelError, match=says) as caught:
        load_model(folder)
    assert "spoilt" in str(caught.value)


def test_a_file_is_not_a_folder(gpt2_folder):
    """The weights' own path was given: the error says that the folder is meant."""
    with pytest.raises(ModelError, match="is a file"):
        load_model(gpt2_folder / "model.safetensors")


@pytest.mark.parametrize("given", [None, 3, b"gpt2", object(), torch.nn.Linear(1, 1)])
def test_what_is_no_model_at_all(given):
    """Something else altogether is a ValueError that lists what is allowed."""
    with pytest.raises(InputError, match="is not a model"):
        load_model(given)


def test_a_hugging_face_model_is_told_the_way(gpt2_folder):
    """HO-14's kind: a Hugging Face model with a fused kernel gets the error that names eager attention."""
    from transformers import AutoModelForCausalLM

    sdpa = AutoModelForCausalLM.from_pretrained(gpt2_folder, attn_implementation="sdpa")
    with pytest.raises(InputError, match=r"sdpa.*eager"):
        load_model(sdpa)


def test_a_stage_that_never_comes_is_an_attention_error(small_gpt2):
    """A model whose fused kernel hands out nothing: the error names the stage and eager attention."""
    with pytest.raises(AttentionMissingError, match="eager"):
        small_gpt2._watcher("pattern", 0, lambda value: None, set(), False)(None)
    fused = dataclasses.replace(small_gpt2, _hooks=small_gpt2._hooks | {"pattern": "blocks.{layer}.attn.no_such_hook"})
    with pytest.raises(AttentionMissingError, match=r"pattern in layer 0.*eager"):
        fused.run(torch.tensor([[0, 1]]), {("pattern", 0): lambda value: None})


def _state(raw):
    return {
        "parameters": {name: (p.detach().clone(), p.requires_grad) for name, p in raw.named_parameters()},
        "training": [part.training for part in raw.modules()],
        "hooks": {name: (len(point.fwd_hooks), len(point.bwd_hooks)) for name, point in raw.hook_dict.items()},
        "flags": {k: v for k, v in vars(raw.cfg).items() if isinstance(v, bool | int | float | str)},
        "tokenizer": dict(raw.tokenizer.special_tokens_map),
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
    }


def _same(before, after):
    for name, (value, grad) in before["parameters"].items():
        found, found_grad = after["parameters"][name]
        assert torch.equal(value, found), name
        assert grad == found_grad
    assert {k: v for k, v in before.items() if k != "parameters"} == {
        k: v for k, v in after.items() if k != "parameters"
    }


@pytest.mark.parametrize("which", ["gpt2_folder", "llama_folder"])
def test_a_callers_model_comes_back_as_it_was(which, request):
    """Tracing leaves weights, hooks, flags, modes of every part, tokenizer and torch's own state as found."""
    raw = load_model(request.getfixturevalue(which)).raw
    raw.train()
    raw.blocks[0].eval()
    seen = []
    raw.add_hook("blocks.0.attn.hook_pattern", lambda value, hook: seen.append(tuple(value.shape)))
    random_state = torch.get_rng_state()
    before = _state(raw)
    lensons.trace(raw, SENTENCE)
    _same(before, _state(raw))
    assert torch.equal(random_state, torch.get_rng_state())
    assert seen, "the caller's own hook did not run"
    before = _state(raw)
    with pytest.raises(ZeroDivisionError):
        as_model(raw).run(torch.tensor([[0, 1, 2]]), {("pattern", 1): lambda value: 1 / 0})
    _same(before, _state(raw))
    with pytest.raises(InputError):
        lensons.trace(raw, [0] * 100)
    _same(before, _state(raw))
    raw(torch.tensor([[0, 1, 2]]))
    assert len(seen) == 3, "the caller's own hook is gone"


def test_a_loaded_model_is_taken_as_it_is(gpt2_folder):
    """load_model on a loaded model wraps that very object; options that would change it are refused."""
    model = load_model(gpt2_folder, processed=True)
    assert load_model(model) is model
    wrapped = load_model(model.raw)
    assert wrapped.raw is model.raw
    assert wrapped.processed
    assert not load_model(load_model(gpt2_folder).raw).processed
    with pytest.raises(InputError, match="processed"):
        load_model(model.raw, processed=True)


def test_stopping_early_computes_nothing_after(small_gpt2):
    """A pass that stops at a stage gives no logits and never reaches the next layer."""
    reached = []
    hooks = {("pattern", layer): (lambda value, layer=layer: reached.append(layer)) for layer in (0, 1)}
    with pytest.raises(AttentionMissingError):
        small_gpt2.run(torch.tensor([[0, 1]]), hooks, stop_after=("pattern", 0))
    assert reached == [0]
    assert small_gpt2.run(torch.tensor([[0, 1]]), {}, stop_after=("pattern", 0)) is None


def test_dropout_is_off(gpt2_folder):
    """HO-04: a model left in training mode is traced without dropout: its rows sum to one."""
    raw = load_model(gpt2_folder).raw
    raw.train()
    trace = lensons.trace(raw, SENTENCE)
    torch.testing.assert_close(trace.pattern.sum(-1), torch.ones(2, 4, len(trace)))
    assert raw.training


def test_provenance_is_plain_and_without_paths(small_gpt2):
    """Provenance survives JSON, and names no folder of this machine."""
    text = json.dumps(small_gpt2.provenance())
    assert json.loads(text) == small_gpt2.provenance()
    assert "/" not in text.replace("/s", "")


def test_the_names_that_can_be_listed():
    """The list of names starts with the one that needs no network."""
    assert next(iter(model_names())) == "toy"
    assert "gpt2" in model_names()


@pytest.mark.parametrize("version", ["2.18.0", "5.0.0"])
def test_another_transformer_lens_is_said_in_one_sentence(gpt2_folder, monkeypatch, version):
    """A version that nobody tried: which one is there, which are known, and how to get one."""
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: version if name == "transformer-lens" else real(name)
    )
    with pytest.raises(
        ModelError, match=rf"TransformerLens {version} is installed. lensons works with versions 3 and 4"
    ):
        lensons.load_model(gpt2_folder)
