"""Files of Label Studio, CVAT and ELAN: what is written reads as it was; strangers' files are refused in a sentence."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import program
from tests.web.web_bench import write_video
from trace_ves.construction.foreign_intervals import Imported, export_intervals, import_intervals, merged
from trace_ves.construction.interchange.cvat import runs, visible
from trace_ves.construction.interchange.files import WRITERS, read_spans
from trace_ves.construction.interchange.spans import (
    ExportedItem,
    ExportedVideo,
    Frames,
    FrameTimes,
    LabelledSpan,
    Seconds,
)
from trace_ves.construction.judged_item import ItemIndex
from trace_ves.construction.ledger import Change
from trace_ves.construction.project import Project, create_project
from trace_ves.construction.stages import PROPOSAL_SLOT
from trace_ves.core import InputError, Interval

from .histories import proposal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trace_ves.construction.store import Store

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30)


@st.composite
def exported_videos(draw: st.DrawFn) -> ExportedVideo:
    """A video whose frames come at uneven distances, and items whose edges are timestamps, kept in milliseconds."""
    steps = draw(st.lists(st.integers(10, 400), min_size=8, max_size=60))
    stamps = np.concatenate([[0.0], np.cumsum(steps) / 1000 + draw(st.floats(0, 0.0004))])
    times = FrameTimes(stamps, float(stamps[-1]) + 0.1)
    items = []
    for number in range(draw(st.integers(1, 3))):
        places = sorted(draw(st.lists(st.integers(0, len(steps)), min_size=2, max_size=6, unique=True)))
        pairs = list(zip(places[::2], places[1::2], strict=False))
        spans = [Interval(round(float(stamps[a]), 3), round(float(stamps[b]), 3)) for a, b in pairs]
        items.append(ExportedItem(f"c{number:04}", draw(TEXT), tuple((span, draw(TEXT)) for span in spans)))
    return ExportedVideo("videos/a b.mp4", times, 640, 360, tuple(items))


@pytest.mark.parametrize("tool", sorted(WRITERS))
@given(video=exported_videos())
def test_what_is_written_reads_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, tool: str, video: ExportedVideo
) -> None:
    folder = tmp_path_factory.mktemp("out")
    for name, content in WRITERS[tool]([video]).items():
        (folder / name).write_bytes(content)
    [path] = [path for path in folder.iterdir() if "config" not in path.name]
    found = read_spans(path)
    wanted = [(item.id, span) for item in video.items for span, _ in item.intervals]
    assert [(each.label, video.times.interval(each.span)) for each in found] == wanted
    assert {Path(each.media).name for each in found} == {"a b.mp4"}
    notes = [note if tool != "cvat" else "" for item in video.items for _, note in item.intervals]
    assert [each.note for each in found] == notes


@given(exported_videos(), st.data())
def test_frames_cover_an_interval_and_no_more_than_a_frame_beyond(video: ExportedVideo, data: st.DataObject) -> None:
    times = video.times
    start = data.draw(st.floats(0, times.duration - 0.02))
    interval = Interval(start, data.draw(st.floats(start + 0.01, times.duration)))
    back = times.interval(times.frames(interval))
    longest = float(np.diff(times.timestamps).max()) + 0.11
    assert back.start <= interval.start + 0.002
    assert back.end >= interval.end - 0.002
    assert back.start >= interval.start - longest
    assert back.end <= interval.end + longest


def test_frames_become_seconds_by_their_true_timestamps() -> None:
    times = FrameTimes(np.array([0.0, 0.5, 0.6, 2.0]), 2.5)
    assert times.interval(Frames(1, 2)) == Interval(0.5, 2.0)
    assert times.interval(Frames(2, None)) == Interval(0.6, 2.5)
    assert times.interval(Frames(1, 2), fps=10) == Interval(0.1, 0.3)
    for span in (Frames(3, 4), Frames(2, 1), Seconds(1.0, 1.0), Seconds(2.0, 9.0), Seconds(float("nan"), 1.0)):
        with pytest.raises(ValueError, match=r"not in a video|no interval"):
            times.interval(span)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=12, unique_by=lambda each: each[0]))
def test_a_track_is_seen_where_it_is_not_outside(shapes: list[tuple[int, bool]]) -> None:
    state, seen = True, set()
    at = dict(shapes)
    last = max(at, default=-1)
    for frame in range(last + 1):
        state = at.get(frame, state)
        if not state:
            seen.add(frame)
    found = {frame for span in visible(shapes, is_open=False) for frame in range(span.first, (span.last or 0) + 1)}
    assert found == seen
    assert [(span.first, span.last) for span in runs(seen)] == [
        (span.first, span.last) for span in runs(frame for frame in found)
    ]


CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version><meta><task><size>320</size><source>a.mp4</source></task></meta>
<track id="0" label="fox" source="manual"><box frame="10" outside="0" keyframe="1" xtl="1" ytl="1" xbr="2" ybr="2"/>
<box frame="20" outside="1" keyframe="1" xtl="1" ytl="1" xbr="2" ybr="2"/>
<box frame="40" outside="0" keyframe="1" xtl="1" ytl="1" xbr="2" ybr="2"/></track>
<image id="100" name="frame_000100"><tag label="owl" source="manual"/></image>
<image id="101" name="frame_000101"><tag label="owl" source="manual"/></image>
</annotations>"""
BACKUP = [
    {
        "version": 0,
        "tags": [{"frame": 5, "label": "owl"}, {"frame": 6, "label": "owl"}],
        "shapes": [],
        "tracks": [
            {"frame": 1, "label": "fox", "shapes": [{"frame": 1, "outside": False}, {"frame": 9, "outside": True}]}
        ],
    }
]
LABEL_STUDIO = [
    {
        "id": 7,
        "data": {"video": "/data/upload/3/1a2b3c4d-a.mp4"},
        "annotations": [
            {
                "was_cancelled": True,
                "result": [{"value": {"ranges": [{"start": 1, "end": 1}], "timelinelabels": ["no"]}}],
            },
            {
                "result": [
                    {
                        "value": {"ranges": [{"start": 11, "end": 20}], "timelinelabels": ["fox"]},
                        "meta": {"text": ["red"]},
                    },
                    {"value": {"start": 1.5, "end": 2.5, "labels": ["owl"]}},
                    {
                        "value": {
                            "labels": ["cat"],
                            "sequence": [{"frame": 1, "enabled": True}, {"frame": 6, "enabled": False}],
                        }
                    },
                    {"value": {"choices": ["good"]}},
                    {"type": "textarea"},
                ]
            },
        ],
    }
]
ELAN = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2026-01-01T00:00:00Z" FORMAT="2.8" VERSION="2.8"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x/a.mp4" MIME_TYPE="video/mp4" TIME_ORIGIN="500"/></HEADER>
<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="1000"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="2000"/>
<TIME_SLOT TIME_SLOT_ID="ts3"/></TIME_ORDER>
<TIER LINGUISTIC_TYPE_REF="t" TIER_ID="gesture"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1"
 TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>waves</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
