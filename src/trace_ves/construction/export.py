"""Export the accepted items of a build as a bench, and pack or unpack a whole build."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from trace_ves.benches.bench import CONSTRUCTION_FILE, bench_file, write_bench
from trace_ves.construction.exposure import Exposures
from trace_ves.construction.judged_item import list_all_items, list_items
from trace_ves.construction.people import list_people
from trace_ves.construction.project import (
    BUILD_FILES,
    DATABASE_FILE,
    GUIDELINES_FILE,
    SETTINGS_FILE,
    VIDEOS,
    Project,
    open_project,
    read_settings,
)
from trace_ves.construction.reports import closure_statement, make_report
from trace_ves.construction.store import Store
from trace_ves.core import InputError
from trace_ves.core.files import atomic_path, refuse_inputs, write_atomic
from trace_ves.records import Item

if TYPE_CHECKING:
    from trace_ves.construction.ledger import Ledger

CLOSURE_FILE: Final = "CLOSURE.md"


def accepted_items(ledger: Ledger) -> list[Item]:
    """The accepted items as bench items, with their final intervals."""
    return [
        Item(judged.proposal.question(judged.id), judged.state.answer, judged.state.evidence, judged.proposal.duration)
        for judged in list_items(ledger)
        if judged.state.accepted
    ]


def export_bench(project: Project, ledger: Ledger, out: Path, *, force: bool = False) -> int:
    """Write the bench; returns the number of items. The questions are written last, so that no bench is incomplete."""
    items = accepted_items(ledger)
    if not items:
        raise InputError(f"{project.folder}: no item is accepted yet; `trace-ves build status` shows what is waiting.")
    refuse_inputs(
        [out, bench_file(out)],
        inputs=[project.folder, *project.files(), *(project.path_of(video) for video in project.videos())],
    )
    report = make_report(ledger, project.settings)
    try:
        for video in sorted({item.question.video for item in items}):
            _link_video(project.need_path(video), out / video)
        write_atomic(out / CONSTRUCTION_FILE, json.dumps(report.to_json(), indent=2) + "\n")
        write_atomic(out / CLOSURE_FILE, f"# What is guaranteed\n\n{closure_statement(report)}\n")
    except OSError as error:
        raise InputError(f"{error.filename or out}: could not be written: {error.strerror or error}.") from error
    write_bench(items, out, force=force)
    return len(items)


def _link_video(source: Path, target: Path) -> None:
    """Put a video into the bench, as a hard link if possible, else as a copy."""
    if target.exists():
        if target.stat().st_size != source.stat().st_size:
            raise InputError(f"{target} differs from {source}; give an empty folder.")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        with atomic_path(target) as partial:
            shutil.copy(source, partial)  # also copies the file mode, so that private footage stays private


def pack(project: Project, store: Store, file: Path, *, on_progress: Callable[[int, int], None]) -> int:
    """Write a build to an archive; returns the number of history entries. Annotators may keep working."""
    if file.exists():
        raise InputError(f"{file} exists already; give another name.")
    videos = project.videos()
    refuse_inputs([file], inputs=[*project.files(), *(project.path_of(video) for video in videos)])
    with tempfile.TemporaryDirectory() as scratch, atomic_path(file, private=True) as partial:
        copy = Store(f"sqlite:///{Path(scratch) / DATABASE_FILE}", project.settings.id)
        count = copy.copy_from(store)
        copy.close()
        settings = project.settings.model_copy(update={"database": ""})
        write_atomic(Path(scratch) / SETTINGS_FILE, settings.to_toml(), private=True)
        write_atomic(Path(scratch) / GUIDELINES_FILE, project.guidelines())
        with tarfile.open(partial, "w") as archive:
            for name in BUILD_FILES:
                archive.add(Path(scratch) / name, name)
            for done, name in enumerate(videos, 1):
                archive.add(project.need_path(name), name)
                on_progress(done, len(videos))
    return count


def unpack(file: Path, folder: Path, *, database: str = "") -> Project:
    """Create a build in a new folder from an archive; its history goes to `database`, or to a file in the folder."""
    if folder.exists():
        raise InputError(f"{folder} exists already; give a folder that does not.")
    partial = folder.with_name(f".{folder.name}.part")
    refuse_inputs([partial], inputs=[file])
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(mode=0o700, parents=True)
        with tarfile.open(file, "r:") as archive:  # refuses compressed archives, which could fill the disk
            for member in archive:
                _check_member(file, member)
                archive.extract(member, partial, filter="data")
        settings = read_settings(partial).model_copy(update={"database": database})  # not the one named in the archive
        write_atomic(partial / SETTINGS_FILE, settings.to_toml(), private=True)
        _copy_history(file, Project(partial, settings))
        partial.rename(folder)
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{file}: this is not an archive of a build: {error}.") from None
    except OSError as error:
        raise InputError(f"{error.filename or file}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return open_project(folder, database=database)


def _copy_history(file: Path, project: Project) -> None:
    """Check the history and copy only its tables into a new database."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.move(project.folder / DATABASE_FILE, Path(scratch) / DATABASE_FILE)
        packed = Store(f"sqlite:///{Path(scratch) / DATABASE_FILE}", project.settings.id)
        try:
            _check_history(packed.ledger())
            store = project.open_store()
            store.copy_from(packed)
            store.close()
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{file}: the history in this archive is damaged: {error}.") from None
        finally:
            packed.close()


def _check_history(ledger: Ledger) -> None:
    """Read an untrusted history as pages and commands do, to raise its errors now."""
    make_report(ledger)
    list_people(ledger)
    Exposures(ledger)
    names = [name for entry in ledger.entries for name in (entry.subject, entry.slot, entry.who)]
    names += [judged.proposal.video for judged in list_all_items(ledger)]
    if unprintable := next((name for name in names if not name.isprintable()), None):
        raise ValueError(f"the name {unprintable!r} contains control characters")


def _check_member(file: Path, member: tarfile.TarInfo) -> None:
    """Refuse an untrusted archive that contains anything but the files of a build."""
    path = PurePosixPath(member.name)
    known = member.name in BUILD_FILES or (path.parts[:1] == (VIDEOS,) and len(path.parts) > 1)
    if not member.isreg() or member.issparse() or not known or ".." in path.parts:
        raise InputError(f"{file}: {member.name[:80]!r} is not part of a build; nothing was unpacked.")
