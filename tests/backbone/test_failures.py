"""Every failure that providers are known to produce, through the real SDKs: what is retried, and what users read."""

import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import (
    DIALECTS,
    GOOD,
    OPENAI,
    SECRET,
    Dialect,
    Received,
    Response,
    ScriptedProvider,
    Server,
    Sighting,
    ask_once,
    make_clip,
    make_request,
    openai_ok,
    quick_backbone,
    run_threads,
)
from tests.films import write_film

from trace_ves.backbone import open_backbone
from trace_ves.backbone.model_settings import ModelSettings
from trace_ves.backbone.provider import Completion, CompletionRequest, ServiceError, TextPart
from trace_ves.backbone.retry import NOTICES, PERMANENT_CAUSES, is_retryable, refusal_message
from trace_ves.benches import write_bench
from trace_ves.construction.proposal import NoFootage
from trace_ves.core import BackboneError, Interval, Question
from trace_ves.observer import Observer
from trace_ves.records import Item, Usage
from trace_ves.runs.cost import CostLimit, LimitedBackbone
from trace_ves.runs.prices import Price, Prices

Call = Callable[..., tuple[int, str, str]]

ANSWER = json.dumps({"answer": "A"})
LLAMA = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
GEMINI_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20"}],
}
OPENROUTER = {"error": {"code": 402, "message": "Insufficient credits", "metadata": {"raw": "top up at example.org"}}}

SPENT = "enforced_spend_limit_reached"

PERMANENT: list[tuple[str, int, Any, str]] = [
    ("openai", 500, {"error": {"code": 500, "message": LLAMA, "type": "server_error"}}, "unsupported input"),
    ("openai", 404, {"error": {"message": "No endpoints found that support image input"}}, "unsupported input"),
    ("openai", 429, {"error": {"message": "Request too large for gpt-4o on tokens per min (TPM)"}}, "too large"),
    ("openai", 500, {"error": {"message": "the request exceeds the available context size"}}, "too large"),
    ("openai", 429, {"error": {"message": "Rate limit reached on requests per day (RPD): Limit 200"}}, "no quota"),
    ("gemini", 429, {"error": {"code": 429, "message": "Quota exceeded, limit: 0", "status": "X"}}, "no quota"),
    ("gemini", 429, {"error": {"code": 429, "message": "Quota", "status": "X", "details": [GEMINI_DAY]}}, "no quota"),
    ("openai", 429, {"error": {"message": "Insufficient quota", "code": "insufficient_quota"}}, "no credit"),
    ("openai", 200, OPENROUTER, "no credit"),
    ("openai", 200, openai_ok("", error=OPENROUTER["error"], finish_reason="error"), "no credit"),
    ("anthropic", 400, {"error": {"type": "x", "message": "Your credit balance is too low"}}, "no credit"),
    ("anthropic", 429, {"error": {"message": "Insufficient funds", "details": {"error_code": SPENT}}}, "no credit"),
]


@pytest.mark.parametrize(("name", "status", "body", "cause"), PERMANENT)
def test_what_cannot_succeed_is_said_at_once_in_the_services_words(
    server: Server, name: str, status: int, body: Any, cause: str
) -> None:
    with pytest.raises(BackboneError, match=PERMANENT_CAUSES[cause]) as caught:
        ask_once(DIALECTS[name], server, Response(status=status, body=body))
    assert len(server.received) == 1, caught.value
    assert {each[-1] for each in PERMANENT} == set(PERMANENT_CAUSES)


