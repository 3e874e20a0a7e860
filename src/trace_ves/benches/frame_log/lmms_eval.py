"""lmms-eval's entry point `lmms_eval.models`, which it loads before any model: a place to begin recording.

Nothing is recorded unless the environment names a folder: `TRACE_VES_RECORD=frames python -m lmms_eval …`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "TRACE_VES_RECORD"


def manifests() -> list[Any]:
    """No models; but from now on, frames are recorded where that was asked for."""
    if folder := os.environ.get(VARIABLE):
        from trace_ves.benches.frame_log.recorder import record_to  # nothing is loaded unless it was asked for

        record_to(Path(folder).resolve())
    return []
