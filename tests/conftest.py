"""What the tests share: where things are, models that the tests make themselves, and no network."""

import copy
import os

# Before anything imports the hub's client: no test may wait for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
SENTENCE = "The animal didn't cross the street because it was too tired."
OTHER = "The animal didn't cross the street because it was too wide."

hypothesis.settings.register_profile("lensons", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.load_profile("lensons")
torch.set_num_threads(int(os.environ.get("LENSONS_TEST_THREADS", "1")))


@pytest.fixture(scope="session")
def reference() -> Callable[[str], dict[str, np.ndarray]]:
    """Read one of the published GPT-2 tensors, such as ``patterns/te_ex0``; skips where the folder is missing."""

    def read(name: str) -> dict[str, np.ndarray]:
        path = SHARED / "reference" / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"published GPT-2 tensors are not here ({name})")
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}

    return read


@pytest.fixture(scope="session")
def gpt2_tokenizer() -> Any:
    """GPT-2's own tokenizer; skips where its files are missing."""
    folder = SHARED / "reference" / "gpt2-tokenizer"
    if not folder.is_dir():
        pytest.skip("GPT-2's tokenizer files are not here")
    from transformers import GPT2Tokenizer

    return GPT2Tokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def small_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A byte-level BPE tokenizer trained here, shaped like GPT-2's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator([SENTENCE, OTHER] * 10, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<|endoftext|>",
        eos_token="<|endoftext|>",
        unk_token="<|endoftext|>",
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    made.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)  # TransformerLens needs one that knows where it came from


@pytest.fixture(scope="session")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory, small_tokenizer: Any) -> Path:
    """A small random GPT-2 in Hugging Face format: 2 layers x 4 heads of 8, context 64, large enough weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("gpt2-folder") / "small-gpt2"
    config = GPT2Config(
        vocab_size=len(small_tokenizer),
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    model = GPT2LMHeadModel(config)
    with torch.no_grad():  # Hugging Face starts biases at 0, which would hide a forgotten one
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.2)
    model.save_pretrained(folder)
    small_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory, small_tokenizer: Any) -> Path:
    """A small random Llama: rotary positions, 6 heads that share 2 keys and values."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("llama-folder") / "small-llama"
    config = LlamaConfig(
        vocab_size=len(small_tokenizer),
        hidden_size=36,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    small_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def toy() -> Any:
    """The toy model, loaded once."""
    import lensons

    return lensons.load_model("toy")


@pytest.fixture(scope="session")
def small_gpt2(gpt2_folder: Path) -> Any:
    """The small random GPT-2, loaded once."""
    import lensons

    return lensons.load_model(gpt2_folder)


@pytest.fixture(scope="session")
def small_llama(llama_folder: Path) -> Any:
    """The small random Llama, loaded once."""
    import lensons

    return lensons.load_model(llama_folder)


@pytest.fixture(scope="session")
def smollm2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct in Hugging Face format, from the GGUF file that LENSONS_SMOLLM2 names; skips without."""
    given = os.environ.get("LENSONS_SMOLLM2")
    if not given or not Path(given).is_file():
        pytest.skip("LENSONS_SMOLLM2 names no GGUF file; `nox -s smollm2` fetches one")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = Path(given)
    folder = tmp_path_factory.mktemp("smollm2") / "SmolLM2-135M-Instruct"
    read = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    config = copy.deepcopy(read.config)
    config.__dict__.pop("quantization_config", None)  # the numbers were unpacked: a plain model can be saved
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def smollm2(smollm2_folder: Path) -> Any:
    """SmolLM2-135M-Instruct, loaded once."""
    import lensons

    return lensons.load_model(smollm2_folder)


@pytest.fixture
def few_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lesson takes heads out on 2 prompts, not 8: on SmolLM2 each pass over 8 takes seconds, and there are 60."""
    monkeypatch.setattr("lensons.lessons.repeated.N_PROMPTS", 2)
    monkeypatch.setattr("lensons.lessons.circuit.N_PROMPTS", 2)
