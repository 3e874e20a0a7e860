"""A person's own code by name: `package.module:callable`, found in the working folder or wherever Python looks."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

_SPEC: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def names_own_code(spec: str) -> bool:
    """Whether a spec has the shape `package.module:callable`."""
    return _SPEC.fullmatch(spec) is not None


def import_callable(spec: str) -> Callable[..., Any]:
    """Import what a spec names. Whatever is wrong with it is an `InputError`."""
    module_name, _, path = spec.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        found: Any = import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except AttributeError:
        raise InputError(f"{spec}: the module {module_name} has no {path}.") from None
    except ImportError as error:
        raise InputError(f"{spec}: the module {module_name} cannot be imported: {error}.") from error
    if not callable(found):
        raise InputError(f"{spec}: {path} is {type(found).__name__}, not something that can be called.")
    return cast("Callable[..., Any]", found)
