"""What was paid for once is never paid for again, whoever asks; a broken cache file stops nothing."""

import gc
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel, field_validator
from tests.fake_models import Counting
from tests.fakes import OPENAI, SECRET, Response, Server, make_clip, make_request, quick_backbone

from trace_ves.backbone import ModelFault, Prompt, open_backbone, response_cache
from trace_ves.backbone.response_cache import CachedBackbone, ResponseStore, default_path
from trace_ves.core import BackboneError
from trace_ves.core.files import cache_dir
from trace_ves.records import Usage

WRITER = """
import sys
from pathlib import Path
from trace_ves.backbone.response_cache import ResponseStore
store = ResponseStore(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    store.put(b"%d" % number, f"value {number} " * 100)
    assert store.get(b"%d" % number) == f"value {number} " * 100
    print(number, flush=True)
"""
"""A program that stores the numbers of a range, and says each of them once it is stored."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "replies.sqlite"


def test_the_same_request_is_asked_once_and_a_hit_costs_nothing(path: Path) -> None:
    inner = Counting()
    first = CachedBackbone(inner, path).generate([make_request("a"), make_request("b")])
    again = CachedBackbone(inner, path).generate([make_request("b"), make_request("c"), make_request("a")])
    assert inner.asked == ["a", "b", "c"]
    assert [generation.usage.input_tokens for generation in first] == [100, 100]
    assert [generation.reply.colour for generation in again] == ["b", "c", "a"]
    assert [generation.usage for generation in again] == [Usage(), Usage(100, 0, 10), Usage()]
    assert (again[0].seconds > 0, again[0].sends, again[0].texts) == (True, 1, ())


def test_everything_that_can_change_the_answer_is_in_the_key_and_nothing_else(path: Path) -> None:
    class Other(BaseModel):
        colour: str

    clip = make_clip(3.0, [1, 2])
    backbone = CachedBackbone(Counting(), path)
    request = make_request("a", clip)
    moved = replace(clip, frames=tuple(replace(frame, seconds=frame.seconds + 0.001) for frame in clip.frames))
    renumbered = replace(clip, frames=tuple(replace(frame, pts=frame.pts + 9) for frame in clip.frames))
    different = [
        make_request("b", clip),
        make_request("a"),
        make_request("a", make_clip(3.0, [1, 3])),
        make_request("a", moved),
        make_request("a", clip, clip),
        make_request("a", clip, sample=1),
        make_request("a", clip, reply=Other),
        replace(request, prompt=Prompt("other", request.prompt.text)),
        replace(request, prompt=Prompt("look", "Look!\n$question")),
    ]
    keys = {backbone.key(other) for other in [request, *different]}
    changed = [("answer_settings", {"temperature": 1, "base_url": None}), ("name", "counting:n")]
    for name, value in (*changed, ("answer_settings", {"base_url": None, "temperature": 1})):
        other = Counting()
        setattr(other, name, value)
        keys.add(CachedBackbone(other, path).key(request))
    assert len(keys) == len(different) + 3
    assert backbone.key(make_request("a", renumbered)) == backbone.key(request)
    same_words = replace(request, prompt=Prompt("look", "Look.\na"), variables={})
    assert backbone.key(same_words) == backbone.key(request)


def test_faults_and_failures_are_asked_again(path: Path) -> None:
    faulty = Counting(fault=True)
    for _ in range(2):
        (generation,) = CachedBackbone(faulty, path).generate([make_request("a")])
        assert generation.reply == ModelFault("It would not.")
    assert faulty.asked == ["a", "a"]
    down = Counting(fail="b")
    for _ in range(2):
        with pytest.raises(BackboneError, match="down"):
            CachedBackbone(down, path).generate([make_request("b")])
    assert down.asked == ["b", "b"]


@pytest.mark.parametrize(
    ("said", "finish", "kept"),
    [
        (['{"colour": "red"}'], "stop", True),
        (["none", '{"colour": "red"}'], "stop", True),  # another form of what the model saw
        (['{"colour": "blue"}, no: {"colour": "red"}'], "stop", False),
        (['{"colour": "re', '{"colour": "red"}'], "stop", False),
        (["", '{"colour": "red"}'], "stop", False),
        (['Perhaps {"colour": "red"}'], "length", False),
    ],
)
def test_a_reply_that_was_guessed_or_broke_off_at_first_is_not_kept(
    server: Server, path: Path, said: list[str], finish: str, kept: bool
) -> None:
    for _ in range(2):
        server.respond(*(Response(body=OPENAI.ok(text, finish_reason=finish)) for text in said))
        (generation,) = CachedBackbone(quick_backbone(OPENAI.provider()), path).generate([make_request("a")])
        assert generation.reply.colour == "red"
    assert len(server.received) == len(said) * (1 if kept else 2)


def test_a_kept_reply_that_no_longer_validates_is_asked_again(path: Path) -> None:
    def reply(banned: str) -> type[BaseModel]:
        class Named(BaseModel):
            colour: str

            @field_validator("colour")
            @classmethod
            def not_banned(cls, value: str) -> str:
                if value == banned:
                    raise ValueError("banned")
                return value

        return Named

    inner = Counting()
    CachedBackbone(inner, path).generate([make_request("a", reply=reply("x"))])
    with pytest.raises(ValueError, match="banned"):
        CachedBackbone(inner, path).generate([make_request("a", reply=reply("a"))])
    assert inner.asked == ["a", "a"]


def test_what_was_answered_is_kept_when_another_request_of_the_batch_fails(server: Server, path: Path) -> None:
    failed = threading.Event()
    good = Response(body=OPENAI.ok('{"colour": "red"}', read=10), before=lambda: failed.wait(20))
    bad = Response(404, OPENAI.error("no"), before=failed.set)
    server.respond(lambda received: bad if "bad" in json.dumps(received.body) else good)
    backbone = CachedBackbone(quick_backbone(OPENAI.provider()), path)
    with pytest.raises(BackboneError, match="404"):
        backbone.generate([make_request("bad"), make_request("good"), make_request("fine")])
    generations = backbone.generate([make_request("good"), make_request("fine")])
    assert [generation.usage for generation in generations] == [Usage(), Usage()]
    assert len(server.received) == 3


def test_a_run_that_is_opened_again_by_spec_pays_nothing_and_keeps_no_key(server: Server) -> None:
    server.respond(Response(body=OPENAI.ok('{"colour": "red"}', read=50, output=5)))
    request = make_request("Which?", make_clip(1.0, [1, 2]))
    first = open_backbone("openai:m").generate([request])[0]
    again = open_backbone("openai:m").generate([request])[0]
    warmer = open_backbone("openai:m", temperature=1.0).generate([request])[0]
    assert (first.reply, first.usage) == (again.reply, Usage(50, 0, 5))
    assert (again.usage, warmer.usage) == (Usage(), Usage(50, 0, 5))
    assert len(server.received) == 2
    assert default_path().is_relative_to(cache_dir())
    for file in filter(Path.is_file, default_path().parent.rglob("*")):
        assert SECRET.encode() not in file.read_bytes()


def start_writer(path: Path, first: int, end: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(path), str(first), str(end)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_processes_share_one_cache(path: Path) -> None:
    writers = [start_writer(path, first, first + 100) for first in (0, 50)]
    assert [len(writer.communicate(timeout=60)[0].split()) for writer in writers] == [100, 100]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM replies").fetchone() == (150,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def fill(path: Path, values: dict[bytes, str]) -> None:
    """A store that holds these values in its one file, because its connection is closed."""
    store = ResponseStore(path)
    for key, value in values.items():
        store.put(key, value)
    del store
    gc.collect()  # closes the connection


@pytest.mark.parametrize("damage", ["garbage", "header", "page"])
def test_a_damaged_file_is_set_aside_with_one_sentence_and_the_run_goes_on(
    path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    fill(path, {str(number).encode(): "x" * 1000 for number in range(200)})
    raw = path.read_bytes()
    damaged = {
        "garbage": b"this is no database" * 1000,
        "header": raw[:20] + os.urandom(40) + raw[60:],
        "page": raw[:4096] + b"\xff" * (len(raw) - 4096),
    }
    path.write_bytes(damaged[damage])
    inner = Counting()
    backbone = CachedBackbone(inner, path)
    for _ in range(2):
        assert backbone.generate([make_request("a")])[0].reply.colour == "a"
    assert inner.asked == ["a"]
    (record,) = caplog.records
    assert "is damaged" in record.getMessage()
    assert len(list(path.parent.glob("replies.sqlite.damaged-*[0-9]"))) == 1


KEPT = {str(number).encode(): json.dumps({"answer": "ABCD"[number % 4], "n": number}) for number in range(40)}


@pytest.mark.parametrize("bit", [0, 3, 6])
def test_a_flipped_bit_is_never_another_answer(path: Path, tmp_path: Path, bit: int) -> None:
    fill(path, KEPT)
    filled = path.read_bytes()
    places = [filled.index(value.encode()) for value in KEPT.values()]
    lost = 0
    for offset in range(-20, 24):  # types and lengths of its columns are among these
        raw = bytearray(filled)
        for place in places:
            raw[place + offset] ^= 1 << bit
        (tmp_path / f"{offset}.sqlite").write_bytes(raw)
        damaged = ResponseStore(tmp_path / f"{offset}.sqlite")
        texts = {key: damaged.get(key) for key in KEPT}
        assert all(text in {None, KEPT[key]} for key, text in texts.items())
        lost += list(texts.values()).count(None)
    assert lost > 0


def test_a_cache_of_version_0_1_is_read_and_added_to(path: Path) -> None:
    fill(path, {b"old": "é"})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE replies DROP COLUMN checksum")  # which that version did not write
    store = ResponseStore(path)
    assert store.get(b"old") == "é"
    store.put(b"new", "2")
    assert [ResponseStore(path).get(key) for key in (b"old", b"new")] == ["é", "2"]


def test_a_process_killed_while_it_writes_leaves_everything_it_had_kept(path: Path) -> None:
    with start_writer(path, 0, 10**9) as writer:
        assert writer.stdout is not None
        assert [int(next(writer.stdout)) for _ in range(200)] == list(range(200))
        writer.kill()
    store = ResponseStore(path)
    assert all(store.get(str(number).encode()) for number in range(200))


def test_a_cache_that_can_no_longer_be_written_is_still_read(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_cache, "_BUSY_SECONDS", 0.1)
    store = ResponseStore(path)
    store.put(b"old", "1")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # every write fails now, as on a full disk
        store.put(b"new", "2")
        store.put(b"newer", "3")
        assert (store.get(b"old"), store.get(b"new"), store.get(b"newer")) == ("1", None, None)
    (record,) = caplog.records
    assert record.getMessage().endswith("(database is locked); new answers are not cached.")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_cache_is_for_its_owner_alone(path: Path) -> None:
    store = ResponseStore(path)
    store.put(b"a", "1")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (path, *path.parent.iterdir())} == {0o600}


def test_how_the_cache_is_opened(path: Path) -> None:
    store = ResponseStore(path)
    with closing(store._open()) as connection:
        pragmas = {"busy_timeout": 30_000, "synchronous": 1, "journal_mode": "wal"}
        assert {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas} == pragmas
        assert connection.isolation_level is None


def test_a_cache_that_cannot_be_used_is_said_once_and_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    inner = Counting()
    backbone = CachedBackbone(inner, tmp_path / "file" / "replies.sqlite")
    for _ in range(3):
        assert backbone.generate([make_request("a")])[0].reply.colour == "a"
    assert inner.asked == ["a"] * 3
    (record,) = caplog.records
    assert record.getMessage().endswith("continuing without it.")
