"""Writing a file whole or not at all."""

import errno
import os

import pytest

from lensons.errors import FileError
from lensons.files import written_whole


def test_text_and_bytes_arrive_whole(tmp_path):
    """What is written is what is found, text as UTF-8."""
    assert written_whole(tmp_path / "a", "ä").read_bytes() == b"\xc3\xa4"
    assert written_whole(tmp_path / "b", b"\x00\xff").read_bytes() == b"\x00\xff"


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    """A write that fails half-way leaves the file that was there, and no scrap beside it."""
    target = tmp_path / "lesson.html"
    target.write_text("good")

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left"):
        written_whole(target, "new")
    assert target.read_text() == "good"
    assert list(tmp_path.iterdir()) == [target]


def test_an_interrupt_leaves_the_old_file(tmp_path, monkeypatch):
    """Ctrl-C in the middle of writing leaves the file that was there, and no scrap beside it."""
    target = tmp_path / "lesson.html"
    target.write_text("good")

    def interrupted(_descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        written_whole(target, "new")
    assert target.read_text() == "good"
    assert list(tmp_path.iterdir()) == [target]


def test_a_missing_folder_is_one_clear_error(tmp_path):
    """A file in a folder that does not exist: the path, why, and what to do."""
    with pytest.raises(FileError, match=r"nowhere.*cannot be written.*Choose another place"):
        written_whole(tmp_path / "nowhere" / "x.html", "x")


def test_a_folder_in_the_way_is_one_clear_error(tmp_path):
    """A folder stands where the file should go: an error, and the folder stays."""
    (tmp_path / "x.html").mkdir()
    with pytest.raises(FileError):
        written_whole(tmp_path / "x.html", "x")
    assert (tmp_path / "x.html").is_dir()
    assert len(list(tmp_path.iterdir())) == 1
