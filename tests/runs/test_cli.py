"""`trace-ves run` as a person types it."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests import program


def run(
    bench: object, *options: str, method: str = "uniform-8", backbone: str = "models:Steady"
) -> CompletedProcess[str]:
    return program.run("run", bench, "--method", method, "--backbone", backbone, "--out", "out", *options)


def test_audit_and_cost_are_printed_and_a_second_time_nothing_is_asked(bench_folder: Path, workplace: Path) -> None:
    (workplace / "prices.toml").write_text('["models:*"]\ninput = 1000\ncached = 0\noutput = 0\n')
    first = run(bench_folder, "--prices", "prices.toml", method="uniform-8, blind")
    assert first.returncode == 0, first.stderr
    assert "VES audit\n" in first.stdout
    assert "Cost per question, by stage" not in first.stdout
    assert "More: --full prints every table; trace-ves view out;" in first.stdout
    assert "uniform-8@models-Steady: Done 12/12" in first.stderr
    assert "Cost $8.64" in first.stderr
    again = run(bench_folder, "--prices", "prices.toml", method="uniform-8, blind")
    assert (again.stdout, again.stderr) == (first.stdout, "")
    full = run(bench_folder, "--prices", "prices.toml", "--full", method="uniform-8, blind").stdout
    assert "Cost per question, by stage" in full
    assert "$0.7200" in full  # 800 tokens less 80 cached ones, at a thousand dollars a million


def test_json_is_for_machines(bench_folder: Path, workplace: Path) -> None:
    done = run(bench_folder, "--backbone", "models:Slow", "--json", method="uniform-8,random")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [run["file"] for run in summary["runs"]] == [
        f"out/{method}@models-{model}.jsonl" for model in ("Steady", "Slow") for method in ("uniform-8", "random")
    ]
    spent = summary["runs"][0]["cost"]["by_stage"]["direct-answer"]
    assert (spent["calls"], spent["frames"], spent["input_tokens"], spent["dollars"]) == (12, 96, 9600, None)
    assert {run["questions"] for run in summary["audit"]["runs"]} == {12}


def test_a_bench_without_evidence_gives_accuracy_overall_and_by_its_groups(bench_folder: Path, workplace: Path) -> None:
    lines = [json.loads(line) for line in (bench_folder / "questions.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        line["evidence"] = []
        line["video"] = str(bench_folder / line["video"])
        line["duration_group"] = "short" if number < 4 else "long"
    (workplace / "plain.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run("plain.jsonl", "--full")
    assert done.returncode == 0, done.stderr
    assert all(words in done.stdout for words in ("Answers only", "Accuracy by duration group", "n = 4"))
    assert "EP" not in done.stdout


def test_errors_end_with_status_1_and_say_how_to_go_on(bench_folder: Path, workplace: Path) -> None:
    done = run(bench_folder, method="blind", backbone="models:Failing")
    assert done.returncode == 1
    assert "8 of the 12 questions of blind ended in an error, the first 'q0" in done.stderr
    assert "--retry-errors asks them again" in done.stderr


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"--method": "unifrom-8"}, "did you mean uniform-64?"),
        ({"--method": " , "}, "Give at least one method"),
        ({"--method": "os:system"}, "A method is called with a question and an observer"),
        ({"--backbone": "json:dumps"}, "json:dumps"),
        ({"--backbone": "nothing"}, "There is no backbone 'nothing'"),
        ({"--backbone": "models:Nothing", "--engine": "ray"}, "the module models has no Nothing"),
        ({"--address": "10.0.0.1:6379"}, "add --engine ray"),
        ({"--prices": "no-such.toml"}, "cannot be read"),
        ({"--workers": "0"}, "0 is not in the range"),
        ({"--temperature": "nan"}, "nan is not a number"),
        ({"--backbone": "openai:m@notaurl"}, "The URL after openai:m@ cannot be used"),
        ({"--out": "models.py"}, "models.py"),
        ({"--out": "out", "--out ": "elsewhere"}, "--out was given 2 times; give it once."),
        ({"bench": "nowhere"}, "nowhere: no bench here; expected a folder with questions.jsonl, or such a file."),
    ],
)
def test_what_a_person_got_wrong_is_one_sentence(
    bench_folder: Path, workplace: Path, change: dict[str, str], sentence: str
) -> None:
    options = {"--method": "uniform-8", "--backbone": "models:Steady", "--out": "out"} | change
    bench = options.pop("bench", bench_folder)
    done = program.run("run", bench, *(word.strip() or word for pair in options.items() for word in pair))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (workplace / "out").exists() or not list((workplace / "out").iterdir())


def test_the_counterfactual_check_runs_on_a_run(bench_folder: Path, workplace: Path) -> None:
    assert run(bench_folder, method="uniform-16").returncode == 0
    check = ("counterfactual", bench_folder, "out/uniform-16@models-Steady.jsonl")
    refused = program.run(*check)
    assert refused.returncode == 2
    assert "names the backbone 'models:Steady', which a file may not choose" in refused.stderr
    done = program.run(*check, "--backbone", "models:Steady", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert 0 < summary["eligible"] >= summary["not_reproduced"]
    log = workplace / "out/counterfactual/uniform-16@models-Steady.jsonl"
    assert len(log.read_text().splitlines()) == summary["eligible"]
    printed = program.run(*check, "--backbone", "models:Steady", "--resamples", "1")
    assert "one evidence interval" in printed.stdout
