"""The library by itself: following files, filters, timelines, stories, what is cached; hostile input included."""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.web.conftest import library_in
from tests.web.web_bench import EVENTS
from trace_ves.benches import load_bench
from trace_ves.core import Question
from trace_ves.core.files import cache_dir
from trace_ves.core.jsonl import dump_line
from trace_ves.records import Prediction
from trace_ves.records.run_index import RunIndex
from trace_ves.ves import audit, load_runs
from trace_ves.ves.rows import row_of_prediction
from trace_ves.web import library as library_module
from trace_ves.web.export import thin_moments
from trace_ves.web.library import Library
from trace_ves.web.listing import BUCKETS, DENSE, FACETS, NO_VALUE, SORTS, Filters, QuestionEntry, QuestionInfo
from trace_ves.web.open_library import open_library
from trace_ves.web.search_view import view_search
from trace_ves.web.timeline import make_timeline
from trace_ves.web.views import run_page, runs_page

quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Other processes may take the machine for a while; that is no fault of the code."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1e308, 1e308) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


# --- lines -------------------------------------------------------------------


def line_of(question: str, **more: Any) -> bytes:
    return dump_line({"question_id": question, "answer": "A", "timestamps": [1.0], **more})


def test_a_file_is_followed_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    whole = b"".join(line_of(f"q{n}", trajectory={"n": n}) for n in range(4))
    index = RunIndex(path)
    path.write_bytes(b"")
    for end in range(len(whole) + 1):
        with path.open("ab") as file:
            file.write(whole[end - 1 : end])
        index.refresh()
        assert len(index.entries) in {whole[:end].count(b"\n"), whole[:end].count(b"\n") + 1}
        assert index.problems == []
    assert [index.read(f"q{n}").trajectory for n in range(4)] == [{"n": n} for n in range(4)]


@pytest.mark.parametrize(("in_place", "letters"), [(True, 0), (False, 0), (False, 3), (False, 900)])
def test_a_file_that_became_another_is_read_anew(tmp_path: Path, in_place: bool, letters: int) -> None:
    path, other = tmp_path / "run.jsonl", tmp_path / "other"
    path.write_bytes(line_of("q1", error="x" * 3))
    index = RunIndex(path)
    index.refresh()
    other.write_bytes(line_of("q3", error="x" * letters))
    path.write_bytes(other.read_bytes()) if in_place else other.replace(path)
    assert index.refresh()
    assert (list(index.entries), index.problems) == (["q3"], [])
    assert not index.refresh()
    path.unlink()
    assert index.refresh()
    assert index.entries == {}
    assert "cannot be read" in index.problems[0]


def test_damaged_lines_are_named_and_the_others_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    glued = line_of("q2", frames_supplied=1, termination="x", trajectory={"a": [1]})[:-20] + line_of("q3")
    path.write_bytes(
        line_of("q1") + b"not json\n" + glued + b'{"question_id": "q4"}\n' + line_of("q1") + line_of("q5")[:9]
    )
    index = RunIndex(path)
    index.refresh()
    assert list(index.entries) == ["q1"]
    assert [problem.split(": ")[0] for problem in index.problems] == [f"run.jsonl:{n}" for n in (2, 3, 4, 5)]
    assert index.is_torn
    assert index.entries["q1"].line == 5  # the later line counts


# --- the library --------------------------------------------------------------


