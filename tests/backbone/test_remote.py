"""Every provider, over real HTTP: what is sent, what is understood, and what happens when a service fails."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any

import pytest

from trace_ves.backbone import ModelFault
from trace_ves.backbone.provider import Completion, ServiceError
from trace_ves.core import BackboneError
from trace_ves.records import Usage

GOOD = json.dumps({"colour": "red", "seconds": 3.5, "where": ["left"]})


def test_an_answer_comes_back_validated_with_its_tokens(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(kit.Response(body=dialect.ok(GOOD, read=1200, cached=1000, output=34)))
    (generation,) = kit.quick(dialect.provider()).generate([kit.ask()])
    assert generation.reply == kit.Sighting(colour="red", seconds=3.5, where=["left"])
    assert generation.usage == Usage(1200, 1000, 34)
    assert generation.seconds > 0
    assert dialect.key(server.received[0]) == kit.SECRET


def test_frames_come_first_in_order_each_with_its_time_and_the_words_last(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(kit.Response(body=dialect.ok(GOOD)))
    clips = kit.clip(70.0, [10, 20]), kit.clip(4.0, [30])
    kit.quick(dialect.provider()).generate([kit.ask("Which?", *clips)])
    ((role, parts),) = dialect.content(server.received[0].body)
    assert role == "user"
    assert parts == [
        ("text", "Clip 1, 70.0-72.0 s"),
        ("text", "t=70.00 s"),
        ("image", kit.Still(10).jpeg()),
        ("text", "t=70.50 s"),
        ("image", kit.Still(20).jpeg()),
        ("text", "Clip 2, 4.0-5.0 s"),
        ("text", "t=4.00 s"),
        ("image", kit.Still(30).jpeg()),
        ("text", "Look.\nWhich?"),
    ]


def test_the_provider_is_asked_to_hold_the_model_to_the_schema(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(kit.Response(body=dialect.ok(GOOD)))
    kit.quick(dialect.provider()).generate([kit.ask()])
    schema = dialect.schema(server.received[0].body)
    assert set(schema["properties"]) == {"colour", "seconds", "where"}
    assert schema["properties"]["colour"]["type"] == "string"


def test_the_most_likely_answer_is_asked_for_and_a_repeated_draw_is_sampled(
    dialect: Any, server: Any, kit: Any
) -> None:
    server.respond(kit.Response(body=dialect.ok(GOOD)))
    kit.quick(dialect.provider()).generate([kit.ask()])
    kit.quick(dialect.provider()).generate([kit.ask(sample=3)])
    kit.quick(dialect.provider(), temperature=0.4).generate([kit.ask(sample=3)])
    assert [dialect.temperature(received.body) for received in server.received] == [0.0, 0.7, 0.4]
    if dialect.name != "anthropic":  # that API has no seed
        seeds = [(body := received.body).get("generationConfig", body).get("seed") for received in server.received]
        assert seeds == [None, 3, 3]


def test_a_batch_is_under_way_all_at_once(dialect: Any, server: Any, kit: Any) -> None:
    meeting = threading.Barrier(4)
    server.respond(kit.Response(body=dialect.ok(GOOD), before=lambda: meeting.wait(20)))
    generations = kit.quick(dialect.provider()).generate([kit.ask(f"{i}?") for i in range(4)])
    assert len(generations) == 4
    assert not meeting.broken


def test_answers_come_back_in_the_order_asked(dialect: Any, server: Any, kit: Any) -> None:
    first_may_go = threading.Event()

    def respond(received: Any) -> Any:
        question = dialect.content(received.body)[0][1][-1][1].removeprefix("Look.\n")
        body = dialect.ok(json.dumps({"colour": question}))
        if question == "first":
            return kit.Response(body=body, before=lambda: first_may_go.wait(20))
        return kit.Response(body=body, before=first_may_go.set)

    server.respond(respond)
    generations = kit.quick(dialect.provider()).generate([kit.ask("first"), kit.ask("second")])
    assert [generation.reply.colour for generation in generations] == ["first", "second"]


def test_no_more_are_under_way_than_allowed_over_all_threads(named_dialect: Any, server: Any, kit: Any) -> None:
    dialect = named_dialect("openai")
    pairs = threading.Barrier(2)
    server.respond(kit.Response(body=dialect.ok(GOOD), before=lambda: pairs.wait(20)))
    backbone = kit.quick(dialect.provider(), concurrency=2)
    batches = [[kit.ask(f"{thread}-{i}?") for i in range(4)] for thread in range(2)]
    threads = [threading.Thread(target=backbone.generate, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(server.received) == 8
    assert server.most_under_way == 2


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_trouble_that_passes_is_waited_out(dialect: Any, server: Any, kit: Any, status: int) -> None:
    busy = kit.Response(status=status, body=dialect.error("busy"), headers={"retry-after": "0.05"})
    server.respond(busy, busy, kit.Response(body=dialect.ok(GOOD)))
    (generation,) = kit.quick(dialect.provider()).generate([kit.ask()])
    assert generation.reply.colour == "red"
    assert generation.seconds >= 0.1  # what the service asked to wait, twice
    assert len(server.received) == 3  # the SDK retries nothing of its own


def test_a_service_that_asks_to_wait_past_the_deadline_is_given_up_at_once(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(kit.Response(status=429, body=dialect.error("slow down"), headers={"retry-after": "3600"}))
    with pytest.raises(BackboneError, match=r"no answer within 20 s after 1 attempt; .*429, slow down$"):
        kit.quick(dialect.provider()).generate([kit.ask()])
    assert len(server.received) == 1


def test_a_service_that_stays_down_is_given_up_at_the_deadline(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(kit.Response(status=503, body=b"<html>down</html>", headers={"content-type": "text/html"}))
    with pytest.raises(BackboneError, match=r"no answer within 0.3 s after \d+ attempts; .*503"):
        kit.quick(dialect.provider(), deadline_seconds=0.3).generate([kit.ask()])
    assert len(server.received) >= 2


def test_a_slow_attempt_is_left_and_tried_again(dialect: Any, server: Any, kit: Any) -> None:
    slow = kit.Response(body=dialect.ok(GOOD), before=lambda: server.released.wait(20))
    server.respond(slow, kit.Response(body=dialect.ok(GOOD)))
    (generation,) = kit.quick(dialect.provider(), attempt_seconds=0.5).generate([kit.ask()])
    assert generation.reply.colour == "red"
    assert len(server.received) == 2


def test_a_server_that_sends_a_byte_now_and_then_does_not_hold_a_request(dialect: Any, server: Any, kit: Any) -> None:
    drip = kit.Response(body=dialect.ok(GOOD) | {"pad": "x" * 100_000}, drip=True)
    server.respond(drip, kit.Response(body=dialect.ok(GOOD)))
    (generation,) = kit.quick(dialect.provider(), attempt_seconds=0.5).generate([kit.ask()])
    assert generation.reply.colour == "red"


def test_a_connection_cut_in_the_middle_of_the_body_is_tried_again(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(kit.Response(body=dialect.ok(GOOD), cut=True), kit.Response(body=dialect.ok(GOOD)))
    (generation,) = kit.quick(dialect.provider()).generate([kit.ask()])
    assert generation.reply.colour == "red"


@pytest.mark.parametrize("body", [b'{"half": ', b"<html>hello</html>", b"{}", b"[]", b"null"])
def test_a_body_that_is_no_answer_is_tried_again(dialect: Any, server: Any, kit: Any, body: bytes) -> None:
    server.respond(kit.Response(body=body), kit.Response(body=dialect.ok(GOOD)))
    (generation,) = kit.quick(dialect.provider()).generate([kit.ask()])
    assert generation.reply.colour == "red"


def test_no_server_at_all(dialect: Any, server: Any, kit: Any) -> None:
    backbone = kit.quick(dialect.provider())
    server.close()
    with pytest.raises(BackboneError, match=r"no connection after 4 attempts .*; is the server running\?"):
        backbone.generate([kit.ask()])


class GoneAway:
    """A service that answered once, and then nobody listens any more."""

    name, key_hint, optional, identity = "gone:m", "nothing", {}, {}

    def __init__(self) -> None:
        self.calls = 0

    def complete(self, ask: Any, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        self.calls += 1
        if self.calls == 1:
            return Completion(GOOD)
        raise ServiceError(None, "Connection refused", unreachable=True)


def test_a_service_that_was_there_is_waited_for(kit: Any) -> None:
    provider = GoneAway()
    backbone = kit.quick(provider, deadline_seconds=0.5)
    backbone.generate([kit.ask()])
    with pytest.raises(BackboneError, match=r"no answer within 0.5 s .*no response"):
        backbone.generate([kit.ask()])
    assert provider.calls > 5  # more than a service gets that was never reached


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_one_sentence_that_names_the_variable_and_not_the_key(
    dialect: Any, server: Any, kit: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="trace_ves")
    server.respond(kit.Response(status=status, body=dialect.error(f"Incorrect API key provided: {kit.SECRET}")))
    backbone = kit.quick(dialect.provider())
    with pytest.raises(BackboneError, match=rf"refused the credentials \(HTTP {status}\); check \w+_API_KEY") as caught:
        backbone.generate([kit.ask()])
    assert len(server.received) == 1
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    shown = "".join(traceback.format_exception(caught.value))
    for text in (str(caught.value), shown, repr(backbone), repr(vars(backbone)), caplog.text):
        assert kit.SECRET not in text


def test_an_unknown_model_and_a_bad_request_are_said_once_without_the_key(dialect: Any, server: Any, kit: Any) -> None:
    backbone = kit.quick(dialect.provider())
    server.respond(kit.Response(status=404, body=dialect.error("model m not found")))
    with pytest.raises(BackboneError, match=r"no such model or address \(HTTP 404\): model m not found"):
        backbone.generate([kit.ask()])
    server.respond(kit.Response(status=400, body=dialect.error(f"too many images\nfor {kit.SECRET} " + "x" * 9999)))
    with pytest.raises(BackboneError, match=r"HTTP 400\): too many images for \[key\] x+…") as caught:
        backbone.generate([kit.ask()])
    assert len(str(caught.value)) < 500
    assert len(server.received) == 2


def test_a_failure_is_raised_after_the_rest_of_the_batch_is_answered(dialect: Any, server: Any, kit: Any) -> None:
    failed = threading.Event()

    def respond(received: Any) -> Any:
        if "bad" in json.dumps(received.body):
            return kit.Response(status=404, body=dialect.error("no"), before=failed.set)
        return kit.Response(body=dialect.ok(GOOD), before=lambda: failed.wait(20))

    server.respond(respond)
    backbone = kit.quick(dialect.provider())
    outcomes = dict(backbone.generate_as_completed([kit.ask("bad"), kit.ask("good"), kit.ask("fine")]))
    assert isinstance(outcomes[0], BackboneError)
    assert [outcomes[place].reply.colour for place in (1, 2)] == ["red", "red"]
    with pytest.raises(BackboneError, match="404"):
        backbone.generate([kit.ask("bad"), kit.ask("good")])
    assert len(server.received) == 5


def test_a_reply_cut_short_is_repaired_by_showing_the_model_what_is_wrong(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(
        kit.Response(body=dialect.ok(GOOD[:20], read=100, output=5)),
        kit.Response(body=dialect.ok(GOOD, read=130, output=9)),
    )
    (generation,) = kit.quick(dialect.provider()).generate([kit.ask("Which?", kit.clip(1.0, [5]))])
    assert generation.reply.colour == "red"
    assert generation.usage == Usage(230, 0, 14)
    first, reply, complaint = dialect.content(server.received[1].body)
    assert [first] == dialect.content(server.received[0].body)  # the frames again, as a literal prefix
    assert reply == ("assistant", [("text", GOOD[:20])])
    assert complaint[0] == "user"
    assert "not valid JSON" in complaint[1][0][1]


def test_a_reply_that_stays_wrong_is_a_fault_on_record(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(kit.Response(body=dialect.ok('{"colour": 7, "seconds": -1}', read=10, output=1)))
    (generation,) = kit.quick(dialect.provider()).generate([kit.ask()])
    assert isinstance(generation.reply, ModelFault)
    assert "colour: Input should be a valid string; seconds: " in generation.reply.reason
    assert generation.reply.raw == '{"colour": 7, "seconds": -1}'
    assert generation.usage == Usage(20, 0, 2)
    assert len(server.received) == 2


def test_refusals_blocks_and_cut_or_empty_replies_are_faults_of_their_own(dialect: Any, server: Any, kit: Any) -> None:
    cases = {
        "The model refused to answer": dialect.refusal,
        "A filter of the provider blocked the answer": dialect.blocked,
        "The reply was cut off at the limit": dialect.length('{"colour": "re'),
        "The model used up its output without a word": dialect.length(""),
        "The model gave an empty reply": dialect.ok(" \n"),
    }
    for reason, body in cases.items():
        if body is None:
            continue
        server.received.clear()
        server.respond(kit.Response(body=body))
        (generation,) = kit.quick(dialect.provider()).generate([kit.ask()])
        assert isinstance(generation.reply, ModelFault)
        assert generation.reply.reason.startswith(reason)
        assert len(server.received) == 1  # asking again would not mend it


def test_a_whole_reply_counts_even_where_the_model_went_on_until_the_limit(dialect: Any, server: Any, kit: Any) -> None:
    server.respond(kit.Response(body=dialect.length(GOOD + "\n" * 50)))
    (generation,) = kit.quick(dialect.provider()).generate([kit.ask()])
    assert generation.reply.colour == "red"


def test_an_interrupted_batch_sends_nothing_more(named_dialect: Any, server: Any, kit: Any) -> None:
    dialect = named_dialect("openai")
    server.respond(kit.Response(body=dialect.ok(GOOD)), kit.Response(status=500, body=dialect.error("no")))
    backbone = kit.quick(dialect.provider(), concurrency=1, first_wait_seconds=0.2)
    outcomes = backbone.generate_as_completed([kit.ask(f"{i}") for i in range(50)])
    next(outcomes)
    outcomes.close()
    seen = len(server.received)
    backbone._slots.acquire(timeout=20)  # the worker has let go
    assert len(server.received) <= seen + 1


def test_an_empty_batch_is_no_call(dialect: Any, server: Any, kit: Any) -> None:
    assert kit.quick(dialect.provider()).generate([]) == []
    assert server.received == []


INTERRUPTED = """
import sys
from pydantic import BaseModel
from trace_ves.backbone import Prompt, Request, open_backbone

class Reply(BaseModel):
    colour: str

backbone = open_backbone("openai:m@" + sys.argv[1] + "/v1")
try:
    backbone.generate([Request(Prompt("look", str(i)), {}, Reply) for i in range(3)])
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_does_not_wait_for_answers_under_way(named_dialect: Any, server: Any, kit: Any) -> None:
    dialect = named_dialect("openai")
    asked = threading.Barrier(4)
    server.respond(
        kit.Response(body=dialect.ok(GOOD), before=lambda: (asked.wait(30), server.released.wait(120))),
    )
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, server.url]) as process:
        asked.wait(30)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130  # the answers would have come after two minutes
