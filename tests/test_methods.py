"""Methods by name, and the sentences for names that are none."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from trace_ves.agent.ablations import VARIANTS
from trace_ves.agent.settings import DEFAULT_BUDGET
from trace_ves.baselines.avp import Avp
from trace_ves.baselines.non_visual import Random, blind
from trace_ves.baselines.uniform import Uniform
from trace_ves.baselines.vca import Vca
from trace_ves.baselines.vote import Vote
from trace_ves.core import InputError
from trace_ves.methods import TRACE_NAMES, default_budget, open_method, source_digest
from trace_ves.observer import UNLIMITED

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("uniform-64", Uniform(64)),
        ("uniform-1", Uniform(1)),
        ("vote-5", Vote(5)),
        ("random", Random(0)),
        ("random-7", Random(7)),
        ("blind", blind),
        ("avp", Avp()),
        ("vca", Vca()),
        ("trace", VARIANTS["trace"]),
    ],
)
def test_a_name_opens_its_method(name: str, method: object) -> None:
    assert open_method(name) == method


def test_every_variant_of_trace_has_a_name() -> None:
    assert set(TRACE_NAMES) == set(VARIANTS)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("trace-without-reply", "did you mean trace-without-replay"),
        ("unifrom-64", "did you mean uniform-64"),
        ("uniform-0", "from 1 to 4096"),
        ("uniform-99999", "from 1 to 4096"),
        ("vote-0", "from 1 to 256"),
        ("uniform", "did you mean uniform-64"),
        ("", "there are random, blind"),
        ("no_such_module_here:method", "cannot be imported"),
        ("json:nothing", "has no nothing"),
        ("string:ascii_letters", "not something that can be called"),
    ],
)
def test_a_name_that_is_none_gets_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        open_method(name)


def test_trace_has_a_budget_and_the_baselines_are_bounded_by_definition() -> None:
    assert default_budget("trace-without-expand") == DEFAULT_BUDGET
    assert {default_budget(name) for name in ("avp", "vca", "uniform-64", "my.module:method")} == {UNLIMITED}


def test_ones_own_method_is_found_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    source = textwrap.dedent("""
        from trace_ves.core import Answer
        def first_option(question, observer):
            return Answer("A")
    """)
    (tmp_path / "my_own_method.py").write_text(source)
    assert open_method("my_own_method:first_option").__name__ == "first_option"  # type: ignore[attr-defined]  a function
    digest = source_digest("my_own_method:first_option")
    assert digest is not None
    assert len(digest) == 64
    assert source_digest("trace") is None
