"""Every provider, over real HTTP: what is sent, what is understood, and what happens when a service fails."""

import json
import logging
import signal
import subprocess
import sys
import threading
import traceback
from functools import partial

import pytest
from tests.fakes import (
    OPENAI,
    SECRET,
    Dialect,
    Response,
    Server,
    Sighting,
    Still,
    ask_once,
    make_clip,
    make_request,
    quick_backbone,
    run_threads,
)

from trace_ves.backbone import ModelFault
from trace_ves.core import BackboneError
from trace_ves.observer import Observer
from trace_ves.records import Usage

GOOD = json.dumps({"colour": "red", "seconds": 3.5, "where": ["left"]})


def written(dialect: Dialect, tokens: int) -> int | None:
    """What the server of these tests says it wrote into its cache: a token a call, and only Anthropic's says so."""
    return tokens if dialect.name == "anthropic" else None


def test_a_schema_is_asked_for_and_an_answer_comes_back_validated_with_its_tokens(
    dialect: Dialect, server: Server
) -> None:
    generation = ask_once(dialect, server, Response(body=dialect.ok(GOOD, read=1200, cached=1000, output=34)))
    assert generation.reply == Sighting(colour="red", seconds=3.5, where=["left"])
    assert generation.usage == Usage(1200, 1000, 34, written(dialect, 1))
    assert generation.seconds > 0
    assert dialect.key(server.received[0]) == SECRET
    schema = dialect.schema(server.received[0].body)
    assert set(schema["properties"]) == {"colour", "seconds", "where"}
    assert schema["properties"]["colour"]["type"] == "string"


def test_frames_come_first_in_order_each_with_its_time_and_the_words_last(dialect: Dialect, server: Server) -> None:
    request = make_request("Which?", make_clip(70.0, [10, 20]), make_clip(4.0, [30]))
    ask_once(dialect, server, Response(body=dialect.ok(GOOD)), request=request)
    one, two, three = (("image", Still(shade).jpeg()) for shade in (10, 20, 30))
    first = [("text", "Clip 1, 70.0-72.0 s"), ("text", "t=70.00 s"), one, ("text", "t=70.50 s"), two]
    second = [("text", "Clip 2, 4.0-5.0 s"), ("text", "t=4.00 s"), three]
    assert dialect.content(server.received[0].body) == [("user", [*first, *second, ("text", "Look.\nWhich?")])]


def test_no_more_are_under_way_than_allowed_over_all_threads(server: Server) -> None:
    pairs = threading.Barrier(2)
    server.respond(Response(body=OPENAI.ok(GOOD), before=lambda: pairs.wait(20)))
    backbone = quick_backbone(OPENAI.provider(), concurrency=2)
    batches = [[make_request(f"{thread}-{i}?") for i in range(4)] for thread in range(2)]
    run_threads(*(partial(backbone.generate, batch) for batch in batches))
    assert len(server.received) == 8
    assert server.most_under_way == 2


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_trouble_that_passes_is_waited_out(dialect: Dialect, server: Server, status: int) -> None:
    busy = Response(status=status, body=dialect.error("busy"), headers={"retry-after": "0.05"})
    generation = ask_once(dialect, server, busy, busy, Response(body=dialect.ok(GOOD)))
    assert generation.reply.colour == "red"
    assert generation.seconds >= 0.1  # what the service asked to wait, twice
    assert len(server.received) == 3  # the SDK retries nothing of its own


def test_a_service_that_asks_to_wait_past_the_deadline_is_given_up_at_once(dialect: Dialect, server: Server) -> None:
    server.respond(Response(status=429, body=dialect.error("slow down"), headers={"retry-after": "3600"}))
    with pytest.raises(BackboneError, match=r"no answer within 20 s after 1 attempt; .*429, rate limit: slow down\.$"):
        quick_backbone(dialect.provider(), concurrency=1).generate([make_request("a"), make_request("b")])
    assert len(server.received) == 2  # the second did not wait for an hour


def test_a_server_that_sends_a_byte_now_and_then_does_not_hold_a_request(server: Server) -> None:
    drip = Response(body=OPENAI.ok(GOOD) | {"pad": "x" * 100_000}, drip=server.released)
    server.respond(drip, Response(body=OPENAI.ok(GOOD)))
    (generation,) = quick_backbone(OPENAI.provider(), attempt_seconds=0.5).generate([make_request()])
    assert generation.reply.colour == "red"


