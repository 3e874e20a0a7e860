"""Whether a model is on both sides: used to build a bench, and audited by it. Knows specs and files, no store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

REPORT_FILE: Final = "construction.json"
"""What an exported bench tells of its construction."""


def model_of(spec: str) -> str:
    """The model behind a spec, whoever serves it: `openai:Qwen/Qwen3-VL-8B@http://…` and `hf:qwen3-vl-8b` are one."""
    scheme, colon, rest = spec.partition(":")
    name = rest.partition("@")[0] if colon else scheme
    return name.rstrip("/").rpartition("/")[2].casefold()


def overlap_warning(audited: Iterable[str], spec: str, doing: str) -> str | None:
    """What to tell a person whose construction backbone is also audited; None where it is not."""
    same = next((each for each in audited if model_of(each) == model_of(spec)), None)
    if same is None:
        return None
    return f"{spec} is used for {doing} and audited too ({same}); no model should be audited on what it helped to build"


def warnings_of_bench(bench: Path, audited: Sequence[str]) -> list[str]:
    """The same for a bench that was built with `trace-ves build`; any other bench has nothing to tell."""
    try:
        used = json.loads((bench / REPORT_FILE).read_text(encoding="utf-8"))["backbones"]
        pairs = [(str(stage), str(spec)) for stage, specs in used.items() for spec in specs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    found = (overlap_warning(audited, spec, f"this bench's {stage}") for stage, spec in pairs)
    return [warning for warning in found if warning]
