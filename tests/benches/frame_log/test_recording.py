"""Recording: the frames that libraries hand out have exactly the timestamps that our own decoder gives them."""

import contextvars
import importlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.benches.frame_log import footage
from tests.benches.tables import write_rows

import trace_ves
from trace_ves import InputError, Interval, Item, Prediction, Question, frame_log
from trace_ves.benches.frame_log import hooks
from trace_ves.benches.frame_log.frames import FrameTable, LoggedLook, ReceivedFrame, reads_consecutive_frames
from trace_ves.benches.frame_log.recorder import MOST_UNWRITTEN, RECORDER, FramesFile
from trace_ves.benches.logs.recorded_frames import read_recorded
from trace_ves.frame_log import USAGE, main
from trace_ves.records.run_file import read_predictions

av: Any = pytest.importorskip("av")
cv2: Any = pytest.importorskip("cv2")
pytest.importorskip("simplejpeg")


@pytest.fixture(scope="module", params=["film.mkv", "film.mp4"])
def film(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return footage.make(tmp_path_factory.mktemp("film") / request.param)


@pytest.fixture(scope="module")
def truth(film: Path) -> list[float]:
    with trace_ves.open_video(film) as video:
        return video.timestamps.tolist()


def brightness(picture: Any) -> int:
    """The number of the frame, which is drawn as its grey."""
    return round(float(picture.mean()) / 20)


def test_pyav_frames_count_where_their_pixels_are_taken(film: Path, truth: list[float]) -> None:
    with trace_ves.recording("q1") as log, av.open(str(film)) as container:
        taken = [
            brightness(frame.to_ndarray(format="rgb24"))
            for number, frame in enumerate(container.decode(video=0))
            if number in {0, 3, 7, 11}
        ]
    assert taken == [0, 3, 7, 11]
    assert list(log.timestamps) == [truth[number] for number in taken]
    assert log.frames_supplied == 4
    assert log.prediction("A").extra["recorded"] == {"decoders": [f"av {av.__version__}"], "exact": True, "unplaced": 0}


def test_pyav_packets_are_seen_and_a_frame_taken_twice_is_one(film: Path, truth: list[float]) -> None:
    with trace_ves.recording("q1") as log, av.open(str(film)) as container:
        frames = [frame for packet in container.demux(video=0) for frame in packet.decode()]
        assert isinstance(frames[5], av.VideoFrame)
        frames[5].to_image()
        frames[5].to_rgb().to_ndarray()
        _ = frames[9].pts
        with pytest.raises(IndexError):  # there is no sound
            next(container.decode(audio=0))
    assert list(log.timestamps) == [truth[5]]


def test_opencv_frames_count_where_they_are_read(film: Path, truth: list[float]) -> None:
    with trace_ves.recording("q1") as log:
        capture = cv2.VideoCapture(str(film))
        assert isinstance(capture, cv2.VideoCapture)
        frames = [brightness(capture.read()[1])]
        capture.grab()
        capture.grab()
        frames.append(brightness(capture.retrieve()[1]))
        buffer = np.zeros_like(capture.retrieve()[1])
        capture.read(image=buffer)
        frames.append(brightness(buffer))
        while capture.grab():
            pass
        assert not capture.read()[0]
        assert capture.open(filename=str(film))
        frames.append(brightness(capture.read()[1]))
        capture.release()
    assert frames == [0, 2, 3, 0]
    assert list(log.timestamps) == [truth[number] for number in (0, 2, 2, 3, 0)]


def test_afterwards_every_library_is_as_it_was(film: Path) -> None:
    before = (av.open, av.container.open, cv2.VideoCapture)
    with trace_ves.recording("q1") as log:
        assert av.open is not before[0]
        with trace_ves.recording("q2"):
            pass
        assert av.open is not before[0]
        with trace_ves.open_video(film) as video:
            video.frames_at([0.0])  # our own decoding is nobody's look
    assert (av.open, av.container.open, cv2.VideoCapture) == before
    with av.open(str(film)) as container:
        next(container.decode(video=0)).to_ndarray()
    assert log.timestamps == ()


def test_threads_record_what_is_theirs(film: Path, truth: list[float]) -> None:
    barrier = threading.Barrier(3)

    def answer(number: int) -> tuple[float, ...]:
        with trace_ves.recording(f"q{number}") as log:
            barrier.wait()
            capture = cv2.VideoCapture(str(film))
            for _ in range(number):
                capture.grab()
            capture.read()
            barrier.wait()
        return log.timestamps

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(answer, range(3))) == [(truth[0],), (truth[1],), (truth[2],)]


