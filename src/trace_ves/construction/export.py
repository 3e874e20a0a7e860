"""From the accepted items to a bench folder: questions, videos, and what the build came to. Rationales stay behind."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Final

from trace_ves.benchmarks.bench import bench_file, write_bench
from trace_ves.construction.item_index import ItemIndex
from trace_ves.construction.overlap import REPORT_FILE
from trace_ves.construction.reports import closure_statement, report
from trace_ves.core import InputError
from trace_ves.core.atomic import atomic_path, write_atomic
from trace_ves.core.outputs import refuse_inputs
from trace_ves.records import Item

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import Project

CLOSURE_FILE: Final = "CLOSURE.md"


def accepted_items(ledger: Ledger) -> list[Item]:
    """The accepted items as items of a bench, with their final intervals."""
    return [
        Item(
            judged.proposal.question(judged.id),
            standing.answer or judged.proposal.answer,
            standing.evidence,
            judged.proposal.duration,
        )
        for judged, standing in ItemIndex().all(ledger)
        if standing.accepted
    ]


def export_bench(project: Project, ledger: Ledger, out: Path, *, force: bool = False) -> int:
    """Write the bench; its questions come last, so that an export that was stopped is no bench yet."""
    items = accepted_items(ledger)
    if not items:
        raise InputError(f"{project.folder}: no item is accepted yet; `trace-ves build status` tells what waits.")
    refuse_inputs(
        [out, bench_file(out), out / REPORT_FILE, out / CLOSURE_FILE],
        inputs=[project.folder, *project.files(), *(project.path_of(video) for video in project.videos())],
    )
    found = report(ledger, settings=project.settings)
    try:
        for video in sorted({item.question.video for item in items}):
            _place(project.need_path(video), out / video)
        write_atomic(out / REPORT_FILE, json.dumps(found.to_json(), indent=2) + "\n")
        write_atomic(out / CLOSURE_FILE, f"# What is guaranteed\n\n{closure_statement(found)}\n")
    except OSError as error:
        raise InputError(f"{error.filename or out}: could not be written: {error.strerror or error}.") from error
    write_bench(items, out, force=force)
    return len(items)


def _place(source: Path, target: Path) -> None:
    """Have a video in the bench: by a link where the disk is the same, else as a copy."""
    if target.exists():
        if target.stat().st_size != source.stat().st_size:
            raise InputError(f"{target} is another file than {source}; give an empty folder.")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        with atomic_path(target) as partial:
            shutil.copy(source, partial)  # with its mode: private footage stays private
