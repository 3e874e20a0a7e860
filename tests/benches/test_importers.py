"""The importers: small files by hand for every rule, and the real files where they are at hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.benches.tables import write_rows

from trace_ves.benches import importers, load_bench, write_bench
from trace_ves.benches.importers import import_bench
from trace_ves.benches.importing import strip_letters, video_path
from trace_ves.core import InputError, Interval
from trace_ves.records import Prediction
from trace_ves.records.base import FieldError
from trace_ves.ves import audit, summarise
from trace_ves.ves.report import GroupFigures

# --- shared helpers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "bare"),
    [
        *((options, ["yes", "no"]) for options in (["A. yes", "B. no"], ["(A) yes", "(B) no"])),
        *((same, same) for same in (["A. yes", "no"], ["A. yes", "A. no"], ["yes", "no"], "AB")),
    ],
)
def test_letters_of_options_go_only_where_all_have_theirs(options: Any, bare: Any) -> None:
    assert strip_letters(options) == bare


def test_an_importer_of_ones_own_takes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_reader.py").write_text("def read(source):\n    return 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"own_reader:read returned int; it must be a Bench\."):
        import_bench("own_reader:read", tmp_path)


def test_a_video_stays_inside_the_folder_of_videos() -> None:
    assert video_path("../../etc/passwd") == "videos/passwd.mp4"
    assert video_path("a/b.mkv") == "videos/b.mkv"
    assert video_path("x.y") == "videos/x.y.mp4"
    with pytest.raises(FieldError):
        video_path("..")


# --- LVBench --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "intervals"),
    [
        ("00:15-00:19", [[15, 19]]),
        ("00:00-114:16", [[0, 6856]]),
        ("1:00:05-1:01:00", [[3605, 3660]]),
        *((none, []) for none in ("101:21-101:21", "None-None", "08:17-None", "", None, ["00:15-00:19"])),
        ("02:00-01:00", [[120, 60]]),
    ],
)
def test_a_time_reference_is_evidence_only_where_it_is_an_interval(reference: Any, intervals: Any) -> None:
    assert importers.reference_intervals(reference) == intervals


LVBENCH_LINE = {
    "key": "abc",
    "type": "cartoon",
    "video_info": {"duration_minutes": 60, "fps": 30.0, "resolution": {"width": 1, "height": 1}},
    "qa": [
        {"uid": uid, "question": question, "answer": answer, "question_type": kinds, "time_reference": reference}
        for uid, question, answer, kinds, reference in (
            ("1", "Who?\n(A) me\n(B) you\n(C) they\n(D) none", "B", ["reasoning", "summarization"], "00:10-00:20"),
            ("2", "When?\n(A) 1\n(B) 2", "A", ["reasoning"], "60:10-60:40"),
            ("3", "Why?\n(A) 1\n(B) 2", "A", [], "10:00-09:00"),
            ("4", "No options?", "A", [], "00:01-00:02"),
            ("3", "Again?\n(A) 1\n(B) 2", "A", [], "00:01-00:02"),
        )
    ],
}


def test_lvbench_official(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "video_info.meta.jsonl", [LVBENCH_LINE])
    bench = importers.read_lvbench(path)
    first, second, third = bench.items
    assert (first.question.text, first.question.options) == ("Who?", ("me", "you", "they", "none"))
    assert (first.answer, first.duration, first.evidence) == ("B", 3600.0, (Interval(10, 20),))
    assert first.extra["question_types"] == ["reasoning", "summarization"]
    assert second.evidence == (Interval(3610, 3640),), "the duration is in whole minutes, so a minute of slack"
    assert third.evidence == ()
    assert [(problem.id, problem.kept) for problem in bench.problems] == [("3", True), ("4", False), ("3", False)]
    with pytest.raises(InputError, match="is reversed"):
        importers.read_lvbench(path, strict=True)


def test_lvbench_as_avp_has_it(shared: Path, tmp_path: Path) -> None:
    bench = importers.read_lvbench(shared / "annotations/avp_eval_lvbench.json")
    assert len(bench.items) == 1549, "a dirty reference costs the evidence, not the question"
    assert sum(bool(item.evidence) for item in bench.items) == 1284
    assert len(bench.problems) == 13
    assert all("is reversed" in problem.reason for problem in bench.problems)
    assert load_bench(write_bench(bench.items, tmp_path)).items == bench.items


# --- LongVideoBench -------------------------------------------------------------------------------------------------

LONG_VIDEO = {"id": "86C_0", "video_path": "86C.mp4", "question": "Where?", "candidates": ["here", "there", "nowhere"]}
LONG_VIDEO |= {"correct_choice": 0, "position": [12, 40], "topic_category": "NP-News-Programs", "level": "L2-Relation"}
LONG_VIDEO |= {"question_category": "TOS", "duration_group": 600, "duration": 190.16}
LONG_VIDEO |= {"subtitle_path": "86C_en.json", "starting_timestamp_for_subtitles": 12.5}


def test_longvideobench(tmp_path: Path) -> None:
    changed = [LONG_VIDEO | {"id": name, "correct_choice": place} for name, place in (("b", 2), ("c", 3), ("d", None))]
    rows = [LONG_VIDEO, *changed, LONG_VIDEO | {"id": "e", "candidates": ["only"]}, LONG_VIDEO]
    bench = import_bench("longvideobench", write_rows(tmp_path / "lvb_val.json", rows))
    first, second = bench.items
    assert (first.answer, first.evidence) == ("A", ()), "moments are no intervals"
    expected = {"subtitle_path": "86C_en.json", "starting_timestamp_for_subtitles": 12.5}
    expected |= {"duration_group": "600", "category": "NP-News-Programs"}
    assert first.extra.items() >= expected.items()
    assert (second.answer, second.evidence) == ("C", ())
    words = ["0-based index of one of 3 options, found 3", "found None", "2 to 26 options", "earlier row"]
    assert all(said in problem.reason for said, problem in zip(words, bench.problems, strict=True))


# --- CG-Bench -------------------------------------------------------------------------------------------------------


def test_cg_bench_real(shared: Path) -> None:
    bench = import_bench("cg-bench", shared / "annotations/cgbench_mini.json")
    assert (len(bench.items), bench.problems) == (3000, ())
    assert bench.items[0].evidence == (Interval(8, 11),)
    assert bench.items[0].question.option(bench.items[0].answer) == "White"
    report = audit(bench.items, samplers=(64,), resamples=10)
    assert report.bench.ep_ref == pytest.approx(1.44, abs=0.005)
    assert report.runs[0].metrics["AR"] == pytest.approx(1.0, abs=0.02)
    assert f"{report.runs[0].metrics['Cov@1']:.1f}" == "43.8"


# --- NExT-GQA -------------------------------------------------------------------------------------------------------

NEXT_ROW = {"video_id": "v", "question": "?", "answer": "b", "qid": "1", "type": "CW"}
NEXT_ROW |= {f"a{index}": letter for index, letter in enumerate("abcde")}


def next_files(folder: Path, rows: list[dict[str, object]], segments: Any) -> Path:
    write_rows(folder / "gsub_val.json", segments)
    return write_rows(folder / "val.csv", rows)


def test_next_gqa(tmp_path: Path) -> None:
    changes = ({}, {"qid": "2"}, {"qid": "3"}, {"video_id": "w"}, {"qid": "4", "answer": "z"})
    rows = [NEXT_ROW | change for change in changes]
    location = {"1": [[1.2, 5.8], [30, 34.5]], "2": [[30, 40]], "4": [[1, 2]]}
    segments = {"v": {"duration": 34, "location": location, "fps": 30}}
    bench = importers.read_next_gqa(next_files(tmp_path, rows, segments))
    (item,) = bench.items
    assert (item.question.id, item.answer, item.question.family, item.duration) == ("v_1", "B", "CW", 34.0)
    assert item.evidence == (Interval(1.2, 5.8), Interval(30, 34.5))
    assert bench.slack == ("v_1",)
    assert [problem.id for problem in bench.problems] == ["v_2", "?", "?", "?"]


def test_next_gqa_without_its_segments_says_which_files_it_looked_for(tmp_path: Path) -> None:
    source = next_files(tmp_path, [NEXT_ROW], {})
    (tmp_path / "gsub_val.json").rename(tmp_path / "elsewhere.json")
    with pytest.raises(InputError, match=r"val\.json or gsub_val\.json.*--grounding"):
        importers.read_next_gqa(source)
    with pytest.raises(InputError, match="no usable question"):
        import_bench("next-gqa", source, grounding=tmp_path / "elsewhere.json")
    (tmp_path / "binary.csv").write_bytes(b"\xff\x00\xfe")
    with pytest.raises(InputError, match=r"binary\.csv"):
        import_bench("next-gqa", tmp_path / "binary.csv", grounding=tmp_path / "elsewhere.json")
    with pytest.raises(InputError, match=r"the importer next-gqa has no option --columns\."):
        import_bench("next-gqa", source, columns="id=n")


def test_next_gqa_real(shared: Path) -> None:
    bench = importers.read_next_gqa(shared / "annotations/nextgqa_val.csv")
    assert (len(bench.items), bench.problems) == (3358, ())
    assert bench.slack == ("2482028659_5", "6413546609_1", "2482028659_2")
    assert summarise(bench.items).ep_ref == pytest.approx(22.75, abs=0.05)


# --- Video-MME ------------------------------------------------------------------------------------------------------


def test_video_mme_real(shared: Path, tmp_path: Path) -> None:
    bench = import_bench("video-mme", shared / "annotations/videomme_test.parquet")
    assert (len(bench.items), bench.problems) == (2700, ())
    first = bench.items[0]
    assert (first.question.options[0], first.extra["duration_group"]) == ("Apples.", "short")
    assert not any(item.evidence for item in bench.items)
    assert load_bench(write_bench(bench.items, tmp_path)).items == bench.items


# --- benches that are mapping files ---------------------------------------------------------------------------------


def test_moments_open_questions_and_groups_of_questions(tmp_path: Path) -> None:
    line = {"qid": 7, "query": "A dog runs.", "duration": 150, "vid": "v_1.0_9.0", "ans": "C"}
    source = write_rows(tmp_path / "val.jsonl", [line | {"relevant_windows": [[0, 28], [40, 44]]}])
    for name, answer in (("qvhighlights", "A"), ("rextime", "C")):
        [item] = import_bench(name, source).items
        assert (item.answer, item.question.video) == (answer, "videos/v_1.0_9.0.mp4")
        assert item.evidence == (Interval(0, 28), Interval(40, 44))
    asked = {"question_id": "v_q1", "question": "Why?", "type": "causal", "answer": "The glue dries."}
    asked["evidence"] = [{"timestamp": [3.0, 9.5], "description": "glue"}]
    films = [{"video_id": "v", "duration": 480, "questions": [asked]}, {"video_id": "w"}]
    source = write_rows(tmp_path / "eg.json", films)
    [item] = import_bench("eg-vqa", source).items
    assert (item.question.options, item.accepted, item.evidence) == ((), (), (Interval(3.0, 9.5),))
    assert load_bench(write_bench([item], tmp_path / "bench")).items == (item,)
    item = replace(item, accepted=("it dries up",))
    for words, right in (("the glue dries", 100.0), ("It dries up!", 100.0), ("glue", 0.0), ("A", 0.0)):
        report = audit([item], {"run": [Prediction("v_q1", words, (4.0, 5.0), 2)]}, resamples=1)
        assert (report.runs[0].metrics["Acc"], report.runs[0].metrics["Cov@2"]) == (right, 100.0)
    rows = [{"question_id": f"{n}", "video_id": f"v{n // 4}", "question": "?", "task_type": "x"} for n in range(8)]
    table = [row | {"options": [f"{letter}. {letter}" for letter in "ABCDEFGH"], "answer": "H"} for row in rows]
    bench = import_bench("video-mme-v2", write_rows(tmp_path / "v2.parquet", table))
    assert "were guessed" in bench.warnings[0]
    lines = [Prediction(each.question.id, "H" if n else "A") for n, each in enumerate(bench.items)]
    figures = audit(bench.items, {"run": lines}, resamples=1)
    assert figures.runs[0].question_groups == GroupFigures(2, 50.0)
    assert "Whole groups" in str(figures)


# --- VES-Bench ------------------------------------------------------------------------------------------------------


def test_ves_bench_has_the_columns_of_a_bench_or_those_that_are_named(tmp_path: Path) -> None:
    row = {"id": "q1", "video": "v.mp4", "duration": 434.0, "family": "temporal-ordering", "question": "?"}
    row |= {"options": ["A. w", "B. x"], "answer": "B", "evidence": [[70.0, 76.0], [118.0, 125.0]]}
    bench = importers.read_ves_bench(write_rows(tmp_path / "ves.parquet", [row]))
    assert bench.items[0].evidence == (Interval(70, 76), Interval(118, 125))
    assert "The format of VES-Bench is not published" in bench.warnings[0]
    source = write_rows(tmp_path / "ves.parquet", [{{"evidence": "spans"}.get(key, key): row[key] for key in row}])
    with pytest.raises(InputError, match=r"no usable question.*there is no 'evidence' in this row; it has id, video,"):
        importers.read_ves_bench(source)
    assert importers.read_ves_bench(source, columns="evidence=spans, id=id").items == bench.items
    with pytest.raises(InputError, match="FIELD one of"):
        importers.read_ves_bench(source, columns="evidnce=spans")


# --- files that are something else ----------------------------------------------------------------------------------


def test_a_wrong_json_file_is_one_sentence(tmp_path: Path) -> None:
    for content in (b"", b"{}", b"[1]", b"\xff\xfe", b"[" * 100_000, b'[{"a": 1}]', b"[{}, 1]", b"[]"):
        (tmp_path / "file.json").write_bytes(content)
        for name in ("cg-bench", "lvbench", "longvideobench", "eg-vqa"):
            with pytest.raises(InputError, match=r"file\.json"):
                import_bench(name, tmp_path / "file.json")


@pytest.mark.parametrize("name", ["video-mme", "video-mme-v2", "ves-bench"])
def test_a_wrong_parquet_file_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        import_bench(name, tmp_path / "file.parquet")
    with pytest.raises(InputError, match="cannot be read"):
        import_bench(name, tmp_path / "none.parquet")
