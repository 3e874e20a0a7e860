"""Tables of other programs: long cells are read, and the limit of other readers in the process stays as it was."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from trace_ves.core.errors import InputError
from trace_ves.core.files import MOST_FIELD_CHARACTERS, SURPLUS, read_csv

if TYPE_CHECKING:
    from pathlib import Path


def test_long_cells_are_read_and_nobody_elses_limit_changes(tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("id\ttext\n1\t" + "x" * 300_000 + "\n", encoding="utf-8-sig")
    before = csv.field_size_limit()
    assert read_csv(table, "\t") == [{"id": "1", "text": "x" * 300_000}]
    assert csv.field_size_limit() == before < MOST_FIELD_CHARACTERS


def test_a_cell_has_at_most_sixteen_mebibytes(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("x" * 2**24)
    assert read_csv(table, ",") == []  # a row of names
    table.write_text("x" * (2**24 + 1))
    with pytest.raises(InputError, match=r"a\.csv: not a table in UTF-8: field larger than field limit \(16777216\)\."):
        read_csv(table, ",")


def test_lines_inside_a_cell_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,text\r\n1,"two\r\nlines\n"\r\n')
    assert read_csv(tmp_path / "a.csv", ",") == [{"id": "1", "text": "two\r\nlines\n"}]


def test_surplus_cells_have_a_key_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1,2,3\n")
    assert read_csv(tmp_path / "a.csv", ",") == [{"id": "1", SURPLUS: ["2", "3"]}]


@pytest.mark.parametrize(
    ("content", "sentence"), [(None, "cannot be read"), (b"id\n\xff\n", "not a table in UTF-8")], ids=["none", "bytes"]
)
def test_what_cannot_be_read_is_a_sentence(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "a.csv").write_bytes(content)
    before = csv.field_size_limit()
    with pytest.raises(InputError, match=rf"a\.csv: {sentence}"):
        read_csv(tmp_path / "a.csv", ",")
    assert csv.field_size_limit() == before
