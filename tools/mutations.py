"""The small changes that tools/mutants.py makes in the code, one at a time. Knows nothing about tests."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[1] / "src" / "trace_ves"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")

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
SWAPPED_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
TYPE_CALLS = {"dataclass", "lru_cache", "field", "TypeVar", "TypeAdapter", "cast"}
CONDITION_FIELDS = {"test", "ifs", "guard"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change in one place."""

    file: str
    """Relative to the package, with `/`."""
    line: int
    place: int
    """Which of the changes that the file allows."""
    before: str
    after: str
    source: str
    """The unchanged line."""
    statement: int
    """The line on which the statement around it begins; 0 where that is not in a function."""

    @property
    def name(self) -> str:
        """What is shown for it."""
        return f"{self.file}:{self.line}  {self.before}  ->  {self.after}"

    @property
    def path(self) -> Path:
        """The file that is changed."""
        return SOURCE / self.file

    @property
    def module(self) -> str:
        """The name under which the file is imported."""
        return module_name(self.path)

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it in the list of equivalent ones, where line numbers would not last."""
        return self.file, self.source, self.after


def module_name(file: Path) -> str:
    """The name under which a file of the package is imported."""
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class _Change(NamedTuple):
    parent: ast.AST
    field: str
    index: int | None
    """The place in the field, where that is a list."""
    old: ast.AST
    new: ast.AST | None
    """None where the node is dropped."""

    def make(self) -> None:
        """Change the tree."""
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        elif self.new is None:
            del getattr(self.parent, self.field)[self.index]
        else:
            getattr(self.parent, self.field)[self.index] = self.new


def mutants_of(file: Path) -> list[Mutant]:
    """Every mutant of a file."""
    text = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    statements = _statements(tree)
    name = file.relative_to(SOURCE).as_posix()
    found: list[Mutant] = []
    for place, change in enumerate(_changes(tree)):
        line = change.old.lineno  # type: ignore[attr-defined]
        after = f"without {_short(change.old)}" if change.new is None else _short(change.new)
        statement = statements.get(id(change.old), 0)
        found.append(Mutant(name, line, place, _short(change.old), after, lines[line - 1].strip(), statement))
    return found


def mutated(mutant: Mutant) -> ast.Module:
    """The tree of a mutant's file with its change."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    next(change for place, change in enumerate(_changes(tree)) if place == mutant.place).make()
    return ast.fix_missing_locations(tree)


def reporting(file: Path) -> ast.Module:
    """The tree of a file that calls `__ran__(file, line)` before each statement of a function."""
    name = file.relative_to(SOURCE).as_posix()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for block, statement in _statements_in_functions(tree):
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):  # a docstring
            call = ast.parse(f"__ran__({name!r}, {statement.lineno})").body[0]
            block.insert(block.index(statement), ast.copy_location(call, statement))
    return ast.fix_missing_locations(tree)


def equivalents() -> dict[tuple[str, str, str], str]:
    """Why those mutants that change nothing change nothing, by their keys."""
    table = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(each["file"], each["source"], each["after"]): each["why"] for each in table["mutant"]}


def _changes(tree: ast.Module) -> Iterator[_Change]:
    left_out = _left_out(tree)
    for parent in ast.walk(tree):
        if id(parent) in left_out:
            continue
        for field, value in ast.iter_fields(parent):
            for index, node in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(node, ast.AST) and id(node) not in left_out:
                    deletion = [_at(ast.Pass(), node)] if _can_be_deleted(node) else []
                    for new in (*_variants(node, parent, field), *deletion):
                        yield _Change(parent, field, index if isinstance(value, list) else None, node, new)


def _variants(node: ast.AST, parent: ast.AST, field: str) -> Iterator[ast.AST | None]:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for place, op in enumerate(ops):
                other = COMPARISONS[type(op)]()
                yield _at(ast.Compare(left, [*ops[:place], other, *ops[place + 1 :]], comparators), node)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS and not _is_text(left, right):
            yield _at(ast.BinOp(left, OPERATORS[type(op)](), right), node)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in OPERATORS and not _is_text(value):
            yield _at(ast.AugAssign(target, OPERATORS[type(op)](), value), node)
        case ast.BoolOp(op=op, values=values):
            yield _at(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values), node)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Constant(value=bool() as value):
            yield _at(ast.Constant(not value), node)
        case ast.Constant(value=int() | float() as value):
            yield _at(ast.Constant(value + 1), node)
        case ast.Name(id=name) if name in SWAPPED_FUNCTIONS and isinstance(parent, ast.Call) and field == "func":
            yield _at(ast.Name(SWAPPED_FUNCTIONS[name], ast.Load()), node)
        case ast.keyword() if isinstance(parent, ast.Call):
            yield None
    if field in CONDITION_FIELDS and isinstance(node, ast.expr) and not isinstance(node, ast.Compare | ast.UnaryOp):
        yield _at(ast.UnaryOp(ast.Not(), node), node)


def _can_be_deleted(node: ast.AST) -> bool:
    """Whether the code still runs without a statement: a call, or a change of a value, an attribute or an item."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            return True
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
    return False


def _at(new: ast.AST, old: ast.AST) -> ast.AST:
    return ast.copy_location(new, old)


def _is_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )


def _left_out(tree: ast.Module) -> set[int]:
    """What is only for the type checker or for the eye, and what is raised: the ids of those nodes."""
    found: set[int] = set()
    for node in ast.walk(tree):
        skipped: list[ast.AST] = []
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")) | ast.FunctionDef(name="__repr__" | "__str__"):
                skipped = [node]
            case ast.If(test=ast.Compare(left=ast.Name("__name__"))):  # runs only in separate processes
                skipped = [node]
            case ast.Subscript(value=ast.Name("Literal" | "Annotated")) | ast.keyword(arg="strict"):
                skipped = [node]
            case ast.Call(func=ast.Name(name)) if name in TYPE_CALLS:
                skipped = [node]
            case ast.Raise() | ast.Assert():
                skipped = [node]
            case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
                skipped = [node]
            case ast.BinOp(op=ast.BitOr(), right=ast.Name(id=name)) if name[0].isupper():
                skipped = [node]
        for field in ("annotation", "returns"):
            if isinstance(getattr(node, field, None), ast.AST):
                skipped.append(getattr(node, field))
        skipped += getattr(node, "decorator_list", [])
        found |= {id(each) for tree in skipped for each in ast.walk(tree)}
    return found


def _statements_in_functions(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    """Every statement of a function's body, with its block; outer ones first."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    seen: set[int] = set()
    for function in functions:
        for node in ast.walk(function):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list) and id(block) not in seen and not isinstance(node, ast.ClassDef):
                    seen.add(id(block))
                    yield from ((block, statement) for statement in list(block))


def _statements(tree: ast.Module) -> dict[int, int]:
    """The first line of the innermost statement of a function around each node, by the node's id."""
    found: dict[int, int] = {}
    for _, statement in _statements_in_functions(tree):
        found.update({id(node): statement.lineno for node in ast.walk(statement)})
    return found


def _short(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:90]
