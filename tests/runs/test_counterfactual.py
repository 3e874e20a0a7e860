"""The counterfactual check: masks cover what they say, controls touch no evidence, and each outcome is counted once."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_budget import ClockVideo
from tests.films import write_film
from trace_ves import video
from trace_ves.backbone.protocol import Backbone, Request, ScriptedBackbone
from trace_ves.baselines.direct import Uniform
from trace_ves.benches import Bench, load_bench, write_bench
from trace_ves.benches.bench import BenchProblem
from trace_ves.core import Clip, InputError, Interval, ObservationStrategy, Question
from trace_ves.observer import Observer
from trace_ves.records import ClipRecord, Item, Prediction
from trace_ves.records.counterfactual import Masked, Outcome
from trace_ves.runs.counterfactual import (
    FlipRate,
    Mask,
    Summary,
    choose_masks,
    flip_table,
    iterate_outward,
    list_control_spans,
    replace_frames,
    run_check,
    select_eligible,
    summarise,
)

Check = Callable[..., list[Outcome]]
Lines = list[Prediction]
moments = st.lists(st.integers(0, 400).map(lambda n: n / 4), max_size=40, unique=True).map(sorted)
intervals = st.lists(
    st.tuples(st.integers(0, 90), st.integers(1, 10)).map(lambda pair: Interval(pair[0], pair[0] + pair[1])), max_size=4
)


@given(moments, moments, intervals, st.integers(0, 5))
def test_masks_cover_what_they_say(
    clip_frames: list[float], others: list[float], evidence: list[Interval], seed: int
) -> None:
    supplied = sorted({*clip_frames, *others})
    masks = choose_masks(clip_frames, supplied, evidence, Random(seed))
    assert masks == choose_masks(clip_frames, supplied, evidence, Random(seed))
    if masks.evidence is None:
        assert not any(seconds in interval for seconds in clip_frames for interval in evidence)
        assert masks.control is None
        return
    span = masks.evidence.span
    assert span in evidence
    assert masks.evidence.timestamps == tuple(seconds for seconds in clip_frames if seconds in span)
    if masks.control is not None:
        control = masks.control.span
        assert masks.control.timestamps == tuple(seconds for seconds in clip_frames if seconds in control)
        assert sum(seconds in control for seconds in supplied) == sum(seconds in span for seconds in supplied)
        assert all(control.intersection(interval) is None for interval in evidence)
    else:
        for interval in [each for each in evidence if any(seconds in each for seconds in clip_frames)]:
            assert not list_control_spans(supplied, evidence, sum(seconds in interval for seconds in supplied))


def test_a_control_lies_between_frames_with_no_evidence_among_them() -> None:
    assert list_control_spans([1, 9], [Interval(4, 6)], 2) == []
    assert list_control_spans([1, 2, 5, 9], [Interval(4, 6)], 2) == [Interval(1, 2)]
    assert list_control_spans([1, 2, 8, 9], [Interval(4, 6)], 2) == [Interval(1, 2), Interval(8, 9)]
    assert list_control_spans([1, 5, 9], [Interval(4, 6)], 1) == [Interval(1, 1), Interval(9, 9)]


def test_an_interval_with_a_control_is_chosen_before_one_without() -> None:
    wide, narrow = Interval(10, 16), Interval(30, 31)
    supplied = [1, 10, 12, 14, 16, 30]  # no four frames lie together outside the evidence; single ones do
    chosen = {choose_masks(supplied, supplied, [wide, narrow], Random(seed)).evidence for seed in range(8)}
    assert chosen == {Mask(narrow, (30,))}
    alone = choose_masks(supplied, supplied, [wide], Random(0))
    assert (alone.evidence, alone.control) == (Mask(wide, (10, 12, 14, 16)), None)


@pytest.mark.parametrize(
    ("span", "masked", "whole", "moments"),
    [
        ((10, 12), (10.0, 11.0, 12.0), (0, 60), [9, 13, 8, 14]),  # outward, in turn
        ((10, 12), (10.0, 11.0, 12.0), (9.5, 14), [13, 14]),
        ((10, 12), (10.0, 11.0, 12.0), (8, 12.5), [9, 8]),
        ((10, 10), (10.0,), (0, 60), [pytest.approx(9.96)]),
        ((10, 11), (10.0, 10.5, 11.0), (0, 60), [9.5, 11.5, 9.0, 12.0]),  # as far apart as the masked frames
        ((10, 10.5), (10.0, 10.5), (0, 60), [9.5, 11.0]),
        ((10, 30), (10.0, 20.0, 30.0), (0, 60), [9.0, 31.0]),  # but at most a second
    ],
)
def test_stand_ins_are_looked_for_outward(
    span: tuple[float, float], masked: tuple[float, ...], whole: tuple[float, float], moments: list[float]
) -> None:
    found = iterate_outward(Mask(Interval(*span), masked), Interval(*whole))
    assert list(islice(found, len(moments))) == moments
    assert whole == (0, 60) or list(found) == []


FPS, SECONDS = 5, 60
EVIDENCE = (Interval(8, 14), Interval(30, 40))


def brightness(second: float) -> int:
    return 60 if second in EVIDENCE[0] else 180 if second in EVIDENCE[1] else 10


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("bench")
    write_film(folder / "v.mp4", (brightness(number / FPS) for number in range(FPS * SECONDS)), fps=FPS)
    questions = [Question(f"q{number}", "v.mp4", f"Both? {number}", ("yes", "no")) for number in range(6)]
    items = [Item(question, "A", EVIDENCE, SECONDS) for question in questions]
    return load_bench(write_bench(items, folder))


def sees_both(request: Request[Any]) -> dict[str, object]:
    """Yes if the frames show both patches of light, and never a frame outside its clip's span."""
    frames = [frame for clip in request.clips for frame in clip.frames]
    assert all(frame.seconds in clip.span for clip in request.clips for frame in clip.frames)
    light = [int(frame.rgb().mean()) for frame in frames]
    return {"answer": "A" if any(40 < x < 100 for x in light) and any(x > 140 for x in light) else "B"}


