"""Importers of published benchmarks. Each file is one: its name is the importer's, and `read` makes the bench.

A new importer is a new file here with `read(source, *, strict) -> Bench`; keyword arguments beyond these are options.
"""

from __future__ import annotations

import inspect
import pkgutil
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_ves.benches.bench import Bench
from trace_ves.core.errors import InputError
from trace_ves.core.plugins import described, import_callable, names_own_code

if TYPE_CHECKING:
    from collections.abc import Callable

    Importer = Callable[..., Bench]


def importer_names() -> tuple[str, ...]:
    """What `trace-ves import` takes, without importing any."""
    return tuple(sorted(info.name.replace("_", "-") for info in pkgutil.iter_modules(__path__)))


def open_importer(name: str) -> Importer:
    """The importer of this name, a mapping file (`*.toml`), or a person's own as `package.module:callable`."""
    if name.endswith(".toml"):
        from trace_ves.benches import mapping  # only where one is used

        return partial(mapping.read, mapping_file=Path(name))
    if names_own_code(name):
        return import_callable(name, takes=1)
    if name in importer_names():
        importer: Importer = import_module(f"{__name__}.{name.replace('-', '_')}").read
        return importer
    close = get_close_matches(name, importer_names(), n=1)
    hint = (
        f"did you mean {close[0]}?"
        if close
        else f"there are {', '.join(importer_names())}; a mapping file ends with .toml."
    )
    raise InputError(f"There is no importer {name!r}; {hint}")


def import_bench(name: str, source: Path, *, strict: bool = False, **options: Any) -> Bench:
    """Read the annotation file of a benchmark. Options that an importer does not have are an `InputError`."""
    importer = open_importer(name)
    accepted = inspect.signature(importer).parameters
    for option in options:
        if option not in accepted:
            raise InputError(f"the importer {name} has no option --{option}.")
    given = options | ({"strict": strict} if "strict" in accepted else {})
    try:
        bench = importer(source, **given)
    except InputError:
        raise
    except Exception as error:  # a person's own importer may raise anything
        if not names_own_code(name):
            raise
        raise InputError(f"the importer {name} failed on {source}: {described(error)}.") from error
    if not isinstance(bench, Bench):
        raise InputError(f"the importer {name} returned {type(bench).__name__}; it must be a Bench.")
    return bench
