"""The configuration under which a run file grows, in TOML beside it."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trace_ves.core.errors import InputError
from trace_ves.core.files import write_atomic
from trace_ves.records.record import Count, FieldError, Flag, JsonObject, Number, OpenRecord

if TYPE_CHECKING:
    from pathlib import Path

NOT_COMPARED: Final = frozenset({"bench", "started", "simulation"})
"""Where a bench lies, when a run began, and words about it may differ between two parts of one run."""


@dataclass(frozen=True, slots=True)
class RunConfiguration(OpenRecord):
    """What a run was made with; it continues under the same alone. A file written by hand may have a part of it."""

    trace_ves: str | None = None
    """The version of this package."""
    method: str | None = None
    backbone: str | None = None
    budget: Count | str | None = None
    """Frames for each question; in words, where the method has no stated budget."""
    bench: str | None = None
    """Where the bench lay; from the run's folder if it is relative."""
    bench_sha256: str | None = None
    started: str | None = None
    temperature: Number | None = None
    thinking: str | None = None
    detail: str | None = None
    reply_format: str | None = None
    method_sha256: str | None = None
    """The source of somebody's own method."""
    backbone_sha256: str | None = None
    """The source of somebody's own backbone."""
    subtitles: Flag | None = None
    """True where methods that read subtitles were shown them."""
    simulation: str | None = None
    """That the model behind a run is a simulated one, in words."""
    extra: JsonObject = field(default_factory=dict)
    """Keys that this package does not know; they are compared like the others."""

    @property
    def is_unlimited(self) -> bool:
        """Whether the method was held to no number of frames."""
        return isinstance(self.budget, str)

    def refusal(self, other: RunConfiguration) -> str | None:
        """Why a run made with this cannot go on with the other, as a clause; None where it can."""
        made, wanted = self.to_json(), other.to_json()
        for key in sorted((made.keys() | wanted.keys()) - NOT_COMPARED):
            before, now = made.get(key, "nothing"), wanted.get(key, "nothing")
            if before != now:
                return f"this run was made with {key} = {before}, and now it would be {now}"
        return None


def configuration_path(run: Path) -> Path:
    """Where the configuration of a run file stands."""
    return run.with_name(run.name.removesuffix(".jsonl") + ".run.toml")


def read_configuration(run: Path) -> RunConfiguration | None:
    """The configuration of a run file; None where it has none, as an outsider's run."""
    path = configuration_path(run)
    try:
        return RunConfiguration.from_json(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except FieldError as error:
        raise InputError(f"{path}: {error}; it is not what trace-ves run wrote.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}.") from None


def write_configuration(run: Path, configuration: RunConfiguration) -> None:
    """Write the configuration of a run file."""
    lines = ["# Written by trace-ves run. The run beside this file continues under this configuration only."]
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in configuration.to_json().items()]
    write_atomic(configuration_path(run), "\n".join(lines) + "\n")