MODEL = ScriptedBackbone(sees_both, name="light")


@pytest.fixture(scope="module")
def predictions(bench: Bench) -> Lines:
    made = []
    with video.open(bench.path.parent / "v.mp4") as film:
        for item in bench.items:
            observer = Observer(film, MODEL)
            answer = Uniform(24)(item.question, observer)
            made.append(Prediction.of(item.question, answer, observer.log, method="u", backbone="light", seconds=0.0))
    return made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def check(bench: Bench, log: Path) -> Check:
    """Check predictions on the bench, into the log."""

    def run(predictions: Sequence[Prediction], model: Backbone = MODEL) -> list[Outcome]:
        return run_check(bench, select_eligible(bench, predictions, k=2), model, log, seed=0, workers=2)

    return run


def test_evidence_flips_the_control_does_not_and_masks_are_logged(check: Check, predictions: Lines, log: Path) -> None:
    summary = summarise(check(predictions))
    assert (summary.eligible, summary.not_reproduced, summary.no_mask, summary.no_control) == (6, 0, 0, 0)
    assert (summary.evidence.percent, summary.evidence.ci95) == (100, (100, 100))
    assert (summary.control.percent, summary.control.questions) == (0, 6)
    for line in map(json.loads, log.read_text().splitlines()):
        calls = line["observations"]
        assert [len(call["timestamps"]) for call in calls] == [24, 24, 24]
        for call, masked in zip(calls[1:], (line["evidence"], line["control"]), strict=True):
            gone = set(calls[0]["timestamps"]) - set(call["timestamps"])
            came = set(call["timestamps"]) - set(calls[0]["timestamps"])
            assert gone == set(masked["masked"])
            assert came == set(masked["stand_ins"])
            assert len(gone) == len(came)
            assert not any(second in interval for second in came for interval in EVIDENCE)
        assert all(second in Interval(*line["evidence"]["span"]) for second in line["evidence"]["masked"])
        assert not any(second in interval for second in line["control"]["masked"] for interval in EVIDENCE)


def test_a_log_is_continued_and_held_to_its_seed(bench: Bench, predictions: Lines, log: Path) -> None:
    heard: list[tuple[int, int]] = []
    pairs = select_eligible(bench, predictions, k=2)
    whole = run_check(bench, pairs, MODEL, log, seed=0)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2]) + lines[2][:30])
    again = run_check(bench, pairs, MODEL, log, seed=0, on_progress=lambda *said: heard.append(said))
    assert heard == [(3, 6), (4, 6), (5, 6), (6, 6)]  # two were in the log already
    assert [replace(each, observations=()) for each in again] == [replace(each, observations=()) for each in whole]
    assert len(log.read_bytes().splitlines()) == 6
    with pytest.raises(InputError, match="made with seed = 0, but this command uses 1"):
        run_check(bench, pairs, MODEL, log, seed=1)


def test_a_seed_chooses_the_same_whatever_the_order(bench: Bench, predictions: Lines, tmp_path: Path) -> None:
    pairs = select_eligible(bench, predictions, k=2)
    forward = run_check(bench, pairs, MODEL, tmp_path / "a.jsonl", seed=3, workers=1)
    backward = run_check(bench, pairs[::-1], MODEL, tmp_path / "b.jsonl", seed=3, workers=4)
    assert forward == backward[::-1]
    spans = {outcome.evidence.span for outcome in forward if outcome.evidence}
    assert spans == set(EVIDENCE)  # six questions, and not always the same interval


