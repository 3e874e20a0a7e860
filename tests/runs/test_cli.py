"""`trace-ves run` as a person types it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., subprocess.Popen[str]]


def test_audit_and_cost_are_printed_and_a_second_time_nothing_is_asked(command: Command, bench_folder: Path) -> None:
    arguments = (
        "run",
        str(bench_folder),
        "--method",
        "uniform-8, blind",
        "--backbone",
        "models:Steady",
        "--out",
        "out",
    )
    first, progress = (process := command(*arguments)).communicate(timeout=60)
    assert process.returncode == 0, progress
    assert "VES audit\n" in first
    assert "Cost per question, by stage" not in first
    assert "More: --full prints every table; trace-ves view out;" in first
    assert "uniform-8@models-Steady: Done 12/12" in progress
    again, quiet = command(*arguments, MODEL_SECONDS="999").communicate(timeout=60)
    assert again == first
    assert quiet == ""
    assert "Cost per question, by stage" in command(*arguments, "--full").communicate(timeout=60)[0]


def test_json_is_for_machines(command: Command, bench_folder: Path) -> None:
    process = command(
        *("run", str(bench_folder), "--method", "uniform-8,random", "--backbone", "models:Steady"),
        *("--backbone", "models:Slow", "--out", "out", "--json"),
    )
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    summary = json.loads(out)
    assert [run["file"] for run in summary["runs"]] == [
        f"out/{method}@models-{model}.jsonl" for model in ("Steady", "Slow") for method in ("uniform-8", "random")
    ]
    spent = summary["runs"][0]["cost"]["by_stage"]["direct-answer"]
    assert (spent["calls"], spent["frames"], spent["input_tokens"], spent["dollars"]) == (12, 96, 9600, None)
    assert {run["questions"] for run in summary["audit"]["runs"]} == {12}


def test_a_bench_without_evidence_gives_accuracy_overall_and_by_its_groups(
    command: Command, bench_folder: Path, workplace: Path
) -> None:
    lines = [json.loads(line) for line in (bench_folder / "questions.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        line["evidence"] = []
        line["video"] = str(bench_folder / line["video"])
        line["duration_group"] = "short" if number < 4 else "long"
    (workplace / "plain.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("run", "plain.jsonl", "--method", "uniform-8", "--backbone", "models:Steady", "--out", "out")
    process = command(*arguments, "--full")
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "Answers alone" in out
    assert "Accuracy by duration group" in out
    assert "n = 4" in out
    assert "EP" not in out


def test_errors_end_with_status_1_and_say_how_to_go_on(command: Command, bench_folder: Path) -> None:
    process = command("run", str(bench_folder), "--method", "blind", "--backbone", "models:Failing", "--out", "out")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "8 of the 12 questions of blind ended in an error, the first 'q0" in said
    assert "--retry-errors asks them again" in said


def test_own_prices_turn_tokens_into_money(command: Command, bench_folder: Path, workplace: Path) -> None:
    (workplace / "prices.toml").write_text('["models:*"]\ninput = 1000\ncached = 0\noutput = 0\n')
    process = command(
        *("run", str(bench_folder), "--method", "uniform-8", "--backbone", "models:Steady", "--out", "out"),
        *("--prices", "prices.toml", "--full"),
    )
    out, said = process.communicate(timeout=60)
    assert "$0.7200" in out  # 800 tokens less 80 cached ones, at a thousand dollars a million
    assert "Cost $8.64" in said


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"--method": "unifrom-8"}, "did you mean uniform-64?"),
        ({"--method": " , "}, "Give at least one method"),
        ({"--method": "os:system"}, "A method is called with a question and an observer"),
        ({"--backbone": "json:dumps"}, "json:dumps"),
        ({"--backbone": "nothing"}, "There is no backbone 'nothing'"),
        ({"--address": "10.0.0.1:6379"}, "give --engine ray with it"),
        ({"--prices": "no-such.toml"}, "cannot be read"),
        ({"--workers": "0"}, "0 is not in the range"),
        ({"--temperature": "nan"}, "nan is not a number"),
        ({"--backbone": "openai:m@notaurl"}, "The URL after openai:m@ cannot be used"),
        ({"--out": "models.py"}, "models.py"),
    ],
)
def test_what_a_person_got_wrong_is_one_sentence(
    command: Command, bench_folder: Path, workplace: Path, change: dict[str, str], sentence: str
) -> None:
    options = {"--method": "uniform-8", "--backbone": "models:Steady", "--out": "out"} | change
    process = command("run", str(bench_folder), *(word for pair in options.items() for word in pair))
    out, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert sentence in said
    assert "Traceback" not in said
    assert out == ""
    assert not (workplace / "out").exists() or not list((workplace / "out").iterdir())


def test_an_option_that_is_given_twice_is_one_sentence(command: Command, bench_folder: Path) -> None:
    once = ("run", str(bench_folder), "--method", "blind", "--backbone", "models:Steady", "--out", "out")
    _, said = (process := command(*once, "--out", "elsewhere")).communicate(timeout=60)
    assert process.returncode == 2
    assert "--out was given 2 times; give it once." in said


def test_no_bench_is_one_sentence(command: Command) -> None:
    process = command("run", "nowhere", "--method", "blind", "--backbone", "models:Steady", "--out", "out")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said == "trace-ves: nowhere: no bench here; expected a folder with questions.jsonl, or such a file.\n"


def test_the_counterfactual_check_runs_on_a_run(command: Command, bench_folder: Path, workplace: Path) -> None:
    run = ("run", str(bench_folder), "--method", "uniform-16", "--backbone", "models:Steady", "--out", "out")
    assert command(*run).wait(60) == 0
    check = ("counterfactual", str(bench_folder), "out/uniform-16@models-Steady.jsonl", "--json")
    _, refused = (process := command(*check)).communicate(timeout=60)
    assert process.returncode == 2
    assert "names the backbone 'models:Steady', which a file may not choose" in refused
    check = (*check[:-1], "--backbone", "models:Steady", "--json")
    out, said = (process := command(*check)).communicate(timeout=60)
    assert process.returncode == 0, said
    summary = json.loads(out)
    assert summary["eligible"] > 0
    assert summary["not_reproduced"] <= summary["eligible"]
    log = workplace / "out/counterfactual/uniform-16@models-Steady.jsonl"
    assert len(log.read_text().splitlines()) == summary["eligible"]
    printed, _ = command(*check[:-1], "--resamples", "1").communicate(timeout=60)
    assert "one evidence interval" in printed
