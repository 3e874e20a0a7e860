"""Files: written whole or not at all, never over an input; tables of other programs; the cache folder; SQLite's log."""

from __future__ import annotations

import csv
import errno
import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trace_ves.core import InputError
from trace_ves.core.files import (
    MOST_FIELD_CHARACTERS,
    SURPLUS,
    atomic_path,
    cache_dir,
    drop_oldest,
    read_csv,
    refuse_inputs,
    use_write_ahead_log,
    write_atomic,
    write_output,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        with pytest.raises(InputError, match=r"is an input of this command \(.*in\); write elsewhere"):
            refuse_inputs([None, name], inputs=[None, tmp_path / "in"])


@pytest.mark.parametrize(
    ("output", "relation"),
    [
        ("runs", "contains"),
        (".", "contains"),
        ("link", "contains"),
        ("runs/a.b.run.toml", "belongs to"),
        ("link/a.b.transcripts", "belongs to"),
        ("runs/a.b.failed", "belongs to"),
        ("film.srt", "belongs to"),
        ("film.en.VTT", "belongs to"),
        ("world.jsonl", "belongs to"),
        ("runs/a.b.json", None),
        ("runs/a.run.toml", None),
        ("runs/world.jsonl", None),
        ("runs/film.srt", None),
        ("film", None),
        ("film.srt/x", None),
        ("films.srt", None),
        (".srt", None),
    ],
)
def test_outputs_that_contain_inputs_or_belong_to_them(tmp_path: Path, output: str, relation: str | None) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "link").symlink_to("runs")
    inputs = [tmp_path / name for name in ("runs/a.b.jsonl", "film.mp4", "questions.jsonl")]
    if relation is None:
        refuse_inputs([tmp_path / output], inputs=inputs)
        return
    with pytest.raises(InputError, match=rf"{relation} an input of this command \(.*\); write elsewhere"):
        refuse_inputs([tmp_path / output], inputs=inputs)


@pytest.mark.parametrize("exists", [True, False])
def test_two_outputs_in_one_file_are_refused(exists: bool, tmp_path: Path) -> None:
    if exists:
        (tmp_path / "out").write_text("old")
    (tmp_path / "folder").symlink_to(".")
    for name in (tmp_path / "out", tmp_path / "folder" / "out"):
        with pytest.raises(
            InputError, match=r"is another output of this command \(.*out\); write each to its own file"
        ):
            refuse_inputs([tmp_path / "out", None, name], inputs=[])


def test_a_device_takes_all_that_is_written(tmp_path: Path) -> None:
    device = tmp_path / "nothing"
    device.symlink_to(os.devnull)
    refuse_inputs([device, device], inputs=[])
    refuse_inputs([tmp_path / "a", tmp_path / "b"], inputs=[tmp_path / "c"])
    assert device.exists()


def test_the_cache_lies_where_a_person_says_or_where_the_platform_keeps_such_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", "/some/where")
    assert cache_dir() == Path("/some/where")
    monkeypatch.delenv("TRACE_VES_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache_dir() == Path("/cache/trace-ves")


def test_the_oldest_files_go_until_the_others_fit(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    for most_bytes, left in ((30, ["middle", "new", "old"]), (29, ["middle", "new"]), (19, ["new"]), (0, [])):
        drop_oldest(tmp_path, most_bytes=most_bytes)
        assert sorted(path.name for path in tmp_path.iterdir()) == left


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


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody who has begun to write to a new file: SQLite lets nobody else turn the log on, and does not wait."""
    with closing(connect(tmp_path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE notes (text)")
        yield connection


def connect(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "new.sqlite", timeout=30, isolation_level=None, check_same_thread=False)


def test_one_that_writes_is_waited_for(tmp_path: Path, writer: sqlite3.Connection) -> None:
    threading.Timer(0.1, lambda: writer.execute("COMMIT")).start()
    with closing(connect(tmp_path)) as connection:
        use_write_ahead_log(connection, 30)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_waiting_ends(tmp_path: Path, writer: sqlite3.Connection) -> None:
    with closing(connect(tmp_path)) as connection, pytest.raises(sqlite3.OperationalError, match="locked"):
        use_write_ahead_log(connection, 0.1)
    assert writer.in_transaction