def test_no_server_at_all(dialect: Dialect, server: Server) -> None:
    backbone = quick_backbone(dialect.provider())
    server.close()
    with pytest.raises(BackboneError, match=r"no connection after 4 attempts .*; is the server running\?"):
        backbone.generate([make_request()])


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, r"refused the key \(HTTP 401\): no, \[key\] x+…; check \w+_API_KEY\.$"),
        (403, r"denied access \(HTTP 403\): no, \[key\] x+…; check \w+_API_KEY\.$"),
        (404, r"does not know this model or address \(HTTP 404\): no, \[key\] x+…\.$"),
        (400, r"refused the request \(HTTP 400\): no, \[key\] x+…\.$"),
    ],
)
def test_a_refusal_is_said_once_in_one_sentence_without_the_key(
    dialect: Dialect, server: Server, status: int, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="trace_ves")
    server.respond(Response(status=status, body=dialect.error(f"no,\n{SECRET} " + "x" * 9999)))
    backbone = quick_backbone(dialect.provider())
    with pytest.raises(BackboneError, match=sentence) as caught:
        backbone.generate([make_request()])
    assert (len(server.received), len(str(caught.value)) < 500) == (1, True)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    for text in ("".join(traceback.format_exception(caught.value)), repr(vars(backbone)), caplog.text):
        assert SECRET not in text


def test_a_reply_of_the_wrong_form_is_repaired_without_sending_its_frames_again(
    dialect: Dialect, server: Server
) -> None:
    wrong = '{"color": "red"}'
    said = (dialect.ok(wrong, read=100, output=5), dialect.ok(GOOD, read=130, output=9))
    request = make_request("Which?", make_clip(1.0, [5]))
    generation = ask_once(dialect, server, *(Response(body=body) for body in said), request=request)
    assert (generation.reply.colour, generation.sends) == ("red", 1)
    assert generation.usage == Usage(230, 0, 14, written(dialect, 2))
    (_, before), reply, complaint = dialect.content(server.received[1].body)
    (_, first) = dialect.content(server.received[0].body)[0]
    assert before == [part for part in first if part[0] == "text"]
    assert reply == ("assistant", [("text", wrong)])
    assert (complaint[0], "colour: Field required" in complaint[1][0][1]) == ("user", True)


@pytest.mark.parametrize("lost", [GOOD[:20], ""])
def test_a_reply_that_is_lost_is_asked_for_again_and_its_frames_count_twice(
    dialect: Dialect, server: Server, lost: str
) -> None:
    server.respond(Response(body=dialect.ok(lost)), Response(body=dialect.ok(GOOD)))
    backbone = quick_backbone(dialect.provider())
    observer = Observer(None, backbone, budget=3)  # type: ignore[arg-type]
    (reply,) = observer.ask([make_request("Which?", make_clip(1.0, [5, 6]))])
    assert isinstance(reply, Sighting)
    assert server.received[0].body == server.received[1].body
    assert (observer.log.frames_supplied, observer.remaining) == (4, 0)


def test_refusals_blocks_and_cut_or_empty_replies_are_faults_of_their_own(dialect: Dialect, server: Server) -> None:
    cases = {
        "The model refused to answer": dialect.refusal,
        "A filter of the provider blocked the answer": dialect.blocked,
        "The reply was cut off at the limit": dialect.length('{"colour": "re'),
        "The model used up its output without a word": dialect.length(""),
    }
    for reason, body in [(reason, body) for reason, body in cases.items() if body is not None]:
        server.received.clear()
        fault = ask_once(dialect, server, Response(body=body)).reply
        assert isinstance(fault, ModelFault)
        assert fault.reason.startswith(reason)
        assert len(server.received) == 1  # asking again would not help


def test_an_interrupted_batch_sends_nothing_more(server: Server) -> None:
    server.respond(Response(body=OPENAI.ok(GOOD)), Response(status=500, body=OPENAI.error("no")))
    backbone = quick_backbone(OPENAI.provider(), concurrency=1, first_wait_seconds=0.2)
    outcomes = backbone.generate_as_completed([make_request(f"{i}") for i in range(50)])
    next(outcomes)
    outcomes.close()
    seen = len(server.received)
    with backbone._attempts.slots.hold():  # the worker has let go
        pass
    assert len(server.received) <= seen + 1


def test_an_empty_batch_is_no_call(dialect: Dialect, server: Server) -> None:
    assert quick_backbone(dialect.provider()).generate([]) == []
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


def test_ctrl_c_does_not_wait_for_answers_under_way(server: Server) -> None:
    asked = threading.Barrier(4)
    server.respond(Response(body=OPENAI.ok(GOOD), before=lambda: (asked.wait(120), server.released.wait(300))))
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, server.url]) as process:
        try:
            asked.wait(120)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130  # the answers would have come after five minutes
        finally:
            process.kill()
