"""A run from Python in one call, one question answered alike by `ask` and by a run, and methods by name."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trace_ves import TRACE, Answer, InputError, Observer, Question, Results, ask, evaluate, open_backbone
from trace_ves.agent.ablations import VARIANTS
from trace_ves.agent.settings import DEFAULT_BUDGET
from trace_ves.baselines.avp import Avp
from trace_ves.baselines.direct import Random, Uniform, Vote, blind
from trace_ves.baselines.vca import Vca
from trace_ves.observer import UNLIMITED
from trace_ves.records import Item, Prediction
from trace_ves.records.transcript import transcripts_path
from trace_ves.runs.answering import Job
from trace_ves.runs.cost import CostLimit
from trace_ves.runs.methods import default_budget, list_names, open_method, states_budget
from trace_ves.runs.prices import Price, Prices
from trace_ves.runs.run import Watcher


def test_one_call_gives_predictions_audit_and_costs(bench_folder: Path, workplace: Path) -> None:
    found = evaluate(bench_folder, "uniform-8, blind", "models:Steady", out=workplace / "out", limit=6)
    assert isinstance(found, Results)
    assert {name: len(lines) for name, lines in found.predictions.items()} == {"uniform-8": 6, "blind": 6}
    assert found.audit.run("uniform-8").metrics["Fr"] == 8
    assert [(cost.name, cost.total.calls) for cost in found.costs] == [("uniform-8", 6), ("blind", 6)]
    assert str(found) == str(found.audit)
    assert json.loads(found.save(workplace / "all.json").read_text())["audit"] == found.audit.to_json()
    files = sorted((workplace / "out").glob("*.jsonl"))
    assert [path.name for path in files] == ["blind@models-Steady.jsonl", "uniform-8@models-Steady.jsonl"]
    assert all(transcripts_path(path).exists() for path in files)
    fewer = evaluate(bench_folder, "uniform-8, blind,,blind ,", "models:Steady", out=workplace / "out", limit=2)
    assert {name: len(lines) for name, lines in fewer.predictions.items()} == {"uniform-8": 2, "blind": 2}
    assert [cost.total.calls for cost in fewer.costs] == [2, 2]
    assert [len(run.lines) for run in fewer.runs] == [2, 2]


def test_who_watches_a_run_hears_of_each_line_and_a_limit_ends_it(bench_folder: Path, workplace: Path) -> None:
    heard: list[str] = []

    class Noting(Watcher):
        def finished(self, job: Job, item: Item, prediction: Prediction) -> None:
            heard.append(f"{job.method} {item.question.id} {prediction.question_id}")

    limit = CostLimit(2.0, Prices({"models:Steady": Price(0, 0, 2e5)}))  # five tokens a line, for a dollar
    out = workplace / "out"
    evaluate(bench_folder, "blind", "models:Steady", out=out, watcher=Noting(), cost_limit=limit, workers=1)
    assert limit.stopped
    assert heard == ["blind q00 q00", "blind q01 q01"]


def test_methods_and_backbones_may_be_objects(bench_folder: Path, workplace: Path) -> None:
    def second(question: Question, observer: Observer) -> Answer:
        return Answer("B")

    found = evaluate(bench_folder, {"second": second}, open_backbone("models:Steady"), out=workplace / "out")
    assert {line.answer for line in found.predictions["second"]} == {"B"}
    assert found.audit.run("second").metrics["Acc"] == 25.0
    with pytest.raises(InputError, match="at least one method"):
        evaluate(bench_folder, [], "models:Steady", out=workplace / "out")


def test_ask_and_run_write_the_same_line(bench_folder: Path, workplace: Path) -> None:
    found = evaluate(bench_folder, "uniform-8", "models:Steady", out=workplace / "out", limit=1)
    [line] = found.predictions["uniform-8"]
    question = (bench_folder / "videos/a.mp4", "Which? #0", ["w", "x", "y", "z"])
    asked = ask(*question, backbone="models:Steady", method="uniform-8").prediction
    assert replace(asked, seconds=0.0) == replace(line, seconds=0.0, question_id="ask")
    assert "video" in asked.to_json()


def test_ask_needs_a_budget_of_one_frame(bench_folder: Path, workplace: Path) -> None:
    question = (bench_folder / "videos/a.mp4", "Which? #0", ["w", "x"])
    assert ask(*question, backbone="models:Steady", method="uniform-1", budget=1).log.frames_supplied == 1
    with pytest.raises(InputError, match="the budget must be at least 1 frame, found 0"):
        ask(*question, backbone="models:Steady", method="blind", budget=0)


def test_a_wrapper_around_trace_has_traces_budget(bench_folder: Path, workplace: Path) -> None:
    variant = replace(TRACE, settings=replace(TRACE.settings, max_rounds=40, candidates_per_round=8))
    budgets = []

    def wrapped(question: Question, observer: Observer) -> Answer:
        answer = variant(question, observer)
        budgets.append(observer.budget)
        return answer

    found = evaluate(bench_folder, {"mine": wrapped}, "models:Steady", out=workplace / "out", limit=2)
    assert budgets == [TRACE.default_budget] * 2
    assert all(line.frames_supplied <= TRACE.default_budget for line in found.predictions["mine"])


def test_a_method_of_ones_own_without_a_budget_says_so_in_the_table(bench_folder: Path, workplace: Path) -> None:
    names = "models:first_letter,uniform-8"
    free = evaluate(bench_folder, names, "models:Steady", out=workplace / "free", limit=2)
    assert "Without a frame budget: models:first_letter." in str(free)
    limited = evaluate(bench_folder, names, "models:Steady", out=workplace / "limited", limit=2, budget=50)
    assert "Without a frame budget" not in str(limited)


def test_what_no_answer_means_stands_under_the_table(bench_folder: Path, workplace: Path) -> None:
    found = evaluate(bench_folder, "models:liar", "models:Steady", out=workplace / "out", limit=5)
    assert found.audit.run("models:liar").unanswered == 5
    text = " ".join(str(found).split())
    assert "Unanswered questions (null, an error or a missing line) counted as wrong: models:liar 5." in text
    assert "unanswered" in json.dumps(found.to_json())


# --- methods by name ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("uniform-64", Uniform(64)),
        ("uniform-1", Uniform(1)),
        ("vote-5", Vote(5)),
        ("random", Random(0)),
        ("random-7", Random(7)),
        ("blind", blind),
        ("avp", Avp(default_budget=DEFAULT_BUDGET)),
        ("avp-unlimited", Avp()),
        ("vca", Vca(default_budget=DEFAULT_BUDGET)),
        ("vca-unlimited", Vca()),
        ("trace", VARIANTS["trace"]),
    ],
)
def test_a_name_opens_its_method(name: str, method: object) -> None:
    assert open_method(name) == method


def test_every_name_that_is_shown_opens_a_method() -> None:
    *names, own = list_names()
    assert own == "package.module:callable"
    assert set(VARIANTS) < set(names)
    for name in names:
        assert callable(open_method(name))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("trace-without-reply", "did you mean trace-without-replay"),
        ("unifrom-64", "did you mean uniform-64"),
        ("uniform-0", "uniform-N needs N between 1 and 4096"),
        ("uniform-99999", "between 1 and 4096, found 99999"),
        ("vote-0", "between 1 and 256"),
        ("uniform", "did you mean uniform-64"),
        ("", "there are trace, trace-without-replay"),
        ("no_such_module_here:method", "cannot be imported"),
        ("json:nothing", "has no nothing"),
        ("string:ascii_letters", "which cannot be called"),
        ("os:system", "does not take 2 arguments. A method is called with a question and an observer"),
    ],
)
def test_a_name_that_is_none_gets_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        open_method(name)


def test_every_agent_has_one_budget_and_the_others_are_bounded_by_definition() -> None:
    assert {default_budget(open_method(name)) for name in (*VARIANTS, "avp", "vca")} == {DEFAULT_BUDGET}
    assert default_budget(replace(VARIANTS["trace"], actions=frozenset())) == DEFAULT_BUDGET
    assert default_budget(Avp(default_budget=1)) == 1
    free = ("avp-unlimited", "vca-unlimited", "uniform-64")
    assert {default_budget(open_method(name)) for name in free} == {UNLIMITED}
    assert states_budget("avp", open_method("avp"))
    assert states_budget("mine:variant", VARIANTS["trace"])
    assert not states_budget("mine:method", blind)
