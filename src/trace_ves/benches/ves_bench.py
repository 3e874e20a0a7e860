"""VES-Bench: a parquet whose column names are not published yet, so they are guesses that you can correct."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from trace_ves.benches import mapping as mappings
from trace_ves.benches.importing import Collector, read_parquet_rows
from trace_ves.benches.mapping import from_json_text
from trace_ves.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trace_ves.benches.bench import Bench

GUESSES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "question_id", "qid", "uid", "item_id"),
    "video": ("video", "video_path", "video_id", "video_uid", "videoid", "video_name"),
    "duration": ("duration", "video_duration", "duration_seconds", "duration_s", "length"),
    "family": ("family", "question_family", "task", "task_type", "question_type", "type", "category"),
    "question": ("question", "question_text", "query", "stem"),
    "options": ("options", "choices", "candidates"),
    "answer": ("answer", "correct_answer", "right_answer", "gold", "label", "correct_choice", "answer_idx"),
    "evidence": ("evidence", "evidence_set", "evidence_intervals", "intervals", "clue_intervals", "segments"),
}
"""For each field of a bench the column names that are tried, in this order and without regard to case."""

PAIRS: Final = (("start", "end"), ("start_time", "end_time"), ("start_s", "end_s"), ("begin", "end"), ("s", "e"))


def read(source: Path, *, strict: bool = False, columns: str | None = None) -> Bench:
    """Read the parquet; `columns`, such as `id=qid,evidence=spans`, names columns where the guesses fail."""
    chosen = parse_columns(columns) if columns is not None else {}
    rows = read_parquet_rows(source)
    if not rows:
        raise InputError(f"{source}: no usable question in this file.")
    names = choose_columns(rows[0], chosen)
    bench = Collector(strict).add_all(rows, partial(translate, names), source)
    guessed = ",".join(f"{field}={column}" for field, column in names.items() if field not in chosen)
    guess = f"The format of VES-Bench is not published; columns were guessed: {guessed}. Correct them with --columns."
    return replace(bench, guess=guess if guessed else "")


def parse_columns(text: str) -> dict[str, str]:
    """`id=qid,evidence=spans` as a map from fields to columns."""
    chosen = {}
    for part in text.split(","):
        name, equals, column = (word.strip() for word in part.partition("="))
        if not equals or name not in GUESSES or not column:
            raise InputError(f"--columns {part.strip()!r}: write FIELD=COLUMN, FIELD one of {', '.join(GUESSES)}.")
        chosen[name] = column
    return chosen


def choose_columns(row: Mapping[str, object], given: Mapping[str, str]) -> dict[str, str]:
    """The column of each field: the one you named, else the first guess that the file has."""
    by_lower = {name.lower(): name for name in row}
    chosen = {}
    for name, guesses in GUESSES.items():
        if name in given and given[name] not in row:
            raise InputError(f"--columns {name}={given[name]}: the file has only {', '.join(row)}.")
        found = given.get(name) or next((by_lower[guess] for guess in guesses if guess in by_lower), None)
        if found is not None:
            chosen[name] = found
        elif name not in {"family", "options"}:
            raise InputError(f"no column for {name!r} among {', '.join(row)}; say which with --columns {name}=COLUMN.")
    if "options" not in chosen and not _option_columns(row):
        raise InputError(f"no column for 'options' among {', '.join(row)}; say which with --columns options=COLUMN.")
    return chosen


def _option_columns(row: Mapping[str, object]) -> list[str]:
    """Columns such as `option_a`, `option_b`, …, in order of their letters or numbers."""
    return sorted(name for name in row if re.fullmatch(r"(option|choice)_?([a-z]|\d+)", name.lower()))


def translate(columns: Mapping[str, str], row: dict[str, object]) -> dict[str, object]:
    """The fields of a bench line from one row; plain values of other columns stay under their names."""
    options = columns.get("options") or tuple(_option_columns(row))
    used = {*columns.values(), *([options] if isinstance(options, str) else options)}
    answer, evidence = row[columns["answer"]], from_json_text(row[columns["evidence"]])
    first = evidence[0] if isinstance(evidence, list) and evidence else None
    start, end = next((pair for pair in PAIRS if isinstance(first, dict) and first.keys() >= {*pair}), PAIRS[0])
    mapping = mappings.Mapping(
        id=columns["id"],
        video=columns["video"],
        duration=columns["duration"],
        question=columns["question"],
        answer=columns["answer"],
        evidence=columns["evidence"],
        options=options,
        answer_is="index" if isinstance(answer, int) else "text" if len(str(answer).strip()) > 1 else "letter",
        evidence_start=start,
        evidence_end=end,
    )
    family = row[columns["family"]] if "family" in columns else ""
    return {
        **{key: value for key, value in row.items() if key not in used and isinstance(value, (str, int, float))},
        **mappings.translate(mapping, [row], {}),
        "family": re.sub(r"[\s_]+", "-", family.strip().lower()) if isinstance(family, str) else family,
    }
