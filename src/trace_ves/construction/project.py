"""The folder of a build: `videos/`, `build.toml`, `guidelines.md`, and usually the database."""

import json
import secrets
import shlex
import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_ves.benches.bench import stays_inside
from trace_ves.construction.store import Store
from trace_ves.core import EVENT_COUNTING, TEMPORAL_ORDERING, InputError
from trace_ves.core.files import write_atomic


class BuildSettings(BaseModel):
    """The settings of a build; builds of version 0.1 only have `database` and `audited`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(default="", pattern=r"^([0-9a-f]{16})?$")  # distinguishes this build's tables in a shared database
    database: str = ""  # URL of the database; empty for a SQLite file in the folder
    audited: tuple[str, ...] = ()  # backbones that the bench will audit; no stage should use one of them
    gold_share: float = Field(default=0.0, ge=0, le=0.5)  # share of an annotator's assignments that are gold items
    # Judgements of annotators with a lower accuracy on gold items do not count for the closure statement.
    gold_accuracy: float = Field(default=0.8, ge=0, le=1)
    watched_share: float = Field(default=0.95, gt=0, le=1)  # share of each interval to play before a judgement
    # Judgements faster than this multiple of the clips' length do not count for the closure statement.
    least_pace: float = Field(default=0.5, ge=0)
    # Whether an annotator who has seen other clips of a video may judge its partial sets if no other annotator is left.
    allow_not_blind: bool = False
    seat_hours: float = Field(default=24.0, gt=0)  # idle hours after which an assignment returns to the queue

    def to_toml(self) -> str:
        """The content of `build.toml`; TOML writes these values as JSON does."""
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.model_dump(mode="json").items())


SETTINGS_FILE: Final = "build.toml"
GUIDELINES_FILE: Final = "guidelines.md"
DATABASE_FILE: Final = "build.sqlite"
BUILD_FILES: Final = (SETTINGS_FILE, GUIDELINES_FILE, DATABASE_FILE)
VIDEOS: Final = "videos"
VIDEO_SUFFIXES: Final = frozenset({".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".ts", ".ogv"})
FAMILIES: Final = (TEMPORAL_ORDERING, EVENT_COUNTING)


@dataclass(frozen=True, slots=True)
class Project:
    """One build."""

    folder: Path
    settings: BuildSettings = field(default_factory=BuildSettings)

    @property
    def url(self) -> str:
        """URL of the store."""
        return self.settings.database or f"sqlite:///{(self.folder / DATABASE_FILE).resolve()}"

    def open_store(self) -> Store:
        """Open the store; a link to a database outside the folder is refused."""
        if not self.settings.database and not self._is_inside(self.folder / DATABASE_FILE):
            raise InputError(f"{self.folder / DATABASE_FILE}: this link leads out of the build's folder; remove it.")
        return Store(self.url, self.settings.id)

    def guidelines(self) -> str:
        """The guidelines for annotators in Markdown: the file in the folder, or the default text."""
        path = self.folder / GUIDELINES_FILE
        if self._is_inside(path) and path.is_file():
            return path.read_text(encoding="utf-8", errors="replace")
        return files(__package__).joinpath("texts", GUIDELINES_FILE).read_text(encoding="utf-8")

    def _is_inside(self, path: Path) -> bool:
        """Whether a file, after resolving links, is in the folder; the folder may be untrusted."""
        return path.resolve().is_relative_to(self.folder.resolve())

    def files(self) -> list[Path]:
        """The files of a build except its videos; some may not exist."""
        return [self.folder / name for name in BUILD_FILES]

    def videos(self) -> list[str]:
        """Paths of the videos relative to the folder, sorted; links that lead out of it are left out."""
        paths = sorted((self.folder / VIDEOS).rglob("*"))
        names = [path.relative_to(self.folder).as_posix() for path in paths if path.suffix.lower() in VIDEO_SUFFIXES]
        return [name for name in names if self.path_of(name) is not None and name.isprintable()]

    def path_of(self, video: str) -> Path | None:
        """The file of a video; None if it is missing or a link leads out of the folder."""
        if not stays_inside(video) or "\0" in video:
            return None
        try:
            real = (self.folder / video).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return None
        is_inside = real.is_file() and real.is_relative_to((self.folder / VIDEOS).resolve())
        return real if is_inside else None

    def need_path(self, video: str) -> Path:
        """The file of a video; an `InputError` if it is missing."""
        path = self.path_of(video)
        if path is None:
            raise InputError(f"{self.folder / video}: this video is no longer in the build's folder; put it back.")
        return path


def create_project(folder: Path, settings: BuildSettings | None = None) -> Project:
    """Create a build in a folder with videos: write `build.toml`, the guidelines and the store."""
    project = Project(folder, (settings or BuildSettings()).model_copy(update={"id": secrets.token_hex(8)}))
    file = folder / SETTINGS_FILE
    if file.exists():
        raise InputError(f"{file} exists already; this folder is a build.")
    if not project.videos():
        raise InputError(f"{folder / VIDEOS}: no videos here; put your videos into this folder first.")
    project.open_store().close()
    if not (folder / GUIDELINES_FILE).exists():
        write_atomic(folder / GUIDELINES_FILE, project.guidelines())
    write_atomic(file, project.settings.to_toml(), private=True)
    return project


def open_project(folder: Path, *, database: str = "") -> Project:
    """Open a build. Its folder may be untrusted, so `database` must repeat the database of its settings."""
    project = Project(folder, read_settings(folder))
    if (own := project.settings.database) != database:
        hint = f"if it is yours, add --database {shlex.quote(own)}" if own else "leave out --database"
        file = folder / SETTINGS_FILE
        raise InputError(f"{file}: this build names {f'the database {own!r}' if own else 'no database'}; {hint}.")
    return project


def read_settings(folder: Path) -> BuildSettings:
    """The settings of the build in a folder."""
    settings = folder / SETTINGS_FILE
    try:
        return BuildSettings.model_validate(tomllib.loads(settings.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise InputError(f"{folder}: no build here; create one with `trace-ves build init {folder}`.") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{settings}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{settings}: could not be read: {error}.") from None
