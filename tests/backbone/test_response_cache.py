"""What was paid for once is never paid for again, whoever asks."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, field_validator
from tests.fakes import SECRET, Response, make_clip, make_request, quick_backbone

from trace_ves.backbone import ModelFault, Prompt, open_backbone
from trace_ves.backbone.response_cache import CachedBackbone, default_path
from trace_ves.core import BackboneError
from trace_ves.core.files import cache_dir
from trace_ves.records import Usage
from trace_ves.records.transcript import ModelText

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes import Dialect, Server
from tests.counting_backbone import Counting


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


def test_twins_in_one_batch_are_asked_once(path: Path) -> None:
    inner = Counting()
    generations = CachedBackbone(inner, path).generate([make_request("a"), make_request("b"), make_request("a")])
    assert inner.asked == ["a", "b"]
    assert [generation.reply.colour for generation in generations] == ["a", "b", "a"]
    assert [generation.usage.input_tokens for generation in generations] == [100, 100, 0]


def test_who_waits_for_the_same_request_gets_its_raw_text_and_a_kept_answer_has_none(path: Path) -> None:
    backbone = CachedBackbone(Counting(), path)
    first, twin = backbone.generate([make_request("red"), make_request("red")])
    assert first.said == twin.said == (ModelText("I say red"),)
    [kept] = backbone.generate([make_request("red")])
    assert kept.said == ()


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
    warmer = Counting()
    warmer.answer_settings = {"temperature": 1}
    keys.add(CachedBackbone(warmer, path).key(request))
    renamed = Counting()
    renamed.name = "counting:n"
    keys.add(CachedBackbone(renamed, path).key(request))
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


def test_what_was_answered_is_kept_when_another_request_of_the_batch_fails(
    server: Server, named_dialect: Callable[[str], Dialect], path: Path
) -> None:
    dialect = named_dialect("openai")

    def respond(received: Any) -> Any:
        if "bad" in json.dumps(received.body):
            return Response(status=404, body=dialect.error("no"))
        return Response(body=dialect.ok('{"colour": "red"}', read=10))

    server.respond(respond)
    backbone = CachedBackbone(quick_backbone(dialect.provider()), path)
    with pytest.raises(BackboneError, match="404"):
        backbone.generate([make_request("bad"), make_request("good"), make_request("fine")])
    assert len(server.received) == 3
    generations = backbone.generate([make_request("good"), make_request("fine")])
    assert [generation.usage for generation in generations] == [Usage(), Usage()]
    assert len(server.received) == 3


def test_many_threads_that_ask_the_same_send_it_once(path: Path) -> None:
    threads = 16
    start = threading.Barrier(threads)
    inner = Counting()
    backbone = CachedBackbone(inner, path)
    seen: list[list[str]] = []

    def work(number: int) -> None:
        questions = [str((number + step) % 40) for step in range(40)]
        start.wait(20)
        for place in range(0, 40, 4):
            batch = [make_request(question) for question in questions[place : place + 4]]
            seen.append([generation.reply.colour for generation in backbone.generate(batch)])

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(seen) == threads * 10
    assert sorted(inner.asked, key=int) == [str(number) for number in range(40)]


def test_two_threads_whose_batches_cross_do_not_wait_for_each_other(path: Path) -> None:
    backbone = CachedBackbone(Counting(wait=threading.Barrier(2)), path)
    batches = [
        [make_request(each) for each in "axc"],
        [make_request(each) for each in "bxa"],
    ]  # each has one of its own
    workers = [threading.Thread(target=backbone.generate, args=(batch,)) for batch in batches]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert not any(worker.is_alive() for worker in workers)


def test_who_waits_for_a_request_that_is_interrupted_is_told(path: Path) -> None:
    a_is_asked, b_is_asked, go = threading.Event(), threading.Event(), threading.Event()

    class Interrupted(Counting):
        def generate(self, batch: Any) -> Any:
            if batch[0].variables["question"] == "a":
                a_is_asked.set()
                go.wait(20)
                raise KeyboardInterrupt
            b_is_asked.set()
            return super().generate(batch)

    backbone = CachedBackbone(Interrupted(), path)
    outcomes: dict[int, Any] = {}

    def interrupted() -> None:
        with pytest.raises(KeyboardInterrupt):
            backbone.generate([make_request("a")])

    workers = [
        threading.Thread(target=interrupted),
        threading.Thread(
            target=lambda: outcomes.update(backbone.generate_as_completed([make_request("a"), make_request("b")]))
        ),
    ]
    workers[0].start()
    assert a_is_asked.wait(20)
    workers[1].start()
    assert b_is_asked.wait(20)  # so the second has found that a is under way
    go.set()
    for worker in workers:
        worker.join(30)
    assert str(outcomes[0]) == "counting:m: the same request, asked elsewhere, was interrupted."
    assert outcomes[1].reply.colour == "b"


def test_a_run_that_is_opened_again_by_spec_pays_nothing_and_keeps_no_key(
    server: Server, named_dialect: Callable[[str], Dialect]
) -> None:
    dialect = named_dialect("openai")
    server.respond(Response(body=dialect.ok('{"colour": "red"}', read=50, output=5)))
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
