"""The errors of this package. Every message is one sentence that says what is wrong, where, and what to do.

TraceVesError                 anything this package raises on purpose
├── InputError                the user can fix it: an argument, a file, a key
│   ├── FormatError           a line of a file breaks its format; knows the file and the line
│   ├── VideoError            a file is not a readable video, or a request lies outside it
│   ├── MissingExtraError     an optional dependency is not installed; says which extra to install
│   ├── BackboneConfigError   unknown backbone, missing key
│   └── PromptError           a prompt cannot be filled in: a misspelt variable, a stray dollar sign
├── MethodError               a method raised an exception or returned an invalid answer
├── BackboneError             the service behind a backbone failed after retries, or a backbone broke its contract
│   └── UnknownStageError     the backbone has no rule for a stage
└── BudgetError               a call would have supplied more frames than the budget allows

A reply of a model that does not validate raises no exception: it is recorded as a `ModelFault`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any, Literal


class TraceVesError(Exception):
    """Base of every error that this package raises on purpose; its text is a sentence for the user."""


class InputError(TraceVesError):
    """An argument, file or key of the user cannot be used."""


@contextmanager
def wrap_os_errors(path: str | PathLike[str], operation: Literal["read", "written"]) -> Iterator[None]:
    """Raise an `InputError` that names the file instead of an `OSError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be {operation}: {error.strerror or error}.") from None


class FormatError(InputError):
    """A line of a file breaks its format."""

    def __init__(self, message: str, *, path: str | PathLike[str], line: int | None = None) -> None:
        location = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{location}: {message}")


class VideoError(InputError):
    """A file is not a readable video, or a request lies outside it."""


def install_command(extra: str) -> str:
    """How to install an extra. trace-ves is not on PyPI, so it comes from the checkout."""
    return f"pip install '.[{extra}]' in the checkout"


class MissingExtraError(InputError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional part: {install_command(extra)}.")


class BackboneConfigError(InputError):
    """A backbone cannot be built: unknown name, missing key."""


class PromptError(InputError):
    """A prompt cannot be filled in with the variables of its request."""


class BackboneError(TraceVesError):
    """The service behind a backbone failed after retries, or a backbone broke its contract."""

    def __init__(self, message: str, charged: Mapping[int, Any] | None = None) -> None:
        super().__init__(message)
        self.charged = charged or {}  # generations that were paid for anyway, by their index in the batch


class UnknownStageError(BackboneError):
    """A backbone with fixed rules has none for this stage."""


class MethodError(TraceVesError):
    """A method raised an exception or returned an invalid answer."""


class BudgetError(TraceVesError):
    """A call was refused because it would have passed the frame budget."""
