"""What a request becomes before it is sent, when it is too large, and how dropped frames are told from small ones."""

import base64
import hashlib
from dataclasses import replace
from typing import Any

import pytest
from tests.fakes import GOOD, ScriptedProvider, Sighting, Still, make_clip, make_request, quick_backbone

from trace_ves.backbone import Prompt
from trace_ves.backbone.model_settings import Detail, ModelSettings, ReplyFormat, RequestLimits, ServiceTier, Thinking
from trace_ves.backbone.protocol import Generation, ModelFault, ScriptedBackbone
from trace_ves.backbone.provider import (
    Completion,
    CompletionRequest,
    FinishReason,
    ImagePart,
    ServiceError,
    TextPart,
    parse_count,
    request_parts,
    sampling_seed,
    truncate,
)
from trace_ves.backbone.registry import BackboneOptions
from trace_ves.backbone.remote import RemoteBackbone, _black_jpeg, collect
from trace_ves.backbone.secret import Key
from trace_ves.core import BackboneError
from trace_ves.records import Usage


class Recorder(ScriptedProvider):
    """Keeps what it was asked."""

    may_drop_frames = True

    def __init__(self, *outcomes: Completion | ServiceError) -> None:
        super().__init__(*outcomes)
        self.asked: list[CompletionRequest] = []

    def _send(self, call: CompletionRequest, features: frozenset[str], timeout_seconds: float) -> Completion:
        self.asked.append(call)
        return super()._send(call, features, timeout_seconds)


def said(tokens: int) -> Completion:
    return Completion(GOOD, Usage(tokens))


TALL = 3000
"""64 by 3,000 pixels are 2 by 94 patches; 64 by 36 are 2 by 2."""


@pytest.mark.parametrize(
    ("heights", "words", "frames", "probe", "suspect"),
    [
        ([TALL] * 4, 16, 677, None, False),  # 0.9 of 752 tokens
        ([TALL] * 4, 16, 676, 563, False),  # 0.6 of 4 frames that take 281.5 each
        ([TALL] * 4, 16, 676, 564, True),
        ([TALL] * 4, 16, 38, 32, True),  # 0.6 of 64
        ([TALL] * 4, 16, 39, 32, False),
        ([TALL] * 4, 16, 0, 31, False),  # a server that does not count frames
        ([TALL] * 3, 14, 0, None, False),  # so few fit into every context
        ([TALL, 36], 21, 245, 400, True),  # the other frames are smaller: 0.6 of 2.04 frames of 200
        ([TALL, 36], 21, 246, 400, False),
        ([36, TALL], 21, 47, 40, True),  # the others are larger: 0.6 of 4 frames of 20 at least
        ([36, TALL], 21, 48, 40, False),
    ],
)
def test_a_server_is_suspected_of_dropping_frames_from_what_two_black_ones_take(
    heights: list[int], words: int, frames: int, probe: int | None, suspect: bool
) -> None:
    sizes = [heights] if len(set(heights)) == 1 else [[height] * 2 for height in heights]
    clips = [make_clip(5.0 * place, [1] * len(each), height=each[0]) for place, each in enumerate(sizes)]
    provider = Recorder(said(words + frames), *([said(probe)] if probe else []), said(words + frames))
    backbone = quick_backbone(provider)
    for asked in (1, 1):  # the probe is sent once
        (generation,) = backbone.generate([make_request("Which?", *clips)])
        assert (generation.suspect, generation.sends) == (suspect, asked)
    assert len(provider.asked) == 2 + (probe is not None)
    probes = [call for call in provider.asked if call.parts[-1] == TextPart("Say nothing.")]
    black = ImagePart(_black_jpeg(64, heights[0]), heights[0], 64, ends_clip=provider.asked[0].parts[2].ends_clip)  # type: ignore[union-attr]
    parts = (black, black, TextPart("Say nothing."))
    asked_for = replace(provider.asked[0], parts=parts, shared_ends=(), max_output_tokens=64)
    assert probes == ([asked_for] if probe else [])


