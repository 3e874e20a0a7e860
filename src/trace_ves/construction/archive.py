"""A build as one archive: settings, guidelines, footage and the whole history, to be moved to another machine."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from trace_ves.construction.project import (
    DATABASE_FILE,
    GUIDELINES_FILE,
    SETTINGS_FILE,
    VIDEOS,
    Project,
    open_project,
)
from trace_ves.construction.store import Store
from trace_ves.core import InputError
from trace_ves.core.atomic import atomic_path, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable

ALONE: Final = frozenset({SETTINGS_FILE, GUIDELINES_FILE, DATABASE_FILE})


def pack(project: Project, store: Store, file: Path, *, on_progress: Callable[[int, int], None]) -> int:
    """Write the archive; how many entries of the history are in it. People may go on judging meanwhile."""
    if file.exists():
        raise InputError(f"{file} exists already; give another name.")
    videos = project.videos()
    with tempfile.TemporaryDirectory() as scratch, atomic_path(file, private=True) as partial:
        copy = Store(f"sqlite:///{Path(scratch) / DATABASE_FILE}", project.settings.id)
        count = copy.copy_from(store)
        copy.close()
        settings = project.settings.model_copy(update={"database": ""})
        write_atomic(Path(scratch) / SETTINGS_FILE, settings.to_toml(), private=True)
        write_atomic(Path(scratch) / GUIDELINES_FILE, project.guidelines())
        with tarfile.open(partial, "w") as archive:
            for name in (SETTINGS_FILE, GUIDELINES_FILE, DATABASE_FILE):
                archive.add(Path(scratch) / name, name)
            for done, name in enumerate(videos, 1):
                archive.add(project.need_path(name), name)
                on_progress(done, len(videos))
    return count


def unpack(file: Path, folder: Path, *, database: str = "") -> Project:
    """Make a build out of an archive, in a new folder; with `database`, its history goes there."""
    if folder.exists():
        raise InputError(f"{folder} exists already; give a folder that does not.")
    partial = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(mode=0o700, parents=True)
        with tarfile.open(file) as archive:
            for member in archive:
                _check(file, member)
                archive.extract(member, partial, filter="data")
        project = open_project(partial)
        if database:
            packed = Store(f"sqlite:///{(partial / DATABASE_FILE).resolve()}", project.settings.id)
            settings = project.settings.model_copy(update={"database": database})
            target = Store(database, settings.id)
            target.copy_from(packed)
            target.close()
            packed.close()
            (partial / DATABASE_FILE).unlink()
            write_atomic(partial / SETTINGS_FILE, settings.to_toml(), private=True)
        partial.rename(folder)
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{file}: this is not an archive of a build: {error}.") from None
    except OSError as error:
        raise InputError(f"{error.filename or file}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return open_project(folder)


def _check(file: Path, member: tarfile.TarInfo) -> None:
    """An archive may come from strangers: it holds the files of a build and nothing else."""
    path = PurePosixPath(member.name)
    known = member.name in ALONE or (path.parts[:1] == (VIDEOS,) and len(path.parts) > 1)
    if not member.isreg() or not known or ".." in path.parts:
        raise InputError(f"{file}: {member.name[:80]!r} is no part of a build; nothing was unpacked.")
