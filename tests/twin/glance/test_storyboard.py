"""Notes: what the storyboard showed, in words, and back again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trace_ves.twin.glance.parsed_question import lexicon
from trace_ves.twin.glance.proposal import MOST_LETTERS, StoryboardFrame, frames_in_notes, notes_of

NAMES = st.frozensets(st.sampled_from(sorted(lexicon().things)), max_size=2)
SCENES = st.one_of(st.none(), st.sampled_from(sorted(lexicon().scenes)))


@st.composite
def storyboards(draw: st.DrawFn, most_names: int = 2) -> tuple[StoryboardFrame, ...]:
    count = draw(st.integers(1, 32))
    spacing = draw(st.floats(0.5, 60))
    frames = []
    for number in range(count):
        seen = draw(NAMES) if most_names else frozenset()
        glimpsed = draw(NAMES) - seen if most_names else frozenset()
        frames.append(StoryboardFrame(round((number + 0.5) * spacing, 1), draw(SCENES), seen, glimpsed))
    return tuple(frames)


@given(storyboards(most_names=0))
def test_times_and_scenes_survive_the_notes(frames: tuple[StoryboardFrame, ...]) -> None:
    assert frames_in_notes(notes_of(frames)) == frames


@given(storyboards())
def test_what_the_notes_say_was_seen(frames: tuple[StoryboardFrame, ...]) -> None:
    """A long note is cut, so that something may be lost; nothing is ever made up."""
    notes = notes_of(frames)
    assert all(len(note["note"]) <= MOST_LETTERS for note in notes)
    for read, frame in zip(frames_in_notes(notes), frames, strict=True):
        assert (read.seconds, read.scene) == (frame.seconds, frame.scene)
        assert read.seen <= frame.seen
        assert read.glimpsed <= frame.glimpsed
        assert len(frames) > 2 or read == frame


@given(st.lists(st.fixed_dictionaries({"start": st.floats(), "end": st.floats(), "note": st.text(max_size=300)})))
def test_notes_in_any_other_words_say_nothing_and_do_no_harm(notes: list[dict[str, object]]) -> None:
    assert frames_in_notes(notes) == frames_in_notes([note for note in notes if ", frames at" in str(note["note"])])
