"""Would the tests notice? Changes the code in one place at a time, and runs the tests of that package each time.

    python tools/mutants.py [--packages agent,ves] [--sample N] [--seed S] [--minutes M] [--only FILE:LINE]

A mutant is one small change: `<` to `<=`, `+` to `-`, `and` to `or`, a number one larger, a condition turned round. It
is noticed if a test fails, or runs for much too long. Those that no test can notice, because the program does the same,
are listed with the reason in tools/equivalent_mutants.toml. Each mutant has a process of its own, forked from one that
has imported what is slow to import; the source files are never touched. The tests that run the changed line come first,
quickest first, as a traced run of all tests has found; only what they do not notice is shown to all tests of the
package.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from types import FrameType, ModuleType

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "trace_ves"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
TESTS = {
    "agent": ["tests/agent"],
    "core": ["tests/core", "tests/records"],
    "counterfactual": ["tests/counterfactual"],
    "observer.py": ["tests/test_observer.py"],
    "running": ["tests/running/test_run.py", "tests/running/test_evaluate.py"],
    "ves": ["tests/ves/test_metrics.py", "tests/ves/test_runs.py", "tests/ves/test_statistics.py"],
}
"""What is changed, and the tests that should notice."""
LEFT_OUT = {"running/ray_engine.py", "running/live_table.py"}
"""A cluster, and a screen: their tests are not what this is for."""
SLOWER = 5
"""A mutant under which the tests take so many times as long is noticed."""
LONGEST_SECONDS = 900
MOST_QUICK_TESTS = 60
SLOW_IMPORTS = ("numpy", "pydantic", "rich.console", "av", "pytest")
"""Imported once, before the fork. Not pytest's plug-ins: it rewrites them as it imports them."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
TYPE_CALLS = {"dataclass", "lru_cache", "field", "TypeVar", "TypeAdapter", "cast"}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change in one place."""

    file: str
    line: int
    place: int
    """Which of the changes that the file allows."""
    before: str
    after: str
    source: str
    """The line as it stands."""

    @property
    def name(self) -> str:
        """What is shown for it."""
        return f"{self.file}:{self.line}  {self.before}  ->  {self.after}"


def mutate(tree: ast.Module, place: int) -> tuple[ast.Module, ast.AST, ast.AST] | None:
    """The tree with its change number `place`, with what stood there and what stands there now."""
    changed = copy.deepcopy(tree)
    for number, (parent, field, index, new) in enumerate(_changes(changed)):
        if number == place:
            value = getattr(parent, field)
            old = value if index is None else value[index]
            if index is None:
                setattr(parent, field, new)
            else:
                value[index] = new
            return ast.fix_missing_locations(changed), old, new
    return None


def _changes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Every change that a file allows: the parent, its field, the place in it, and the new node."""
    for parent in ast.walk(tree):
        if _is_left_out(parent):
            continue
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            nodes = value if isinstance(value, list) else [value]
            for index, node in enumerate(nodes):
                if isinstance(node, ast.AST) and not _is_left_out(node):
                    for new in _variants(node, parent, field):
                        yield parent, field, index if isinstance(value, list) else None, new


def _is_left_out(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr | ast.FormattedValue) or getattr(node, "_left_out", False)


def _variants(node: ast.AST, parent: ast.AST, field: str) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            yield _at(ast.Compare(left, [COMPARISONS[type(op)]()], [right]), node)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS and not _is_text(left, right):
            yield _at(ast.BinOp(left, OPERATORS[type(op)](), right), node)
        case ast.BoolOp(op=ast.And(), values=values):
            yield _at(ast.BoolOp(ast.Or(), values), node)
        case ast.BoolOp(op=ast.Or(), values=values):
            yield _at(ast.BoolOp(ast.And(), values), node)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield _at(ast.Constant(not value), node)
        case ast.Constant(value=int() | float() as value):
            yield _at(ast.Constant(value + 1), node)
        case ast.Name(id=name) if name in SWAPPED and isinstance(parent, ast.Call) and field == "func":
            yield _at(ast.Name(SWAPPED[name], ast.Load()), node)
    is_condition = field == "test" and isinstance(parent, ast.If | ast.IfExp | ast.While)
    if is_condition and not isinstance(node, ast.Compare | ast.UnaryOp):
        yield _at(ast.UnaryOp(ast.Not(), node), node)


def _at(new: ast.expr, old: ast.AST) -> ast.expr:
    return ast.copy_location(new, old)


