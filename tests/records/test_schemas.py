"""The published schemas are those of the types that read and write the files, and the files follow them."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from trace_ves.cli.dev import FORMATS, schema_command
from trace_ves.cli.main import SETTINGS
from trace_ves.records import Record
from trace_ves.records.base import OpenRecord

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "schemas"
OLD = ROOT / "tests" / "data" / "v0_1_0"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(schema_command, arguments, **SETTINGS)
    assert result.exit_code == 0, result.output
    return result.output


def published(name: str) -> Any:
    return json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))


def lines(pattern: str) -> list[Any]:
    return [
        json.loads(line) for file in sorted(OLD.glob(pattern)) for line in file.read_text(encoding="utf-8").splitlines()
    ]


def test_the_published_schemas_are_those_that_the_command_writes(tmp_path: Path) -> None:
    printed("--out", str(tmp_path))
    known, written = (
        {file.name: json.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()}
        for folder in (PUBLISHED, tmp_path)
    )
    assert known == written, "run trace-ves dev schema --out docs/schemas"
    assert set(known) == {f"{name}.json" for name in FORMATS}
    for schema in known.values():
        Draft202012Validator.check_schema(schema)


def test_one_format_alone_is_printed_or_written_and_the_list_names_every_one(tmp_path: Path) -> None:
    assert json.loads(printed("run-line")) == published("run-line")
    # Else every record type that is first used later reads its source, in threads: Python 3.11 fails at that.
    assert "use_attribute_docstrings" not in {**Record.__pydantic_config__, **OpenRecord.__pydantic_config__}
    printed("run-line", "--out", str(tmp_path / "new"))
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["run-line.json"]
    assert [line.split()[0] for line in printed().splitlines()] == list(FORMATS)


FILES = {
    "bench-line": lines("*/questions.jsonl"),
    "run-line": lines("*-runs/*.jsonl"),
    "run-configuration": [tomllib.loads(file.read_text(encoding="utf-8")) for file in OLD.glob("*-runs/*.run.toml")],
    "audit-report": [json.loads(file.read_text(encoding="utf-8")) for file in OLD.glob("*-audit.json")],
    "counterfactual-line": lines("*-runs/counterfactual/*.jsonl"),
    "saved-answer": [json.loads((OLD / "answer" / "record.json").read_text(encoding="utf-8"))],
    "released-video": lines("*-release/videos.jsonl"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_version_0_1_0_follow_the_schema(name: str) -> None:
    assert FILES[name]
    validator = Draft202012Validator(published(name))
    for record in FILES[name]:
        validator.validate(record)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("run-line", {"timestamps": ["1"]}),
        ("run-line", {"observations": [{"timestamps": []}]}),
        ("run-line", {"trajectory": []}),
        ("bench-line", {"options": ["one"]}),
        ("bench-line", {"evidence": [[1, 2, 3]]}),
        ("run-configuration", {"temperature": "hot"}),
        ("saved-answer", {"duration": None}),
    ],
)
def test_a_wrong_value_breaks_the_schema(name: str, change: dict[str, Any]) -> None:
    assert not Draft202012Validator(published(name)).is_valid(FILES[name][0] | change)


def test_a_search_of_ours_follows_its_own_schema() -> None:
    schema = published("run-line")
    kinds = {"trace": "TraceRecord", "avp": "AvpRecord", "vca": "VcaRecord"}
    searches = [line for line in FILES["run-line"] if line["method"].split("-")[0] in kinds]
    assert {line["method"].split("-")[0] for line in searches} == set(kinds)
    for line in searches:
        one = {"$ref": f"#/$defs/{kinds[line['method'].split('-')[0]]}", "$defs": schema["$defs"]}
        assert list(Draft202012Validator(one).iter_errors(line["trajectory"])) == []


def test_the_page_lists_every_schema_and_its_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(schemas/([\w-]+)\.json\)", page)) == set(FORMATS)
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "docs/formats.md", "exec"), {})
    assert capsys.readouterr().out.strip() == example.rpartition("# ")[2].strip()
