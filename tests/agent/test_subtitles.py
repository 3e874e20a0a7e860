"""Subtitles are shown to Temporal Proposal and Evidence Assembly alone, as text, and never count as frames."""

from tests.agent.conftest import QUESTION, Observing, Witness
from trace_ves.agent import TRACE
from trace_ves.core.subtitles import Cue, Subtitles

READERS = {"temporal-proposal", "evidence-assembly"}
WORDS = Subtitles("film.srt", tuple(Cue(t, t + 3, f"spoken at {t}") for t in range(0, 640, 10)))


def test_two_stages_see_subtitles_behind_the_same_words_and_none_is_a_frame(observing: Observing) -> None:
    plain, spoken = observing(without := Witness()), observing(witness := Witness())
    spoken.subtitles = WORDS
    assert TRACE(QUESTION, plain).option == TRACE(QUESTION, spoken).option
    assert {request.stage for request in without.requests} > READERS
    for before, after in zip(without.requests, witness.requests, strict=True):
        assert before.subtitles is None
        assert before.text == before.prompt.render(before.variables)
        if after.stage in READERS:
            assert after.text.startswith(before.text.rstrip() + "\n\nSubtitles of the video")
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
    assert spoken.log.timestamps == plain.log.timestamps
    assert spoken.log.frames_supplied == plain.log.frames_supplied
    shown = {call.stage: call.subtitles for call in spoken.log.calls}
    assert {stage for stage, lines in shown.items() if lines is not None} == READERS
    assert shown["temporal-proposal"] == len(WORDS.cues)
    assert all(call.subtitles is None and "subtitles" not in call.to_json() for call in plain.log.calls)
    assert "Subtitles of the video" in spoken.transcript("q").prompts[0]
