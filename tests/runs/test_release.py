"""A release can be checked, audited and replayed frame by frame by somebody who has nothing else."""

import csv
import io
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.runs.conftest import models_in
from trace_ves.benches import load_bench
from trace_ves.cli.benches import frames_command as frames
from trace_ves.cli.benches import release_command as release
from trace_ves.cli.main import SETTINGS
from trace_ves.cli.run import run_command
from trace_ves.core import InputError
from trace_ves.records.run_file import load_run
from trace_ves.runs.answering import Job
from trace_ves.runs.run import answer_locally, run
from trace_ves.ves import audit, load_runs
from trace_ves.ves.release import Scrubber, check_release, make_release


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, bench_folder: Path) -> Path:
    """A copy of the bench and two runs on it; nobody writes to it."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(bench_folder, folder / "bench")
    jobs = [Job("uniform-8", "models:Steady"), Job("vca", "models:Steady")]
    with models_in(folder):
        runs = run(load_bench(folder / "bench"), jobs, folder / "runs", partial(answer_locally, workers=2))
    assert not [each.error for path in runs.values() for each in load_run(path).predictions if each.error]
    return folder


@pytest.fixture
def place(made: Path, workplace: Path) -> Path:
    """The bench and the runs as if they had been made here."""
    for name in ("bench", "runs"):
        shutil.copytree(made / name, workplace / name)
    for path in filter(Path.is_file, (workplace / "runs").rglob("*")):
        path.write_bytes(path.read_bytes().replace(bytes(made), bytes(workplace)))
    return workplace


UNIFORM = "runs/uniform-8@models-Steady.jsonl"


def call(command: Any, *arguments: str) -> Any:
    return CliRunner().invoke(command, list(arguments), standalone_mode=False, **SETTINGS)


def test_a_release_gives_the_same_audit_and_the_same_frames(place: Path) -> None:
    questions = place / "bench/questions.jsonl"
    lines = questions.read_text().splitlines()
    questions.write_text("\n".join([*lines[:-1], json.dumps(json.loads(lines[-1]) | {"evidence": [[5, 400]]})]) + "\n")
    done = call(release, "bench", UNIFORM, "runs/vca@models-Steady.jsonl", "out", "--videos")
    assert done.exception is None, done.output
    assert (place / "out/videos/a.mp4").exists()
    assert f"- `{UNIFORM}`: uniform-8\n" in (place / "out/README.md").read_text()
    shutil.rmtree(place / "bench")  # whoever downloads it has nothing but the release
    shutil.rmtree(place / "runs")
    assert call(release, "--check", "out").return_value == 0
    bench = load_bench(place / "out")
    assert bench.left_out == {"q11"}
    report = audit(bench.items, load_runs([place / "out/runs"]), left_out=bench.left_out)
    assert str(report).strip() == (place / "out/AUDIT.txt").read_text().strip()
    done = call(frames, "out/runs/vca@models-Steady.jsonl", "q01", "pictures")
    assert done.exception is None, done.output
    assert len(list((place / "pictures").glob("*.jpg"))) > 8
    assert str(place) not in (place / "out/runs/vca@models-Steady.run.toml").read_text()


def test_a_release_without_videos_names_their_checksums_and_checks_those_put_beside_it(place: Path) -> None:
    (place / "out.partial").mkdir()
    (place / "out.partial/mine").touch()
    call(release, "bench", UNIFORM, "out")
    assert (place / "out.partial/mine").exists()  # no folder that is not its own is taken
    assert sorted(path.name for path in place.iterdir() if path.name.startswith(".")) == []
    noted = [json.loads(line) for line in (place / "out/videos.jsonl").read_text().splitlines()]
    assert [line["video"] for line in noted] == ["videos/a.mp4", "videos/b.mp4", "videos/c.mp4"]
    assert all(len(line["sha256"]) == 64 for line in noted)
    assert not (place / "out/videos").exists()
    assert "CC BY-NC-SA 4.0" in (place / "out/LICENSE.md").read_text()
    shutil.copytree(place / "bench/videos", place / "out/videos")
    assert call(release, "--check", "out").return_value == 0
    with (place / "out/videos/a.mp4").open("ab") as file:
        file.write(b"\0")
    done = call(release, "--check", "out")
    assert done.return_value == 1
    assert "videos/a.mp4: " in done.output


def test_nothing_of_this_machine_is_released(place: Path) -> None:
    run_file = place / UNIFORM
    first, second, third, *rest = map(json.loads, run_file.read_text().splitlines())
    first |= {"answer": None, "error": f"{place}/bench/videos/a.mp4: cannot be read: No such file."}
    second |= {"answer": None, "error": "OSError: '/srv/team/anna/models/x.bin' (loader.py:3), see https://host/a/b"}
    third |= {"trajectory": {"notes": [f"opened {place / 'bench'}", "either/or", "3/4 of a/b/c"]}, "mine": str(place)}
    run_file.write_text("".join(json.dumps(line) + "\n" for line in (first, second, third, *rest)))
    done = call(release, "bench", UNIFORM, "out")
    assert done.exception is None, done.output
    texts = [path.read_text() for path in (place / "out").rglob("*") if path.is_file()]
    assert texts
    assert not [text for text in texts if str(place) in text or "/srv/team" in text]
    lines = [json.loads(line) for line in (place / "out/runs" / run_file.name).read_text().splitlines()]
    assert lines[0]["error"] == "…/videos/a.mp4: cannot be read: No such file."
    assert lines[1]["error"] == "OSError: '…/x.bin' (loader.py:3), see https://host/a/b"
    assert lines[2]["trajectory"] == {"notes": ["opened …", "either/or", "3/4 of a/b/c"]}
    released = (place / "out/runs" / run_file.name).read_bytes().splitlines()
    assert released[3:] == run_file.read_bytes().splitlines()[3:]  # what names no path keeps its bytes


@pytest.mark.parametrize("video", ["/etc/hosts", "videos/../../a.mp4"])
def test_a_release_reads_no_video_outside_of_it_and_a_run_names_those_of_a_bench(place: Path, video: str) -> None:
    questions = place / "bench/questions.jsonl"
    questions.write_text(questions.read_text().replace("videos/a.mp4", video))
    done = call(run_command, "bench", "--method", "blind", "--backbone", "models:Steady", "--out", "x", "--estimate")
    assert f"the model will see videos outside the folder of the bench: {video}." in done.output
    (place / "bench/SHA256SUMS").touch()
    with pytest.raises(InputError, match=r"questions.jsonl:1: the video '.*' lies outside this release"):
        load_bench(place / "bench")


def name_absolute_paths(place: Path) -> None:
    questions = place / "bench/questions.jsonl"
    questions.write_text(questions.read_text().replace('"videos/', f'"{place}/bench/videos/'))


@pytest.mark.parametrize(
    ("prepare", "arguments", "sentence"),
    [
        (lambda place: (place / "out").mkdir(), (), "exists already"),
        (lambda place: (place / "bench/videos/b.mp4").write_bytes(b"."), (), "not the video that the runs were made"),
        (lambda place: (place / "bench/videos/b.mp4").unlink(), ("--videos",), "is missing; get the video"),
        (name_absolute_paths, (), "is outside the bench; a release names videos relative to it"),
    ],
)
def test_no_release_without_replay(place: Path, prepare: Any, arguments: tuple[str, ...], sentence: str) -> None:
    prepare(place)
    done = call(release, "bench", UNIFORM, "out", *arguments)
    assert isinstance(done.exception, InputError)
    assert sentence in str(done.exception)
    assert not (place / "out/README.md").exists()


def test_frames_are_the_very_frames_of_the_log(place: Path) -> None:
    import numpy as np
    from PIL import Image

    done = call(frames, UNIFORM, "q02", "pictures")
    assert done.exception is None
    rows = list(csv.DictReader(io.StringIO((place / "pictures/frames.csv").read_text())))
    [line] = [each for each in load_run(place / UNIFORM).predictions if each.question_id == "q02"]
    assert tuple(float(row["seconds"]) for row in rows) == line.timestamps
    for row in rows:
        with Image.open(place / "pictures" / row["picture"]) as picture:
            assert picture.height == int(row["height"]) == 48
            shade = float(np.asarray(picture).mean())
        assert abs(shade - round(float(row["seconds"]) * 5) % 200) < 6  # the video's grey counts its frames
    with (place / "bench/videos/a.mp4").open("ab") as file:
        file.write(b"\0")
    other = call(frames, UNIFORM, "q00", "others")
    assert "is not the video that question 'q00' was answered on" in str(other.exception)


QUESTION = {"id": "q", "video": "v/a.mp4", "duration": 9, "question": "?", "options": ["x", "y"], "answer": "A"}


def test_a_release_and_its_check_count_their_files_and_say_what_is_wrong_with_each(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/questions.jsonl").write_text(f"{json.dumps(QUESTION)}\n\n{json.dumps(QUESTION | {'id': 'r'})}")
    bench, out = load_bench(tmp_path / "bench"), tmp_path / "new/out"
    make = partial(make_release, bench, [], license_note="Mine.", with_videos=False)
    assert make(out) == (5, ["v/a.mp4"])
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    lines = [json.dumps(line) for line in (QUESTION, QUESTION | {"id": "r"})]
    assert (out / "questions.jsonl").read_text().splitlines() == lines
    assert (out / "questions.jsonl").read_bytes().endswith(b"\n")
    assert json.loads((out / "videos.jsonl").read_text()) == {"video": "v/a.mp4"}
    assert (out / "LICENSE.md").read_text() == "Mine."
    readme = (out / "README.md").read_text()
    assert all(words in readme for words in ("2 questions", "1 video", "- none", "are not in this folder"))
    assert check_release(out) == (4, [])
    (out / "v").mkdir()
    (out / "v/a.mp4").write_bytes(b"1")  # its checksum is not known
    (out / "README.md").unlink()
    (out / "videos.jsonl").write_text("{}\n")
    (out / "linked").symlink_to("v")
    (out / "LICENSE.md").rename(tmp_path / "note")
    (out / "LICENSE.md").symlink_to(tmp_path / "note")
    sums = (out / "SHA256SUMS").read_text().splitlines()
    kept = [line for line in sums if "questions" not in line]
    (out / "SHA256SUMS").write_text("\n".join([*kept, f"{'0' * 64}  ../x", f"{'0' * 64}  linked/a.mp4"]))
    count, wrong = check_release(out)
    assert count == 8
    assert wrong == [
        "LICENSE.md: is a link",
        "README.md: is missing",
        "videos.jsonl: differs from what was released",
        "../x: leads out of the release",
        "linked/a.mp4: is a link",
        "questions.jsonl: is not named in SHA256SUMS",
        "linked: is not a file of this release",
        "v/a.mp4: is not a file of this release",
    ]
    for text, place in (("x  a", 1), (f"{'0' * 64} a", 1), (f"{'A' * 64}  a", 1), (f"{'0' * 64}  a\n" * 2, 2)):
        (out / "SHA256SUMS").write_text(text)
        with pytest.raises(InputError, match=f"SHA256SUMS:{place}: expected a SHA-256 and a file name, each file once"):
            check_release(out)
    (out / "SHA256SUMS").write_bytes(b"\xff")
    with pytest.raises(InputError, match="cannot be read: it is not text; is this a release"):
        check_release(out)
    with pytest.raises(InputError, match="No such file or directory; is this a release"):
        check_release(tmp_path)


@pytest.mark.parametrize(
    ("text", "known", "quoted"),
    [
        ("/data/x/a.mp4: no", "…/a.mp4: no", "…/a.mp4: no"),
        ("/data/x-1/a /data/x.old/b /data/x_2", "/data/x-1/a /data/x.old/b /data/x_2", "…/a …/b …/x_2"),
        ("/data/x/in/a", "…/a", "…/a"),
        ("(C:\\Users\\me\\a.txt)", "(C:\\Users\\me\\a.txt)", "(…/a.txt)"),
        ("~/models/a", "~/models/a", "…/a"),
        ("/x and a/b/c and https://host/a/b", "/x and a/b/c and https://host/a/b", "/x and a/b/c and https://host/a/b"),
    ],
)
def test_folders_are_scrubbed_from_texts_and_quotations(text: str, known: str, quoted: str) -> None:
    scrubber = Scrubber([Path("/data/x"), Path("/data/x/in")])
    assert (scrubber.text(text), scrubber.text(text, quoted=True)) == (known, quoted)
    keys = ("error", "fault", "exception", "traceback", "message", "reason")
    scrubbed = scrubber.record({key: [text, {key: text}, 3] for key in keys})
    assert scrubbed == {key: [quoted, {key: quoted}, 3] for key in keys}
    assert scrubber.record({"note": [text, {"error": text}]}) == {"note": [known, {"error": quoted}]}
