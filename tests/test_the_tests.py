"""Every test asserts something, whatever the data: an assertion that may be skipped does not count."""

import ast
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent


def asserts(node: ast.AST) -> bool:
    """Whether a node asserts: by `assert`, or by an error or warning that has to come."""
    words = (ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call))
    return has_assert(node) or any(name in ("pytest.raises", "pytest.warns", "pytest.fail") for name in words)


def has_assert(*nodes: ast.AST) -> bool:
    return any(isinstance(each, ast.Assert) for node in nodes for each in ast.walk(node))


def skippable(test: ast.AST) -> Iterator[ast.If]:
    """The conditions of a test that assert on only one side, and then go on."""
    for node in ast.walk(test):
        if isinstance(node, ast.If) and not isinstance(node.body[-1], ast.Return):
            held, otherwise = has_assert(*node.body), has_assert(*node.orelse)
            if (held and not any(map(asserts, node.orelse))) or (otherwise and not any(map(asserts, node.body))):
                yield node


def test_every_test_asserts_whatever_happens() -> None:
    wrong = []
    for path in sorted(FOLDER.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        helpers = {each.name for each in functions if not each.name.startswith("test_") and asserts(each)}
        for test in [each for each in functions if each.name.startswith("test_")]:
            used = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
            if not asserts(test) and not helpers & used:
                wrong.append(f"{path.name}: {test.name} asserts nothing")
            wrong += [f"{path.name}:{node.lineno}: an assertion may be skipped" for node in skippable(test)]
    assert wrong == []