def test_frames_that_were_dropped_are_a_warning_or_where_it_is_refused_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sentence = (
        "scripted:m: the server reports 1,016 prompt tokens for 4 frames that take about 4,000, so it dropped some; "
        "give it a larger context (Ollama: OLLAMA_CONTEXT_LENGTH)"
    )
    request = make_request("Which?", make_clip(0.0, [1] * 4, height=6 * TALL))
    quick_backbone(Recorder(said(1016), said(2000))).generate([request])
    assert caplog.messages == [f"{sentence}."]
    refusing = RemoteBackbone(Recorder(said(1016), said(2000)), BackboneOptions(refuses_dropped_frames=True))
    with pytest.raises(BackboneError) as caught:
        refusing.generate([request])
    assert str(caught.value) == f"{sentence}, or allow it with --allow-dropped-frames."
    assert caught.value.charged[0].usage == Usage(3016)
    for unknown in (Recorder(said(1016), ServiceError(400, "no")), Recorder(said(0)), ScriptedProvider(said(1016))):
        assert not quick_backbone(unknown).generate([request])[0].suspect


def test_a_request_that_is_larger_than_the_provider_takes_it_is_not_sent() -> None:
    def refusal(limits: RequestLimits, *shades: int, text: str = "") -> str:
        provider = ScriptedProvider(Completion(GOOD))
        provider.limits = limits
        clips = [make_clip(0.0, list(shades))] if shades else []
        try:
            quick_backbone(provider).generate([make_request(text, *clips)])
        except BackboneError as error:
            assert provider.calls == 0
            return str(error)
        return ""

    said = "scripted:m: the request has {}, and the provider accepts {} in one request; use fewer {}frames."
    frames = [refusal(RequestLimits(images=2), *range(count)) for count in (1, 2, 3)]
    assert frames == ["", "", said.format("3 frames", 2, "")]
    large = refusal(RequestLimits(payload_bytes=2**21), text="x" * 4_000_000)
    assert large == said.format("3.8 MiB", "2 MiB", "or smaller ")
    words = len("Clip 1, 0.0-1.0 s" + "t=0.00 s" + "Look.\n")
    size = len(base64.b64encode(Still(7).jpeg())) + words
    assert [refusal(RequestLimits(payload_bytes=size + more), 7) == "" for more in (-1, 0)] == [False, True]
    assert [refusal(RequestLimits(payload_bytes=10), text="ü" * count) == "" for count in (2, 3)] == [True, False]


def test_the_call_that_a_request_becomes() -> None:
    provider = Recorder(Completion(GOOD))
    chosen = ModelSettings(temperature=0.4, thinking=Thinking.LOW, max_output_tokens=9, detail=Detail.LOW)
    request = make_request("Which?", make_clip(0.0, [1]), sample=2)
    quick_backbone(provider, model=chosen).generate([request])
    key = hashlib.sha256(b'{"question": "Which?", "options": null}').hexdigest()[:32]
    expected = CompletionRequest(
        request_parts(request),
        Sighting.model_json_schema(),
        temperature=0.4,
        thinking=Thinking.LOW,
        max_output_tokens=9,
        detail=Detail.LOW,
        seed=sampling_seed(request),
        stage="look",
        cache_key=key,
    )
    assert provider.asked == [expected]
    found = [RemoteBackbone(provider, BackboneOptions(concurrency=count)) for count in (1, None)]
    assert [backbone._attempts.slots._free for backbone in found] == [1, 8]
    for default, sample, temperature in ((0.0, 0, 0.0), (0.0, 1, 0.7), (None, 0, None), (None, 1, None)):
        provider.default_temperature = default
        request = make_request(sample=sample)
        quick_backbone(provider).generate([request])
        asked = provider.asked[-1]
        assert (asked.temperature, asked.service_tier) == (temperature, ServiceTier.STANDARD)
        assert asked.seed == (None if temperature == 0 else sampling_seed(request))
    provider.optional = {"schema": ""}
    for count, ends in ((1, ()), (2, (3, 6)), (6, (9, 12, 15, 18))):  # after the last frame of each clip, at most four
        for reply_format in ReplyFormat:
            asking = quick_backbone(provider, model=ModelSettings(reply_format=reply_format))
            asking.generate([make_request("", *(make_clip(9.0 * at, [1]) for at in range(count)))])
            assert provider.asked[-1].shared_ends == (ends if reply_format is ReplyFormat.WORDS else ())


