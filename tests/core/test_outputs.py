"""What a command writes: never over an input, whole or not at all, and through links."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from trace_ves.core import InputError
from trace_ves.core.files import refuse_inputs, write_output


def test_an_output_that_is_an_input_is_refused_under_any_name(tmp_path: Path) -> None:
    source, link = tmp_path / "in.jsonl", tmp_path / "link.jsonl"
    source.write_text("1")
    link.symlink_to(source)
    for output in (source, link, tmp_path / "." / "in.jsonl"):
        with pytest.raises(InputError, match=r"is an input of this command \(.*in\.jsonl\); write elsewhere"):
            refuse_inputs([None, output], inputs=[None, source])


def test_a_file_that_is_not_there_yet_is_known_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is an input"):
        refuse_inputs([tmp_path / "new"], inputs=[tmp_path / "x" / ".." / "new"])
    refuse_inputs([tmp_path / "new", None], inputs=[tmp_path / "other", None])


def test_a_file_is_replaced_a_link_stays_one_and_a_device_is_written_to(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_output(link, "new é")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new é"
    write_output(tmp_path / "fresh.txt", "first")
    assert (tmp_path / "fresh.txt").read_text() == "first"
    os.mkfifo(pipe := tmp_path / "pipe")
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as reader:
        write_output(pipe, "through é")
        assert reader.read() == "through é"
    assert pipe.is_fifo()


def test_a_file_is_never_seen_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.txt").write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in ("old.txt", "new.txt"):
        with pytest.raises(InputError, match=rf"{name}: cannot be written: No space left on device\."):
            write_output(tmp_path / name, "text")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("old.txt", "old")]


def test_each_output_is_a_file_of_its_own_but_a_device_may_be_named_twice(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    for twice in ("there", "new"):
        with pytest.raises(InputError, match=rf"is another output of this command \(.*{twice}\); write each to its"):
            refuse_inputs([tmp_path / twice, tmp_path / "other", tmp_path / twice], inputs=[])
    refuse_inputs([Path("/dev/null"), Path("/dev/null")], inputs=[])


def test_a_device_is_given_utf_8_whatever_the_machine_would_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")  # never a device of the machine: a fault here could replace it
    encodings: list[object] = []
    opened = Path.open

    def noting(path: Path, *mode: str, **options: Any) -> Any:
        encodings.append(options.get("encoding"))
        return opened(path, *mode, **options)

    monkeypatch.setattr(Path, "open", noting)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write_output(pipe, "é")
        assert reader.read() == "é".encode()
    assert encodings == ["utf-8"]


def test_a_folder_is_no_place_for_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        write_output(tmp_path, "text")
