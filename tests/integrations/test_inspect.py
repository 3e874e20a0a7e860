"""inspect_ai: its own evaluation of our task comes to the numbers of our own run, and its log audits to them too."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

pytest.importorskip("inspect_ai", reason="needs the environment of tools/test_integrations.sh")

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ModelUsage
from inspect_ai.util import JSONSchema
from tests.integrations.conftest import QUESTIONS
from tests.integrations.schema_model import SchemaBackbone
from tests.web.conftest import serving_app

from trace_ves import audit, evaluate
from trace_ves.benches import load_bench
from trace_ves.benches.bench import write_bench
from trace_ves.benches.logs import read_logs
from trace_ves.integrations.inspect.backbone import _usage, inline_schema
from trace_ves.integrations.inspect.task import ves
from trace_ves.records import Prediction, Usage
from trace_ves.twin.glance.glance import Glance
from trace_ves.twin.glance.server import create_app
from trace_ves.ves import AuditReport

ROOT = Path(__file__).parents[2]
METHODS = {"uniform-16": QUESTIONS, "trace": 6, "avp": 6, "vca": 6}
SECONDS = 240
"""A deadlock is a failure, not a test that never ends."""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def mock_evals(bench: Path, logs: Path, *evaluations: dict[str, Any]) -> list[EvalLog]:
    """The logs of `inspect_ai.eval` with the mock model."""
    done = run("-m", "tests.integrations.mock_eval", str(bench), str(logs), json.dumps(evaluations))
    assert done.returncode == 0, done.stderr[-2000:]
    found = [line.split() for line in done.stdout.splitlines()]
    assert [status for status, _ in found] == ["success"] * len(evaluations)
    return [read_eval_log(location) for _, location in found]


@pytest.fixture(scope="module")
def logs(bench_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, EvalLog]:
    """The log of each method; `uniform-16` had every question under way at once, more than anyio has threads."""
    wanted: list[dict[str, Any]] = [{"method": method, "limit": limit} for method, limit in METHODS.items()]
    wanted.append({"method": "trace", "limit": 2, "token_limit": 300})
    lacking = tmp_path_factory.mktemp("lacking")
    item = load_bench(bench_folder).items[1]
    lost = replace(item, question=replace(item.question, id="lost", video="videos/lost.mp4"))
    shutil.copytree(bench_folder / "videos", lacking / "videos")
    write_bench([item, lost], lacking)
    wanted.append({"method": "uniform-4", "limit": 2, "bench": str(lacking), "asking": 1, "fail_on_error": False})
    found = mock_evals(bench_folder, tmp_path_factory.mktemp("logs"), *wanted)
    return dict(zip([*METHODS, "limited", "lacking"], found, strict=True))


def means(log: EvalLog) -> dict[str, float]:
    assert log.results is not None
    return {score.name: score.metrics["mean"].value for score in log.results.scores}


def in_percent(log: EvalLog) -> dict[str, float]:
    return {name: value * (1 if name == "Fr" else 100) for name, value in means(log).items()}


def of_run(report: AuditReport, names: set[str]) -> dict[str, float | None]:
    [found] = report.runs
    return {name: found.metrics[name] for name in names}


def predictions(log: EvalLog) -> list[Prediction]:
    assert log.samples is not None
    return [Prediction.from_json(sample.store["trace_ves:prediction"]) for sample in log.samples]


def without_times(prediction: Prediction) -> dict[str, Any]:
    """What must be equal: all but the clock and the name of the backbone."""
    line = prediction.to_json()
    for call in line["observations"]:
        call.pop("seconds", None)
    return {key: value for key, value in line.items() if key not in ("seconds", "backbone")}


@pytest.mark.parametrize(("method", "limit"), METHODS.items())
def test_the_same_bench_gives_the_same_lines_and_numbers_as_our_own_run(
    method: str, limit: int, logs: dict[str, EvalLog], bench_folder: Path, tmp_path: Path
) -> None:
    log = logs[method]
    ours = evaluate(bench_folder, method, SchemaBackbone(), out=tmp_path, limit=limit)
    [own] = ours.runs
    found = {line.question_id: without_times(line) for line in predictions(log)}
    assert found == {line.question_id: without_times(line) for line in own.predictions}
    assert len(found) == limit

    shown = in_percent(log)
    assert {"Acc", "Cov@1", "Cov@2", "Cov@3", "ECA@1", "ECA@2", "ECA@3", "Fr"} == set(shown)
    assert shown == pytest.approx(of_run(ours.audit, set(shown)))

    asked = load_bench(bench_folder).items[:limit]
    read = audit(asked, read_logs([Path(log.location)], "inspect", asked))
    assert of_run(read, set(shown)) == of_run(ours.audit, set(shown))


def test_a_sample_says_what_was_seen_and_by_whom(logs: dict[str, EvalLog]) -> None:
    log = logs["uniform-16"]
    assert log.samples is not None
    line, scores = predictions(log)[1], log.samples[1].scores or {}
    assert scores["audit"].answer == line.answer
    assert "16 frames supplied" in (scores["audit"].explanation or "")
    assert line.backbone == "inspect:mockllm/model"
    assert log.samples[1].output.completion == (f"ANSWER: {line.answer}" if line.answer else "no answer")


def test_limits_of_inspect_end_a_sample_and_its_frames_stay_on_record(logs: dict[str, EvalLog]) -> None:
    log = logs["limited"]
    assert log.samples is not None
    assert [sample.limit.type if sample.limit else None for sample in log.samples] == ["token"] * 2
    assert all(line.frames_supplied and line.error for line in predictions(log))


def test_a_question_without_its_video_is_an_error_of_its_sample_alone(logs: dict[str, EvalLog]) -> None:
    by_id = {str(sample.id): sample for sample in logs["lacking"].samples or []}
    error = by_id.pop("lost").error
    assert error is not None
    assert "lost.mp4" in error.message
    assert [sample.error for sample in by_id.values()] == [None]


OPENAI_COMPATIBLE = (
    ("openai-api/glance/glance", (), "GLANCE"),
    ("openai/glance", ("-M", "responses_api=false"), "OPENAI"),  # the server has no Responses API
)


@pytest.mark.parametrize(("model", "flags", "provider"), OPENAI_COMPATIBLE)
def test_the_command_line_with_a_server_comes_to_the_numbers_of_our_own_client(
    model: str, flags: tuple[str, ...], provider: str, twin: Path, tmp_path: Path
) -> None:
    bench = load_bench(twin)
    with serving_app(create_app(Glance())) as address:
        done = run(
            *("-m", "inspect_ai", "eval", "trace_ves/ves", "-T", f"bench={bench.path}"),
            *("--solver", "trace_ves/trace", "--model", model, *flags),
            *("--log-dir", str(tmp_path / "logs"), "--no-log-images", "--display", "plain"),
            **{f"{provider}_API_KEY": "none", f"{provider}_BASE_URL": f"{address}/v1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        ours = evaluate(bench, "trace", f"openai:glance@{address}/v1", out=tmp_path / "runs")
    [location] = (tmp_path / "logs").glob("*.eval")
    shown = in_percent(read_eval_log(str(location)))
    assert shown["Fr"] > 50
    assert shown == pytest.approx(of_run(ours.audit, set(shown)))
    told = run("-m", "trace_ves", "audit", str(bench.path), str(location), "--format", "inspect", "--json")
    [audited] = json.loads(told.stdout)["runs"]
    assert audited["name"] == "trace"
    assert {name: audited["metrics"][name] for name in shown} == pytest.approx(shown, abs=1e-6)


def test_what_a_person_got_wrong_is_one_sentence(bench_folder: Path, tmp_path: Path) -> None:
    told = run("-m", "inspect_ai", "eval", "trace_ves/ves", "--model", "mockllm/model")
    assert told.returncode != 0
    assert "the task trace_ves/ves needs a bench: -T bench=FOLDER" in " ".join((told.stdout + told.stderr).split())
    assert "Traceback" not in told.stdout + told.stderr
    with pytest.raises(PrerequisiteError, match="no bench here"):
        ves(bench=str(tmp_path))
    with pytest.raises(PrerequisiteError, match="did you mean trace"):
        ves(bench=str(bench_folder), method="trac")


class Leaf(BaseModel):
    kind: Literal["oak"]


class Tree(BaseModel):
    leaf: Leaf
    branches: list["Tree"]


class Flat(BaseModel):
    one: Leaf
    other: list[Leaf | None]


class Spans(BaseModel):
    spans: list[tuple[float, float]]
    marks: tuple[int, str]


def test_what_inspect_does_not_know_is_said_in_other_words() -> None:
    spelled, strict = inline_schema(Flat.model_json_schema()) or ({}, False)
    assert strict
    assert spelled["properties"]["one"] == {
        "properties": {"kind": {"enum": ["oak"], "type": "string"}},
        "required": ["kind"],
        "type": "object",
        "additionalProperties": False,
    }
    assert JSONSchema.model_validate(spelled).model_dump(exclude_none=True) == spelled
    spans, strict = inline_schema(Spans.model_json_schema()) or ({}, True)
    assert not strict
    assert spans["properties"]["spans"]["items"]["items"] == {"type": "number"}
    assert spans["properties"]["marks"]["items"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert inline_schema(Tree.model_json_schema()) is None


def test_cached_tokens_are_a_part_of_the_input() -> None:
    stated = ModelUsage(input_tokens=10, output_tokens=3, input_tokens_cache_read=70, input_tokens_cache_write=20)
    assert _usage(stated) == Usage(100, 70, 3, 20)
    assert _usage(None) == Usage()