def test_a_thread_that_was_started_inside_belongs_to_the_only_recording(film: Path, truth: list[float]) -> None:
    with trace_ves.recording("q1") as log:
        worker = threading.Thread(target=lambda: cv2.VideoCapture(str(film)).read())
        worker.start()
        worker.join()
    assert list(log.timestamps) == [truth[0]]


def test_a_look_belongs_to_no_recording_that_has_ended_and_to_none_of_two(film: Path) -> None:
    with trace_ves.recording("q1") as ended:
        inside = contextvars.copy_context()
    with trace_ves.recording("q2") as one:
        inside.run(lambda: cv2.VideoCapture(str(film)).read())
        with trace_ves.recording("q3") as two:
            contextvars.Context().run(lambda: cv2.VideoCapture(str(film)).read())
        other, elsewhere = trace_ves.recording("q4"), contextvars.Context()
        elsewhere.run(other.__enter__)
        cv2.VideoCapture(str(film)).read()
        elsewhere.run(other.__exit__, None, None, None)
    assert [len(log.timestamps) for log in (ended, one, two)] == [0, 2, 0]


def test_one_frame_that_is_not_in_the_table_makes_a_look_inexact(film: Path, truth: list[float]) -> None:
    look = LoggedLook(str(film), "any", None)
    look.frames += [
        ReceivedFrame(lambda table: table.by_index(0, len(truth)), lambda: 7.5),
        ReceivedFrame(lambda _: None, lambda: 7.5),
    ]
    found = look.record()
    assert (found.timestamps, found.exact, found.frames_supplied) == ((truth[0], 7.5), False, 2)


def test_a_file_that_only_the_library_reads_keeps_the_librarys_timestamps(tmp_path: Path) -> None:
    with trace_ves.recording("q1") as log:
        container = av.open(str(footage.make(tmp_path / "film.mkv")))
        next(container.decode(video=0)).to_ndarray()
        container.close()
    (tmp_path / "film.mkv").write_bytes(b"gone")
    line = log.prediction("A")
    assert line.timestamps == (0.2,)  # as the stream has it, not from the first frame
    assert line.extra["recorded"]["exact"] is False


def test_a_recording_writes_a_line_of_a_run(film: Path, truth: list[float], tmp_path: Path) -> None:
    for name, answer in (("q1", "B"), ("q2", None)):
        with trace_ves.recording(name) as log:
            cv2.VideoCapture(str(film)).read()
        log.append_to(tmp_path / "run.jsonl", answer, method="mine")
    lines = [line for _, line in read_predictions(tmp_path / "run.jsonl")]
    found = [(line.question_id, line.answer, line.timestamps, line.method) for line in lines]
    assert found == [("q1", "B", (truth[0],), "mine"), ("q2", None, (truth[0],), "mine")]


