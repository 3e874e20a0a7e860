"""`python -m trace_ves.frame_log FOLDER script.py …`: run a program and log the frames that its decoders return.

This is also an entry point `lmms_eval.models`: `TRACE_VES_RECORD=FOLDER python -m lmms_eval …` logs to the folder. A
program that decodes more frames than it sends to the model calls `trace_ves.frame_log.keep()` for those it sends.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "TRACE_VES_RECORD"
USAGE: Final = "usage: python -m trace_ves.frame_log FOLDER SCRIPT [ARGUMENT]…  (or: FOLDER -m MODULE [ARGUMENT]…)"


def main(arguments: Sequence[str]) -> None:
    """Run a program, and log the frames that it decodes to a folder."""
    from trace_ves.benches.frame_log.recorder import record_to
    from trace_ves.core.errors import InputError

    if len(arguments) < 2 or arguments[0].startswith("-") or (arguments[1] == "-m" and len(arguments) < 3):
        sys.stderr.write(USAGE + "\n")
        raise SystemExit(2)
    folder, program = Path(arguments[0]), list(arguments[1:])
    if program[0] != "-m" and not Path(program[0]).is_file():
        sys.stderr.write(f"trace_ves.frame_log: {program[0]}: no such script.\n{USAGE}\n")
        raise SystemExit(2)
    file = record_to(folder)
    try:
        if program[0] == "-m":
            sys.argv = program[1:]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = program
            sys.path.insert(0, str(Path(program[0]).resolve().parent))
            runpy.run_path(program[0], run_name="__main__")
    finally:
        try:
            file.flush()
        except InputError as error:
            sys.stderr.write(f"trace_ves.frame_log: {error}\n")


def keep(places: Sequence[int] | None = None) -> None:
    """Record that only some frames of the last reader go to the model.

    The default is the last frame. `places` counts the frames that this reader has returned, from 0; after a complete
    scan they are frame indices. Does nothing if no recording is open.
    """
    from trace_ves.benches.frame_log.recorder import RECORDER

    RECORDER.keep(places)


def manifests() -> list[Any]:
    """Start logging if `TRACE_VES_RECORD` is set. lmms-eval calls this before it loads a model; returns no models."""
    if folder := os.environ.get(VARIABLE):
        from trace_ves.benches.frame_log.recorder import record_to

        record_to(Path(folder).resolve())
    return []


if __name__ == "__main__":
    main(sys.argv[1:])
