"""Mapping files: anybody's annotations as a bench, whatever their shape; hostile rows are set aside with a reason."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.benches.tables import write_rows

from trace_ves import Interval, Item
from trace_ves.benches.importers import import_bench
from trace_ves.benches.mapping import Mapping
from trace_ves.cli import main
from trace_ves.core.errors import InputError, MissingExtraError

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "mapping"
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
PLAIN = """
id = "n"
video = "v"
question = "q"
options = "o"
answer = "a"
duration = "d"
evidence = "e"
"""
ROW: dict[str, Any] = {"n": 1, "v": "clip", "q": "?", "o": ["x", "y", "z"], "a": "B", "d": 100, "e": [[1, 2], [5, 9.5]]}


def read(tmp_path: Path, toml: str, rows: Any, **more: Any) -> Any:
    """The bench that a mapping makes of these rows."""
    (tmp_path / "m.toml").write_text(toml)
    return import_bench(str(tmp_path / "m.toml"), write_rows(tmp_path / "rows.json", rows), **more)


def one(tmp_path: Path, more: str = "", **changes: Any) -> Item:
    [item] = read(tmp_path, PLAIN + more, [ROW | changes]).items
    return item


def test_a_plain_mapping_gives_the_fields_of_a_bench(tmp_path: Path) -> None:
    item = one(tmp_path, 'family = "f"\nkeep = ["deep.word"]', f="count", deep={"word": [1, 2]})
    expected = {"id": "1", "video": "videos/clip.mp4", "duration": 100.0, "family": "count", "question": "?"}
    expected |= {"options": ["x", "y", "z"], "answer": "B", "evidence": [[1.0, 2.0], [5.0, 9.5]], "word": [1, 2]}
    assert item.to_json() == expected


@pytest.mark.parametrize(
    ("kind", "answer", "letter"),
    [
        *(("letter", "c", "C"), ("letter", "(B)", "B"), ("index", 0, "A"), ("index", "2", "C"), ("number", 3, "C")),
        ("text", "y", "B"),
    ],
)
def test_answers_come_as_letters_places_or_words(kind: str, answer: Any, letter: str, tmp_path: Path) -> None:
    assert one(tmp_path, f'answer_is = "{kind}"', a=answer).answer == letter


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ("", ["A. x", "B. y", "C. z"]),
        ("", {"A": "x", "B": "y", "C": "z"}),
        ("", '["x", "y", "z"]'),
        ('options_separator = "|"', "x | y | z"),
    ],
)
def test_options_come_as_lists_objects_or_text(more: str, value: Any, tmp_path: Path) -> None:
    assert one(tmp_path, more, o=value).question.options == ("x", "y", "z")


def test_options_may_have_a_column_each_and_numbers_are_words(tmp_path: Path) -> None:
    toml = PLAIN.replace('"o"', '["o0", "o1", "o2"]')
    [item] = read(tmp_path, toml, [ROW | {"o0": 2, "o1": "three", "o2": None}]).items
    assert item.question.options == ("2", "three")


@pytest.mark.parametrize(
    ("more", "value", "expected"),
    [
        ("", [3, 4], [(3, 4)]),
        ("", "[[3, 4]]", [(3, 4)]),
        ("", None, []),
        ("", [{"start": 3, "end": "4"}], [(3, 4)]),
        ('evidence_start = "s"\nevidence_end = "t.end"', [{"s": 3, "t": {"end": 4}}], [(3, 4)]),
        ('evidence_unit = "milliseconds"', [[3000, 4500]], [(3, 4.5)]),
        ('evidence_unit = "minutes"', [[0.5, "1"]], [(30, 60)]),
        ('evidence_unit = "frames"\nfps = 25', [[75, 100], [0, 25]], [(3, 4), (0, 1)]),
        ('evidence_unit = "frames"\nfps = "rate"', [[75, 100]], [(1.5, 2)]),
        ('evidence_unit = "clock"', "0:03-1:05.5", [(3, 65.5)]),
        ('evidence_unit = "clock"', ["0:03", "0:00:04"], [(3, 4)]),
        ('evidence_unit = "clock"', ["0:03-0:04", "0:05-0:06"], [(3, 4), (5, 6)]),
    ],
)
def test_intervals_come_in_every_form_and_unit(more: str, value: Any, expected: list[Any], tmp_path: Path) -> None:
    assert list(one(tmp_path, more, e=value, rate=50).evidence) == [Interval(*pair) for pair in expected]


def test_several_rows_are_one_question(tmp_path: Path) -> None:
    toml = PLAIN.replace('evidence = "e"', 'evidence_start = "s"\nevidence_end = "t"\nseveral_rows = true')
    rows = [ROW | {"n": n, "s": s, "t": s + 1} for n, s in [(1, 4), (2, 8), (1, 6), (1, 4)]]
    first, second = read(tmp_path, toml, rows).items
    assert first.evidence == (Interval(4, 5), Interval(6, 7))
    assert second.evidence == (Interval(8, 9),)
    assert [each.id for each in read(tmp_path, toml, [*rows, ROW | {"n": 3, "s": 1, "t": None}]).problems] == ["3"]
    rows[2]["q"] = "another?"
    bench = read(tmp_path, toml, rows)
    assert [item.question.id for item in bench.items] == ["2"]
    assert "its rows differ in 'question': '?' and 'another?'" in bench.problems[0].reason
    rows[2] |= {"q": "?", "word": "more"}
    with pytest.raises(InputError, match="its rows differ in 'word': None and 'more'"):
        read(tmp_path, toml + 'keep = ["word"]', rows, strict=True)


def test_rows_may_lie_deep_and_know_what_is_above_them(tmp_path: Path) -> None:
    query = {"n": 1, "q": "?", "e": [[1, 2]], "o": ["x", "y"], "a": "A"}
    content = {"data": {"videos": [{"uid": "v7", "d": 30, "clips": [{"queries": [query]}, {}, {"queries": None}]}]}}
    toml = PLAIN.replace('"v"', '"videos.uid"').replace('"d"', '"videos.d"').replace('"n"', '"{videos.uid}-{n}"')
    [item] = read(tmp_path, 'rows = "data.videos[].clips[].queries[]"' + toml, content).items
    assert (item.question.id, item.question.video, item.duration) == ("v7-1", "videos/v7.mp4", 30.0)
    assert read(tmp_path, 'rows = "q[]"' + PLAIN, {"q": [ROW]}).items[0].question.text == ROW["q"]  # its own field


def test_what_lies_above_an_unnamed_place_is_the_parent(tmp_path: Path) -> None:
    plain = PLAIN.replace('"v"', '"parent.vid"').replace('"d"', '"parent.seconds"')
    asked = [ROW | {"n": n} for n in range(3)]
    videos = [{"vid": "a", "seconds": 60, "qs": asked[:2]}, {"vid": "b", "seconds": 70, "qs": asked[2:]}]
    items = read(tmp_path, 'rows = "[].qs[]"' + plain, videos).items
    assert [each.question.video for each in items] == ["videos/a.mp4", "videos/a.mp4", "videos/b.mp4"]
    assert [each.duration for each in items] == [60, 60, 70]
    # As NExT-GQA has its segments: by video, then by question, each an array.
    toml = 'rows = "{}.location{}"\nid = "{parent.key}_{key}"\nvideo = "parent.key"\nduration = "parent.duration"\n'
    toml += 'evidence = "value"\n[constants]\nquestion = "?"\noptions = ["x", "y"]\nanswer = "A"'
    content = {"v7": {"duration": 34, "location": {"1": [[1.2, 5.8]], "3": [[12.1, 17.1], [20.0, 23.5]]}}}
    first, second = read(tmp_path, toml, content).items
    assert (first.question.id, second.question.id, len(second.evidence)) == ("v7_1", "v7_3", 2)
    keyed = read(tmp_path, 'rows = "{}"' + PLAIN.replace('"v"', '"key"'), {"va": ROW, "vb.mkv": ROW | {"n": 2}})
    assert [each.question.video for each in keyed.items] == ["videos/va.mp4", "videos/vb.mkv"]


def test_open_answers_classes_groups_and_eight_options(tmp_path: Path) -> None:
    plain = PLAIN.replace('options = "o"', "")
    more = 'answer_is = "open"\naccepted = "also"\nduration_class = "class"\nquestion_group = "g"\nkeep = ["new=f.x"]'
    rows = [ROW | {"n": n, "a": "a dog", "also": also, "class": "long", "g": 7} for n, also in enumerate(("pup", []))]
    first, second = read(tmp_path, plain + more, [rows[0] | {"f": {"x": 1}}, rows[1]]).items
    assert (first.question.options, first.answer, first.accepted, second.accepted) == ((), "a dog", ("pup",), ())
    assert first.extra == {"duration_group": "long", "question_group": "7", "new": 1}
    assert "new" not in second.extra
    item = one(tmp_path, o=[f"{letter}. {letter.lower()}" for letter in "ABCDEFGH"], a="H")
    assert (item.answer, item.question.options[7]) == ("H", "h")


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "tsv", "parquet"])
def test_every_format_gives_the_same_bench(ending: str, tmp_path: Path) -> None:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in ROW.items()}
    source = write_rows(tmp_path / f"rows.{ending}", [texts])
    (tmp_path / "m.toml").write_text(PLAIN)
    [item] = import_bench(str(tmp_path / "m.toml"), source).items
    assert item == one(tmp_path)


def test_parquet_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "m.toml").write_text(PLAIN)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[parquet\]' in the checkout"):
        import_bench(str(tmp_path / "m.toml"), tmp_path / "rows.parquet")


BAD: list[tuple[str, str]] = [
    ("id = 3", "'id' must be a string"),
    ("not toml", "not valid TOML"),
    (PLAIN + "colour = 1", "'colour' is not a key of a mapping; the keys are format, rows,"),
    (PLAIN.replace('answer = "a"', ""), "'answer' is missing"),
    (PLAIN + '[constants]\nanswer = "A"', "'answer' is missing"),
    (PLAIN + "[constants]\nevidence = []", "[constants] has 'evidence'"),
    (PLAIN + 'evidence_start = "s"', "need each other"),
    (PLAIN.replace('duration = "d"', ""), "needs the 'duration'"),
    (PLAIN + 'evidence_unit = "frames"', "'fps' is missing"),
    (PLAIN + "fps = 0", "fps"),
    (PLAIN + 'evidence_unit = "hours"', "evidence_unit"),
    (PLAIN + 'keep = ["deep.answer"]', "is a field of the bench"),
    ('rows = "data"' + PLAIN, "is not a place of rows"),
    ('rows = "data[]"' + PLAIN, "no usable question"),
]


@pytest.mark.parametrize(("toml", "words"), BAD)
def test_a_mapping_that_does_not_fit_is_one_sentence(toml: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, toml, {"other": 1} if "data[]" in toml else [ROW])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


VALUES: dict[str, list[Any]] = {
    "n": [{}, None],
    "v": [".."],
    "a": [10**400, ["B"], "Z"],
    "d": [True, "NaN"],
    "q": [None, 1.5],
    "o": ["[", ["x"] * 100, [{}, []]],
    "e": [[[1, 2, 3]], [[2, 1]], [1], {"start": 1}, "[" * 5000],
}
HOSTILE = [{key: value} for key, values in VALUES.items() for value in values]
HOSTILE.append({"v": "../../etc/passwd", "d": 1e308, "e": [[1, 1e309]]})


@pytest.mark.parametrize("changes", HOSTILE)
def test_a_hostile_row_is_set_aside_with_a_reason(changes: dict[str, Any], tmp_path: Path) -> None:
    rows = [ROW | changes, ROW | {"n": 2}]
    bench = read(tmp_path, PLAIN, rows)
    assert [item.question.id for item in bench.items] == ["2"]
    assert bench.problems[0].where.endswith("rows.json, row 1")
    assert bench.problems[0].reason
    with pytest.raises(InputError):
        read(tmp_path, PLAIN, rows, strict=True)


def test_dirty_evidence_may_cost_a_question_its_evidence_alone(tmp_path: Path) -> None:
    rows = [ROW | {"n": 1, "e": [[9, 3]]}, ROW | {"n": 2, "e": "sometime"}, ROW | {"n": 3}]
    items = read(tmp_path, PLAIN + 'dirty_evidence = "keep"', rows).items
    assert [(item.question.id, len(item.evidence)) for item in items] == [("1", 0), ("2", 0), ("3", 2)]
    assert [item.question.id for item in read(tmp_path, PLAIN, rows).items] == ["3"]


# --- the examples of the docs -------------------------------------------------------------------


def test_the_mapping_of_lvbench_gives_what_the_importer_gives(shared: Path) -> None:
    source = shared / "annotations" / "avp_eval_lvbench.json"
    mapped = {item.question.id: item for item in import_bench(str(EXAMPLES / "lvbench.toml"), source).items}
    imported = {item.question.id: item for item in import_bench("lvbench", source).items}
    facts = [{key: (item.question, item.answer) for key, item in items.items()} for items in (mapped, imported)]
    assert facts[0] == facts[1]
    differing = [key for key in mapped if mapped[key].evidence != imported[key].evidence]
    assert differing == ["3336", "4855"]  # ends that the importer cuts by 0.03 s


def test_the_mapping_of_lvbench_reads_rows_of_its_shape(tmp_path: Path) -> None:
    row = {"question_id": "55", "videoID": "Cm7", "question": "?", "options": ["A. 1", "B. 2"], "answer": "B"}
    rows = [row | {"duration": 60.5, "time_reference": "00:15-00:19", "domain": "Cartoon", "url": "u"}]
    rows.append(rows[0] | {"question_id": "56", "time_reference": "08:17-None"})
    first, second = import_bench(str(EXAMPLES / "lvbench.toml"), write_rows(tmp_path / "lv.json", rows)).items
    assert (first.evidence, first.question.options) == ((Interval(15, 19),), ("1", "2"))
    assert second.evidence == ()


def test_the_table_of_moments_has_two_intervals_in_one_question() -> None:
    bench = import_bench(str(EXAMPLES / "moments.toml"), EXAMPLES / "moments.csv")
    assert bench.items[1].evidence == (Interval(40, 43), Interval(200, 204))


def test_an_import_writes_over_none_of_its_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(tmp_path, PLAIN, [ROW])
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "m.toml")
    (tmp_path / "c.jsonl").hardlink_to(tmp_path / "rows.json")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for out in ("b.jsonl", "c.jsonl", "rows.json"):
        with pytest.raises(SystemExit, match="2"):
            main(["import", str(tmp_path / "m.toml"), str(tmp_path / "rows.json"), str(tmp_path / out), "--force"])
        assert "is an input of this command" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_every_key_of_a_mapping_stands_on_the_page() -> None:
    assert not [key for key in Mapping.__dataclass_fields__ if f"`{key}`" not in PAGE]


def test_the_commands_print_what_the_page_says(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for name in ("cgbench_mini.json", "avp_eval_lvbench.json"):
        (tmp_path / name).symlink_to(shared / "annotations" / name)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)[1:]
    assert len(blocks) == 4
    for block in blocks:
        [(command, redirected, expected)] = re.findall(r"\A\$ (.*?)( 2> .*?)?\n(.*)\Z", block, flags=re.DOTALL)
        with pytest.raises(SystemExit):
            main(shlex.split(command)[1:])
        out, err = capsys.readouterr()
        assert out + ("" if redirected else err) == expected


@pytest.mark.parametrize("name", ["cg-bench", "lvbench", "moments"])
def test_the_page_shows_the_mappings_as_they_are(name: str) -> None:
    text = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
    _, mapping = text.split("\n", 1)  # the first line says what it is
    assert f"```toml\n{mapping}```" in PAGE