PAGE = b"<!DOCTYPE html><html><head><title>Not here</title></head><body>nginx</body></html>"
HTML = {"content-type": "text/html"}
RESPONSES: dict[str, tuple[Response, str]] = {  # what no provider documents, and what users read about it
    "a page for a 403": (Response(403, PAGE, HTML), r"denied access \(HTTP 403\): a web page, 'Not here'; check KEY"),
    "a page for a 413": (Response(413, PAGE, HTML), "a web page, 'Not here'; use fewer or smaller frames"),
    "a redirect": (Response(307, b"", {"location": "http://127.0.0.1:9/x"}), "redirects to another address"),
    "a page for a 200": (Response(200, PAGE, HTML), "no usable response: the response is not JSON but .*Not here"),
    "text for JSON": (Response(200, b"{oops"), "no usable response: the response is not JSON but '{oops'"),
    "half a body": (Response(200, b"{}" * 99, cut=True), "peer closed connection without sending complete message"),
    "half of JSON": (Response(200, b'{"half": '), "no usable response: the response is not JSON but '{\"half\":'"),
    "null": (Response(200, b"null"), "no usable response: the response has no answer in it"),
    "an empty object": (Response(200, b"{}"), "no usable response: the response has no answer in it"),
    "an empty list": (Response(200, b"[]"), "no usable response: "),
    "JSON too deep to read": (Response(200, b'{"choices": ' + b"[" * 100_000), "no usable response: "),
    "an error too deep to read": (Response(500, b'{"choices": ' + b"[" * 100_000), "HTTP 500|no usable response"),
    "a page for a 502": (Response(502, PAGE, HTML), "HTTP 502: a web page, 'Not here'"),
}


@pytest.mark.parametrize(("response", "message"), RESPONSES.values(), ids=RESPONSES)
def test_what_users_read_about_responses_that_no_provider_documents(
    dialect: Dialect, server: Server, response: Response, message: str
) -> None:
    server.respond(response)
    call = CompletionRequest((TextPart("Which?"),), Sighting.model_json_schema())
    with pytest.raises(ServiceError) as caught:
        dialect.provider().complete(call, features=frozenset({"schema"}), timeout_seconds=20)
    assert is_retryable(caught.value) == (response.status in {200, 500, 502})
    assert caught.value.unreachable == (response.status == 200 and response.body == PAGE)  # asked only four times
    refused = refusal_message("m", caught.value, key_hint="KEY")
    assert re.search(message, caught.value.summary if is_retryable(caught.value) else refused)


