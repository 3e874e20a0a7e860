"""Files of Label Studio: what is written reads as it was; files from elsewhere are refused in a sentence."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import program
from trace_ves.construction.interchange import (
    Frames,
    ImportResult,
    LabelledSpan,
    ScreenTimes,
    export_intervals,
    import_intervals,
    make_task,
    merge_noted,
    read_spans,
    visible_frames,
)
from trace_ves.construction.judged_item import JudgedItem, list_items
from trace_ves.construction.ledger import PROPOSAL_SLOT, Change
from trace_ves.construction.project import Project
from trace_ves.construction.store import Store
from trace_ves.core import InputError, Interval

from .histories import StorePen, proposal

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30)


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


def test_frames_become_seconds_by_their_true_timestamps() -> None:
    times = ScreenTimes(np.array([0.0, 0.5, 0.6, 2.0]), 2.5)
    assert times.interval(Frames(1, 2)) == Interval(0.5, 2.0)
    assert times.interval(Frames(2, None)) == Interval(0.6, 2.5)
    assert times.interval(Frames(1, 2), fps=10) == Interval(0.1, 0.3)
    for span in (Frames(3, 4), Frames(2, 1), Interval(1.0, 1.0), Interval(2.0, 9.0)):
        with pytest.raises(ValueError, match=r"not in a video|not an interval"):
            times.interval(span)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=12, unique_by=lambda each: each[0]))
def test_an_object_is_visible_from_key_frame_to_key_frame(shapes: list[tuple[int, bool]]) -> None:
    at, is_visible, expected = dict(shapes), False, set()
    for frame in range(40):
        is_visible = at.get(frame, is_visible)
        if is_visible:
            expected.add(frame)
    spans = [(span.first, 39 if span.last is None else span.last) for span in visible_frames(shapes)]
    assert {frame for first, last in spans for frame in range(first, last + 1)} == expected


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
        LabelledSpan(MEDIA, "fox", Frames(10, 19), "red"),
        LabelledSpan(MEDIA, "owl", Interval(1.5, 2.5)),
        LabelledSpan(MEDIA, "cat", Frames(0, 4)),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("<annotations/>", "not valid JSON"),
        ("\x00\x01", "not valid JSON"),
        ("", "not valid JSON"),
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
        assert all(isinstance(each, LabelledSpan) for each in read_spans(path))
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017  most files end here, some do not


# Into a build, and out of it


def tasks(*spans: tuple[int, int, str], video: str = "a.mp4") -> str:
    result: list[dict[str, Any]] = [
        {"value": {"ranges": [{"start": first, "end": last}], "timelinelabels": [label]}}
        for first, last, label in spans
    ]
    return json.dumps([{"data": {"video": video}, "annotations": [{"result": result}]}])


def test_labels_become_questions_that_count(project: Project, store: Store, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(tasks((11, 30, "the fox"), (25, 40, "the fox"), (101, 120, "the fox"), (1, 9, "once only")))
    result = import_intervals(project, store, file)
    assert len(result.proposed) == 1
    assert len(result.refused) == 1
    assert "2 to 24 intervals" in result.refused[0]
    [judged] = list_items(store.ledger())
    made = judged.proposal
    assert made.text == "How many separate times is the fox seen?"
    assert made.evidence == (Interval(1.0, 4.0), Interval(10.0, 12.0))
    assert made.question("c0001").option(made.answer) == "2"
    assert import_intervals(project, store, file).unchanged == 1
    assert import_intervals(project, store, file, question="How often does {label} appear?").proposed[0] != judged.id
    with pytest.raises(InputError, match=r"needs \{label\}"):
        import_intervals(project, store, file, question="How often?")


def test_a_build_goes_out_and_comes_back_with_edits(project: Project, store: Store, tmp_path: Path) -> None:
    evidence = (Interval(3, 6), Interval(12, 15), Interval(22, 26))
    made = proposal("videos/a.mp4", evidence)
    store.append([Change("c0001", PROPOSAL_SLOT, "build", made.to_json() | {"duration": 32.0})])
    file, configuration = export_intervals(project, store.ledger(), tmp_path / "out")
    assert '<Label value="c0001" />' in configuration.read_text()
    with pytest.raises(InputError, match="exists already"):
        export_intervals(project, store.ledger(), tmp_path / "out")
    assert import_intervals(project, store, file) == ImportResult(unchanged=1)
    text = file.read_text()
    file.write_text(text.replace('"start": 31', '"start": 32'))
    assert import_intervals(project, store, file).replaced == ["c0001"]
    [judged] = list_items(store.ledger())
    assert judged.proposal.evidence == (Interval(3.1, 6), *evidence[1:])
    assert len(judged.proposal.rationales) == 3
    StorePen(store).seat("c0001", "visual-verification", 1, "ann")
    file.write_text(text)
    assert "people are judging it already" in import_intervals(project, store, file).refused[0]


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        (tasks((1, 9, "x"), video="other.mp4"), {}, "which video is 'other.mp4'"),
        (tasks((1, 9, "x")), {"video": "videos/b.mp4"}, "no such video"),
        (tasks((1, 9999, "x")), {}, "not in a video of 320 frames"),
        (tasks((1, 320, "x")), {"fps": 1.0}, "not in a video of 32 s"),
        (tasks((1, 9, " ")), {}, "without a label"),
    ],
)
def test_a_file_that_does_not_fit_changes_nothing(
    project: Project, store: Store, tmp_path: Path, text: str, options: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "export.json").write_text(text)
    with pytest.raises(InputError, match=sentence):
        import_intervals(project, store, tmp_path / "export.json", **options)
    assert store.ledger().entries == []


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 20), TEXT), max_size=8))
def test_merged_intervals_are_apart_and_cover_the_same(spans: list[tuple[float, float, str]]) -> None:
    noted = [(Interval(start, start + length), note) for start, length, note in spans]
    merged = merge_noted(noted)
    assert all(one.end < two.start for (one, _), (two, _) in pairwise(merged))
    for interval, _ in noted:
        assert any(each.start <= interval.start and interval.end <= each.end for each, _ in merged)


def test_the_commands(project: Project, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(tasks((11, 30, "the fox"), (101, 120, "the fox")))
    done = program.run("build", "import-intervals", project.folder, tmp_path / "export.json")
    assert (done.returncode, done.stdout) == (
        0,
        f"{project.folder}: 1 new items, 0 with other intervals, 0 as they were.\n",
    )
    done = program.run("build", "export-intervals", project.folder, tmp_path / "out", "--for", "label-studio")
    assert done.stdout.splitlines() == [
        str(tmp_path / "out" / "label-studio.json"),
        str(tmp_path / "out" / "label-studio-config.xml"),
    ]
    (tmp_path / "bad.json").write_text("{")
    done = program.run("build", "import-intervals", project.folder, tmp_path / "bad.json")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