def _is_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )


def mutants_of(file: Path) -> list[Mutant]:
    """Every mutant of a file."""
    text = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    _leave_out_types(tree)
    found: list[Mutant] = []
    place = 0
    while (made := mutate(tree, place)) is not None:
        _, old, new = made
        line = getattr(old, "lineno", getattr(new, "lineno", 0))
        name = file.relative_to(SOURCE).as_posix()
        found.append(Mutant(name, line, place, _short(old), _short(new), lines[line - 1].strip()))
        place += 1
    return found


def _leave_out_types(tree: ast.Module) -> None:
    """What is only for the type checker or for the eye, and the text of errors, is not changed."""
    for node in ast.walk(tree):
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")) | ast.FunctionDef(name="__repr__" | "__str__"):
                _mark(node)
            case ast.Subscript(value=ast.Name("Literal" | "Annotated")) | ast.keyword(arg="strict"):
                _mark(node)
            case ast.Call(func=ast.Name(name)) if name in TYPE_CALLS:
                _mark(node)
            case ast.Raise() | ast.Assert():
                _mark(node)
            case ast.BinOp() if _is_union(node):
                _mark(node)
        for field in ("annotation", "returns"):
            if isinstance(getattr(node, field, None), ast.AST):
                _mark(getattr(node, field))


def _mark(node: ast.AST) -> None:
    for each in ast.walk(node):
        each._left_out = True  # type: ignore[attr-defined]


def _is_union(node: ast.AST) -> bool:
    """Whether this is a union of types, `A | B`."""
    match node:
        case ast.BinOp(op=ast.BitOr(), right=ast.Name(id=name)):
            return name[0].isupper()
        case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
            return True
    return False


def _short(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:90]


class MutatedImports(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module of the package from a changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        self._file = SOURCE / mutant.file
        self._place = mutant.place
        self._module = "trace_ves." + mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> object:  # noqa: ARG002
        """The changed module; any other is found as usual."""
        if name != self._module:
            return None
        package = [str(self._file.parent)] if self._file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, self._file, loader=self, submodule_search_locations=package)  # type: ignore[arg-type]

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed tree."""
        tree = ast.parse(self._file.read_text(encoding="utf-8"))
        _leave_out_types(tree)
        made = mutate(tree, self._place)
        assert made is not None
        exec(compile(made[0], str(self._file), "exec"), module.__dict__)


class LineTracer:
    """A plug-in of pytest: notes which test runs which lines of some files, and how long it takes."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = {str(file): file.relative_to(SOURCE).as_posix() for file in files}
        self._now: set[tuple[str, int]] = set()
        self.tests: dict[str, list[str]] = {}
        """Tests by `file:line`."""
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Trace one test with its fixtures."""
        self._now, started = set(), time.monotonic()
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            self.seconds[item.nodeid] = time.monotonic() - started
            for file, line in self._now:
                self.tests.setdefault(f"{self._files[file]}:{line}", []).append(item.nodeid)

    def _call(self, frame: FrameType, event: str, value: object) -> object:  # noqa: ARG002  the interpreter's signature
        file, now = frame.f_code.co_filename, self._now
        if file not in self._files:
            return None

        def line(inner: FrameType, kind: str, value: object) -> object:  # noqa: ARG001
            if kind == "line":
                now.add((file, inner.f_lineno))
            return line

        return line


@dataclass(frozen=True, slots=True)
class TestMap:
    """Which tests run which lines."""

    tests: dict[str, list[str]]
    seconds: dict[str, float]

    def quickest(self, mutant: Mutant) -> list[str]:
        """Tests that run the changed line, quickest first; none where the line runs at import alone."""
        found = self.tests.get(f"{mutant.file}:{mutant.line}", [])
        return sorted(found, key=lambda name: self.seconds[name])[:MOST_QUICK_TESTS]


def trace_tests(package: str) -> TestMap:
    """Run the tests of a package under a tracer, in a process of its own."""
    handle, name = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    child = os.fork()
    if child == 0:
        os.setsid()
        tracer = LineTracer(_files_in(package))
        try:
            _silence()
            pytest.main(
                ["-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0", *TESTS[package]], [tracer]
            )
            Path(name).write_text(json.dumps([tracer.tests, tracer.seconds]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    _end_group(child)
    text = Path(name).read_text()
    Path(name).unlink()
    return TestMap(*json.loads(text)) if text else TestMap({}, {})


def is_noticed(mutant: Mutant | None, tests: Sequence[str], seconds: float = LONGEST_SECONDS) -> bool:
    """Whether the tests fail with this mutant; with None, whether they fail as the code stands."""
    child = os.fork()
    if child == 0:
        os.setsid()
        _run_tests(mutant, tests)
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _end_group(child)
            return status != 0
        time.sleep(0.02)
    _end_group(child)
    os.waitpid(child, 0)
    return True


def _end_group(leader: int) -> None:
    """End what a test may have left behind; the group is the one that this program made."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _silence() -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


