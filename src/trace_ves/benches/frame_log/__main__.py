"""`python -m trace_ves.benches.frame_log FOLDER script.py …`: run a program and log the frames it was given."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trace_ves.benches.frame_log.recorder import record_to
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = "usage: python -m trace_ves.benches.frame_log FOLDER SCRIPT [ARGUMENT]…  (or: FOLDER -m MODULE [ARGUMENT]…)"


def main(arguments: Sequence[str]) -> None:
    """Run the program as Python would; whatever it decodes is written to the folder."""
    if len(arguments) < 2 or arguments[0].startswith("-") or (arguments[1] == "-m" and len(arguments) < 3):
        sys.stderr.write(USAGE + "\n")
        raise SystemExit(2)
    folder, program = Path(arguments[0]), list(arguments[1:])
    if program[0] != "-m" and not Path(program[0]).is_file():
        sys.stderr.write(f"trace_ves.benches.frame_log: {program[0]}: no such script.\n{USAGE}\n")
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
            sys.stderr.write(f"trace_ves.benches.frame_log: {error}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
