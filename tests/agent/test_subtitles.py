"""Subtitles are shown to Temporal Proposal and Evidence Assembly alone, as text, and never count as frames."""

from tests.agent.conftest import QUESTION, Observing, Witness
from trace_ves.agent import TRACE
from trace_ves.core.subtitles import Cue, Subtitles

READERS = {"temporal-proposal", "evidence-assembly"}
WORDS = Subtitles("film.srt", tuple(Cue(t, t + 3, f"spoken at {t}") for t in range(0, 640, 10)))


def test_without_subtitles_every_prompt_is_its_template_byte_for_byte(observing: Observing) -> None:
    TRACE(QUESTION, observing(witness := Witness()))
    assert {request.stage for request in witness.requests} > READERS
    for request in witness.requests:
        assert request.subtitles is None
        assert request.text == request.prompt.render(request.variables)


def test_with_subtitles_two_stages_see_them_behind_the_same_words(observing: Observing) -> None:
    plain, spoken = observing(without := Witness()), observing(witness := Witness())
    spoken.subtitles = WORDS
    assert TRACE(QUESTION, plain).option == TRACE(QUESTION, spoken).option
    for before, after in zip(without.requests, witness.requests, strict=True):
        if after.stage in READERS:
            assert after.text.startswith(before.text.rstrip())
            assert after.text[len(before.text.rstrip()) :].startswith("\n\nSubtitles of the video")
        else:
            assert after.text == before.text
    [proposal] = witness.of("temporal-proposal")
    assert proposal.subtitles is not None
    assert proposal.subtitles.cues == WORDS.cues
    for request in witness.of("evidence-assembly"):
        assert request.subtitles is not None
        assert 0 < len(request.subtitles.cues) <= 3 * len(request.clips)
        for cue in request.subtitles.cues:
            assert any(cue.end >= c.span.start - 2 and cue.start <= c.span.end + 2 for c in request.clips)


def test_what_was_shown_as_text_is_on_record_and_no_frame(observing: Observing) -> None:
    plain, spoken = observing(Witness()), observing(Witness())
    spoken.subtitles = WORDS
    TRACE(QUESTION, plain)
    TRACE(QUESTION, spoken)
    assert spoken.log.timestamps == plain.log.timestamps
    assert spoken.log.frames_supplied == plain.log.frames_supplied
    shown = {call.stage: call.subtitles for call in spoken.log.calls}
    assert shown.keys() > READERS
    assert {stage for stage, lines in shown.items() if lines is not None} == READERS
    assert shown["temporal-proposal"] == len(WORDS.cues)
    assert all(call.subtitles is None and "subtitles" not in call.to_json() for call in plain.log.calls)
    assert "Subtitles of the video" in spoken.transcript("q").prompts[0]