def test_a_refused_schema_is_put_into_words_for_its_stage_alone(
    dialect: Dialect, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def respond(received: Received) -> Response:
        refused = dialect.schema(received.body) is not None and "Which" in json.dumps(received.body)
        return Response(400, dialect.error("Invalid schema: too deep")) if refused else Response(body=dialect.ok(GOOD))

    server.respond(respond)
    backbone = quick_backbone(dialect.provider())
    other = replace(make_request("Where?"), prompt=replace(make_request().prompt, stage="elsewhere"))
    for request in (make_request("Which?"), make_request("Which?"), other):
        backbone.generate([request])
    assert [dialect.schema(received.body) is None for received in server.received] == [False, True, True, False]
    (notice,) = [record.getMessage() for record in caplog.records if record.name == NOTICES.name]
    assert notice.endswith("of the stage look (HTTP 400: Invalid schema: too deep); the prompt states it instead.")


REFUSED = [
    ("openai", "uuid", "x" * 2000 + " [{'loc': ('body', 'messages', 0, 'uuid'), 'msg': 'Extra inputs'}]"),
    ("openai", "detail", "Unknown parameter: 'messages[0].content[2].image_url.detail'."),
    ("openai", "temperature", "Unsupported value: 'temperature' does not support 0 with this model."),
    ("openai", "max_tokens", "'max_tokens' is not supported with this model."),
    ("openai", "response_format", "This response_format type is unavailable now"),
    ("anthropic", "temperature", "`temperature` is deprecated for this model."),
    ("anthropic", "output_config", "output_config: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("name", "feature", "refusal"), REFUSED)
def test_what_a_service_refuses_is_left_out_from_then_on(server: Server, name: str, feature: str, refusal: str) -> None:
    dialect = DIALECTS[name]
    refused, good = Response(422, dialect.error(refusal)), Response(body=dialect.ok(GOOD))
    server.respond(lambda received: refused if f'"{feature}"' in json.dumps(received.body) else good)
    backbone = quick_backbone(dialect.provider("claude-opus-4-1"), model=ModelSettings(max_output_tokens=9))
    for _ in range(2):
        assert backbone.generate([make_request("Which?", make_clip(0.0, [1]))])[0].reply.colour == "red"
    sent = [f'"{feature}"' in json.dumps(received.body) for received in server.received]
    assert sent == [True, False, False]
    assert 9 in server.received[-1].body.values()  # by its newer name, where a model does not know the older one
    words = str(dialect.content(server.received[-1].body)[0][1][-1])
    assert ('"colour"' in words) == (feature in {"response_format", "output_config"})  # the schema, put into words


def test_an_attempt_that_is_given_up_is_charged_for_once_it_has_ended() -> None:
    late: Future[Completion] = Future()
    slow, good = ServiceError(None, "no complete response", attempt=late), Completion(GOOD, Usage(9))
    backbone = quick_backbone(ScriptedProvider(slow, good))
    assert backbone.generate([make_request()])[0].usage == Usage(9)
    late.set_result(Completion(GOOD, Usage(70)))
    charged = [backbone.generate([make_request()])[0].usage for _ in range(2)]
    assert charged == [Usage(79), Usage(9)]  # with a later call, and once
    with pytest.raises(BackboneError, match="gone") as caught:
        quick_backbone(ScriptedProvider(slow, ServiceError(404, "gone"))).generate([make_request()])
    assert caught.value.charged[0].usage == Usage(70)


def test_what_was_paid_before_a_question_failed_is_on_record_and_counts_for_the_limit(server: Server) -> None:
    bad = list[bool]()

    def respond(received: Received) -> Response:
        if "bad" not in json.dumps(received.body):
            return Response(body=OPENAI.ok(GOOD, read=10))
        bad.append(True)
        return Response(404, OPENAI.error("gone")) if bad[1:] else Response(body=OPENAI.ok(GOOD[:-1], read=70))

    server.respond(respond)
    limit = CostLimit(1.0, Prices({"openai:m": Price(1e6, 0, 0)}))
    observer = Observer(NoFootage(), LimitedBackbone(quick_backbone(OPENAI.provider()), limit))
    with pytest.raises(BackboneError, match="gone"):
        observer.ask([make_request("bad", make_clip(0.0, [1])), make_request("good", make_clip(0.0, [1, 2]))])
    assert [call.usage.input_tokens for call in observer.log.calls] == [70, 10]
    assert (observer.log.frames_supplied, limit.spent, limit.reached) == (2 + 2, 80, True)
    assert [len(call.replies) for call in observer.transcript("q").calls] == [1, 1]


def test_a_key_is_sent_to_its_own_host_alone(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server.respond(Response(401, {"error": {"message": "no key"}}))
    variable = f"TRACE_VES_127_0_0_1_{server.url.rpartition(':')[2]}_API_KEY"
    advice = f"no key; check {variable}, since OPENAI_API_KEY is sent only to api.openai.com"
    with pytest.raises(BackboneError, match=advice):
        open_backbone(f"openai:m@{server.url}/v1").generate([make_request()])
    monkeypatch.setenv(variable, "sk-of-this-server")
    server.respond(Response(body=openai_ok(GOOD)))
    open_backbone(f"openai:m@{server.url}/v1").generate([make_request()])
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "sk-of-azure")
    open_backbone("azure:mine", cache=False).generate([make_request()])
    sent = [received.headers["authorization"] for received in server.received]
    assert sent == ["Bearer none", "Bearer sk-of-this-server", "Bearer sk-of-azure"]
    assert server.received[-1].path == "/openai/v1/chat/completions"


def test_many_workers_on_a_small_quota_send_little_more_than_is_needed(server: Server) -> None:
    lock, times = threading.Lock(), list[float]()

    def respond(_: Received) -> Response:
        with lock:
            now = time.monotonic()
            if len([moment for moment in times if moment > now - 0.5]) >= 5:
                return Response(429, OPENAI.error("slow down"), headers={"retry-after": "0.5"})
            times.append(now)
        return Response(body=OPENAI.ok(GOOD), before=lambda: time.sleep(0.05))

    server.respond(respond)
    backbone = quick_backbone(OPENAI.provider(), concurrency=16, deadline_seconds=60)
    run_threads(*(partial(backbone.generate, [make_request(f"{i}-{n}") for n in range(2)]) for i in range(8)))
    assert len(times) == 16
    assert len(server.received) < 32  # without a rule for it, more than three times as many as needed


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    write_film(folder / "film.mp4", range(0, 200, 2), fps=5)
    question = Question("q1", "film.mp4", "Which?", ("red", "blue"))
    write_bench([Item(question, "A", (Interval(1, 2),), 20.0)], folder)
    return folder


def test_ask_and_run_show_what_the_service_said(server: Server, bench: Path, call: Call) -> None:
    server.respond(Response(500, OPENAI.error(LLAMA)))
    model = ("--method", "uniform-4", "--backbone", "openai:m", "--no-cache")
    status, _, said = call("ask", bench / "film.mp4", "Which?", *model)
    assert (status, LLAMA in said) == (2, True), said
    status, *_ = call("run", bench, *model, "--out", bench / "runs")
    (line,) = next((bench / "runs").glob("*.jsonl")).read_text().splitlines()
    assert (status, LLAMA in json.loads(line)["error"]) == (1, True), line
    server.respond(Response(status=529, body=OPENAI.error("Overloaded")), Response(body=OPENAI.ok(ANSWER)))
    words = ("ask", bench / "film.mp4", "Which?", "-o", "red", "-o", "blue", "--json", "--timeout", "30")
    _, answered, said = call(*words, *model)
    assert json.loads(answered)["answer"] == "A", said


def test_prices_are_shown_with_their_day(server: Server, bench: Path, tmp_path: Path, call: Call) -> None:
    server.respond(Response(body=OPENAI.ok(ANSWER, read=200)))
    prices = tmp_path / "prices.toml"
    prices.write_text('["openai:m"]\ninput = 50\ncached = 5\noutput = 50\ndate = 2026-05-01\n')
    own = ("--method", "uniform-4", "--backbone", "openai:m", "--no-cache", "--prices", prices)
    ask = ("ask", bench / "film.mp4", "Which?", "-o", "red", "-o", "blue", *own)
    run = ("run", bench, *own, "--out", tmp_path / "runs")
    for words, money in (
        (ask, "cost $0.0100 (list prices of 2026-05-01)"),
        ((*ask, "--estimate"), "List prices of 2026-05-01."),
        (run, "Cost $0.01 (list prices of 2026-05-01)"),
        ((*run, "--full"), "$0.01. List prices of 2026-05-01."),
    ):
        _, printed, said = call(*words)
        shown = " ".join((printed + said).replace("│", " ").split())
        assert money in shown, shown
    for words in (ask, (*ask, "--estimate"), run):
        _, shown, _ = call(*words, "--json")
        assert '"date":"2026-05-01"' in shown.replace(" ", ""), shown
    typed = "Which?\n/cost\nWho?\n"
    _, printed, said = call("ask", bench / "film.mp4", *own, "--max-cost", "0.01", stdin=typed)
    assert "200 tokens, $0.0100 (list prices of 2026-05-01)" in printed, said
    assert "stopped: the answers have cost $0.0100 (list prices of 2026-05-01), and --max-cost is $0.01." in said


def test_run_refuses_a_server_that_drops_frames_unless_it_is_allowed(
    server: Server, bench: Path, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    def respond(received: Received) -> Response:
        """Cut the prompt to the context without a word, as Ollama does."""
        images = [part for part in received.body["messages"][0]["content"] if part["type"] == "image_url"]
        return Response(body=openai_ok(ANSWER, read=min(60, 40 * len(images))))

    server.respond(respond)
    words = ("run", bench, "--method", "uniform-16", "--backbone", f"openai:m@{server.url}/v1")
    call(*words, "--out", bench / "refused")
    (line,) = next((bench / "refused").glob("*.jsonl")).read_text().splitlines()
    assert "--allow-dropped-frames" in json.loads(line)["error"]
    call(*words, "--out", bench / "allowed", "--allow-dropped-frames")
    (line,) = next((bench / "allowed").glob("*.jsonl")).read_text().splitlines()
    assert "so it dropped some" in caplog.text
    assert [call.get("suspect") for call in json.loads(line)["observations"]] == [True]
