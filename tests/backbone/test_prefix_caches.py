"""Requests that begin alike are sent so that providers find again what they have read, by the rules they publish."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.cache_servers import CacheServer, cache_server, environment
from tests.fakes import DIALECTS, GOOD, Sighting, Still, make_request, quick_backbone

from trace_ves.backbone import Backbone, open_backbone
from trace_ves.backbone.prompt_caches import MOST_ENDS, PrefixCache, SendOrder, Step, plan
from trace_ves.backbone.protocol import Request
from trace_ves.backbone.provider import ServiceError, TextPart
from trace_ves.core import BackboneError, Clip, Frame, Interval, ObservationStrategy

Opener: TypeAlias = "Callable[..., tuple[CacheServer, Backbone]]"


SPECS = ["anthropic:claude-sonnet-5", "openai:gpt-5.4-mini", "openai:gpt-5.6-terra", "gemini:gemini-3.8-flash"]
CLAUDE, _, GPT_NEW, GEMINI = SPECS


@cache
def bundle(clips: int, frames: int = 4, height: int = 720) -> tuple[Clip, ...]:
    def clip(start: int) -> Clip:
        stills = [Still(start + i, height, 16 * height // 9) for i in range(frames)]
        pictures = tuple(Frame(i, float(start + i), still) for i, still in enumerate(stills))
        return Clip(Interval(start, start + frames), ObservationStrategy(), pictures)

    return tuple(clip(10 * number) for number in range(clips))


def requests(*clips: int, reply: Any = Sighting) -> list[Request[Any]]:
    return [make_request("Which?", *bundle(count), reply=reply) for count in clips]


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    def open_one(spec: str, **options: Any) -> tuple[CacheServer, Backbone]:
        server = servers.enter_context(cache_server(spec, lambda _: GOOD))
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        return server, open_backbone(spec, cache=False, **options)

    with ExitStack() as servers:
        yield open_one


def test_the_longest_goes_first_and_the_others_find_what_it_left(spec: str, opened: Opener) -> None:
    server, backbone = opened(spec)
    batch = requests(2, 4, 3)
    generations = backbone.generate(batch)
    assert [generation.reply.colour for generation in generations] == ["red"] * 3
    assert server.prompts[0].tokens == max(prompt.tokens for prompt in server.prompts)
    assert [prompt.stream for prompt in server.prompts] == [True, False, False]  # others wait for its first word alone
    assert server.counted[0].read == 0
    for generation, request in zip(generations, batch, strict=True):
        share = generation.usage.cached_tokens / generation.usage.input_tokens
        assert share == 0 if len(request.clips) == 4 else share > 0.8
    assert sum(counted.read for counted in server.counted) == sum(each.usage.cached_tokens for each in generations)
    written = sum(each.usage.cache_write_tokens or 0 for each in generations)
    assert written == sum(counted.written for counted in server.counted)
    assert (written > 0) == (spec in {CLAUDE, GPT_NEW})


def test_what_nobody_shares_is_not_written(spec: str, opened: Opener) -> None:
    server, backbone = opened(spec)
    for request in requests(1, 3):
        backbone.generate([request])
    assert [counted.written for counted in server.counted] == [0, 0]
    assert [prompt.stream for prompt in server.prompts] == [False, False]


def test_beginnings_that_are_too_short_to_be_kept_are_not_waited_for(opened: Opener) -> None:
    server, backbone = opened(CLAUDE)
    server.expect_together(2)  # were one waited for, the server would wait for the other for ever
    short = [make_request("Which?", *bundle(count, frames=1, height=144)) for count in (1, 2)]
    backbone.generate(short)
    assert [counted.written for counted in server.counted] == [0, 0]


def test_equal_frames_of_repeated_draws_are_read_once(spec: str, opened: Opener) -> None:
    _, backbone = opened(spec)
    draws = [make_request("Which?", *bundle(4), sample=sample) for sample in range(3)]
    generations = backbone.generate(draws)
    assert [generation.usage.cached_tokens > 4096 for generation in generations] == [False, True, True]


class Short(BaseModel):
    colour: str


def test_the_replay_hits_only_where_the_schema_is_no_part_of_the_beginning(spec: str, opened: Opener) -> None:
    """A replay asks from the same clips with another schema, which Anthropic and OpenAI read before the clips."""
    _, backbone = opened(spec)
    backbone.generate(requests(3, 4))
    (replayed,) = backbone.generate(requests(4, reply=Short))
    assert (replayed.usage.cached_tokens > 0) == (spec == GEMINI)
    _, in_words = opened(spec, reply_format="words")
    in_words.generate(requests(3, 4))
    (replayed,) = in_words.generate(requests(4, reply=Short))
    assert replayed.usage.cached_tokens > 0.8 * replayed.usage.input_tokens


def test_openai_is_told_which_requests_belong_together(opened: Opener) -> None:
    server, backbone = opened(GPT_NEW)
    backbone.generate(requests(2, 3))
    backbone.generate([make_request("Another?", *bundle(3))])
    keys = [prompt.key for prompt in server.prompts]
    assert keys[0] == keys[1] != keys[2]
    assert "Which" not in (keys[0] or "")  # what goes to the provider twice is no second copy of the question
    assert [received.body["prompt_cache_options"] for received in server.received] == [{"mode": "explicit"}] * 3


def test_a_leader_that_fails_does_not_hold_the_others(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    server, backbone = opened(CLAUDE)
    provider: Any = backbone._provider  # type: ignore[attr-defined]
    complete = provider.complete

    def fail_first(call: Any, **options: Any) -> Any:
        if call.on_begin is not None:
            raise ServiceError(400, "no")
        return complete(call, **options)

    monkeypatch.setattr(provider, "complete", fail_first)
    outcomes = dict(backbone.generate_as_completed(requests(2, 4, 3)))  # type: ignore[attr-defined]
    assert isinstance(outcomes[1], BackboneError)
    assert len(server.prompts) == 2


@pytest.mark.parametrize("fault", ["cut", "ends", "error"])
def test_a_response_that_breaks_off_while_it_streams_is_asked_for_again(spec: str, opened: Opener, fault: str) -> None:
    server, _ = opened(spec)
    scheme, _, model = spec.partition(":")
    backbone = quick_backbone(DIALECTS[scheme].provider(model))
    server.next_fault = fault
    generations = backbone.generate(requests(3, 4))
    assert [generation.reply.colour for generation in generations] == ["red", "red"]
    assert [prompt.stream for prompt in server.prompts].count(True) == 2
    # OpenAI reports tokens at the end of a stream alone, the others before.
    counts = [generation.usage.input_tokens for generation in generations]
    assert (counts[1] > 1.5 * counts[0]) == (scheme != "openai")


def test_nothing_is_imported_while_a_failure_is_handled(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be loading a module of the SDK at that moment, of which half would be seen."""

    def load_half(name: str) -> object:
        raise AttributeError(f"partially initialized module {name!r} has no attribute 'HTTPError'")

    server, _ = opened(GPT_NEW)
    backbone = quick_backbone(DIALECTS["openai"].provider(GPT_NEW.partition(":")[2]))
    monkeypatch.setattr("trace_ves.backbone.provider.importlib", SimpleNamespace(import_module=load_half))
    server.next_fault = "cut"
    assert [each.reply.colour for each in backbone.generate(requests(3, 4))] == ["red", "red"]