SCRIPT = """
import sys
import cv2
import trace_ves
assert sys.argv == ["look.py", "FILM", "--fast"] or sys.argv[1:] == [sys.argv[1], "--fast"]
capture = cv2.VideoCapture(sys.argv[1])
for _ in range(3):
    capture.read()
with trace_ves.recording("q9"):
    other = cv2.VideoCapture(sys.argv[1])
    other.grab()
    other.read()
print("done")
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Runs a script with arguments in this process, and writes the frames that it sees to a folder."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(script: str, *arguments: str) -> None:
        (tmp_path / "look.py").write_text(script)
        main([str(tmp_path / "frames"), str(tmp_path / "look.py"), *arguments])

    yield run
    RECORDER.file = None
    RECORDER.uninstall()


def test_a_whole_program_is_recorded(
    film: Path, truth: list[float], tmp_path: Path, record: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    record(SCRIPT, str(film), "--fast")
    assert capsys.readouterr().out == "done\n"
    found = [(line.get("question_id"), line["timestamps"], line["exact"]) for line in lines_of(tmp_path / "frames")]
    assert found == [(None, truth[:3], True), ("q9", truth[1:2], True)]


def test_a_program_that_fails_keeps_what_it_saw(film: Path, tmp_path: Path, record: Callable[..., None]) -> None:
    with pytest.raises(SystemExit, match="7"):
        record("import sys, cv2\ncv2.VideoCapture(sys.argv[1]).read()\nraise SystemExit(7)\n", str(film))
    assert len(lines_of(tmp_path / "frames")) == 1


PROGRAM = """
import json, sys
print(json.dumps([__name__, sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals()]))
"""


@pytest.mark.usefixtures("record")
@pytest.mark.parametrize("named", [["-m", "own_program"], ["below/own_program.py"]])
def test_a_program_runs_as_python_runs_it(
    named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path if named[0] == "-m" else tmp_path / "below"
    place.mkdir(exist_ok=True)
    (place / "own_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    main(["frames", *named])
    argument = str(place / "own_program.py") if named[0] == "-m" else named[0]
    assert json.loads(capsys.readouterr().out) == ["__main__", [argument], str(place), True]


@pytest.mark.usefixtures("record")
def test_the_entry_point_of_lmms_eval_records_to_the_folder_that_a_variable_names(
    film: Path, truth: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACE_VES_RECORD", raising=False)
    assert frame_log.manifests() == []  # no models, and nothing is recorded unasked
    assert RECORDER.file is None
    monkeypatch.setenv("TRACE_VES_RECORD", "frames")
    monkeypatch.chdir(tmp_path)
    assert frame_log.manifests() == []
    cv2.VideoCapture(str(film)).read()
    monkeypatch.chdir("/")
    assert RECORDER.file is not None
    RECORDER.file.flush()
    assert [line["timestamps"] for line in lines_of(tmp_path / "frames")] == [truth[:1]]


def test_frames_that_cannot_be_written_are_said_once(
    film: Path, tmp_path: Path, record: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "frames").write_text("in the way")
    record("import sys, cv2\ncv2.VideoCapture(sys.argv[1]).read()\n", str(film))
    assert re.fullmatch(r"trace_ves\.frame_log: .*: cannot be written: .*\.\n", capsys.readouterr().err)
    assert RECORDER.file is not None
    RECORDER.file.flush()  # as at exit


@pytest.mark.parametrize("words", [(), ("frames",), ("frames", "none.py"), ("frames", "-m"), ("-x", "none.py")])
def test_without_a_program_usage_is_shown(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    assert caught.value.code == 2
    reason = "trace_ves.frame_log: none.py: no such script.\n" if words == ("frames", "none.py") else ""
    assert capsys.readouterr().err == f"{reason}{USAGE}\n"


def item(name: str, video: str) -> Item:
    return Item(Question(name, video, "?", ("a", "b")), "A", (Interval(0.0, 1.0),), 10.0)


def look(number: int, video: str, timestamps: list[float], **more: Any) -> dict[str, Any]:
    facts = {"look": f"1-{number}", "video": video, "timestamps": timestamps, "frames_supplied": len(timestamps)}
    return facts | {"decoder": "decord 0.6.0", "exact": True} | more


def test_looks_belong_to_the_questions_of_their_video(tmp_path: Path) -> None:
    lines = [
        look(1, "/data/one.mp4", [0.0, 1.0]),
        look(2, "/data/one.mp4", [0.0, 1.0]),
        look(3, "/data/two.mp4", [2.0]),
        look(3, "/data/two.mp4", [3.0], exact=False, scan=True),
        look(3, "/data/two.mp4", [3.1]),
        look(4, "/data/two.mp4", [2.5, 2.6]),
        look(5, "/data/one.mp4", [9.0], question_id="c", scan=True),
        look(6, "/data/one.mp4", [9.1], question_id="c"),
        look(7, "/data/other.mp4", [4.0]),
    ]
    with write_rows(tmp_path / "frames-1.jsonl", lines).open("a") as file:
        file.write('{"look": "1-7", "vid')  # the program was killed
    items = [item(name, "videos/one.mp4") for name in "abc"] + [item("d", "videos/two.mkv"), item("e", "videos/e.mp4")]
    found = read_recorded(tmp_path, items)
    expected = {
        "a": ((0.0, 1.0), True, False),
        "b": ((0.0, 1.0), True, False),
        "c": ((9.0, 9.1), True, False),  # one of two frames is of a scan
        "d": ((2.0, 3.0, 3.1, 2.5, 2.6), False, True),
    }
    assert found == {
        name: Prediction(name, None, frames, len(frames), extra={"exact": exact, "recorded": {"scan": scan}})
        for name, (frames, exact, scan) in expected.items()
    }
    write_rows(tmp_path / "frames-1.jsonl", [look(1, "one.mp4", [0.0]), look(2, "one.mp4", [5.0])])
    with pytest.raises(InputError, match="has 2 questions and different looks"):
        read_recorded(tmp_path, [item("a", "one.mp4"), item("b", "one.mp4")])


def test_a_module_that_is_imported_later_is_watched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["trace_ves_late", "trace_ves_later"]
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"VALUE = {name!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    frames = []
    watch = hooks.ImportWatch(names, lambda name, module: frames.append((name, module.VALUE)))
    with ExitStack() as patches:
        watch.start(patches)
        for name in names:
            importlib.import_module(name)
    assert frames == [(name, name) for name in names]
    assert watch not in sys.meta_path


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


def test_a_long_look_stands_in_several_lines_and_interrupted_ones_lose_nothing(tmp_path: Path) -> None:
    file = FramesFile(tmp_path)
    one, other = LoggedLook("one.mp4", "x 1", "q1"), LoggedLook("two.mp4", "x 1")
    for look, moments in ((one, [1.0, 2.0]), (other, [3.0]), (one, [4.0, 5.0]), (other, [6.0] * MOST_UNWRITTEN)):
        look.frames.extend(ReceivedFrame.by_seconds(moment) for moment in moments)
        file.on_frames(look)
    file.flush()
    assert [(line["look"], line.get("question_id"), line["timestamps"]) for line in lines_of(tmp_path)] == [
        (f"{os.getpid()}-{one.number}", "q1", [1.0, 2.0]),
        (f"{os.getpid()}-{other.number}", None, [3.0]),
        (f"{os.getpid()}-{one.number}", "q1", [4.0, 5.0]),
        (f"{os.getpid()}-{other.number}", None, [6.0] * MOST_UNWRITTEN),
    ]
    joined = read_recorded(tmp_path, [item("q1", "one.mp4"), item("q2", "two.mp4")])
    assert joined["q1"].timestamps == (1.0, 2.0, 4.0, 5.0)
    assert joined["q2"].frames_supplied == 1 + MOST_UNWRITTEN


SCANNING = """
import sys
import cv2
from trace_ves import frame_log

