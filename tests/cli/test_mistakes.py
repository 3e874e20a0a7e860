"""What a user gets wrong: one sentence and exit status 2, before anything is asked or written."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.cli.test_audit import QUESTION


@pytest.fixture
def place(tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a film, files that are none, a table, a bench."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "film.mp4").symlink_to(clip)
    (tmp_path / "text.mp4").write_text("not a video at all")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "table.csv").write_text("question\nWhich?\n")
    (tmp_path / "questions.jsonl").write_text(json.dumps(QUESTION) + "\n")
    return tmp_path


WHY = "ask film.mp4 Why? -o red -o blue"
TABLE = "ask film.mp4 --questions table.csv"
RUN = "run . --method blind --backbone glance"
SAMPLER = "audit . --sampler uniform-8"
MISTAKES = [
    ("ask", "trace-ves ask --sample"),
    ("ask --sample film.mp4", "--sample has its own film"),
    ("ask film.mp4 Why? -o a", "a question needs 2 to 26 options, or none for an open answer; found 1"),
    ("ask film.mp4 Why? -o a -o a", "the option 'a' appears twice"),
    ("ask film.mp4 Why? -o a -o ''", "option 2 is empty"),
    ("ask film.mp4 ' ' -o red -o blue", "the question is empty"),
    (f"{WHY} --method guess", "There is no method 'guess'"),
    (f"{WHY} --budget 20 --backbone openai:m@http://127.0.0.1:9/v1", "a budget of 20 frames is too small"),
    (f"{WHY} --backbone oracle:x", "There is no backbone 'oracle:x'"),
    (f"{WHY} --backbone gemini:x", "needs a key: set GEMINI_API_KEY"),
    (f"{WHY} --max-cost nan", "nan is not a number"),
    (f"{WHY} --save here --save there", "--save was given 2 times; give it once."),
    ("ask text.mp4 Why? -o red -o blue", "text.mp4"),
    ("ask empty.mp4 Why? -o red -o blue", "empty"),
    ("ask nowhere.mp4 Why? -o red -o blue", "nowhere.mp4"),
    ("ask film.mp4 --backbone glance -o red", "-o needs a QUESTION"),
    ("ask film.mp4 --backbone glance --estimate", "--estimate needs a QUESTION"),
    ("ask film.mp4 --backbone glance --view", "--view opens one answer"),
    ("ask .", "A folder needs a QUESTION"),
    ("ask empty Why? --backbone glance", "this folder has no readable video"),
    ("ask film.mp4 Why? --questions table.csv", "--questions reads questions and options from FILE"),
    (f"{TABLE} -o x", "--questions reads questions and options from FILE"),
    (f"{TABLE} --save . --backbone glance", "is not empty"),
    (f"{TABLE} --save table.csv --backbone glance", "is a file"),
    (f"{TABLE} --method trase", "did you mean trace"),
    (f"{TABLE} --subtitles --method uniform-4 --backbone glance", "subtitles"),
    (f"{RUN} --out ''", "--out is empty"),
    (f"{RUN} --out table.csv", "table.csv"),
    (f"{RUN} --out x --out y", "--out was given 2 times; give it once."),
    (f"{RUN} --out x --address 10.0.0.1:6379", "--address names a Ray cluster; add --engine ray."),
    (f"{RUN} --out x --prices no-such.toml", "no-such.toml: cannot be read"),
    (f"{RUN} --out x --workers 0", "0 is not in the range"),
    (f"{RUN} --out x --temperature nan", "nan is not a number"),
    ("run . --out x --backbone glance --method unifrom-8", "did you mean uniform-64?"),
    ("run . --out x --backbone glance --method ' , '", "Give at least one method"),
    ("run . --out x --backbone glance --method os:system", "A method is called with a question and an observer"),
    ("run . --out x --method blind --backbone nothing --price 1,1,1", "There is no backbone 'nothing'"),
    ("run . --out x --method blind --backbone json:dumps", "json:dumps"),
    ("run . --out x --method blind --backbone json:Nothing --engine ray", "the module json has no Nothing"),
    ("run . --out x --method blind --price 1,1,1 --backbone openai:m@notaurl", "The URL after openai:m@ cannot be"),
    ("run nowhere --out x --method blind --backbone glance", "nowhere: no bench here; expected a folder with"),
    (f"{RUN} --out x --max-cost -1", "-1.0"),
    ("audit nowhere run.jsonl", "no bench here"),
    ("audit . nothing.jsonl", "nothing.jsonl: cannot be read: No such file"),
    ("audit .", "Give at least one RUN"),
    ("audit . --sampler uniform-0", "the sampler 'uniform-0' is unknown"),
    (f"{SAMPLER} --k 0", "0 is not in the range"),
    (f"{SAMPLER} --resamples 0", "0 is not in the range"),
    (f"{SAMPLER} --latex questions.jsonl/x", "cannot be written"),
    ("import nonsense a b", "There is no importer 'nonsense'; use one of cg-bench, eg-vqa, longvideobench,"),
    ("import cgbench a b", "did you mean cg-bench?"),
    ("import cg-bench none.json out", "none.json: cannot be read: No such file"),
    ("import cg-bench none.json out --columns id=x", "the importer cg-bench has no option --columns"),
    ("import cg-bench none.json out --grounding x", "the importer cg-bench has no option --grounding"),
    ("import ves-bench none.parquet out --columns idd=x", "FIELD one of"),
    ("import next-gqa none.csv out", "there are no grounded segments next to it"),
    ("frames film.mp4 --at noon out", "'noon' is not a time; write seconds, M:SS or H:MM:SS"),
    ("frames film.mp4 --at 1:99 out", "numbers after a colon must be below 60"),
    ("frames film.mp4 --at 120.1 out", "there is no frame at 120.1 s; give a time from 0 to 120.0 s"),
    ("frames film.mp4 --at -1 out", "'-1' is not a time"),
    (f"frames film.mp4 --at {'9' * 400} out", "is not a time"),
    ("frames film.mp4 --at 1 q1 out", "With --at, give a video and a folder"),
    ("frames film.mp4 out", "Give a run, a question and a folder; or a video and a folder, with --at"),
    ("frames run.jsonl q1 out --height 24", "--height needs --at"),
    ("frames missing.mp4 --at 1 out", "missing.mp4: there is no such file"),
    ("frames film.mp4 --at 1 film.mp4/out", "cannot be used as a folder: Not a directory"),
    ("view . --videos missing --no-browser", "missing: no such folder; give the folder of the videos with --videos."),
]


@pytest.mark.parametrize(("command", "sentence"), MISTAKES)
def test_a_mistake_gets_one_sentence(cli: Call, place: Path, command: str, sentence: str) -> None:
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    done = cli(*shlex.split(command), status=2)
    assert sentence in done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("Usage: ") or len(done.stderr.splitlines()) == 1
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_a_desk_on_the_network_needs_tls(cli: Call, place: Path) -> None:
    (place / "new" / "videos").mkdir(parents=True)
    shutil.copy(place / "film.mp4", place / "new" / "videos")
    created = cli("build", "init", "new")
    assert created.stdout == "new: created a build over 1 video.\n"
    assert created.stderr == "Next: trace-ves build propose new --captioner SPEC --proposer SPEC\n"
    served = cli("build", "serve", "new", "--host", "0.0.0.0", status=2)
    assert "0.0.0.0 can be reached from the network" in served.stderr
    assert cli("build", "release", "new", "Ann").stdout == "new: nothing went back to the queue.\n"
