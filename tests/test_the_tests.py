"""Every test asserts something, whatever the data: an assertion that may be skipped is none."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent
FILES = sorted(path for path in FOLDER.rglob("test_*.py"))


def functions(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def asserts(node: ast.AST) -> bool:
    """Whether a node asserts: by `assert`, or by an error or warning that has to come."""
    words = (ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call))
    return any(isinstance(each, ast.Assert) for each in ast.walk(node)) or any(
        name in ("pytest.raises", "pytest.warns", "pytest.fail") for name in words
    )


def has_assert(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Assert) for statement in body for node in ast.walk(statement))


def skippable(test: ast.FunctionDef) -> Iterator[ast.If]:
    """The conditions of a test that assert on one side alone, and then go on."""
    for node in ast.walk(test):
        if isinstance(node, ast.If):
            held, otherwise = has_assert(node.body), has_assert(node.orelse)
            one_sided = (held and not any(map(asserts, node.orelse))) or (
                otherwise and not any(map(asserts, node.body))
            )
            if one_sided and not isinstance(node.body[-1], ast.Return):
                yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_test_asserts_whatever_happens(path: Path) -> None:
    found = functions(path)
    helpers = {each.name for each in found if not each.name.startswith("test_") and asserts(each)}
    tests = [each for each in found if each.name.startswith("test_")]
    without = [
        each.name
        for each in tests
        if not asserts(each) and not helpers & {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
    ]
    assert not without
    assert not [f"{each.name}:{node.lineno}" for each in tests for node in skippable(each)]