def test_the_page_audits_as_the_audit_does(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = audit(load_bench(world / "bench").items, load_runs([world / "runs"]))
    shown: list[tuple[str, int, int]] = []
    monkeypatch.setattr("trace_ves.records.run_index.PROGRESS_LINES", 12)
    progress: Callable[..., None] = lambda *step: shown.append(step)  # noqa: E731
    found = open_library(world / "runs", bench=world / "bench", on_progress=progress).audit(on_progress=progress).report
    sizes = {path.stem: path.stat().st_size for path in sorted((world / "runs").glob("*.jsonl"))}
    steps = [(f"indexing {name}", size, size) for name, size in sizes.items()]
    last = ("resampling questions and videos", 2000, 2000)
    assert (shown[0][0], *shown[1:5], shown[-1]) == ("reading bench", *steps, last)
    of_index, of_files = ([replace(run, rows=[], frames_by_stage={}) for run in each.runs] for each in (found, own))
    others = {"warnings": own.warnings, "agreement": own.agreement}  # which need the frames of each question
    assert replace(found, runs=[*of_index], **others) == replace(own, runs=[*of_files])


def test_a_bench_is_found_through_the_runs_own_configuration(own_world: Path) -> None:
    questions = own_world / "bench" / "questions.jsonl"
    digest = hashlib.sha256(questions.read_bytes()).hexdigest()
    sidecar = own_world / "runs" / "trace@scripted.run.toml"
    sidecar.write_text(f'bench = "{questions}"\nbench_sha256 = "{digest}"\n')
    assert len(open_library(own_world / "runs").questions) == 12
    sidecar.write_text(f'bench = "{questions}"\nbench_sha256 = "{digest[::-1]}"\n')
    assert len(open_library(own_world / "runs").questions) == 0


def with_strange_lines(world: Path) -> Library:
    """A library with a run that has lines of every kind."""
    kinds: list[dict[str, Any]] = [
        {"question_id": "q000", "answer": "Z", "timestamps": [1.0], "termination": "exhausted"},
        {"question_id": "q001", "answer": "A", "timestamps": [1e9]},
        {"question_id": "elsewhere", "answer": "A", "timestamps": [], "frames_supplied": 7},
        {"question_id": "q002", "answer": None, "timestamps": [], "error": "it broke"},
        {"question_id": "q003", "answer": "A", "timestamps": [22.0]},
    ]
    (world / "runs" / "strange.jsonl").write_bytes(b"".join(map(dump_line, kinds)))
    return library_in(world)


def test_runs_that_do_not_fit_the_bench_are_shown_with_what_is_wrong(own_world: Path) -> None:
    library = with_strange_lines(own_world)
    found = {name: library.listing("strange")[name].bucket for name in library.runs["strange"].entries}
    assert found == dict.fromkeys(("q000", "q001", "elsewhere"), "unscored") | {"q002": "wrong", "q003": "uncovered"}
    state = library.states()["strange"]
    assert (state.unknown, state.problem_count) == (("elsewhere",), 2)
    [warning] = library.audit().report.warnings
    assert warning.startswith("strange: 10 of 12 questions have no prediction and count as wrong and unobserved (q000,")


# --- filters ------------------------------------------------------------------


def facet_values(each: QuestionEntry) -> dict[str, str]:
    """The value of each filter that a question falls under."""
    return {
        "bucket": each.bucket,
        "family": each.info.question.family or NO_VALUE,
        "density": NO_VALUE if each.density is None else str(min(each.density, DENSE)),
        "termination": (each.entry.termination if each.entry else None) or NO_VALUE,
    }


def matches(each: QuestionEntry, filters: Filters) -> bool:
    question, values = each.info.question, facet_values(each)
    haystack = "\n".join((question.id, question.text, question.video, *question.options)).casefold()
    return all(getattr(filters, name) in {"", values[name]} for name in FACETS) and all(
        word in haystack for word in filters.text.casefold().split()
    )


SOME_FILTERS = (
    Filters(),
    Filters(bucket="wrong"),
    Filters(termination="nobody-writes-this"),
    Filters(density="none"),
    Filters(family="event-counting", text="scenes ("),
)


def test_counts_are_what_choosing_would_leave(own_world: Path) -> None:
    library = with_strange_lines(own_world)
    assert library.listing("uniform-16@scripted").buckets == {"uncovered", "wrong"}
    for key in library.runs:
        listing = library.listing(key)
        for chosen in SOME_FILTERS:
            for name, offered in listing.choices(chosen).items():
                for choice in offered:
                    others = {facet: getattr(chosen, facet) for facet in FACETS if facet != name}
                    wanted = Filters(**others, **{name: choice.value}, text=chosen.text)
                    assert choice.count == sum(matches(each, wanted) for each in listing.values())
                    assert choice.count == len(listing.choose(wanted))
                assert {facet_values(each)[name] for each in listing.values()} <= {each.value for each in offered}


SORTED_BY: dict[str, Callable[[QuestionEntry], Any]] = {
    "id": lambda each: each.info.question.id,
    "bucket": lambda each: list(BUCKETS).index(each.bucket),
    "question": lambda each: each.info.question.text.casefold(),
    "family": lambda each: each.info.question.family or None,
    "answer": lambda each: each.entry.answer if each.entry else None,
    "density": lambda each: each.density,
    "frames": lambda each: each.entry.frames_supplied if each.entry else None,
    "termination": lambda each: each.entry.termination if each.entry else None,
}


def test_questions_are_sorted_by_every_column_and_those_without_a_value_come_last(own_world: Path) -> None:
    assert SORTED_BY.keys() == SORTS.keys()
    library = with_strange_lines(own_world)
    for key, (column, value) in product(library.runs, SORTED_BY.items()):
        listing = library.listing(key)
        known = [each for each in listing.values() if value(each) is not None]
        last = [each for each in listing.values() if value(each) is None]
        for sort in (column, f"-{column}"):
            expected = [*sorted(known, key=value, reverse=sort.startswith("-")), *last]
            assert listing.choose(Filters(sort=sort)) == [each.info.question.id for each in expected]


def test_a_line_keeps_its_numbers_and_not_its_frames(own_world: Path) -> None:
    library = with_strange_lines(own_world)
    listing = library.listing("strange")
    row = row_of_prediction(library.questions["q003"].item, library.runs["strange"].read("q003"))
    for name in ("correct", "frames_supplied", "frames_distinct", "frames_inside", "density", "termination"):
        assert getattr(listing["q003"].entry, name) == getattr(row, name)
    assert (listing["q002"].entry.error, listing["q004"].entry) == ("it broke", None)
    assert "q1000" not in listing
    with pytest.raises(KeyError):
        listing["q1000"]
    index = library.runs["strange"]
    index.path.write_bytes(index.path.read_bytes() + line_of("q002", frames_supplied=9))
    library.refresh(now=True)
    entry = library.listing("strange")["q002"].entry
    assert (entry.answer, entry.frames_supplied, entry.error) == ("A", 9, None)
    assert (library.states()["strange"].errors, library.states()["strange"].frames) == (0, 1 + 1 + 7 + 9 + 1)


# --- timelines and stories ------------------------------------------------------


def test_the_timeline_counts_frames_in_evidence(library: Library) -> None:
    for key in library.runs:
        prediction = library.runs[key].read("q000")
        found = make_timeline(library.info("q000"), prediction, view_search(prediction))
        inside = [sum(moment in span for moment in set(prediction.timestamps)) for span in EVENTS.values()]
        assert [interval.frames for interval in found.evidence] == inside
        ticks = {moment for lane in found.lanes for moment in lane.ticks}
        assert ticks == set(prediction.timestamps)
        assert sum(lane.count for lane in found.lanes) == prediction.frames_supplied


@settings(quiet, max_examples=30)
@given(json_values)
def test_any_record_makes_a_story_and_a_timeline(value: Any) -> None:
    shapes = [
        {"claims": value, "rounds": [{"bundles": value, "records": value, "anchors": value, "candidates": value}]},
        {"claims": [value], "rounds": [{"bundles": [value], "records": [value], "flags": value, "decisions": [value]}]},
        {"rounds": [{"plan": value, "evidence": value, "spans": value, "reflection": value}]},
        {"steps": [{"explored": value, "scores": value, "decision": value}]},
        {"anything": value},
    ]
    for record in shapes:
        prediction = Prediction("q", None, trajectory=record)
        view = view_search(prediction)
        assert view.kind != "none"
        assert make_timeline(QuestionInfo(Question("q", "", "")), prediction, view).duration > 0


def test_a_long_log_is_thinned_evenly() -> None:
    assert thin_moments([1.0, 2.0]) == [1.0, 2.0]
    found = thin_moments([float(n) for n in range(10_000)])
    assert (len(found), found[0], found[-1]) == (400, 0.0, 9999.0)
    assert len(set(found)) == 400


# --- what is cached for the next start: the same pages without reading the files ---------------

RUN = "trace@scripted"


@pytest.fixture
def folder(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and a bench of which everything is cached, however small."""
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(library_module, "LEAST_CACHED_BYTES", 0)
    return shutil.copytree(world, tmp_path / "world")


def opened(folder: Path) -> Library:
    found = library_in(folder)
    found.audit()
    return found


def pages(found: Library) -> list[str]:
    lists = [run_page(found, RUN, filters, 1) for filters in (Filters(), Filters(text="the"), Filters(sort="question"))]
    return [runs_page(found, common=False), runs_page(found, common=True), *lists]


def cache_files() -> list[Path]:
    """The index of each run, the questions, the audit."""
    found = sorted((cache_dir() / "pages").iterdir())
    assert len(found) > 3
    return found


def test_a_second_start_reads_no_line_and_shows_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(folder)
    shown = pages(first)
    with monkeypatch.context() as patched:
        patched.setattr(RunIndex, "_index_line", None)
        patched.setattr(library_module, "audit", None)
        patched.setattr("trace_ves.web.open_library.load_bench", None)
        second = opened(folder)
        assert runs_page(second, common=False) == shown[0]
        without_rows = [replace(run, rows=[]) for run in first.audit().report.runs]
        assert second.audit() == replace(first.audit(), report=replace(first.audit().report, runs=(*without_rows,)))
        assert {**second.questions} == first.questions
        assert {**second.listing(RUN)} == {**first.listing(RUN)}
    assert pages(second) == shown
    name = next(iter(second.questions))
    assert second.runs[RUN].read(name) == first.runs[RUN].read(name)
    assert pages(opened(folder)) == shown


@pytest.mark.parametrize("changed", ["runs/trace@scripted.jsonl", "bench/questions.jsonl"])
def test_a_changed_file_is_read_again(folder: Path, changed: str) -> None:
    opened(folder)
    path = folder / changed
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    again = opened(folder)
    shutil.rmtree(cache_dir())
    fresh = opened(folder)
    assert pages(again) == pages(fresh)
    assert {**again.questions} == {**fresh.questions}


def test_a_run_that_grows_on_an_open_page_is_followed(folder: Path) -> None:
    path = folder / "runs" / f"{RUN}.jsonl"
    *lines, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines))
    opened(folder)
    second = opened(folder)
    with path.open("ab") as file:
        file.write(last)
    second.refresh(now=True)
    assert len(second.runs[RUN].entries) == len(lines) + 1
    fresh = opened(folder)
    assert {**second.listing(RUN)} == {**fresh.listing(RUN)}
    after, expected = second.audit().report, fresh.audit().report
    assert [run.metrics for run in after.runs] == [run.metrics for run in expected.runs]


def test_a_damaged_file_is_made_again(folder: Path) -> None:
    shown = pages(opened(folder))
    contents = [path.read_bytes() for path in cache_files()]
    for at, path in enumerate(cache_files()):
        path.write_bytes([b"", b"no index", contents[at][:-40]][at % 3])
    assert pages(opened(folder)) == shown
    assert [path.read_bytes() for path in cache_files()] == contents


def test_a_cache_folder_that_cannot_be_written_keeps_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    opened(folder)
    assert (tmp_path / "cache").read_text() == "in the way"


def test_small_folders_leave_nothing_behind(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    opened(world)
    assert not os.path.lexists(tmp_path / "cache")
