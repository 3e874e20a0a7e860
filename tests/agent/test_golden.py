"""Whole searches on a synthetic twin, call by call and frame by frame as in tests/agent/golden.

The twin and the lab are a part of it.
After a change that is meant: `python -m tests.agent.test_golden`, then read the difference of each file.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from trace_ves.agent import VARIANTS
from trace_ves.benches import load_bench
from trace_ves.observer import Observer
from trace_ves.twin.lab import Lab
from trace_ves.twin.synthetic.bench import make_twin, write_twin

GOLDEN = Path(__file__).parent / "golden"
SEARCHES = [
    *(("trace", budget) for budget in (38, 64, 112, 200)),
    *((name, 112) for name in VARIANTS if name != "trace"),
]


def searched(name: str, budget: int) -> str:
    """What a variant answers, says about each round and looks at in each call, for each question of a small twin."""
    lines: list[str] = []
    with TemporaryDirectory() as folder:
        write_twin(Path(folder), make_twin(12, 3), videos=False)
        lab = Lab()
        for item in load_bench(folder).items:
            observer = Observer(lab.open_video(Path(folder) / item.question.video), lab, budget)
            answer = VARIANTS[name](item.question, observer)
            lines.append(f"{item.question.id} {answer.option} {answer.termination} {len(answer.bundle)}")
            for each in json.loads(json.dumps(answer.record))["rounds"]:
                names = ("bundles", "assembled", "flags", "decisions", "replay", "refused")
                facts = {name: each[name] for name in names if each.get(name)}
                lines.append(f" round {each['number']} {json.dumps(facts)}")
            lines += [f" {call.stage} " + " ".join(f"{t:.5g}" for t in call.timestamps) for call in observer.log.calls]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(("name", "budget"), SEARCHES)
def test_a_search_goes_as_it_went(name: str, budget: int) -> None:
    assert searched(name, budget).splitlines() == (GOLDEN / f"{name}-{budget}.txt").read_text().splitlines()


if __name__ == "__main__":
    for name, budget in SEARCHES:
        (GOLDEN / f"{name}-{budget}.txt").write_text(searched(name, budget))
