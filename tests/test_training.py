"""The toy model's training: cut off at any moment, it goes on as if it had not been."""

import os

import pytest
import torch

from lensons.toy import toy_folder

pytest.importorskip("training", reason="the training scripts are not here")
from training import make


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(toy_folder())


def test_training_goes_on_where_it_was_cut(tokenizer, tmp_path, monkeypatch):
    """An interrupt while a checkpoint is written leaves the one before it whole, and no scrap beside it. From that one
    the next step gives the very weights that training without a break gives."""
    uncut, cut, after = (make.Run(tokenizer, 0) for _ in range(3))
    for run in (uncut, cut):
        run.train_step()
    path = tmp_path / "checkpoint.pt"
    cut.save_checkpoint(path)
    good = path.read_bytes()
    cut.train_step()

    def interrupted(descriptor):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cut.save_checkpoint(path)
    assert path.read_bytes() == good
    assert list(tmp_path.iterdir()) == [path]

    after.load_checkpoint(path)
    for run in (uncut, after):
        run.train_step()
    assert after.step == uncut.step == 2
    assert after.tokens == uncut.tokens
    for (name, found), wanted in zip(after.model.named_parameters(), uncut.model.parameters(), strict=True):
        assert torch.equal(found, wanted), name


def test_what_is_exported_is_written_whole(tokenizer, tmp_path, monkeypatch):
    """A full disk while the model is written leaves the good model whole, and no scrap beside it."""
    run = make.Run(tokenizer, 0)
    run.patterns = [[torch.zeros(make.LAYERS, make.HEADS, 1, 1)] * len(make.FIXED)] * len(make.pattern_moments())
    run.measure()
    for name in ("model.safetensors", "config.json", "training.safetensors"):
        (tmp_path / name).write_text("good")

    def full(descriptor):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        make.export(run, tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("model.safetensors", "config.json", "training.safetensors"), "good"
    )
