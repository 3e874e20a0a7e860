"""`make mutants`: which changes it makes, and that its list of equivalent ones is about the code of today."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


CODE = '''
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    X = 1 + 2


def rule(a: int | None, b: Literal[3]) -> int | None:
    """Text + 1."""
    if not a or b < 2:
        return max(a, b) + 1
    if b == 7:
        raise ValueError(f"{b + 1}")
    return a if a else None
'''


def test_every_rule_is_changed_and_nothing_that_is_for_the_eye(
    mutants: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "SOURCE", tmp_path)
    (tmp_path / "rule.py").write_text(CODE)
    changes = {(mutant.before, mutant.after) for mutant in mutants.mutants_of(tmp_path / "rule.py")}
    assert changes == {
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
        ("a", "not a"),
    }


def test_the_equivalent_mutants_are_mutants_of_todays_code(mutants: ModuleType) -> None:
    files = {file for file, _, _ in mutants.equivalents()}
    found = {
        (each.file, each.source, each.after) for name in files for each in mutants.mutants_of(mutants.SOURCE / name)
    }
    assert set(mutants.equivalents()) <= found
    assert all(len(why) > 20 for why in mutants.equivalents().values())


def test_what_is_changed_and_its_tests_exist(mutants: ModuleType) -> None:
    for package, tests in mutants.TESTS.items():
        assert (mutants.SOURCE / package).exists()
        assert all((ROOT / each).exists() for each in tests)