</TIER><TIER LINGUISTIC_TYPE_REF="t" TIER_ID="child" PARENT_REF="gesture"><ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a2"
 ANNOTATION_REF="a1"><ANNOTATION_VALUE>x</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION></TIER>
</ANNOTATION_DOCUMENT>"""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            CVAT,
            [
                LabelledSpan("a.mp4", "fox", Frames(10, 19)),
                LabelledSpan("a.mp4", "fox", Frames(40, 40)),
                LabelledSpan("a.mp4", "owl", Frames(100, 101)),
            ],
        ),
        (json.dumps(BACKUP), [LabelledSpan("", "fox", Frames(1, 8)), LabelledSpan("", "owl", Frames(5, 6))]),
        (
            json.dumps(LABEL_STUDIO),
            [
                LabelledSpan("/data/upload/3/1a2b3c4d-a.mp4", "fox", Frames(10, 19), "red"),
                LabelledSpan("/data/upload/3/1a2b3c4d-a.mp4", "owl", Seconds(1.5, 2.5)),
                LabelledSpan("/data/upload/3/1a2b3c4d-a.mp4", "cat", Frames(0, 4)),
            ],
        ),
        (ELAN, [LabelledSpan("file:///C:/x/a.mp4", "gesture", Seconds(1.5, 2.5), "waves")]),
    ],
    ids=["cvat", "cvat-backup", "label-studio", "elan"],
)
def test_exports_of_the_tools_are_read(tmp_path: Path, content: str, expected: list[LabelledSpan]) -> None:
    (tmp_path / "export").write_text(content)
    assert read_spans(tmp_path / "export") == expected


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><annotations>&b;</annotations>'
EXTERNAL = '<!DOCTYPE x SYSTEM "file:///etc/passwd"><annotations/>'


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (BOMB, "a document type or entities"),
        (EXTERNAL, "a document type or entities"),
        (ELAN.replace("<ANNOTATION_DOCUMENT", "<!DOCTYPE x><ANNOTATION_DOCUMENT", 1), "a document type or entities"),
        ("<annotations>" + "<a>" * 50, "nested too deeply"),
        ("<annotations><track", "not valid XML"),
        ("<html></html>", "expected <annotations>"),
        ("\x00\x01", "neither XML nor JSON"),
        ("", "neither XML nor JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[NaN]", "not valid JSON"),
        ("[1, 2]", "a list of tasks"),
        ("{}", "a list of tasks"),
        ("[]", "no labelled span"),
        (CVAT.replace('frame="10"', 'frame="-1"'), "not a frame number"),
        (CVAT.replace('frame="10"', 'frame="1e9"'), "not a frame number"),
        (CVAT.replace('frame="10"', 'frame="999999999999"'), "not a frame number"),
        (json.dumps([{"tracks": [1]}]), "expected an object"),
        (json.dumps([{"tracks": 1}]), "expected a list"),
        (json.dumps(LABEL_STUDIO).replace('"start": 11', '"start": 0'), "counts frames from 1"),
        (json.dumps(LABEL_STUDIO).replace('"start": 11', '"start": true'), "not a frame number"),
        (json.dumps(LABEL_STUDIO).replace('"start": 1.5', '"start": "x"'), "task 1"),
        (ELAN.replace('"ts2" TIME_VALUE="2000"', '"ts2" TIME_VALUE="x"'), "not a time in milliseconds"),
        (ELAN.replace('TIME_SLOT_REF2="ts2"', 'TIME_SLOT_REF2="ts3"'), "has no time"),
        (ELAN.replace("milliseconds", "PAL-frames"), "only milliseconds"),
    ],
)
def test_files_of_strangers_are_refused_in_a_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "export").write_text(content)
    with pytest.raises(InputError, match=sentence):
        read_spans(tmp_path / "export")


@given(st.binary(max_size=200) | st.sampled_from([CVAT, ELAN, json.dumps(LABEL_STUDIO), json.dumps(BACKUP)]), st.data())
def test_whatever_a_file_holds_is_spans_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes | str, data: st.DataObject
) -> None:
    raw = bytearray(content if isinstance(content, bytes) else content.encode())
    for _ in range(data.draw(st.integers(0, 4)) if raw else 0):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("any") / "export"
    path.write_bytes(bytes(raw))
    found: list[LabelledSpan] = []
    said = str(path)
    try:
        found = read_spans(path)
    except InputError as error:
        said = str(error)
    assert str(path) in said
    assert all(isinstance(each, LabelledSpan) for each in found)


# Into a build, and out of it


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("footage") / "a.mp4"
    write_video(path, seconds=32)
    return path


@pytest.fixture
def project(tmp_path: Path, footage: Path) -> Project:
    (tmp_path / "b" / "videos").mkdir(parents=True)
    (tmp_path / "b" / "videos" / "a.mp4").hardlink_to(footage)
    return create_project(tmp_path / "b")


@pytest.fixture
def store(project: Project) -> Iterator[Store]:
    opened = project.open_store()
    yield opened
    opened.close()


def tasks(*spans: tuple[int, int, str], video: str = "a.mp4") -> str:
    result: list[dict[str, Any]] = [
        {"value": {"ranges": [{"start": first, "end": last}], "timelinelabels": [label]}}
        for first, last, label in spans
    ]
    return json.dumps([{"data": {"video": video}, "annotations": [{"result": result}]}])


def test_labels_become_questions_that_count(project: Project, store: Store, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(tasks((11, 30, "the fox"), (25, 40, "the fox"), (101, 120, "the fox"), (1, 9, "once only")))
    found = import_intervals(project, store, file)
    assert found.proposed == ["c0001"]
    assert len(found.refused) == 1
    assert "2 to 24 intervals" in found.refused[0]
    [(judged, _)] = ItemIndex().all(store.ledger())
    made = judged.proposal
    assert made.text == "How many separate times is the fox seen?"
    assert made.evidence == (Interval(1.0, 4.0), Interval(10.0, 12.0))
    assert made.question("c0001").option(made.answer) == "2"
    assert import_intervals(project, store, file).unchanged == 1
    assert import_intervals(project, store, file, question="How often does {label} appear?").proposed == ["c0002"]
    with pytest.raises(InputError, match=r"needs \{label\}"):
        import_intervals(project, store, file, question="How often?")


@pytest.mark.parametrize("tool", sorted(WRITERS))
def test_a_build_goes_out_and_comes_back_with_edits(project: Project, store: Store, tmp_path: Path, tool: str) -> None:
    evidence = (Interval(3, 6), Interval(12, 15), Interval(22, 26))
    made = proposal("videos/a.mp4", evidence)
    store.append([Change("c0001", PROPOSAL_SLOT, "build", made.to_json() | {"duration": 32.0})])
    [file, *_] = export_intervals(project, store.ledger(), tmp_path / "out", tool)
    with pytest.raises(InputError, match="exists already"):
        export_intervals(project, store.ledger(), tmp_path / "out", tool)
    assert import_intervals(project, store, file) == Imported(unchanged=1)
    edits = {
        "label-studio": ('"start": 31', '"start": 32'),
        "cvat": ('frame="30"', 'frame="31"'),
        "elan": ('"3000"', '"3100"'),
    }
    text = file.read_text()
    assert edits[tool][0] in text
    file.write_text(text.replace(*edits[tool]))
    assert import_intervals(project, store, file).replaced == ["c0001"]
    [(judged, _)] = ItemIndex().all(store.ledger())
    assert judged.proposal.evidence == (Interval(3.1, 6), *evidence[1:])
    assert len(judged.proposal.rationales) == 3
    assert store.take_seat("c0001", "visual-verification", "ann")
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
    found = merged(noted)
    assert all(one.end < two.start for (one, _), (two, _) in pairwise(found))
    for interval, _ in noted:
        assert any(each.start <= interval.start and interval.end <= each.end for each, _ in found)


def test_the_commands(project: Project, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(tasks((11, 30, "the fox"), (101, 120, "the fox")))
    done = program.run("build", "import-intervals", project.folder, tmp_path / "export.json")
    assert (done.returncode, done.stdout) == (
        0,
        f"{project.folder}: 1 new items, 0 with other intervals, 0 as they were.\n",
    )
    done = program.run("build", "export-intervals", project.folder, tmp_path / "out", "--for", "elan")
    assert done.stdout == f"{tmp_path / 'out' / 'a.mp4.eaf'}\n"
    (tmp_path / "bomb.xml").write_text(BOMB)
    done = program.run("build", "import-intervals", project.folder, tmp_path / "bomb.xml")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
