"""Files of JSON lines: strict values, file:line errors, and appends that survive a kill."""

import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trace_ves.core import FormatError, InputError
from trace_ves.core.jsonl import (
    DECODER,
    JsonlAppender,
    StrictJsonError,
    dump_line,
    parse_loose_object,
    parse_object,
    read_jsonl,
    repair_torn_tail,
)

RECORDS = st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.integers()), min_size=1, max_size=5)


def write(folder: Path, content: bytes) -> Path:
    path = folder / "file.jsonl"
    path.write_bytes(content)
    return path


def records(path: Path, **options) -> list[dict[str, object]]:
    return [line.record for line in read_jsonl(path, **options)]


def test_lines_are_numbered_as_an_editor_numbers_them(tmp_path: Path) -> None:
    path = write(tmp_path, b'\xef\xbb\xbf{"a": 1}\n\n  \r\n{"b": 2}\r\n{"c": 3}')
    assert [(line.number, line.record) for line in read_jsonl(path)] == [(1, {"a": 1}), (4, {"b": 2}), (5, {"c": 3})]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b" \n\t\n"])
def test_a_file_may_hold_nothing(tmp_path: Path, content: bytes) -> None:
    assert records(write(tmp_path, content)) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "expected a JSON object, found an array"),
        (b"null", "found null"),
        (b'{"t": [NaN]}', "NaN"),
        (b'{"t": -Infinity}', "-Infinity"),
        (b'{"a": 1, "a": 2, "b": "\\u003a"}', "it has the key 'a' twice in one object"),
        (b'{"a": 1, "a" : 2}', "it has the key 'a' twice in one object"),
        (b'{"x": [1, {"a": 1, "a": 2}], "y": ":"}', "it has the key 'a' twice in one object"),
        (b'{"x": {"\\u0061": 1, "a": 2}}', "it has the key 'a' twice in one object"),
        (b'{"a": 1, "b": 2, "b": 3}', "it has the key 'b' twice in one object"),
        (b'{"a": {"c": 1, "d": 2, "e": 3, "d": 4}}', "it has the key 'd' twice in one object"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a": "\\ud800"}', "UTF-8"),
        (b'{"a": "\\uD800"}', "UTF-8"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        *((bad, "not valid") for bad in (b'{"a": 1.}', b'{"a": 01}', b'{"a": 1}x', b'{"a": "\x01"}', b'{"a": 1,}')),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(tmp_path: Path, line: bytes, words: str) -> None:
    path = write(tmp_path, b'{"fine": 1}\n' + line + b"\n")
    with pytest.raises(FormatError, match=words) as caught:
        records(path)
    assert str(caught.value).startswith(f"{path}:2: ")


def test_a_line_as_long_as_the_bound_is_read_and_a_longer_one_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_ves.core.jsonl.MAX_LINE_BYTES", 8)
    assert records(write(tmp_path, b'{"a": 1}\n{"b": 2}')) == [{"a": 1}, {"b": 2}]  # the last line without its end
    path = write(tmp_path, b'{"a": 1}\n{"b": "')
    os.truncate(path, 2 * 1024**3)  # a sparse 2 GB line
    with pytest.raises(FormatError, match=r"file\.jsonl:2: the line is longer than 8 bytes"):
        records(path)


def test_other_tools_write_nan_and_compress(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"a": [NaN, 1, -Infinity], "a": [NaN]}\n'))
    assert records(path, parse=parse_loose_object) == [{"a": [None]}]
    for damaged in (path.read_bytes()[:-12], b"no gzip", gzip.compress(b"x" * 99)[:20] + b"\xff" * 20):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"log\.jsonl\.gz: cannot be read: "):
            records(path, parse=parse_loose_object)


def test_a_torn_tail_is_said_or_refused(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"a": 1}\n{"b": ')
    torn: list[str] = []
    assert records(path, on_torn_tail=torn.append) == [{"a": 1}]
    assert [words.partition(": ")[0] for words in torn] == [f"{path}:2"]
    with pytest.raises(FormatError, match="the file ends inside this line"):
        records(path)
    with pytest.raises(FormatError, match=":1: not valid JSON"):  # a bad line inside the file is no torn tail
        records(write(tmp_path, b'{"b": \n{"a": 1}\n'), on_torn_tail=lambda _: None)


def test_progress_is_told_every_hundred_lines_and_at_the_end(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    records(write(tmp_path, b"{}\n" * 250), on_progress=lambda done, total: heard.append((done, total)))
    assert heard == [(300, 750), (600, 750), (750, 750)]


@given(RECORDS, st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_kill_at_any_byte_loses_no_finished_line(
    tmp_path: Path, lines: list[dict[str, object]], data: st.DataObject
) -> None:
    ends = list(accumulate(len(dump_line(line)) for line in lines))
    cut = data.draw(st.integers(0, ends[-1]), label="killed at byte")
    path = write(tmp_path, b"".join(map(dump_line, lines))[:cut])
    with mock.patch("os.fsync"), JsonlAppender(path) as out:
        out.append({"next": 1})
    finished, whole_without_newline = sum(end <= cut for end in ends), cut + 1 in ends
    assert records(path) == [*lines[: finished + whole_without_newline], {"next": 1}]


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (b'{"a": 1}\n' + b"x" * 3_000_000, b'{"a": 1}\n'),
        (b"\n{", b"\n"),
        (b"\n", b"\n"),
        (b'{"a": 1}', b'{"a": 1}\n'),
        (b'{}\n{"a": 10}', b"{}\n"),  # longer than a line may be
    ],
    ids=["far back", "blank line", "finished", "whole object", "too long"],
)
def test_a_torn_tail_is_healed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, left: bytes) -> None:
    monkeypatch.setattr("trace_ves.core.jsonl.MAX_LINE_BYTES", 8)
    repair_torn_tail(path := write(tmp_path, content))
    assert path.read_bytes() == left


def test_closing_syncs_once_and_twice_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = JsonlAppender(tmp_path / "run.jsonl")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    out.close()
    out.close()
    assert len(synced) == 1
    with JsonlAppender(tmp_path / "run.jsonl"):  # nobody holds it any more
        open_files = sorted(Path("/proc/self/fd").iterdir())
        with pytest.raises(InputError, match="another process is writing there"):
            JsonlAppender(tmp_path / "run.jsonl")
        assert sorted(Path("/proc/self/fd").iterdir()) == open_files


def test_what_cannot_be_read_or_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        records(tmp_path / "none.jsonl")
    with JsonlAppender(path := tmp_path / "run.jsonl") as out, pytest.raises(ValueError, match="JSON compliant"):
        out.append({"t": float("nan")})
    assert path.read_bytes() == b""
    with pytest.raises(InputError, match="cannot be written"):
        JsonlAppender(path / "run.jsonl")


def test_a_line_that_is_written_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write_all(descriptor, data[:3]))
    with JsonlAppender(path := tmp_path / "new" / "folder" / "run.jsonl") as out:
        out.append({"a": 1})
        out.append({"b": "Löwe 狮子\n\u2028"})
    assert path.read_text("utf-8") == '{"a": 1}\n{"b": "Löwe 狮子\\n\u2028"}\n'
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_line_that_does_not_fit_leaves_those_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JsonlAppender(path := tmp_path / "run.jsonl") as out:
        out.append({"a": 1})
        write_all = os.write

        def full(descriptor: int, data: bytes) -> int:
            if not data.startswith(b'{"b'):
                raise OSError(28, "No space left on device")
            return write_all(descriptor, data[:4])

        monkeypatch.setattr(os, "write", full)
        words = r"run\.jsonl: the line could not be written \(No space left on device\); the lines before it are kept\."
        with pytest.raises(InputError, match=words):
            out.append({"b": 2})
        assert path.read_bytes() == b'{"a": 1}\n'


def test_threads_share_an_appender(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with JsonlAppender(path) as out, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: out.append({"n": number}), range(800)))
    assert sorted(record["n"] for record in records(path)) == list(range(800))


def test_an_empty_text_and_numbers_too_large_for_a_computer_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^not valid"):
        parse_object(b"")
    assert DECODER.decode('{"a": [1e9, 2]}') == {"a": [1e9, 2]}
    for digits in ("1e999", "-1e999", "1" * 400 + ".0"):
        with pytest.raises(StrictJsonError, match=rf"^the number {digits[:40]}, which is too large$"):
            DECODER.decode(f'{{"a": {digits}}}')
