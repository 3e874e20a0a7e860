"""Methods by name: TRACE and its variants, the baselines, and anybody's own as `package.module:callable`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from trace_ves.core.errors import InputError
from trace_ves.core.plugins import import_callable, names_own_code
from trace_ves.observer import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trace_ves.observer import Method


def open_method(name: str) -> Method:
    """The method of this name, ready to be called with a question and an observer."""
    if names_own_code(name):
        return _own(name)
    from trace_ves.agent.ablations import VARIANTS  # methods are imported when one is wanted
    from trace_ves.baselines.registry import families  # as above

    if name in VARIANTS:
        return VARIANTS[name]
    for family in families():
        if match := re.fullmatch(family.pattern, name):
            return family.make(*(group for group in match.groups() if group is not None))
    close = get_close_matches(name, known_names(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known_names())}."
    raise InputError(f"There is no method {name!r}; {hint}")


def known_names() -> tuple[str, ...]:
    """What can be written for a method, for help and messages."""
    from trace_ves.agent.ablations import VARIANTS  # as above
    from trace_ves.baselines.registry import families  # as above

    return (*VARIANTS, *(family.example for family in families()), "package.module:callable")


def default_budget(method: Method) -> int:
    """Frames that a method may supply for one question unless a person says otherwise.

    A method states it as its attribute `default_budget`, as every `Trace` does; one that does not is not limited.
    """
    budget = getattr(method, "default_budget", UNLIMITED)
    return budget if isinstance(budget, int) and budget > 0 else UNLIMITED


def states_budget(name: str, method: Method) -> bool:
    """Whether the frames of a method are bounded: by its default budget, or by what a baseline of ours is."""
    return default_budget(method) != UNLIMITED or not names_own_code(name)


def reads_subtitles(method: Method) -> bool:
    """Whether a method shows the subtitles of a video to the model, which it says by an attribute of this name."""
    return getattr(method, "reads_subtitles", False) is True


def refuse_unread_subtitles(methods: Iterable[Method]) -> None:
    """Raise an `InputError` where subtitles are asked for and none of these methods would show them."""
    if not any(map(reads_subtitles, methods)):
        raise InputError("--subtitles: the method does not read subtitles; trace and its variants do.")


def _own(name: str) -> Method:
    try:
        return import_callable(name, takes=2)
    except InputError as error:
        raise InputError(f"{error} A method is called with a question and an observer.") from error
