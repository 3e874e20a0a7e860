"""A standing campaign against all that is written and read: kills, full disks, clocks, mutants, lying servers.

    python perf/fire.py                  # minutes; --kills 1000 --mutants 10000 is the long one of docs/measurements.md
    python perf/fire.py --short          # what `make fire` and CI run: about three minutes
    python perf/fire.py --only videos --seed 7

Uses only a temporary folder and servers on loopback. Prints how often each attack was
tried, survived, ended in a clear sentence, or lost something; ends with status 1 where anything was lost.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from fire_attacks import disks, kills, mutants, servers
from fire_attacks.ground import Ground, Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    Attack = Callable[[Ground, random.Random], Result | list[Result]]

KILLS: dict[str, tuple[Attack, float]] = {
    "kill a run": (kills.kill_run, 0.7),
    "interrupt serialisation": (kills.interrupt_run, 0.2),
    "kill a build": (kills.kill_build, 0.2),
    "kill the desk": (kills.kill_desk, 0.08),
    "kill synth": (kills.kill_synth, 0.02),
}
"""Each attack and its share of the kills."""
DISKS: dict[str, tuple[Attack, float]] = {
    "full disk under a run": (disks.full_disk_run, 0.1),
    "full disk under an output": (disks.full_disk_output, 0.1),
    "full disk behind standard output": (disks.full_output_stream, 0.05),
    "read-only folder": (disks.read_only, 0.1),
    "companions of inputs as outputs": (disks.companion_outputs, 0.4),
    "clock jumps": (disks.clock_jumps, 0.05),
}
"""Each attack, and how often it is tried for each kill."""
MUTANTS: dict[str, tuple[Attack, float]] = {
    "mutated videos": (mutants.videos, 0.5),
    "mutated annotations": (mutants.annotations, 0.2),
    "mutated run files": (mutants.run_files, 0.2),
    "run files cut by a kill": (mutants.continued_runs, 0.02),
    "mutated surveys of videos": (mutants.survey_caches, 0.02),
    "mutated caches of replies": (mutants.reply_caches, 0.02),
    "lying and dribbling servers": (servers.model_servers, 0.04),
}
"""Each attack and its share of the mutants."""


def campaign(
    ground: Ground, *, seed: int, kill_count: int, mutant_count: int, only: str | None
) -> dict[str, Counter[str]]:
    """Attack until the numbers are reached; gives how each kind ended."""
    counts: dict[str, Counter[str]] = {}
    for attacks, total in ((KILLS, kill_count), (DISKS, kill_count), (MUTANTS, mutant_count)):
        for name, (attack, share) in attacks.items():
            if only is None or only in name:
                counts[name] = _attack_many(ground, name, attack, seed=seed, times=max(1, round(share * total)))
    return counts


def _attack_many(ground: Ground, name: str, attack: Attack, *, seed: int, times: int) -> Counter[str]:
    """So many attacks of one kind; whatever is lost is printed with what is needed to see it again."""
    counted: Counter[str] = Counter()
    number, started = 0, time.monotonic()
    while counted.total() < times:
        chance = random.Random(f"{seed} {name} {number}")
        try:
            found = attack(ground, chance)
        except AssertionError as error:
            found = Result(Outcome.LOST, f"{error}")
        for result in found if isinstance(found, list) else [found]:
            counted[result.outcome] += 1
            if result.outcome is Outcome.LOST:
                print(f"LOST: {name}, --seed {seed}, attack {number}: {result.note}", flush=True)
        number += 1
    print(f"{name}: {counted.total()} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return counted


def report(counts: dict[str, Counter[str]]) -> str:
    """The table of the campaign."""
    rows = ["| Attack | tried | survived | clear sentence | lost |", "|---|---|---|---|---|"]
    whole: Counter[str] = Counter()
    for name, counted in counts.items():
        whole += counted
        rows.append(_row(name, counted))
    return "\n".join([*rows, _row("all", whole)])


def _row(name: str, counted: Counter[str]) -> str:
    numbers = (counted.total(), *(counted[outcome] for outcome in Outcome))
    return f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |"


def main() -> None:
    """Run the campaign and print its table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--mutants", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--short", action="store_true", help="20 kills and 300 mutants")
    options.add_argument("--only", help="attacks whose name has this in it")
    chosen = options.parse_args()
    kill_count, mutant_count = (20, 300) if chosen.short else (chosen.kills, chosen.mutants)
    with tempfile.TemporaryDirectory(prefix="fire-") as folder:
        os.environ["TRACE_VES_CACHE_DIR"] = str(Path(folder) / "cache")
        import av

        av.logging.set_level(None)
        ground = Ground(Path(folder))
        ground.warm_up()
        counts = campaign(ground, seed=chosen.seed, kill_count=kill_count, mutant_count=mutant_count, only=chosen.only)
    print(report(counts))
    sys.exit(1 if any(counted[Outcome.LOST] for counted in counts.values()) else 0)


if __name__ == "__main__":
    main()