def _run_tests(mutant: Mutant | None, tests: Sequence[str]) -> None:
    _silence()
    code = 1
    try:
        if mutant is not None:
            sys.meta_path.insert(0, MutatedImports(mutant))
        arguments = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
        code = int(pytest.main(arguments))
    finally:
        os._exit(0 if code == 0 else 1)


def equivalents() -> dict[tuple[str, str, str], str]:
    """Mutants that change nothing, by file, line of source and change, with the reason."""
    table = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")) if EQUIVALENT.exists() else {}
    return {(each["file"], each["source"], each["after"]): each["why"] for each in table.get("mutant", [])}


def main() -> int:
    options = _options()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    for name in SLOW_IMPORTS:
        importlib.import_module(name)

    chosen = [(package, mutant) for package in options.packages.split(",") for mutant in _mutants_in(package)]
    known = equivalents()
    alive = [(package, each) for package, each in chosen if (each.file, each.source, each.after) not in known]
    print(f"{len(chosen)} mutants, {len(chosen) - len(alive)} of them equivalent")
    if options.only:
        alive = [(package, each) for package, each in alive if f"{each.file}:{each.line}".startswith(options.only)]
    elif options.sample and options.sample < len(alive):
        alive = random.Random(options.seed).sample(alive, options.sample)
    limits: dict[str, float] = {}
    maps: dict[str, TestMap] = {}
    for package in sorted({package for package, _ in alive}):
        started = time.monotonic()
        if is_noticed(None, TESTS[package]):
            print(f"the tests of {package} fail as the code stands; mend them first")
            return 2
        limits[package] = SLOWER * (time.monotonic() - started) + 10
        maps[package] = trace_tests(package)
    return _try_all(alive, limits, maps, options)


def _try_all(
    alive: Sequence[tuple[str, Mutant]],
    limits: dict[str, float],
    maps: dict[str, TestMap],
    options: argparse.Namespace,
) -> int:
    started = time.monotonic()
    tried: Counter[str] = Counter()
    missed: list[Mutant] = []
    for package, mutant in alive:
        if time.monotonic() - started > 60 * options.minutes:
            break
        tried[package] += 1
        quick = maps[package].quickest(mutant)
        if quick and is_noticed(mutant, quick, limits[package]):
            continue
        if not is_noticed(mutant, _own_first(mutant, TESTS[package]), limits[package]):
            missed.append(mutant)
            print(f"missed  {mutant.name}\n        {mutant.source}", flush=True)
    lost = Counter(next(package for package, each in alive if each is mutant) for mutant in missed)
    for package, count in sorted(tried.items()):
        print(f"{package:16} {count - lost[package]:5} of {count:5} noticed, {100 * (1 - lost[package] / count):.1f} %")
    total = sum(tried.values())
    print(f"{'all':16} {total - len(missed):5} of {total:5} noticed, {100 * (1 - len(missed) / max(total, 1)):.1f} %")
    if options.json:
        Path(options.json).write_text(
            json.dumps({"tried": tried, "missed": [asdict(each) for each in missed]}, indent=1)
        )
    return 0


def _own_first(mutant: Mutant, tests: Sequence[str]) -> list[str]:
    """The tests, those of the changed file before all others."""
    name = f"test_{Path(mutant.file).stem}.py"
    own = [str(path) for each in tests for path in Path(each).glob(f"**/{name}") if Path(each).is_dir()]
    return [*own, *tests]


def _mutants_in(package: str) -> list[Mutant]:
    return [each for file in _files_in(package) for each in mutants_of(file)]


def _files_in(package: str) -> list[Path]:
    place = SOURCE / package
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [file for file in files if file.relative_to(SOURCE).as_posix() not in LEFT_OUT]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", default=",".join(TESTS), help="comma-separated")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants by chance; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=600, help="stop after so long")
    parser.add_argument("--only", default="", help="those that begin with FILE:LINE")
    parser.add_argument("--json", help="write the result to this file too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
