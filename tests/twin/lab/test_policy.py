"""A policy cannot decay unseen: TRACE in the laboratory does as well as it did when its figures were recorded."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path

from trace_ves.benches import load_bench
from trace_ves.runs.job import Job
from trace_ves.runs.run import answer_locally, run
from trace_ves.twin.synthetic.bench import make_twin, write_twin
from trace_ves.ves import audit, load_runs

RECORDED = tomllib.loads(Path(__file__).with_name("policy.toml").read_text(encoding="utf-8"))
TOLERANCE = 3.0
"""Points below the recorded figure that are still accepted."""


def measured(folder: Path) -> dict[str, float | None]:
    """The audit of TRACE on the recorded twin."""
    write_twin(folder / "twin", make_twin(RECORDED["questions"], RECORDED["seed"]), videos=False)
    bench = load_bench(folder / "twin")
    paths = run(bench, [Job("trace", "lab")], folder / "runs", partial(answer_locally, workers=2))
    [report] = audit(bench.items, load_runs(list(paths.values()))).runs
    return dict(report.metrics)


def test_trace_finds_as_much_as_it_did(tmp_path: Path) -> None:
    now = measured(tmp_path)
    found = {name: now[name] or 0.0 for name in ("Cov@2", "ECA@2", "EP")}
    recorded = {name: RECORDED["trace"][name] for name in found}
    decayed = [name for name in found if found[name] < recorded[name] - TOLERANCE]
    assert not decayed, f"{decayed} fell from {recorded} to {found}: better policy, or figures recorded anew on purpose"
