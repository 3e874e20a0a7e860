"""The settings of a build as `build.toml` holds them: what does not change, and when a judgement counts."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, Field


class BuildSettings(BaseModel):
    """One build's settings; a build of version 0.1 has a database and audited models alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(default="", pattern=r"^([0-9a-f]{16})?$")
    """Tells this build's tables from those of others in the same database."""
    database: str = ""
    """URL of the database; empty for a SQLite file in the folder."""
    audited: tuple[str, ...] = ()
    """Specs of the backbones that the bench will audit; no stage should use one of them."""
    gold_share: float = Field(default=0.0, ge=0, le=0.5)
    """Share of an annotator's assignments that are gold items, whose right judgement is known."""
    gold_accuracy: float = Field(default=0.8, ge=0, le=1)
    """An annotator with fewer gold items right than this has no say in the closure statement."""
    watched_share: float = Field(default=0.95, gt=0, le=1)
    """Share of every interval that must have been played before a judgement is taken."""
    least_pace: float = Field(default=0.5, ge=0)
    """A judgement that took less than this part of the clips' length does not count for the closure statement."""
    allow_not_blind: bool = False
    """Where nobody else is left, a partial set may go to somebody who has seen other clips of its video; the report
    counts these answers. Otherwise it waits for somebody who has not."""
    seat_hours: float = Field(default=24.0, gt=0)
    """An assignment that nobody worked on for so long goes back to the queue."""

    def to_toml(self) -> str:
        """The settings as the file holds them; TOML writes these values as JSON does."""
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.model_dump(mode="json").items())
