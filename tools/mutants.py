"""Would the tests notice? Changes the code in one place at a time, and runs the tests that run that place.

    python tools/mutants.py [--packages agent,ves] [--part 1/10] [--seed S] [--only FILE:LINE] [--json FILE]

A mutant is one small change: `<` to `<=`, `+` to `-`, `and` to `or`, a number one larger, a condition turned round, a
named argument left out, a statement deleted. It is noticed if a test fails, or runs for much too long. Those that no
test can notice, because the program does the same, are listed with the reason in tools/equivalent_mutants.toml.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

from mutations import SOURCE, Mutant, equivalents, mutants_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
TESTS = {
    "agent": ["tests/agent"],
    "core": ["tests/core", "tests/records", "tests/test_observer.py", "tests/agent/test_subtitles.py"],
    "observer.py": [
        "tests/test_observer.py",
        *(f"tests/agent/test_{name}.py" for name in ("memory", "subtitles")),
        "tests/runs/test_evaluate.py",
    ],
    "runs": [
        *(f"tests/runs/test_{name}.py" for name in ("answering", "run", "evaluate", "logged_frames")),
        *(f"tests/runs/test_{name}.py" for name in ("ray_engine", "costs", "counterfactual")),
        *(f"tests/cli/test_{name}.py" for name in ("ask", "ask_many", "ask_session", "videos")),
    ],
    "backbone": ["tests/backbone", "tests/test_observer.py"],
    "benches": ["tests/benches", "tests/construction/test_rules.py"],
    "cli": [
        *(f"tests/cli/test_{name}.py" for name in ("ask", "ask_many", "ask_session", "audit", "golden", "main")),
        *(f"tests/cli/test_{name}.py" for name in ("process", "videos")),
        *(f"tests/runs/test_{name}.py" for name in ("cli", "costs", "release", "estimate")),
        "tests/backbone/test_registry.py",
        "tests/construction/test_cli.py",
        "tests/records/test_schemas.py",
        "tests/ves/test_docs.py",
        "tests/web/test_cli.py",
        "tests/web/test_search_view.py",
        "tests/benches/logs/test_reading.py",
        "tests/benches/test_mapping.py",
        "tests/records/test_transcript.py",
    ],
    "construction": [
        *(f"tests/construction/test_{name}.py" for name in ("gold", "interchange", "judging", "looking")),
        *(f"tests/construction/test_{name}.py" for name in ("pipeline", "reports", "rules", "store")),
        *(f"tests/web/desk/test_{name}.py" for name in ("pages", "server")),
        "tests/cli/test_golden.py",
    ],
    "frame_log.py": ["tests/benches"],
    "records": ["tests/records", "tests/benches/test_bench.py"],
    "twin": [
        *(f"tests/twin/synthetic/test_{name}.py" for name in ("drawing", "layout", "same")),
        *(f"tests/twin/glance/test_{name}.py" for name in ("eyes", "judgement", "methods", "parsed_question")),
        *(f"tests/twin/glance/test_{name}.py" for name in ("prompt_reading", "server", "sightings", "stages")),
        "tests/twin/lab/test_world_video.py",
    ],
    "video": ["tests/video"],
    "web": [
        *(f"tests/web/test_{name}.py" for name in ("cli", "charts", "costs_and_transcripts", "golden", "library")),
        *(f"tests/web/test_{name}.py" for name in ("saving", "search_view", "server", "studio")),
        *(f"tests/cli/test_{name}.py" for name in ("ask", "ask_many", "golden")),
        "tests/docs/test_pages.py",
    ],
    "ves": [
        *(f"tests/ves/test_{name}.py" for name in ("metrics", "statistics", "scoring")),
        *(f"tests/ves/test_{name}.py" for name in ("tables", "html", "figures", "paper", "golden")),
        "tests/runs/test_release.py",
        "tests/cli/test_audit.py",
    ],
}
"""What is changed, and the tests that should notice. Those that start other processes do not help here."""
LEFT_OUT = {"runs/estimate.py", "backbone/vllm/keeper.py"}
"""The tests of the first start other processes, and the second is one."""
NEED_TORCH = "backbone/hf/"
"""Modules that cannot be imported without torch."""


@dataclass(frozen=True, slots=True)
class Result:
    """What the tests made of a mutant."""

    package: str
    mutant: Mutant
    outcome: str

    @property
    def is_noticed(self) -> bool:
        """Whether a test failed, or ran for much too long."""
        return self.outcome != "passed"


def main() -> int:
    options = _options()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    packages = options.packages.split(",")
    chosen = choose(packages, options)
    results: list[Result] = []
    for package in packages:
        mutants = [mutant for each, mutant in chosen if each == package]
        if mutants:
            for result in show_all(package, mutants, trust=options.trust):
                results.append(result)
                if options.json:
                    with Path(options.json).open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(result)) + "\n")
    print(score(results))
    return 0


def show_all(package: str, mutants: list[Mutant], *, trust: bool) -> Iterator[Result]:
    """Show mutants of a package to its tests."""
    from mutant_server import Client

    started = time.monotonic()
    client = Client(TESTS[package], files_in(package))
    if client.map.failed or not (trust or client.passes()):
        sys.exit("\n".join([f"the tests of {package} fail on the unchanged code; fix them first", *client.map.failed]))
    print(f"{package}: {len(client.map.seconds)} tests took {time.monotonic() - started:.0f} s", flush=True)
    for number, mutant in enumerate(mutants, 1):
        result = Result(package, mutant, client.show(mutant))
        if not result.is_noticed:
            print(f"missed  {mutant.name}\n        {mutant.source}", flush=True)
        if number % 50 == 0:
            print(f"{number} of {len(mutants)} after {time.monotonic() - started:.0f} s", flush=True)
        yield result


def choose(packages: Iterable[str], options: argparse.Namespace) -> list[tuple[str, Mutant]]:
    """The mutants to try, by chance where there is a sample to take; equivalent ones are left out after the draw."""
    every = [(package, each) for package in packages for file in files_in(package) for each in mutants_of(file)]
    known = equivalents()
    print(f"{len(every)} mutants, {sum(each.key in known for _, each in every)} of them equivalent")
    if options.only:
        every = [(package, each) for package, each in every if f"{each.file}:{each.line}".startswith(options.only)]
    part, parts = (int(number) for number in options.part.split("/"))
    if parts > 1:
        every = [(package, each) for package, each in every if part_of(each, parts, options.seed) == part]
        equivalent = sum(each.key in known for _, each in every)
        print(f"{len(every)} in part {options.part} of seed {options.seed}, {equivalent} of them equivalent")
    return [(package, each) for package, each in every if each.key not in known]


def part_of(mutant: Mutant, parts: int, seed: int) -> int:
    """Which of so many equal parts a mutant falls into, from 1; by chance, and whatever the code is elsewhere."""
    name = f"{seed} {mutant.file} {mutant.source} {mutant.before} {mutant.after}"
    return 1 + int.from_bytes(sha256(name.encode()).digest()) % parts


def score(results: Iterable[Result]) -> str:
    """How many were noticed, by package and in all."""
    tried = Counter(name for each in results for name in (each.package, "all"))
    noticed = Counter(name for each in results if each.is_noticed for name in (each.package, "all"))
    return "\n".join(
        f"{name:16} {noticed[name]:5} of {tried[name]:5} noticed, {100 * noticed[name] / tried[name]:.1f} %"
        for name in (*sorted(set(tried) - {"all"}), *(["all"] if tried else []))
    )


def files_in(package: str) -> list[Path]:
    """The files of a package that are changed."""
    place = SOURCE / package
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    names = {file: file.relative_to(SOURCE).as_posix() for file in files}
    left_out = () if find_spec("torch") else NEED_TORCH
    return [file for file in files if names[file] not in LEFT_OUT and not names[file].startswith(left_out)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", default=",".join(TESTS), help="comma-separated")
    parser.add_argument(
        "--part", default="1/1", help="2/10: the second of ten parts, into which mutants fall by chance"
    )
    parser.add_argument("--seed", type=int, default=0, help="of that chance")
    parser.add_argument("--trust", action="store_true", help="do not first run all tests again on the unchanged code")
    parser.add_argument("--only", default="", help="those that begin with FILE:LINE")
    parser.add_argument("--json", help="add each result to this file of JSON lines")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
