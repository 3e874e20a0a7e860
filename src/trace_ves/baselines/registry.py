"""Which names open which baseline. A baseline's file declares its own names as `METHODS`; a new one is a new file."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trace_ves.observer import Method


@dataclass(frozen=True, slots=True)
class MethodFamily:
    """Methods that share a form of name, such as `uniform-N`."""

    example: str
    """A name of this form, for help and messages."""
    pattern: str
    """A regular expression for the whole name."""
    make: Callable[..., Method]
    """Called with the groups of the pattern that matched."""


@cache
def families() -> tuple[MethodFamily, ...]:
    """The families of every baseline, in the order of their files' names."""
    package = import_module("trace_ves.baselines")
    modules = [import_module(f"{package.__name__}.{info.name}") for info in pkgutil.iter_modules(package.__path__)]
    return tuple(family for module in modules for family in getattr(module, "METHODS", ()))


def count_in_name(form: str, digits: str, most: int) -> int:
    """The number in a name such as `uniform-64`, which must be from 1 to `most`."""
    if not 1 <= int(digits) <= most:
        raise InputError(f"{form} needs N between 1 and {most}, found {digits}.")
    return int(digits)