capture, wanted, count = cv2.VideoCapture(sys.argv[1]), {0, 50, 119}, 0
while capture.read()[0]:
    if sys.argv[2] == "at once" and count in wanted:
        frame_log.keep()
    count += 1
if sys.argv[2] == "at the end":
    frame_log.keep(sorted(wanted))
"""


@pytest.mark.parametrize("when", ["at once", "at the end", "never"])
def test_a_scan_is_marked_unless_it_says_what_it_keeps(when: str, tmp_path: Path, record: Callable[..., None]) -> None:
    film = footage.make(tmp_path / "long.mp4", [40 * number for number in range(120)])
    record(SCANNING, str(film), when)
    RECORDER.file = None
    items = [item("q1", "long.mp4")]
    recorded = read_recorded(tmp_path / "frames", items)["q1"]
    with trace_ves.recording("q1") as log:
        capture = cv2.VideoCapture(str(film))
        while capture.read()[0]:
            pass
        if when != "never":
            frame_log.keep([0, 50, 119])
            with pytest.raises(IndexError, match="frame 120 does not exist; this reader has returned 120 frames"):
                frame_log.keep([120])
    for line in (recorded, log.prediction("A")):
        if when == "never":
            assert line.frames_supplied == 120
            assert line.extra["recorded"]["scan"]
        else:
            assert line.timestamps == (0.0, 2.0, 4.76)
            assert not line.extra["recorded"].get("scan")
        warnings = trace_ves.audit(items, [line], resamples=9).warnings
        assert any("read consecutive frames" in warning for warning in warnings) == (when == "never")
    frame_log.keep()  # nothing is recorded now


class StandIn:
    """What decord and torchcodec have in common here; the real libraries are tested with the integrations."""

    def __init__(self, source: Path, *, mode: str = "") -> None:
        self.mode = mode
        with trace_ves.open_video(source) as video:
            self.seconds = [float(pts * video.time_base) for pts in video.pts.tolist()]

    def __len__(self) -> int:
        return len(self.seconds)


def test_torchcodecs_interface_is_watched(film: Path, truth: list[float]) -> None:
    class VideoDecoder(StandIn):
        __init__, __getitem__ = StandIn.__init__, None

        def get_frame_at(self, index: int) -> Any:
            return SimpleNamespace(data=index, pts_seconds=self.seconds[index])

        def get_frames_at(self, indices: Any) -> Any:
            moments = np.array([self.get_frame_at(index).pts_seconds for index in indices])
            return SimpleNamespace(data=[*indices], pts_seconds=moments)

        def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> Any:
            return self.get_frames_at(range(start, stop, step))

    with ExitStack() as patches, trace_ves.recording("q1") as log:
        hooks.patch_torchcodec(SimpleNamespace(VideoDecoder=VideoDecoder), RECORDER, patches)
        decoder: Any = VideoDecoder(film, mode="exact")
        assert decoder.mode == "exact"
        decoder.get_frames_at(indices=[0, 4, 4])
        assert decoder.get_frame_at(7).data == 7
        assert (decoder[2], decoder[3:8:2]) == (2, [3, 5, 7])
    assert list(log.timestamps) == [truth[number] for number in (0, 4, 4, 7, 2, 3, 5, 7)]
    assert log.prediction("A").extra["recorded"]["exact"]


def test_decords_interface_is_watched(film: Path, truth: list[float]) -> None:
    class VideoReader(StandIn):
        __init__ = StandIn.__init__
        _validate_indices = staticmethod(np.array)
        get_batch = next = seek = seek_accurate = skip_frames = lambda self, *_: self

        def get_key_indices(self) -> list[int]:
            return [0, 5, 9]

    with ExitStack() as patches, trace_ves.recording("q1") as log:
        hooks.patch_decord(SimpleNamespace(VideoReader=VideoReader), RECORDER, patches)
        reader: Any = VideoReader(film)
        assert reader.next() is reader
        reader.next()
        for move, place in ((reader.seek_accurate, 4), (reader.skip_frames, 2), (reader.seek, 8), (reader.seek, 9)):
            assert move(place) is reader
            reader.next()
        reader.get_batch([3, 1])
        reader.next()  # decord does not say which frame this is
    assert list(log.timestamps) == [truth[number] for number in (0, 1, 4, 7, 5, 9, 3, 1)]
    assert log.frames_supplied == 9
    assert log.prediction("A").extra["recorded"]["unplaced"] == 1


FORKING = """
import multiprocessing, sys
import cv2

