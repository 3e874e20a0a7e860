"""A file appears whole or not at all, with nothing left beside it."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from trace_ves.core import InputError
from trace_ves.core.files import atomic_path, write_atomic

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_written_with_its_folder(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file.txt"
    write_atomic(target, "häuser\n")
    assert target.read_bytes() == "häuser\n".encode()
    assert [each.name for each in target.parent.iterdir()] == ["file.txt"]


def test_until_the_end_the_old_file_stands(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with atomic_path(target) as partial:
        partial.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_what_fails_halfway_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(target) as partial:
        partial.write_text(f"half{1 / 0}")
    assert target.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_private_file_is_the_owners_alone_from_the_start(tmp_path: Path) -> None:
    target = tmp_path / "secret"
    with atomic_path(target, private=True) as partial:
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        partial.write_text("mine")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    write_atomic(tmp_path / "other", "mine", private=True)
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o600


def test_a_file_that_is_not_private_has_the_mode_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    write_atomic(tmp_path / "ours", "")
    with atomic_path(tmp_path / "step") as partial:
        partial.write_text("")
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "ours", "step")}
    assert len(modes) == 1


def test_a_long_name_has_room_for_its_partial_file(tmp_path: Path) -> None:
    target = tmp_path / ("ä" * 120)
    write_atomic(target, b"x")
    assert target.read_bytes() == b"x"


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"file/below: cannot be written: File exists\."):
        write_atomic(tmp_path / "file" / "below", "x")
