"""A run file cut at any byte comes back with every finished line, and grows on to the same end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from trace_ves.records import Prediction
from trace_ves.records.run_file import RunConfiguration, RunFile, read_configuration

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PREDICTIONS = [
    Prediction(f"q{number}", "A", (1.5, float(number + 2)), 2, method="m", error="café failed" if number == 1 else None)
    for number in range(4)
]
CONFIGURATION = RunConfiguration(
    trace_ves="0.1.0",
    method='a "quoted" naïve\nname',
    backbone="b",
    budget=64,
    bench="bench/questions.jsonl",
    bench_sha256="0" * 64,
    started="now",
    temperature=0.5,
    extra={"own": [1, "two"]},
)


def test_a_configuration_comes_back_as_it_was_written(tmp_path: Path) -> None:
    with RunFile(tmp_path, "run", CONFIGURATION) as file:
        assert read_configuration(file.path) == CONFIGURATION
    with RunFile(tmp_path, "run", replace(CONFIGURATION, started="later", bench="elsewhere")):
        pass


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_file_cut_at_any_byte_is_continued_to_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    with RunFile(folder, "run", CONFIGURATION) as file:
        for prediction in PREDICTIONS:
            file.append(prediction)
    whole = file.path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    file.path.write_bytes(whole[:cut])
    with RunFile(folder, "run", CONFIGURATION) as again:
        finished = set(again.finished)
        # A line that lacks nothing but its newline counts as finished too.
        assert len(finished) in {whole[:cut].count(b"\n"), (whole[:cut] + b"\n").count(b"\n")}
        for prediction in PREDICTIONS:
            if prediction.question_id not in finished:
                again.append(prediction)
    assert file.path.read_bytes() == whole
