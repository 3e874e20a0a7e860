"""What is sent: deterministic, and a bundle that grows keeps its beginning."""

from __future__ import annotations

from tests.fakes import make_clip, make_request

from trace_ves.backbone.provider import ImagePart, TextPart, request_parts


def test_a_bundle_that_is_a_prefix_of_another_gives_a_literal_prefix_of_its_parts() -> None:
    clips = [make_clip(start, [1, 2, 3]) for start in (50.0, 5.0, 20.0)]
    bundles = [request_parts(make_request("Which?", *clips[: size + 1]))[:-1] for size in range(3)]
    assert bundles[1][: len(bundles[0])] == bundles[0]
    assert bundles[2][: len(bundles[1])] == bundles[1]


def test_words_come_last_and_the_end_of_each_clip_is_known() -> None:
    parts = request_parts(make_request("Which?", make_clip(70.0, [1, 2]), make_clip(3.0, [])))
    assert parts[0] == TextPart("Clip 1, 70.0-72.0 s")
    assert [part.ends_clip for part in parts if isinstance(part, ImagePart)] == [False, True]
    assert parts[-2:] == (TextPart("Clip 2, 3.0-3.0 s"), TextPart("Look.\nWhich?"))


def test_a_call_of_text_alone_is_its_words() -> None:
    assert request_parts(make_request("Which?")) == (TextPart("Look.\nWhich?"),)