def test_an_answer_that_its_clips_do_not_give_again_says_nothing(check: Check, predictions: Lines) -> None:
    summary = summarise(check(predictions, ScriptedBackbone(lambda _: {"answer": "B"}, name="stubborn")))
    assert (summary.not_reproduced, summary.evidence.percent, summary.control.percent) == (6, None, None)


def test_only_correct_and_covered_predictions_of_the_bench_are_checked(bench: Bench, predictions: Lines) -> None:
    wrong = replace(predictions[0], answer="B")
    sparse = replace(predictions[1], timestamps=(1.0, 9.0, 31.0, 35.0), frames_supplied=4)
    found = select_eligible(bench, [wrong, sparse, predictions[3]], k=2)
    assert [prediction.question_id for _, prediction in found] == ["q3"]
    counts = [sum(second in interval for second in predictions[0].timestamps) for interval in EVIDENCE]
    assert len(select_eligible(bench, predictions, k=min(counts))) == 6
    assert select_eligible(bench, predictions, k=min(counts) + 1) == []
    smaller = replace(bench, items=bench.items[1:], problems=(BenchProblem("q0", "too long", kept=False),))
    assert [line.question_id for _, line in select_eligible(smaller, predictions, k=2)] == [
        "q1",
        "q2",
        "q3",
        "q4",
        "q5",
    ]
    with pytest.raises(InputError, match=r"'elsewhere' of the run is not in .*; was the run made on another bench"):
        select_eligible(bench, [predictions[0], replace(predictions[1], question_id="elsewhere")], k=2)


def test_a_log_counts_for_the_same_predictions_alone(bench: Bench, predictions: Lines, log: Path) -> None:
    pairs = select_eligible(bench, predictions, k=2)
    run_check(bench, pairs[:2], MODEL, log, seed=4)
    assert [json.loads(line)["seed"] for line in log.read_text().splitlines()] == [4, 4]
    (item, first), second = pairs[0], pairs[2]
    outcomes = run_check(bench, [(item, replace(first, answer="B")), second], MODEL, log, seed=4)
    assert [outcome.answer for outcome in outcomes] == ["B", "A"]
    assert len(log.read_text().splitlines()) == 4  # another answer, and another question: both are asked


def test_a_bundle_of_evidence_alone_has_a_control_in_the_rest_of_the_log(check: Check, predictions: Lines) -> None:
    inside = [second for second in predictions[0].timestamps if any(second in interval for interval in EVIDENCE)]
    clip = ClipRecord(Interval(inside[0], inside[-1]), 1.0, 48, tuple(inside))
    narrow = [replace(prediction, bundle=(clip.to_json(),)) for prediction in predictions]
    outcomes = check(narrow)
    summary = summarise(outcomes)
    assert (summary.no_control, summary.control.questions, summary.control.percent) == (0, 6, 0)
    for outcome in outcomes:
        in_control = sum(second in outcome.control.span for second in predictions[0].timestamps)
        assert in_control == sum(second in outcome.evidence.span for second in predictions[0].timestamps)
        assert outcome.control.masked == ()


def test_no_answer_any_more_is_a_change_and_counted_apart(check: Check, predictions: Lines) -> None:
    unsure = ScriptedBackbone(lambda request: {"answer": {"A": "A", "B": None}[sees_both(request)["answer"]]}, name="x")
    summary = summarise(check(predictions, unsure))
    assert (summary.evidence.percent, summary.evidence.another, summary.evidence.no_answer) == (100, 0, 100)
    assert (summary.control.percent, summary.control.another, summary.control.no_answer) == (0, 0, 0)
    assert summarise(check(predictions, unsure)) == summary
    cells = flip_table(summary, "u").sections[0].rows[0].cells
    assert [cell[0].text for cell in cells] == ["6", "100.0", "0.0", "100.0", "78.0"]


def test_stand_ins_have_the_height_of_the_clip_they_stand_in(check: Check, predictions: Lines) -> None:
    first, last = predictions[0].timestamps[:12], predictions[0].timestamps[12:]
    clips = [ClipRecord(Interval(row[0], row[-1]), 1.0, height, row) for row, height in ((first, 48), (last, 24))]
    two = replace(predictions[0], bundle=tuple(clip.to_json() for clip in clips))
    [outcome] = check([two])
    for call in outcome.observations:
        assert call.heights == (48,) * 12 + (24,) * 12


