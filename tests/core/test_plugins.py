"""A person's own code by name: what is imported, what is refused with which sentence, and what its digest counts."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_ves.core import InputError, MissingExtraError, plugins
from trace_ves.core.plugins import describe_error, import_callable, names_own_code, source_digest

OWN = """
from own_helper import helper

def two(question, observer):
    return question

class Maker:
    def __call__(self, question, observer):
        raise ValueError("never\\n  mind")

made = Maker()
number = 7
"""
SOLVER = "import numpy as np\n\ndef solve(size):\n    return np.linalg.inv(np.zeros((2, size)))\n"
HELPER = "def helper(question, observer=None):\n    return 1 / question\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with two modules, which is the working folder."""
    import sys

    (tmp_path / "own_module.py").write_text(OWN)
    (tmp_path / "own_helper.py").write_text(HELPER)
    (tmp_path / "own_broken.py").write_text("x = 1\ndef broken(:\n")
    (tmp_path / "own_failing.py").write_text("raise RuntimeError('no\\n  luck')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in [path.stem for path in tmp_path.glob("own_*.py")]:
        sys.modules.pop(name, None)


def test_a_module_and_a_name_are_own_code_and_other_texts_are_not() -> None:
    own = {"module:name", "a.b.c:d.e", "_m:_n", "modul:größe"}
    others = {"trace", "uniform-16", "gemini:gemini-3", "a:b:c", "a.:b", "1a:b", "a:", ":b", "a:b\n"}
    assert {spec for spec in own | others if names_own_code(spec)} == own


def test_what_a_spec_names_is_imported_from_the_working_folder(own: Path) -> None:
    assert import_callable("own_module:two")(5, None) == 5
    assert import_callable("own_module:two", takes=2)(5, None) == 5
    assert import_callable("own_module:Maker.__call__", takes=3).__name__ == "__call__"
    for spec, takes in (("own_module:two", 1), ("own_module:two", 3), ("own_helper:helper", 0)):
        with pytest.raises(InputError, match=rf"does not take {takes} arguments\.$"):
            import_callable(spec, takes=takes)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("own_missing:x", r"^own_missing:x: the module own_missing cannot be imported: No module named .*\.$"),
        ("own_module:nothing", r"^own_module:nothing: the module own_module has no nothing\.$"),
        ("own_module:two.three", r"the module own_module has no two\.three\.$"),
        ("own_module:number", r"number is int, which cannot be called\.$"),
        ("own_broken:broken", r"cannot be imported: .* \(own_broken\.py:2\)\.$"),
        ("own_failing:x", r"cannot be imported: RuntimeError: no luck \(own_failing\.py:1\)\.$"),
    ],
)
def test_what_is_wrong_with_own_code_is_one_sentence(own: Path, spec: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        import_callable(spec)


def digest(*contents: str) -> str:
    return hashlib.sha256("".join(contents).encode()).hexdigest()


def test_a_digest_counts_own_code_alone(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in ("trace", "uniform-16", "builtins:min", "trace_ves.agent.ablations:TRACE"):
        assert source_digest(spec) is None
    (own / "other_variant.py").write_text(variant := "from trace_ves.agent.ablations import TRACE as mine\n")
    assert source_digest("other_variant:mine") == digest(variant)
    assert source_digest("own_module:two") == digest(OWN)
    assert source_digest("own_module:made") == digest(OWN)
    assert source_digest("own_module:helper") == digest(HELPER, OWN)  # in the order of the files' names
    (own / "own_helper.py").write_text(HELPER + "\n")
    assert source_digest("own_module:helper") == digest(HELPER, "\n", OWN)
    monkeypatch.setattr(plugins, "__file__", str(own / "trace_ves" / "core" / "plugins.py"))
    assert source_digest("own_module:two") == digest(OWN)  # what is installed beside this package is not ours


@pytest.mark.parametrize(
    ("spec", "arguments", "place"),
    [
        ("own_module:helper", (0,), "ZeroDivisionError: division by zero (own_helper.py:2)"),
        ("own_module:made", (1, None), "ValueError: never mind (own_module.py:9)"),
        ("own_caller:read", ("nonsense",), "(own_caller.py:4)"),  # raised in the standard library
        ("own_solver:solve", (3,), "(own_solver.py:4)"),  # raised in an installed package
    ],
)
def test_an_error_is_placed_in_own_code(own: Path, spec: str, arguments: tuple[object, ...], place: str) -> None:
    (own / "own_caller.py").write_text("import json\n\ndef read(text):\n    return json.loads(text)\n")
    (own / "own_solver.py").write_text(SOLVER)
    with pytest.raises(Exception, match=r"never|zero|Expecting|Last 2 dim") as caught:
        import_callable(spec)(*arguments)
    assert describe_error(caught.value).endswith(place)


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert describe_error(ValueError("x")) == "ValueError: x"
    missing = "Reading tables needs an optional part: pip install '.[logs]' in the checkout."
    assert describe_error(MissingExtraError("Reading tables", "logs")) == f"MissingExtraError: {missing}"