def test_a_service_that_streams_nothing_is_waited_for_until_its_response_has_ended(spec: str, opened: Opener) -> None:
    server, backbone = opened(spec)
    server.refuses_stream = True
    for _ in range(2):
        generations = backbone.generate(requests(3, 4))
        assert generations[0].usage.cached_tokens > 0
    assert not any(prompt.stream for prompt in server.prompts)


def texts(*lengths: int) -> list[tuple[TextPart, ...]]:
    return [(*(TextPart(str(number)) for number in range(length)), TextPart("?")) for length in lengths]


def count(parts: Sequence[object]) -> int:
    return 100 * len(parts)


def test_the_plan_of_a_batch() -> None:
    rules = PrefixCache(SendOrder.LONGEST_FIRST, least_tokens=200)
    other = (TextPart("x"), TextPart("y"), TextPart("?"))
    leader, alone = Step(2, None, leads=True, shared_ends=(2, 3)), [Step(at, None, False, ()) for at in (4, 0)]
    followers = [Step(3, 2, False, (2, 3)), Step(1, 2, False, (2,))]
    assert plan([*texts(1, 2, 4, 3), other], rules, count) == [leader, *alone, *followers]
    in_turn = plan(texts(3, 1, 2), PrefixCache(SendOrder.GROWING), count)
    assert in_turn == [Step(at, None, False, ()) for at in (1, 2, 0)]


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=8),
    st.sampled_from([SendOrder.LONGEST_FIRST, SendOrder.GROWING]),
    st.integers(0, 400),
)
def test_every_request_is_sent_once_and_waits_for_one_that_it_begins_like(
    batch: list[list[int]], order: SendOrder, least: int
) -> None:
    asked = [(*(TextPart(str(number)) for number in parts), TextPart("?")) for parts in batch]
    steps = plan(asked, PrefixCache(order, least_tokens=least), count)
    assert sorted(step.place for step in steps) == list(range(len(batch)))
    sent: set[int] = set()
    leaders = {step.place: step for step in steps if step.leads}
    for step in steps:
        frames = asked[step.place][:-1]
        assert len(step.shared_ends) <= MOST_ENDS
        assert all(0 < end <= len(frames) for end in step.shared_ends)
        for leader in [] if step.after is None else [step.after]:
            assert leader in sent
            assert asked[leader][: len(frames)] == frames
            assert count(frames) >= least
            assert set(step.shared_ends) <= set(leaders[leader].shared_ends)
        sent.add(step.place)
