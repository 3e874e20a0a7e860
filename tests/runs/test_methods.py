"""Methods by name, and the sentences for names that are none."""

from dataclasses import replace

import pytest

from trace_ves.agent.ablations import VARIANTS
from trace_ves.agent.settings import DEFAULT_BUDGET
from trace_ves.baselines.avp import Avp
from trace_ves.baselines.direct import Random, Uniform, Vote, blind
from trace_ves.baselines.vca import Vca
from trace_ves.core import InputError
from trace_ves.observer import UNLIMITED
from trace_ves.runs.methods import default_budget, known_names, open_method, states_budget


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("uniform-64", Uniform(64)),
        ("uniform-1", Uniform(1)),
        ("vote-5", Vote(5)),
        ("random", Random(0)),
        ("random-7", Random(7)),
        ("blind", blind),
        ("avp", Avp(default_budget=DEFAULT_BUDGET)),
        ("avp-unlimited", Avp()),
        ("vca", Vca(default_budget=DEFAULT_BUDGET)),
        ("vca-unlimited", Vca()),
        ("trace", VARIANTS["trace"]),
    ],
)
def test_a_name_opens_its_method(name: str, method: object) -> None:
    assert open_method(name) == method


def test_every_name_that_is_shown_opens_a_method() -> None:
    *names, own = known_names()
    assert own == "package.module:callable"
    assert set(VARIANTS) < set(names)
    for name in names:
        assert callable(open_method(name))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("trace-without-reply", "did you mean trace-without-replay"),
        ("unifrom-64", "did you mean uniform-64"),
        ("uniform-0", "uniform-N needs N between 1 and 4096"),
        ("uniform-99999", "between 1 and 4096, found 99999"),
        ("vote-0", "between 1 and 256"),
        ("uniform", "did you mean uniform-64"),
        ("", "there are trace, trace-without-replay"),
        ("no_such_module_here:method", "cannot be imported"),
        ("json:nothing", "has no nothing"),
        ("string:ascii_letters", "which cannot be called"),
        ("os:system", "does not take 2 arguments. A method is called with a question and an observer"),
    ],
)
def test_a_name_that_is_none_gets_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        open_method(name)


def test_every_agent_has_one_budget_and_the_others_are_bounded_by_definition() -> None:
    assert {default_budget(open_method(name)) for name in (*VARIANTS, "avp", "vca")} == {DEFAULT_BUDGET}
    assert default_budget(replace(VARIANTS["trace"], actions=frozenset())) == DEFAULT_BUDGET
    assert {default_budget(open_method(name)) for name in ("avp-unlimited", "vca-unlimited", "uniform-64")} == {
        UNLIMITED
    }
    assert states_budget("avp", open_method("avp"))
    assert states_budget("mine:variant", VARIANTS["trace"])
    assert not states_budget("mine:method", blind)
