"""Files of Label Studio: what is written reads as it was; files from elsewhere are refused in a sentence."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.construction import interchange
from trace_ves.construction.interchange import (
    Frames,
    ImportResult,
    ScreenTimes,
    import_intervals,
    make_task,
    merge_noted,
    read_spans,
)
from trace_ves.construction.judged_item import JudgedItem, ProposedItem, list_items
from trace_ves.construction.ledger import StaleError
from trace_ves.construction.project import Project
from trace_ves.construction.store import Store
from trace_ves.core import InputError, Interval

from .histories import StorePen, proposal

TIMES = interchange.ScreenTimes(np.array([0.0, 0.5, 0.6, 2.0]), 2.5)


def test_frames_of_an_interval_and_back() -> None:
    assert [interchange.ScreenTimes(np.array(at), 1.0).frame_rate for at in ([0.0], [0.0, 0.5, 1.0])] == [1.0, 2.0]
    spans = [(0.5, 0.6), (0.4995, 0.6005), (0.498, 0.602), (0.0, 2.5), (2.2, 2.3)]
    assert [TIMES.frames(Interval(*span)) for span in spans] == [(1, 1), (1, 1), (0, 2), (0, 3), (3, 3)]
    assert TIMES.interval(Frames(0, 3)) == Interval(0, 2.5)
    assert TIMES.interval(Frames(2, None), fps=2) == Interval(1.0, 2.5)
    assert TIMES.interval(Interval(0.12345, 2.99)) == Interval(0.123, 2.5)  # up to a frame beyond the end
    assert TIMES.interval(Frames(0, 5), fps=2) == Interval(0, 2.5)


@pytest.mark.parametrize(
    ("span", "fps", "sentence"),
    [
        (Frames(3, 4), None, "frames 3-4 are not in a video of 4 frames"),
        (Frames(-1, 2), None, "frames -1-2 are not in a video of 4 frames"),
        (Frames(2, 1), None, "frames 2-1 are not in a video of 4 frames"),
        (Interval(1, 1), None, "1-1 s is not an interval"),
        (Interval(1, 3.2), None, "1-3.2 s is not in a video of 2.5 s"),
        (Frames(0, 6), 2.0, "0-3.5 s is not in a video of 2.5 s"),
    ],
)
def test_a_span_outside_of_the_video(span: Any, fps: float | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        TIMES.interval(span, fps)


SHAPES = [{"frame": frame, "enabled": frame in {10, 3, 5}} for frame in (10, 1, 3, 5, 7, 8)]
"""Key frames of an object, which is visible from one to the next."""
REGIONS: list[dict[str, Any]] = [
    {"value": {"ranges": [{"start": 11, "end": 20}], "timelinelabels": ["fox"]}, "meta": {"text": ["red"]}},
    {"value": {"start": 1.5, "end": 2.5, "labels": ["owl"]}},
    {"value": {"sequence": [{"frame": 1, "enabled": True}, {"frame": 6, "enabled": False}], "labels": ["cat"]}},
    {"type": "textarea"},
]
CANCELLED = {"was_cancelled": True, "result": [{"value": {"ranges": [{"start": 1, "end": 2}], "labels": ["no"]}}]}
MEDIA = "/data/upload/3/1a2b3c4d-a.mp4"
EXPORT = [{"data": {"video": MEDIA, "title": "x"}, "annotations": [CANCELLED, {"result": REGIONS}]}]


def test_an_export_is_read(tmp_path: Path) -> None:
    (tmp_path / "export").write_text(json.dumps(EXPORT))
    assert read_spans(tmp_path / "export") == [
        interchange.LabelledSpan(MEDIA, "fox", Frames(10, 19), "red"),
        interchange.LabelledSpan(MEDIA, "owl", Interval(1.5, 2.5)),
        interchange.LabelledSpan(MEDIA, "cat", Frames(0, 4)),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("<annotations/>", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[NaN]", "not valid JSON"),
        ("[1, 2]", "a list of tasks"),
        ("{}", "a list of tasks"),
        ("[]", "no labelled span"),
        (json.dumps(EXPORT).replace('"start": 11', '"start": 0'), "counts frames from 1"),
        (json.dumps(EXPORT).replace('"start": 11', '"start": true'), "not a frame number"),
        (json.dumps(EXPORT).replace('"start": 11', '"start": -1'), "not a frame number"),
        (json.dumps(EXPORT).replace('"start": 1.5', '"start": "x"'), "task 1"),
        (json.dumps(EXPORT).replace('"start": 1.5', '"start": "nan"'), "an interval needs"),
    ],
)
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "export").write_text(content)
    with pytest.raises(InputError, match=sentence):
        read_spans(tmp_path / "export")


@given(st.binary(max_size=200) | st.just(json.dumps(EXPORT).encode()), st.data())
def test_whatever_a_file_holds_is_spans_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, data: st.DataObject
) -> None:
    raw = bytearray(content)
    for _ in range(data.draw(st.integers(0, 4)) if raw else 0):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("any") / "export"
    path.write_bytes(bytes(raw))
    try:
        assert all(isinstance(each, interchange.LabelledSpan) for each in read_spans(path))
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017  most files end here, some do not


def test_notes_stay_with_their_intervals() -> None:
    noted = [(Interval(5, 6), "c"), (Interval(0, 2), "a"), (Interval(2, 3), "b"), (Interval(1, 2), "a")]
    assert interchange.merge_noted(noted) == [(Interval(0, 3), "a; b"), (Interval(5, 6), "c")]


def test_a_task_for_label_studio(project: Project, store: Store, tmp_path: Path) -> None:
    made = proposal("videos/a.mp4", (Interval(0.5, 0.6), Interval(0.6, 2.0)))
    task = interchange.make_task("videos/a.mp4", TIMES, [JudgedItem("c1", made)])
    shared = {"type": "timelinelabels", "from_name": "interval", "to_name": "video", "origin": "manual"}
    regions = [
        {
            "id": f"c1-{place}",
            **shared,
            "value": {"ranges": [{"start": frame, "end": frame}], "timelinelabels": ["c1"]},
            "meta": {"text": [f"fact {place}"]},
        }
        for place, frame in enumerate([2, 3])
    ]
    data = {"video": "videos/a.mp4", "fps": 1.5, "questions": {"c1": "In which order?"}}
    assert task == {"data": data, "annotations": [{"result": regions}]}
    with pytest.raises(InputError, match="no item is proposed yet"):
        interchange.export_intervals(project, store.ledger(), tmp_path / "out")


@pytest.mark.parametrize(
    ("region", "found"),
    [
        ({"ranges": [{"start": 9, "end": 5}], "labels": ["x"]}, [Frames(4, 8)]),
        ({"ranges": [{"start": "5", "end": 9}], "labels": ["x", "x"]}, [Frames(4, 8)]),
        ({"sequence": [{"frame": 3}], "videorectangle": ["x"]}, [Frames(2, None)]),
        ({"sequence": SHAPES, "labels": ["x"]}, [Frames(2, 5), Frames(9, None)]),
        ({"sequence": [*SHAPES, {"frame": 10, "enabled": False}], "labels": ["x"]}, [Frames(2, 5), Frames(9, None)]),
        ({"start": "1", "end": 2, "labels": "x", "timelinelabels": ["x"]}, [Interval(1, 2)]),
    ],
)
def test_regions_of_every_kind(tmp_path: Path, region: dict[str, Any], found: list[Any]) -> None:
    path = tmp_path / "e.json"
    results = [{"result": [{"value": region, "meta": {"text": ["a", 1]}}, {"value": 3}]}, "no object"]
    path.write_text(json.dumps([{"data": {"title": "t", "clip": "b.mp4"}, "predictions": results}]))
    assert [(each.media, each.label, each.span, each.note) for each in read_spans(path)] == [
        ("b.mp4", "x", span, "a 1") for span in found
    ]
    path.write_text(json.dumps([{"data": {"a": "a.mp4", "video": "v.mp4"}, "predictions": results}]))
    assert {each.media for each in read_spans(path)} == {"v.mp4"}


# Into a build, and out of it


def tasks(*spans: tuple[int, int, str], video: str = "a.mp4") -> str:
    result: list[dict[str, Any]] = [
        {"value": {"ranges": [{"start": first, "end": last}], "timelinelabels": [label]}}
        for first, last, label in spans
    ]
    return json.dumps([{"data": {"video": video}, "annotations": [{"result": result}]}])


@pytest.mark.parametrize(
    "media",
    ["a.mp4", "/data/upload/3/1a2b3c4d-a.mp4", "C:\\films\\a.mp4", "https://x.example/v/a.mp4?t=1", "%61.mp4", ""],
)
def test_labels_become_questions_that_count(
    monkeypatch: pytest.MonkeyPatch, project: Project, store: Store, tmp_path: Path, media: str
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "0001")
    file = tmp_path / "export.json"
    spans = (11, 30, " the  fox "), (25, 40, "the fox"), (101, 120, "the fox"), (131, 140, "the fox")
    file.write_text(tasks(*spans, (1, 9, "once" * 11), video=media))
    refused = f"videos/a.mp4, {'once' * 10!r}: it needs 2 to 24 intervals, found 1"
    assert import_intervals(project, store, file) == ImportResult(proposed=["c0001"], refused=[refused])
    [judged] = list_items(store.ledger())
    words = ("event-counting", "How many separate times is the fox seen?", ("1", "2", "3", "4"), "C")
    evidence = (Interval(1, 4), Interval(10, 12), Interval(13, 14))
    assert judged.proposal == ProposedItem("videos/a.mp4", 32.0, *words, evidence, ("the fox is seen here.",) * 3)
    assert import_intervals(project, store, file) == ImportResult(unchanged=1, refused=[refused])
    with pytest.raises(StaleError, match="c0001"):  # an id that is taken
        import_intervals(project, store, file, question="How often does {label} appear?")
    with pytest.raises(InputError, match=r"^the question must contain \{label\}\.$"):
        import_intervals(project, store, file, question="How often?")


@pytest.mark.parametrize(
    ("label", "count", "options", "answer"),
    [("fox", 2, "2345", "A"), ("owl", 3, "2345", "B"), ("hen", 3, "1234", "C"), ("hen", 4, "1234", "D")],
)
def test_the_place_of_the_right_number_follows_from_the_words(
    project: Project, store: Store, tmp_path: Path, label: str, count: int, options: str, answer: str
) -> None:
    """The first byte of the question's SHA-256, modulo 4, unless a number would be below 1."""
    (tmp_path / "export.json").write_text(tasks(*((20 * n + 1, 20 * n + 10, label) for n in range(count))))
    import_intervals(project, store, tmp_path / "export.json")
    [judged] = list_items(store.ledger())
    assert ("".join(judged.proposal.options), judged.proposal.answer) == (options, answer)


