"""The pictures that a run looked at: each once for each height, in a table that names the call it was given to."""

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from trace_ves.core import InputError
from trace_ves.records import Call, Prediction
from trace_ves.records.disk_cache import checksum
from trace_ves.records.run_file import Run
from trace_ves.runs.logged_frames import empty_folder, find_bench, find_prediction, write_frames

CALLS = (Call("look", (1.0, 2.0), (24, 24)), Call("think"), Call("check", (2.0, 2.0, 4.0), (24, 48, 24)))


@pytest.fixture
def film(bench_folder: Path) -> Path:
    """A minute of 64x48 pixels, five frames a second."""
    return bench_folder / "videos" / "a.mp4"


def table(folder: Path) -> list[list[str]]:
    with (folder / "frames.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def pictures(folder: Path) -> dict[str, int]:
    """The height of each picture by its name."""
    found = {}
    for path in sorted(folder.glob("*.jpg")):
        with Image.open(path) as picture:
            found[path.name] = picture.height
    return found


def test_each_frame_is_written_once_for_each_height_and_named_for_each_call(film: Path, tmp_path: Path) -> None:
    line = Prediction("q1", "A", (1.0, 2.0, 4.0), 5, observations=CALLS, extra={"video": checksum(film).to_json()})
    written = write_frames(line, film, tmp_path / "new" / "out")
    one, two, tall, four = (f"{name}.jpg" for name in NAMES)
    assert (written.folder, written.pictures, written.calls) == (tmp_path / "new" / "out", 4, 2)
    assert (written.checked, written.warnings) == (True, ())
    assert pictures(written.folder) == {one: 24, two: 24, tall: 48, four: 24}
    assert table(written.folder) == [
        ["call", "stage", "place", "seconds", "height", "picture"],
        ["1", "look", "1", "1.0", "24", one],
        ["1", "look", "2", "2.0", "24", two],
        ["3", "check", "1", "2.0", "24", two],
        ["3", "check", "2", "2.0", "48", tall],
        ["3", "check", "3", "4.0", "24", four],
    ]
    text = (written.folder / "prediction.json").read_text(encoding="utf-8")
    assert json.loads(text) == line.to_json()
    assert text.startswith('{\n  "question_id"')  # for a person to read


NAMES = ("000001.000s-24p-pts10240", "000002.000s-24p-pts20480", "000002.000s-48p-pts20480", "000004.000s-24p-pts40960")


def test_a_log_without_heights_is_of_frames_in_their_own_size(film: Path, tmp_path: Path) -> None:
    line = Prediction("é", "A", (1.0,), 1, observations=(Call("look", (1.0,)),))
    written = write_frames(line, film, tmp_path / "out")
    assert pictures(written.folder) == {"000001.000s-48p-pts10240.jpg": 48}
    assert (written.checked, written.calls) == (False, 1)
    assert '"é"' in (written.folder / "prediction.json").read_text(encoding="utf-8")
    odd = Prediction("q1", "A", (1.0, 2.0), 2, observations=(Call("look", (1.0, 2.0), (24,)),))
    with pytest.raises(InputError, match="a look call has 2 timestamps but 1 heights"):
        write_frames(odd, film, tmp_path / "odd")


def test_what_has_no_frames_or_no_place_is_a_sentence(film: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="question 'q1' was answered without frames"):
        write_frames(Prediction("q1", "A", (), 0), film, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(InputError, match="full is not empty; give another folder"):
        write_frames(Prediction("q1", "A", (1.0,), 1), film, tmp_path / "full")
    with pytest.raises(InputError, match="cannot be used as a folder: Not a directory"):
        empty_folder(tmp_path / "full" / "file" / "below")
    assert empty_folder(tmp_path / "full" / "below" / "it").is_dir()
    assert empty_folder(tmp_path / "full" / "below" / "it").is_dir()  # empty is as good as new


def test_the_line_of_a_question_is_found_or_some_others_are_named(tmp_path: Path) -> None:
    lines = [Prediction(f"q{number}", "A", (), 0) for number in range(5)]
    run = Run("m", lines, tmp_path / "run.jsonl")
    assert find_prediction(run, "q4") is lines[4]
    with pytest.raises(InputError, match=r"run\.jsonl: no line for question 'q9'; the file has q0, q1, q2, …$"):
        find_prediction(run, "q9")


def test_the_bench_of_a_run_lies_where_its_configuration_says(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    for text in (None, 'method = "trace"\n'):
        if text is not None:
            (tmp_path / "run.run.toml").write_text(text)
        with pytest.raises(InputError, match="names its bench; give --bench"):
            find_bench(run)
    (tmp_path / "run.run.toml").write_text('bench = "../bench/questions.jsonl"\n')
    assert find_bench(run) == tmp_path / "../bench/questions.jsonl"
