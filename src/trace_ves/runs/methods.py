"""Methods by name: TRACE and its variants, the baselines, and your own as `package.module:callable`."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Final

from trace_ves.core.errors import InputError
from trace_ves.core.plugins import import_callable, names_own_code
from trace_ves.observer import UNLIMITED, Method

MAX_FRAMES: Final = 4096
MAX_SAMPLES: Final = 256


@dataclass(frozen=True, slots=True)
class MethodFamily:
    """Baselines with names of one form, such as `uniform-N`."""

    example: str  # A name of this form, for help and messages
    pattern: str  # A regular expression for the whole name
    make: Callable[..., Method]  # Called with the groups of the pattern that matched


@cache
def baselines() -> tuple[MethodFamily, ...]:
    """Every baseline by the form of its name. A new baseline is a file in `baselines/` and a line here."""
    from trace_ves.agent.settings import DEFAULT_BUDGET  # methods are imported when used
    from trace_ves.baselines.avp import Avp
    from trace_ves.baselines.direct import Random, Uniform, Vote, blind
    from trace_ves.baselines.vca import Vca

    return (
        MethodFamily("avp", "avp", lambda: Avp(default_budget=DEFAULT_BUDGET)),  # agents have TRACE's budget
        MethodFamily("avp-unlimited", "avp-unlimited", Avp),
        MethodFamily("random", r"random(?:-(\d{1,9}))?", lambda seed=0: Random(int(seed))),
        MethodFamily("blind", "blind", lambda: blind),
        MethodFamily("uniform-64", r"uniform-(\d{1,9})", lambda n: Uniform(_parse_count("uniform-N", n, MAX_FRAMES))),
        MethodFamily("vca", "vca", lambda: Vca(default_budget=DEFAULT_BUDGET)),
        MethodFamily("vca-unlimited", "vca-unlimited", Vca),
        MethodFamily("vote-5", r"vote-(\d{1,9})", lambda n: Vote(_parse_count("vote-N", n, MAX_SAMPLES))),
    )


def open_method(name: str) -> Method:
    """The method of this name, to call with a question and an observer."""
    if names_own_code(name):
        try:
            return import_callable(name, takes=2)
        except InputError as error:
            raise InputError(f"{error} A method is called with a question and an observer.") from error
    from trace_ves.agent.ablations import VARIANTS  # methods are imported when used

    if name in VARIANTS:
        return VARIANTS[name]
    for family in baselines():
        if match := re.fullmatch(family.pattern, name):
            return family.make(*(group for group in match.groups() if group is not None))
    close = get_close_matches(name, list_names(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(list_names())}."
    raise InputError(f"There is no method {name!r}; {hint}")


def _parse_count(form: str, digits: str, most: int) -> int:
    """The number in a name such as `uniform-64`."""
    if not 1 <= int(digits) <= most:
        raise InputError(f"{form} needs N between 1 and {most}, found {digits}.")
    return int(digits)


def list_names() -> tuple[str, ...]:
    """All forms of method names, for help and messages."""
    from trace_ves.agent.ablations import VARIANTS

    return (*VARIANTS, *(family.example for family in baselines()), "package.module:callable")


def default_budget(method: Method) -> int:
    """The frames for one question without `--budget`: the attribute `default_budget` of the method, if any."""
    budget = getattr(method, "default_budget", UNLIMITED)
    return budget if isinstance(budget, int) and budget > 0 else UNLIMITED


def states_budget(name: str, method: Method) -> bool:
    """Whether a method has a frame limit: a default budget, or a built-in baseline's definition."""
    return default_budget(method) != UNLIMITED or not names_own_code(name)


def reads_subtitles(method: Method) -> bool:
    """Whether a method shows subtitles to the model; it declares this as an attribute."""
    return getattr(method, "reads_subtitles", False) is True


def refuse_unread_subtitles(methods: Iterable[Method]) -> None:
    """Raise an `InputError` if none of these methods shows subtitles."""
    if not any(map(reads_subtitles, methods)):
        raise InputError("--subtitles: the method does not read subtitles; trace and its variants do.")