def test_a_build_goes_out_and_comes_back_with_edits(project: Project, store: Store, tmp_path: Path) -> None:
    evidence = (Interval(3, 6), Interval(12, 15), Interval(22, 26))
    StorePen(store).propose("c0001", replace(proposal(evidence=evidence), duration=32.0, text="Où?"))
    file, configuration = interchange.export_intervals(project, store.ledger(), tmp_path / "out")
    assert '<Label value="c0001" />' in configuration.read_text()
    assert file.read_text() == json.dumps(json.loads(file.read_text()), indent=2, ensure_ascii=False) + "\n"
    with pytest.raises(InputError, match="exists already"):
        interchange.export_intervals(project, store.ledger(), tmp_path / "out")
    assert import_intervals(project, store, file) == ImportResult(unchanged=1)
    text = file.read_text()
    file.write_text(text.replace('"start": 31', '"start": 32'))
    assert import_intervals(project, store, file).replaced == ["c0001"]
    [judged] = list_items(store.ledger())
    assert (judged.proposal.evidence, len(judged.proposal.rationales)) == ((Interval(3.1, 6), *evidence[1:]), 3)
    StorePen(store).seat("c0001", "visual-verification", 1, "ann")
    file.write_text(text)
    assert "it is already being judged" in import_intervals(project, store, file).refused[0]


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        (
            tasks((1, 9, "x"), video=f"{'o' * 90}.mp4"),
            {},
            f"{{file}}: no single video matches {'o' * 80!r}; name it with --video, as in --video videos/a.mp4.",
        ),
        (
            tasks((1, 9, "x")),
            {"video": "videos/b.mp4"},
            "videos/b.mp4: no such video in the build; its videos are named like videos/a.mp4.",
        ),
        (tasks((1, 9999, "x" * 50)), {}, f"{{file}}: {'x' * 40!r}: frames 0-9998 are not in a video of 320 frames"),
        (tasks((1, 320, "x")), {"fps": 1.0}, "{file}: 'x': 0-320 s is not in a video of 32 s"),
        (tasks((1, 9, " ")), {}, "{file}: ' ': a span without a label"),
    ],
)
def test_a_file_that_does_not_fit_changes_nothing(
    project: Project, store: Store, tmp_path: Path, text: str, options: dict[str, Any], sentence: str
) -> None:
    file = tmp_path / "export.json"
    file.write_text(text)
    whole = sentence.format(file=file) + ("" if sentence.endswith(".") else "; is it about another video?")
    with pytest.raises(InputError, match=f"^{re.escape(whole)}$"):
        import_intervals(project, store, file, **options)
    assert store.ledger().entries == []


