"""Files: written whole or not at all, never over an input; tables of other programs; the cache folder; SQLite's log."""

import csv
import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from trace_ves.core import InputError
from trace_ves.core.files import (
    MOST_FIELD_CHARACTERS,
    SURPLUS,
    atomic_path,
    cache_dir,
    config_dir,
    drop_oldest,
    read_csv,
    refuse_inputs,
    use_write_ahead_log,
    write_atomic,
    write_output,
)


def test_the_old_file_is_replaced_at_the_end_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(target) as partial:
        partial.write_text(f"half{1 / 0}")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "old")]
    with atomic_path(target) as partial:
        partial.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_only_the_owner_can_read_a_private_file_and_others_have_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    usual = stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    for options, mode in (({"private": True}, 0o600), ({"private": False}, usual), ({}, usual)):
        with atomic_path(tmp_path / "step", **options) as partial:
            assert stat.S_IMODE(partial.stat().st_mode) == mode
            partial.write_text("mine")
        write_atomic(tmp_path / "ours", "mine", **options)
        assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("step", "ours")} == {mode}


def test_a_long_name_is_written_with_its_folder_and_a_failure_is_one_sentence(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / ("ä" * 120)
    write_atomic(target, "häuser\n")
    assert target.read_bytes() == "häuser\n".encode()
    assert list(target.parent.iterdir()) == [target]
    with pytest.raises(InputError, match=r"ä/below: cannot be written: File exists\."):
        write_atomic(target / "below", "x")
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        write_output(tmp_path, "text")


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

    def full(descriptor: int) -> None:
        assert os.fstat(descriptor).st_size == len("text")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in ("old.txt", "new.txt"):
        with pytest.raises(InputError, match=rf"{name}: cannot be written: No space left on device\."):
            write_output(tmp_path / name, "text")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("old.txt", "old")]


OUTPUTS = {
    "is": "prices.toml hard soft link/../prices.toml folder/prices.toml new.jsonl .",
    "contains": "runs link holds-hard holds-soft holds-companion",
    "belongs to": "runs/a.b.run.toml link/a.b.transcripts runs/a.b.failed film.srt film.en.VTT world.jsonl other.srt "
    "runs/hard",
    "": "runs/a.b.json runs/a.run.toml runs/world.jsonl runs/film.srt film film.srt/x films.srt .srt holds-nothing",
}


@pytest.mark.parametrize(
    ("output", "relation"), [(each, words) for words in OUTPUTS for each in OUTPUTS[words].split()]
)
def test_outputs_that_are_or_contain_inputs_or_belong_to_them(tmp_path: Path, output: str, relation: str) -> None:
    for name in ("runs", "holds-hard", "holds-soft", "holds-companion", "holds-nothing", "elsewhere"):
        (tmp_path / name).mkdir()
    for name in ("prices.toml", "film.en.srt", "elsewhere/film.mp4", "holds-nothing/x"):
        (tmp_path / name).write_text("kept")
    links = {"link": "runs", "folder": ".", "holds-soft/x": "prices.toml", "soft": "prices.toml"}
    for link, target in {**links, "other.mp4": "elsewhere/film.mp4", "film.de.srt": "nothing"}.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    for target, names in {"prices.toml": "holds-hard/x hard", "film.en.srt": "holds-companion/x runs/hard"}.items():
        for name in names.split():
            (tmp_path / name).hardlink_to(tmp_path / target)
    names = "runs/a.b.jsonl film.mp4 questions.jsonl prices.toml other.mp4 x/../new.jsonl away/.."
    words = rf"{relation} an input of this command \(.*\); write elsewhere"
    with pytest.raises(InputError, match=words) if relation else nullcontext():
        refuse_inputs([None, tmp_path / output], inputs=[None, *(tmp_path / name for name in names.split())])


def test_two_outputs_in_one_file_are_refused_unless_it_is_a_device(tmp_path: Path) -> None:
    out, device = tmp_path / "out", tmp_path / "nothing"
    (tmp_path / "folder").symlink_to(".")
    for _ in range(2):  # without the file, and with it
        for name in (out, tmp_path / "folder" / "out"):
            words = r"is another output of this command \(.*out\); write each to its own file"
            with pytest.raises(InputError, match=words):
                refuse_inputs([out, None, name], inputs=[])
        out.write_text("old")
    device.symlink_to(os.devnull)
    refuse_inputs([device, device], inputs=[])
    refuse_inputs([tmp_path / "a", tmp_path / "b"], inputs=[tmp_path / "c"])
    assert device.exists()


@pytest.mark.parametrize(("kind", "find"), [("CACHE", cache_dir), ("CONFIG", config_dir)])
def test_a_folder_is_where_the_variable_says_or_the_platform(
    monkeypatch: pytest.MonkeyPatch, kind: str, find: Callable[[], Path]
) -> None:
    monkeypatch.setenv(f"TRACE_VES_{kind}_DIR", "/some/where")
    assert find() == Path("/some/where")
    monkeypatch.delenv(f"TRACE_VES_{kind}_DIR")
    monkeypatch.setenv(f"XDG_{kind}_HOME", "/home")
    assert find() == Path("/home/trace-ves")


def test_the_oldest_files_go_until_the_others_fit(tmp_path: Path) -> None:
    (tmp_path / "older").mkdir()
    (tmp_path / "empty").mkdir()
    for age, name in enumerate(("new", "middle", "older/file", "old")):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    every = ["middle", "new", "old", "older"]
    for most_bytes, left in ((40, ["empty", *every]), (30, ["middle", "new", "older"]), (0, ["new"])):
        drop_oldest(tmp_path, most_bytes=most_bytes)
        assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_long_cells_are_read_up_to_a_limit_and_nobody_elses_limit_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("id\ttext\n1\t" + "x" * 300_000 + "\n", encoding="utf-8-sig")
    before = csv.field_size_limit()
    assert read_csv(table, "\t") == [{"id": "1", "text": "x" * 300_000}]
    assert csv.field_size_limit() == before < MOST_FIELD_CHARACTERS
    monkeypatch.setattr("trace_ves.core.files.MOST_FIELD_CHARACTERS", 299_999)
    with pytest.raises(InputError, match=r"a\.tsv: not a table in UTF-8: field larger than field limit \(299999\)\."):
        read_csv(table, "\t")
    table.write_bytes(b'id,text\r\n1,"two\r\nlines\n",2,3\r\n')  # surplus cells, and lines inside a cell
    assert read_csv(table, ",") == [{"id": "1", "text": "two\r\nlines\n", SURPLUS: ["2", "3"]}]
    table.write_bytes(b"id\n\xff\n")
    with pytest.raises(InputError, match=r"a\.tsv: not a table in UTF-8"):
        read_csv(table, ",")
    assert csv.field_size_limit() == before
    with pytest.raises(InputError, match=r"none\.tsv: cannot be read"):
        read_csv(tmp_path / "none.tsv", ",")


def test_one_that_writes_is_waited_for_but_not_for_ever(tmp_path: Path) -> None:
    """SQLite refuses the log at once while another connection writes."""
    with closing(connect(tmp_path)) as writer, closing(connect(tmp_path)) as connection:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("CREATE TABLE notes (text)")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_write_ahead_log(connection, 0.1)
        assert writer.in_transaction
        threading.Timer(0.1, lambda: writer.execute("COMMIT")).start()
        use_write_ahead_log(connection, 30)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def connect(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "new.sqlite", timeout=30, isolation_level=None, check_same_thread=False)
