"""The error tree. Every message is one sentence that says what is wrong, where, and what to do.

TraceVesError                 anything this package raises on purpose
├── InputError                the user can fix it: an argument, a file, a key
│   ├── FormatError           a line of a file breaks its format; knows the file and the line
│   ├── VideoError            a file is not a video we can read, or a request lies outside it
│   ├── MissingExtraError     an optional dependency is not installed; says which extra to install
│   ├── BackboneConfigError   unknown backbone, missing key
│   └── PromptError           a prompt cannot be filled in: a misspelt variable, a stray dollar sign
├── MethodError               a method raised an exception, or returned what is no answer to its question
├── BackboneError             the service behind a backbone failed, retries included, or broke the backbone contract
│   └── UnknownStageError     the backbone has no rule for a stage that a method asks
└── BudgetError               a call would have supplied more frames than the budget allows

What the *model* gets wrong is not in this tree: a reply that does not validate is a `ModelFault`, a value on record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike


class TraceVesError(Exception):
    """Base of everything this package raises on purpose; `str()` of it is a sentence for the user."""


class InputError(TraceVesError):
    """Something the user gave cannot be used as it is."""


class FormatError(InputError):
    """A line of a file breaks its format."""

    def __init__(self, message: str, *, path: str | PathLike[str], line: int | None = None) -> None:
        self.path = path
        self.line = line
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {message}")


class VideoError(InputError):
    """A file is not a video that can be read, or a request lies outside of it."""


class MissingExtraError(InputError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{purpose} needs an optional part: pip install 'trace-ves[{extra}]'.")


class BackboneConfigError(InputError):
    """A backbone cannot be built: unknown name, missing key."""


class PromptError(InputError):
    """A prompt cannot be filled in with the variables of its request."""


class BackboneError(TraceVesError):
    """The service behind a backbone failed, after retries, or a backbone returned what its contract does not allow."""

    def __init__(self, message: str, charged: Mapping[int, Any] | None = None) -> None:
        super().__init__(message)
        self.charged = charged or {}  # generations that cost something nevertheless, by their place in the batch


class UnknownStageError(BackboneError):
    """A backbone that answers by rules has none for this stage."""


class MethodError(TraceVesError):
    """A method raised an exception, or returned what is no answer to its question."""


class BudgetError(TraceVesError):
    """A call was refused because it would have passed the frame budget."""