def test_a_clip_that_loses_no_frame_stays_as_it_was_shown() -> None:
    frames = ClockVideo(60).frames_at([2.0, 3.0])
    clip = Clip(Interval(1, 9), ObservationStrategy(), frames)  # longer than its frames reach
    observer = Observer(ClockVideo(60), MODEL)
    assert replace_frames(observer, clip, {30.0: 40.0}) is clip
    assert replace_frames(observer, clip, {3.0: 5.0}).span == Interval(2, 5)


def test_a_run_without_bundle_is_checked_from_what_it_looked_at(check: Check, predictions: Lines) -> None:
    bare = [Prediction(p.question_id, p.answer, p.timestamps, p.frames_supplied) for p in predictions]
    summary = summarise(check(bare))
    assert (summary.evidence.percent, summary.control.percent) == (100, 0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"extra": {"video": {"bytes": 7, "sha256": "0" * 64}}}, "is not the video"),
        ({"bundle": ({"span": [0, 60], "fps": 1, "height": 48, "timestamps": [8.1, 9.0, 31.0, 33.0]},)}, "no frame at"),
        ({"bundle": ({"span": [60, 0], "fps": 1, "height": 48, "timestamps": [8.0]},)}, "bundle cannot be read"),
        ({"bundle": ({"span": "all"},)}, "bundle cannot be read"),
    ],
)
def test_what_cannot_be_replayed_is_said_and_the_rest_goes_on(
    check: Check, predictions: Lines, log: Path, change: dict[str, Any], sentence: str
) -> None:
    first, second = check([replace(predictions[0], **change), predictions[1]])
    assert sentence in first.error
    assert second.error is None
    assert len(log.read_text().splitlines()) == 1  # a failure is asked again next time


KEPT = Masked(Interval(1, 2), (1.5,), (3.0,), "A", changed=False)
CHANGED = replace(KEPT, answer="B", changed=True)
SILENT = replace(KEPT, answer=None)


def outcome(evidence: Masked | None, control: Masked | None = KEPT, *, replayed: str | None = "A") -> Outcome:
    return Outcome("q", "A", replayed, evidence=evidence, control=control)


def test_every_outcome_is_counted_once_and_in_its_place() -> None:
    undecided = [outcome(CHANGED, replayed="B"), outcome(SILENT, replayed=None)]
    failed = [replace(outcome(None, None), error="down")] * 2
    decided = [outcome(CHANGED), outcome(CHANGED), outcome(KEPT), outcome(SILENT, None), outcome(None, None)]
    found = summarise([*decided, *undecided, *failed])
    assert (found.eligible, found.failed, found.not_reproduced, found.no_mask, found.no_control) == (9, 2, 1, 1, 1)
    rate = found.evidence
    assert (rate.questions, rate.percent, rate.another, rate.no_answer) == (4, 75.0, 50.0, 25.0)
    assert (found.control.questions, found.control.percent, found.control.no_answer) == (3, 0.0, 0.0)
    told = {"eligible": 9, "not_reproduced": 1, "no_mask": 1, "no_control": 1, "undetermined": 1}
    assert found.to_json() == found.to_json() | told
    assert found.undetermined == 1


def test_the_interval_is_that_of_seed_0_unless_another_is_given() -> None:
    outcomes = [outcome(CHANGED if number % 3 else KEPT) for number in range(25)]
    bounds = [summarise(outcomes, resamples=50, seed=seed).evidence.ci95 for seed in range(2)]
    assert summarise(outcomes, resamples=50).evidence.ci95 == bounds[0] != bounds[1]


def test_rates_are_written_to_four_places_and_nothing_masked_has_none() -> None:
    rate = FlipRate(3, 100 / 3, 0.0, 100 / 7, (10.00004, 66.66666))
    parts = {"another_answer": 0.0, "no_answer": 14.2857}
    assert rate.to_json() == {"questions": 3, "changed": 33.3333, "ci95": [10.0, 66.6667], **parts}
    nothing = dict.fromkeys(("changed", "another_answer", "no_answer", "ci95"))
    assert summarise([outcome(None, None)]).to_json()["evidence"] == {"questions": 0} | nothing


def test_the_table_prints_half_the_width_of_the_interval() -> None:
    summary = Summary(10, 1, 5, 2, 3, 4, FlipRate(2, 50.0, 5.0, ci95=(20.0, 60.0)), FlipRate(1, 0.0, ci95=(0.0, 0.0)))
    table = flip_table(summary, "trace")
    shown = [row.cells[1][0] for row in table.sections[0].rows]
    assert [(cell.text, cell.plus_minus) for cell in shown] == [("50.0", "20.0"), ("0.0", None)]
    assert table.note == (
        "10 predictions are correct and covered. Clips that do not decide the answer: 5; that give another: 1 (these "
        "cannot be checked). Nothing to mask: 2; no control: 3; failed: 4. A missing answer counts as changed; the "
        "paper does not distinguish the two."
    )
