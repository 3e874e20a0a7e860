"""The user's own code, named as `package.module:callable`, from the working folder or Python's path.

Only a spec that the user typed is imported, never one from a run file, a build or a release.
"""

import hashlib
import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from trace_ves.core.errors import InputError

_SPEC: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def names_own_code(spec: str) -> bool:
    """Whether a spec has the shape `package.module:callable`."""
    return _SPEC.fullmatch(spec) is not None


def import_callable(spec: str, *, takes: int | None = None) -> Callable[..., Any]:
    """Import the callable that a spec names. Raises `InputError`, also if it does not take `takes` arguments."""
    module_name, _, path = spec.partition(":")
    target: Any = _import(spec, module_name)
    for name in path.split("."):
        if not hasattr(target, name):
            raise InputError(f"{spec}: the module {module_name} has no {path}.")
        target = getattr(target, name)
    if not callable(target):
        raise InputError(f"{spec}: {path} is {type(target).__name__}, which cannot be called.")
    if takes is not None:
        try:
            inspect.signature(target).bind(*[None] * takes)
        except TypeError:
            raise InputError(f"{spec}: {path} does not take {takes} arguments.") from None
    return cast("Callable[..., Any]", target)


def source_digest(spec: str) -> str | None:
    """The SHA-256 of the source behind a spec; None for built-in specs and code without a source file.

    It covers the named module and the file that defines the callable.
    """
    if not names_own_code(spec):
        return None
    target = inspect.unwrap(import_callable(spec))
    module = sys.modules[spec.partition(":")[0]]
    is_code = inspect.isroutine(target) or inspect.isclass(target)  # else an instance, whose class has the source
    files = {getattr(module, "__file__", None)}
    with suppress(TypeError):  # a builtin has no source file
        files.add(inspect.getsourcefile(target if is_code else type(target)))
    files -= {None}
    package = Path(__file__).parents[1]
    contents = [Path(file).read_bytes() for file in sorted(map(str, files)) if package not in Path(file).parents]
    return hashlib.sha256(b"".join(contents)).hexdigest() if contents else None


def describe_error(error: BaseException) -> str:
    """An exception in one line, with file and line: the last of the user's own code if it passed through any."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [f for f in frames if Path(f.filename).exists() and _LIBRARIES.isdisjoint(Path(f.filename).parents)]
    message = " ".join(f"{type(error).__name__}: {error}".split())
    if not frames:
        return message
    frame = (user_frames or frames)[-1]
    return f"{message} ({Path(frame.filename).name}:{frame.lineno})"


def _import(spec: str, module_name: str) -> Any:
    if (working_folder := str(Path.cwd())) not in sys.path:
        sys.path.append(working_folder)
    try:
        return import_module(module_name)
    except Exception as error:  # the user's module may raise anything while it is imported
        reason = str(error) if isinstance(error, ImportError) else describe_error(error)
        if isinstance(error, SyntaxError):
            reason = f"{error.msg} ({Path(error.filename or module_name).name}:{error.lineno})"
        raise InputError(f"{spec}: the module {module_name} cannot be imported: {reason}.") from error


_LIBRARIES: Final = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {
    Path(__file__).parents[1]
}
"""This package, the standard library, and the folders of installed packages."""
