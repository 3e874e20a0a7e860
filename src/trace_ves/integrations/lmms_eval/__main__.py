"""`python -m trace_ves.integrations.lmms_eval BENCH FOLDER [NAME]`: write a bench as a task of lmms-eval."""

from __future__ import annotations

import sys
from pathlib import Path

from trace_ves.benches import load_bench
from trace_ves.core.errors import InputError
from trace_ves.core.files import refuse_inputs
from trace_ves.integrations.lmms_eval.folder import write_task


def main(arguments: list[str]) -> None:
    """Write the folder, and say how it is used."""
    if len(arguments) not in {2, 3} or arguments[0].startswith("-"):
        sys.stderr.write("usage: python -m trace_ves.integrations.lmms_eval BENCH FOLDER [NAME]\n")
        raise SystemExit(2)
    folder, name = Path(arguments[1]), (arguments[2:] or ["ves"])[0]
    try:
        bench = load_bench(arguments[0])
        refuse_inputs([folder / "docs.jsonl"], inputs=[bench.path])
        write_task(bench, folder, name)
    except InputError as error:
        sys.stderr.write(f"trace-ves: {error}\n")
        raise SystemExit(2) from None
    sys.stdout.write(
        f"{folder}: {len(bench.items)} questions as the task {name}. Run it with\n"
        f"  python -m lmms_eval --include_path {folder} --tasks {name} --log_samples --output_path LOGS --model …\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