def look(path):
    cv2.VideoCapture(path).read()

if __name__ == "__main__":
    capture = cv2.VideoCapture(sys.argv[1])
    capture.read()
    capture.read()
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        worker = context.Process(target=look, args=(sys.argv[1],))
        worker.start()
        worker.join()
"""


@pytest.mark.parametrize("film", ["film.mp4"], indirect=True)
def test_processes_that_are_forked_off_write_files_of_their_own(film: Path, truth: list[float], tmp_path: Path) -> None:
    script = tmp_path / "look.py"
    script.write_text(FORKING)
    command = [sys.executable, "-m", "trace_ves.frame_log", str(tmp_path / "frames"), str(script), str(film)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "frames").glob("*.jsonl"))) == 3
    assert sorted(line["timestamps"] for line in lines_of(tmp_path / "frames")) == [truth[:1], truth[:1], truth[:2]]


TENTHS = FrameTable(np.arange(200), np.arange(200) / 10, Fraction(1, 10), 0, is_timed=True)


@pytest.mark.parametrize(
    ("places", "known", "expected"),
    [
        *((places, True, True) for places in (range(50), range(100, 150), [*range(100, 149), 154])),
        *((places, True, False) for places in (range(49), [*range(100, 149), 155], [*range(49), 48])),
        *((range(0, 120, 2), known, False) for known in (True, False)),
        (range(50), False, True),
    ],
)
def test_a_scan_is_nearly_all_frames_from_first_to_last(places: Sequence[int], known: bool, expected: bool) -> None:
    """With 50 of them, nine tenths are reached up to 55 frames."""
    seconds = [float(TENTHS.seconds[place]) if known else place / 16 for place in places]
    assert reads_consecutive_frames(seconds, TENTHS if known else None) is expected


@pytest.mark.parametrize(("ticks", "expected"), [(0, 0.0), (7, 0.7), (199, 19.9), (200, None), (900, None), (-1, None)])
def test_a_timestamp_that_no_frame_has_is_none(ticks: int, expected: float | None) -> None:
    assert TENTHS.by_pts(ticks, Fraction(1, 10)) == TENTHS.by_pts(10 * ticks, Fraction(1, 100)) == expected
    assert TENTHS.by_pts(10 * ticks + 5, Fraction(1, 100)) is None


@pytest.mark.parametrize(
    ("ticks", "expected"), [(0, 0.0), (1, 0.0), (2, None), (8, None), (9, 0.1), (11, 0.1), (21, 0.2), (22, None)]
)
def test_seconds_may_be_off_by_a_tick(ticks: int, expected: float | None) -> None:
    table = FrameTable(np.array([0, 10, 20]), np.array([0, 0.1, 0.2]), Fraction(1, 100), 7, is_timed=True)
    assert table.by_seconds(ticks / 100, from_start_time=False) == expected
    assert table.by_seconds((ticks - 7) / 100, from_start_time=True) == expected
    assert replace(table, is_timed=False).by_seconds(ticks / 100, from_start_time=False) is None