@st.composite
def frame_times(draw: st.DrawFn) -> ScreenTimes:
    """A video whose frames come at uneven distances."""
    steps = draw(st.lists(st.integers(10, 400), min_size=8, max_size=60))
    stamps = np.concatenate([[0.0], np.cumsum(steps) / 1000 + draw(st.floats(0, 0.0004))])
    return ScreenTimes(stamps, float(stamps[-1]) + 0.1)


@given(frame_times(), st.data())
def test_what_is_written_reads_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, times: ScreenTimes, data: st.DataObject
) -> None:
    """Edges are timestamps in milliseconds."""
    items = []
    for number in range(data.draw(st.integers(1, 3))):
        places = st.lists(st.integers(0, len(times.timestamps) - 1), min_size=2, max_size=6, unique=True)
        edges = [round(float(times.timestamps[place]), 3) for place in sorted(data.draw(places))]
        spans = tuple(Interval(start, end) for start, end in zip(edges[::2], edges[1::2], strict=False))
        items.append(JudgedItem(f"c{number:04}", proposal("videos/a b.mp4", spans)))
    path = tmp_path_factory.mktemp("out") / "export.json"
    path.write_text(json.dumps([make_task("videos/a b.mp4", times, items)]))
    assert [(each.media, each.label, times.interval(each.span), each.note) for each in read_spans(path)] == [
        ("videos/a b.mp4", judged.id, span, note)
        for judged in items
        for span, note in zip(judged.proposal.evidence, judged.proposal.rationales, strict=True)
    ]


@given(frame_times(), st.data())
def test_frames_cover_an_interval_and_no_more_than_a_frame_beyond(times: ScreenTimes, data: st.DataObject) -> None:
    start = data.draw(st.floats(0, times.duration - 0.02))
    interval = Interval(start, data.draw(st.floats(start + 0.01, times.duration)))
    back = times.interval(Frames(*times.frames(interval)))
    longest = float(np.diff(times.timestamps).max()) + 0.11
    assert interval.start - longest <= back.start <= interval.start + 0.002
    assert interval.end - 0.002 <= back.end <= interval.end + longest


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 20), st.text(max_size=30)), max_size=8))
def test_merged_intervals_are_apart_and_cover_the_same(spans: list[tuple[float, float, str]]) -> None:
    noted = [(Interval(start, start + length), note) for start, length, note in spans]
    merged = merge_noted(noted)
    assert all(one.end < two.start for (one, _), (two, _) in pairwise(merged))
    for interval, _ in noted:
        assert any(each.start <= interval.start and interval.end <= each.end for each, _ in merged)
