"""Methods by name: ours, the baselines, and anybody's own as `package.module:callable`."""

from __future__ import annotations

import hashlib
import inspect
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError
from trace_ves.core.plugins import import_callable, names_own_code
from trace_ves.observer import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.observer import Method

MAX_FRAMES: Final = 4096
MAX_SAMPLES: Final = 256


def open_method(name: str) -> Method:
    """The method of this name, ready to be called with a question and an observer."""
    if names_own_code(name):
        return import_callable(name)
    for family in FAMILIES:
        if match := family.pattern.fullmatch(name):
            return family.make(*(group for group in match.groups() if group is not None))
    if name in TRACE_NAMES:
        return _trace(name)
    close = get_close_matches(name, known_names(), n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known_names())}."
    raise InputError(f"There is no method {name!r}{hint}")


def known_names() -> tuple[str, ...]:
    """What can be written for a method, for help and messages."""
    return (*(family.shown for family in FAMILIES), *TRACE_NAMES, "package.module:callable")


def default_budget(name: str) -> int:
    """Frames that a method may supply for one question unless a person says otherwise.

    The baselines are bounded by their own definition; so, we take it, is anybody's own method.
    """
    if name not in TRACE_NAMES:
        return UNLIMITED
    from trace_ves.agent.settings import DEFAULT_BUDGET  # noqa: PLC0415  only where it is needed

    return DEFAULT_BUDGET


def source_digest(name: str) -> str | None:
    """The SHA-256 of the file that holds somebody's own method; None for the methods of this package."""
    if not names_own_code(name):
        return None
    file = inspect.getsourcefile(inspect.unwrap(import_callable(name)))
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None


@dataclass(frozen=True, slots=True)
class _Family:
    shown: str
    pattern: re.Pattern[str]
    make: Callable[..., Method]


def _uniform(frames: str) -> Method:
    from trace_ves.baselines.uniform import Uniform  # noqa: PLC0415  a method is imported when it is wanted

    return Uniform(_count(frames, f"uniform-{frames}", MAX_FRAMES))


def _vote(samples: str) -> Method:
    from trace_ves.baselines.vote import Vote  # noqa: PLC0415  as above

    return Vote(_count(samples, f"vote-{samples}", MAX_SAMPLES))


def _random(seed: str = "0") -> Method:
    from trace_ves.baselines.non_visual import Random  # noqa: PLC0415  as above

    return Random(int(seed))


def _blind() -> Method:
    from trace_ves.baselines.non_visual import blind  # noqa: PLC0415  as above

    return blind


def _avp() -> Method:
    from trace_ves.baselines.avp import Avp  # noqa: PLC0415  as above

    return Avp()


def _vca() -> Method:
    from trace_ves.baselines.vca import Vca  # noqa: PLC0415  as above

    return Vca()


def _trace(name: str) -> Method:
    from trace_ves.agent.ablations import VARIANTS  # noqa: PLC0415  as above

    return VARIANTS[name]


def _count(digits: str, name: str, most: int) -> int:
    count = int(digits)
    if not 1 <= count <= most:
        raise InputError(f"The method {name!r} cannot be: the number must be from 1 to {most}.")
    return count


FAMILIES: Final = (
    _Family("random", re.compile(r"random(?:-(\d{1,9}))?"), _random),
    _Family("blind", re.compile("blind"), _blind),
    _Family("uniform-64", re.compile(r"uniform-(\d{1,9})"), _uniform),
    _Family("vote-5", re.compile(r"vote-(\d{1,9})"), _vote),
    _Family("vca", re.compile("vca"), _vca),
    _Family("avp", re.compile("avp"), _avp),
)
"""The baselines, in the order of the paper's tables; a number in a name is the frames, the samples or the seed."""

TRACE_NAMES: Final = (
    "trace",
    "trace-without-replay",
    "trace-without-trajectory",
    "trace-without-expand",
    "trace-fixed-rounds",
    "trace-chronological",
    "trace-resupply-storyboard",
)
"""TRACE, the paper's four ablations, and two ways of supplying frames; a test holds them to `agent.ablations`."""
