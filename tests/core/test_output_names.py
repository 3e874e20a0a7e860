"""No output of a command is one of its inputs or another of its outputs, under whatever name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from trace_ves.core import InputError
from trace_ves.core.files import refuse_inputs

if TYPE_CHECKING:
    from pathlib import Path


def names_of(path: Path) -> list[Path]:
    """Other names of a file that is there."""
    hard, soft, folder = path.with_name("hard"), path.with_name("soft"), path.with_name("folder")
    os.link(path, hard)
    soft.symlink_to(path.name)
    folder.symlink_to(".")
    return [path, hard, soft, folder / path.name, path.parent / "." / ".." / path.parent.name / path.name]


def test_an_output_under_any_name_of_an_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("kept")
    for name in names_of(tmp_path / "in"):
        with pytest.raises(InputError, match="is an input of this command"):
            refuse_inputs([None, name], inputs=[None, tmp_path / "in"])


@pytest.mark.parametrize("exists", [True, False])
def test_two_outputs_in_one_file_are_refused(exists: bool, tmp_path: Path) -> None:
    if exists:
        (tmp_path / "out").write_text("old")
    (tmp_path / "folder").symlink_to(".")
    for name in (tmp_path / "out", tmp_path / "folder" / "out"):
        with pytest.raises(InputError, match="is another output of this command"):
            refuse_inputs([tmp_path / "out", None, name], inputs=[])


def test_a_device_takes_all_that_is_written(tmp_path: Path) -> None:
    device = tmp_path / "nothing"
    device.symlink_to(os.devnull)
    refuse_inputs([device, device], inputs=[])
    refuse_inputs([tmp_path / "a", tmp_path / "b"], inputs=[tmp_path / "c"])
    assert device.exists()
