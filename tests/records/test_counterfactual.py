"""A line of a counterfactual check goes round; lines of version 0.1.0 are read as what they said."""

import json
from typing import Any

import pytest
from tests.records.test_schemas import FILES

from trace_ves.core import Interval
from trace_ves.records import Call
from trace_ves.records.counterfactual import CLIPS, Masked, Outcome


def test_an_outcome_goes_round_but_for_its_error() -> None:
    masked = Masked(Interval(1, 2), (1.0, 1.5), (8.0, 9.0), "B", changed=True)
    outcome = Outcome("q", "A", "A", masked, None, (Call("replay", (1.0,)),), backbone="b", seed=-3)
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
    assert "error" not in Outcome("q", "A", None, error="no video").to_json()


@pytest.mark.parametrize("line", FILES["counterfactual-line"], ids=lambda line: line["question_id"])
def test_a_line_of_version_0_1_0_is_read(line: dict[str, Any]) -> None:
    found = Outcome.from_json(line)
    assert found.control_of == CLIPS
    written = found.to_json()
    for name in ("evidence", "control"):
        if line[name] is not None and line[name]["answer"] is None:
            line = line | {name: line[name] | {"changed": False}}  # no answer is no change
    assert written == line | {"control_of": CLIPS}