def test_seeds_come_from_the_whole_request_and_last() -> None:
    clip = make_clip(3.0, [1, 2])
    request = make_request("Which?", clip, sample=1)
    different = [
        make_request("Which one?", clip, sample=1),
        make_request("Which?", clip, sample=2),
        make_request("Which?", make_clip(3.0, [1, 9]), sample=1),
        make_request("Which?", make_clip(4.0, [1, 2]), sample=1),
        make_request("Which?", sample=1),
        replace(request, prompt=Prompt("other", request.prompt.text)),
    ]
    seeds = [sampling_seed(other) for other in [request, *different]]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds[5] == 1099529277  # a run that is repeated years later asks with the same seeds


def test_the_answers_of_a_batch_are_in_order_and_its_first_failure_has_what_all_were_charged() -> None:
    def answer(tokens: int) -> Generation[Any]:
        return Generation(ModelFault("no"), Usage(tokens), 0.0)

    late, early = BackboneError("late"), BackboneError("early")
    late.charged, early.charged = {0: answer(7)}, {}
    assert collect(2, iter([(1, answer(1)), (0, answer(0))])) == [answer(0), answer(1)]
    with pytest.raises(BackboneError, match="early") as caught:
        collect(4, iter([(3, late), (0, answer(5)), (1, early), (2, answer(6))]))
    assert caught.value.charged == {0: answer(5), 2: answer(6), 3: answer(7)}


def test_a_failure_in_a_few_words() -> None:
    assert ServiceError(None, "").summary == "no usable response"
    assert ServiceError(429, "slow").summary == "HTTP 429, rate limit: slow"
    for length, end in ((200, ""), (201, "…")):
        assert ServiceError(500, "x" * length).summary == f"HTTP 500: {'x' * 200}{end}"


def test_counts_of_tokens_are_believed_up_to_a_limit() -> None:
    assert [parse_count(each) for each in (1, 10**12, 10**12 + 1, -1, True, 1.0)] == [1, 10**12, 0, 0, 0, 0]
    assert [truncate("abc", longest) for longest in (2, 3)] == ["ab…", "abc"]


def test_letters_beyond_ascii_are_not_escaped() -> None:
    assert Prompt("s", "$x: $y").render({"x": {"é": "ü"}, "y": "ß"}) == '{"é": "ü"}: ß'


def test_a_key_in_what_a_service_says_is_masked() -> None:
    provider = ScriptedProvider(
        Completion("a secret-0123456789", Usage(7), FinishReason.BLOCKED, "b secret-0123456789")
    )
    provider._key = Key("X_API_KEY", "secret-0123456789")
    said = provider.complete(CompletionRequest((), {}), features=frozenset(), timeout_seconds=1)
    assert said == Completion("a [key]", Usage(7), FinishReason.BLOCKED, "b [key]")


def test_a_repair_has_the_words_of_the_call_and_no_frames() -> None:
    call = CompletionRequest((TextPart("a"), ImagePart(b"", 36, 64), TextPart("b")), {}, shared_ends=(2,))
    assert call.with_repairs(()) == CompletionRequest((TextPart("a"), TextPart("b")), {})
    one, two = request_parts(make_request("Which?", make_clip(0.0, [1, 2])))[2:5:2]
    assert [(one.ends_clip, one.width_px, one.height_px), two.ends_clip] == [(False, 64, 36), True]  # type: ignore[union-attr]


def test_a_function_answers() -> None:
    said = {"one": {"colour": "red"}, "two": Sighting(colour="blue"), "three": ModelFault("It would not say.")}
    backbone = ScriptedBackbone(lambda request: said[request.variables["question"]])
    replies = [Sighting(colour="red"), Sighting(colour="blue"), ModelFault("It would not say.")]
    generations = backbone.generate([make_request(question) for question in said])
    assert generations == [Generation(reply, Usage(), 0.0, None, (), 1, False, False) for reply in replies]
