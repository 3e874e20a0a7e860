"""`make mutants`: which changes it makes, who notices, and that its list of equivalent ones is about today's code."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import mutants
import mutations
from mutant_server import ROOT, TestMap, changed_functions

CODE = '''
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    X = 1 + 2

LIMIT = 8


def rule(a: int | None, b: Literal[3], c: int = 4) -> int | None:
    """Text + 1."""
    if not a or b < 2:
        return max(a, b) + 1
    if b == 7:
        raise ValueError(f"{b + 1}")
    a -= c
    pairs = sorted(
        (each for each in range(-c) if each),
        key=lambda each: each * a,
    )
    return pairs if 0 < a <= b else None
'''


Found = dict[tuple[str, str], mutations.Mutant]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    package = tmp_path / "trace_ves"
    package.mkdir()
    monkeypatch.setattr(mutations, "SOURCE", package)
    (package / "rule.py").write_text(CODE)
    return {(each.before, each.after): each for each in mutations.mutants_of(package / "rule.py")}


def test_every_rule_is_changed_and_nothing_that_is_for_the_eye(found: Found) -> None:
    assert set(found) == {
        ("8", "9"),
        ("a -= c", "pass"),
        ("4", "5"),
        ("not a or b < 2", "not a and b < 2"),
        ("not a or b < 2", "not (not a or b < 2)"),
        ("not a", "a"),
        ("b < 2", "b <= 2"),
        ("2", "3"),
        ("max(a, b) + 1", "max(a, b) - 1"),
        ("max", "min"),
        ("1", "2"),
        ("b == 7", "b != 7"),
        ("7", "8"),
        ("a -= c", "a += c"),
        ("-c", "c"),
        ("each", "not each"),
        ("each * a", "each / a"),
        ("key=lambda each: each * a", "without key=lambda each: each * a"),
        ("0 < a <= b", "0 <= a <= b"),
        ("0 < a <= b", "0 < a < b"),
        ("0", "1"),
    }


def test_a_mutant_is_its_file_with_one_change(found: Found) -> None:
    plain = ast.unparse(ast.parse(CODE)).splitlines()
    for (before, after), mutant in found.items():
        changed = ast.unparse(mutations.mutated(mutant)).splitlines()
        assert len(changed) == len(plain)
        assert sum(one != other for one, other in zip(plain, changed, strict=True)) == 1, (before, after)


@pytest.mark.parametrize(
    ("change", "statement", "exchanged"),
    [
        (("each * a", "each / a"), "pairs = sorted(", ["rule", "rule.<locals>.<lambda>"]),
        (("max", "min"), "return max(a, b) + 1", ["rule"]),
        (("8", "9"), None, None),
        (("4", "5"), None, None),
    ],
)
def test_code_in_statements_of_functions_is_exchanged_and_other_code_imported_anew(
    found: Found, change: tuple[str, str], statement: str | None, exchanged: list[str] | None
) -> None:
    line, changed = found[change].statement, changed_functions(found[change])
    assert (CODE.splitlines()[line - 1].strip() if line else None) == statement
    assert (None if changed is None else [old.co_qualname for old, _ in changed]) == exchanged


def test_a_reporting_module_says_which_statements_ran(found: Found) -> None:
    ran: list[int] = []
    names: dict[str, object] = {"__ran__": lambda _, line: ran.append(line)}
    exec(compile(mutations.reporting(mutations.SOURCE / "rule.py"), "rule.py", "exec"), names)
    assert ran == []
    assert names["rule"](0, 5) == 6  # type: ignore[operator]
    assert [CODE.splitlines()[line - 1].strip() for line in ran] == ["if not a or b < 2:", "return max(a, b) + 1"]


def test_the_quickest_tests_come_first_and_then_file_by_file() -> None:
    seconds = {"slow.py::a": 5.0, "slow.py::b": 1.0, "quick.py::a": 2.0, "quick.py::b": 0.1}
    known = TestMap({("rule.py", 3): ["slow.py::a", "quick.py::a"]}, seconds, frozenset(), ())
    assert known.quickest_first(set(seconds), alone=1) == ["quick.py::b", "quick.py::a", "slow.py::b", "slow.py::a"]
    assert known.touching("rule.py") == ["quick.py::a", "slow.py::a"]


SHOW = """
import sys
sys.path[:0] = ["tools", "src", "."]
from mutant_server import Client
from mutations import SOURCE, mutants_of
files = [SOURCE / "core" / name for name in ("display.py", "interval.py", "files.py")]
client = Client(["tests/core/test_display.py"], files)
found = {each.after: each for file in files for each in mutants_of(file)}
print(client.passes())
print(client.show(found["number * len(spare)"]))
print(client.show(found["count <= 1"]), client.map.covering(found["count <= 1"]))
print(client.show(found["16 / 1024"]))
Client(["tests/core/test_display.py"], [SOURCE / "core" / "missing.py"]).passes()
"""


def test_a_mutant_is_noticed_by_the_tests_that_run_it_and_a_module_that_cannot_be_imported_ends_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW], cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.stdout.splitlines() == ["True", "failed", "passed []", "passed"], done.stderr
    assert done.stderr.endswith("the process that runs the tests has ended; perhaps a module cannot be imported\n")


def test_parts_are_equal_and_the_same_whatever_else_is_changed() -> None:
    def parts(line: int, seed: int) -> list[int]:
        made = (mutations.Mutant("a.py", line, line, str(n), str(n + 1), f"x = {n}", line) for n in range(400))
        return [mutants.part_of(each, 2, seed) for each in made]

    assert set(parts(3, seed=1)) == {1, 2}
    assert 160 < parts(3, seed=1).count(1) < 240
    assert parts(3, seed=1) == parts(9, seed=1) != parts(3, seed=2)


def test_the_score_is_by_package_and_in_all() -> None:
    one = mutations.Mutant("a.py", 3, 0, "1", "2", "x = 1", 3)
    results = [mutants.Result("core", one, outcome) for outcome in ("failed", "too long", "passed")]
    results.append(mutants.Result("ves", one, "failed"))
    assert [line.split() for line in mutants.score(results).splitlines()] == [
        ["core", "2", "of", "3", "noticed,", "66.7", "%"],
        ["ves", "1", "of", "1", "noticed,", "100.0", "%"],
        ["all", "3", "of", "4", "noticed,", "75.0", "%"],
    ]


def test_each_equivalent_mutant_is_one_of_todays_code_and_has_a_reason() -> None:
    files = {file for file, _, _ in mutations.equivalents()}
    found = Counter(each.key for name in files for each in mutations.mutants_of(mutations.SOURCE / name))
    assert {key: found[key] for key in mutations.equivalents() if found[key] != 1} == {}
    assert all(len(why) > 20 for why in mutations.equivalents().values())
    for package, tests in mutants.TESTS.items():
        assert mutants.files_in(package)
        assert all((ROOT / each).exists() for each in tests)
