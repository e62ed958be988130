"""Writing a file whole or not at all."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor

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


def test_a_link_stays_a_link_and_a_file_keeps_its_permissions(tmp_path):
    """Through a symbolic link the file behind it is replaced; who may read it stays as it was."""
    behind, link = tmp_path / "behind", tmp_path / "link"
    behind.write_text("old")
    behind.chmod(0o640)
    link.symlink_to(behind)
    written_whole(link, "new")
    assert link.is_symlink()
    assert behind.read_text() == "new"
    assert behind.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [behind, link]


def test_a_pipe_is_written_into(tmp_path):
    """A named pipe, as a device, takes the content and is not replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as others:
        read = others.submit(pipe.read_bytes)
        written_whole(pipe, "through")
        assert read.result(timeout=10) == b"through"
    assert pipe.is_fifo()
