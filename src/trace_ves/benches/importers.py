"""Importers of published benchmarks. Most are mapping files in `mappings`; the others are functions in this module.

An importer is a function `read(source, *, strict) -> Bench`, listed in `IMPORTERS`. Other keyword arguments are options
of `trace-ves import`. Name an importer outside this package as `package.module:callable`.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final

from trace_ves.benches import mapping as mappings
from trace_ves.benches.bench import Bench
from trace_ves.benches.importing import (
    Collector,
    clock_seconds,
    letter_of_index,
    parse_places,
    pick,
    read_json,
    read_json_rows,
    strip_letters,
    video_path,
)
from trace_ves.core.errors import InputError
from trace_ves.core.files import read_csv
from trace_ves.core.jsonl import read_jsonl
from trace_ves.core.plugins import describe_error, import_callable, names_own_code
from trace_ves.records.base import FieldError, Name, Number, quote, validate

Importer = Callable[..., Bench]
Row = dict[str, object]


def import_bench(name: str, source: Path, *, strict: bool = False, **options: Any) -> Bench:
    """Read the annotation file of a benchmark. An option that the importer does not have is an `InputError`."""
    importer = open_importer(name)
    accepted = inspect.signature(importer).parameters
    for option in options:
        if option not in accepted:
            raise InputError(f"the importer {name} has no option --{option}.")
    arguments = options | ({"strict": strict} if "strict" in accepted else {})
    try:
        bench = importer(source, **arguments)
    except InputError:
        raise
    except Exception as error:  # a user's importer may raise anything
        if not names_own_code(name):
            raise
        raise InputError(f"the importer {name} failed on {source}: {describe_error(error)}.") from error
    if not isinstance(bench, Bench):
        raise InputError(f"the importer {name} returned {type(bench).__name__}; it must be a Bench.")
    return bench


def open_importer(name: str) -> Importer:
    """Open an importer: by name, as a mapping file (`*.toml`), or as `package.module:callable`."""
    if name.endswith(".toml"):
        return partial(mappings.read, mapping_file=Path(name))
    if names_own_code(name):
        return import_callable(name, takes=1)
    if name in IMPORTERS:
        return IMPORTERS[name]
    shipped = {path.stem: path for path in MAPPINGS.glob("*.toml")}
    if name in shipped:
        return open_importer(str(shipped[name]))
    names = sorted({*IMPORTERS, *shipped})
    if close := get_close_matches(name, names, n=1):
        raise InputError(f"There is no importer {name!r}; did you mean {close[0]}?")
    raise InputError(f"There is no importer {name!r}; use one of {', '.join(names)}, or a mapping file (.toml).")


def read_next_gqa(source: Path, *, strict: bool = False, grounding: Path | None = None) -> Bench:
    """NExT-GQA: a CSV file of five-choice questions, and grounded segments in `<name>.json` or `gsub_<name>.json`."""
    beside = [source.with_suffix(".json"), source.with_name(f"gsub_{source.stem}.json")]
    segments = grounding or next((path for path in beside if path.exists()), None)
    if segments is None:
        names = " or ".join(path.name for path in beside)
        raise InputError(f"{source}: there are no grounded segments next to it ({names}); give them with --grounding.")
    content = read_json(segments)
    if not isinstance(content, dict):
        raise InputError(f"{segments}: expected a JSON object with one entry for each video.")
    return Collector(strict).add_all(read_csv(source, ","), partial(_translate_next_gqa, content), source)


def _translate_next_gqa(grounding: Row, row: Row) -> Row:
    video, number = validate(Name, row.get("video_id"), "video_id"), validate(Name, row.get("qid"), "qid")
    options = [row.get(key) for key in ("a0", "a1", "a2", "a3", "a4")]
    answer = row.get("answer")
    if options.count(answer) != 1:
        raise FieldError(f"the answer {quote(answer)} is not exactly one of the five options")
    if video not in grounding:
        raise FieldError(f"the video {quote(video)} has no grounded segments")
    facts = validate(dict[str, object], grounding[video], video)
    segments = validate(dict[str, object], facts.get("location"), "location")
    if number not in segments:
        raise FieldError("the question has no grounded segments")
    return {
        "id": f"{video}_{number}",
        "video": video_path(video),
        "duration": facts.get("duration"),
        "family": row.get("type", ""),
        "question": row.get("question"),
        "options": options,
        "answer": letter_of_index(options.index(answer), len(options)),
        "evidence": segments[number],
    }


MINUTE: Final = 60.0


def read_lvbench(source: Path, *, strict: bool = False) -> Bench:
    """LVBench: the official `video_info.meta.jsonl` (one video per line), or the flat JSON file used by AVP."""
    collector = Collector(strict, evidence_optional=True)
    if source.suffix == ".jsonl":
        return collector.add_all(_official_rows(source), _translate_official, source)
    return collector.add_all(read_json_rows(source), _translate_flat, source)


def _official_rows(source: Path) -> Iterator[Row]:
    """Yield a row for each question, with its video."""
    for line in read_jsonl(source):
        questions = line.record.get("qa")
        for question in questions if isinstance(questions, list) else [None]:
            yield {"video": line.record, "question": question}


def _translate_official(row: Row) -> Row:
    video = validate(dict[str, object], row["video"], "video")
    entry = validate(dict[str, object], row["question"], "qa")
    info = validate(dict[str, object], video.get("video_info"), "video_info")
    text, options = split_question(validate(str, entry.get("question"), "question"))
    return {
        "id": str(entry.get("uid", "")),
        "video": video_path(video.get("key")),
        "duration": MINUTE * validate(Number, info.get("duration_minutes"), "duration_minutes"),
        "duration_precision": MINUTE,
        "question": text,
        "options": options,
        **_shared_fields(entry),
        **({"domain": video["type"]} if video.get("type") else {}),
    }


def _translate_flat(row: Row) -> Row:
    return {
        "id": str(row.get("question_id", "")),
        "video": video_path(row.get("videoID")),
        "duration": row.get("duration"),
        "question": row.get("question"),
        "options": strip_letters(row.get("options")),
        **_shared_fields(row, latest_end=validate(Number, row.get("duration"), "duration")),
        **pick(row, ("domain", "url")),
    }


def _shared_fields(entry: Mapping[str, object], latest_end: float = math.inf) -> Row:
    return {
        "family": "",
        "answer": entry.get("answer"),
        "evidence": reference_intervals(entry.get("time_reference"), latest_end),
        "question_types": validate(list[object], entry.get("question_type", []), "question_type"),
        **pick(entry, ("time_reference",)),
    }


def split_question(text: str) -> tuple[str, list[str]]:
    r"""Split `Who?\n(A) me\n(B) you` into the question and its options."""
    question, *parts = re.split(r"\n\s*\(([A-Z])\)\s*", text)
    return question.strip(), [option.strip() for option in parts[1::2]]


def reference_intervals(reference: object, latest_end: float = math.inf) -> list[list[float]]:
    """Parse `mm:ss-mm:ss` or `h:mm:ss-h:mm:ss`; returns no interval for anything else and for a single moment.

    References are in whole seconds, so an end less than a second after the end of the video is set to it.
    """
    clock = r"((?:\d+:)?\d+:\d{2})"
    match = re.fullmatch(rf"\s*{clock}\s*-\s*{clock}\s*", reference) if isinstance(reference, str) else None
    if match is None:
        return []
    start, end = clock_seconds(match[1]), clock_seconds(match[2])
    if latest_end < end < latest_end + 1:
        end = latest_end
    return [] if start == end else [[start, end]]


def read_ves_bench(source: Path, *, strict: bool = False, columns: str | None = None) -> Bench:
    """VES-Bench: a parquet file. Its column names are not published; `columns` corrects those of the mapping file."""
    form = f"FIELD=COLUMN, FIELD one of {', '.join(sorted(mappings.BENCH_KEYS))}"
    places = parse_places("--columns", columns, mappings.BENCH_KEYS, form)
    return mappings.read(source, mapping_file=MAPPINGS / "ves-bench.toml", strict=strict, **places)


IMPORTERS: Final[Mapping[str, Importer]] = {
    "lvbench": read_lvbench,
    "next-gqa": read_next_gqa,
    "ves-bench": read_ves_bench,
}
"""The importers that are functions, by the names that `trace-ves import` takes."""
MAPPINGS: Final = Path(__file__).parent / "mappings"
