"""inspect_ai: a `.eval` log, which is a zip of JSON files, or a `.json` log; inspect_ai itself is not needed.

A sample whose store holds a prediction of ours under `trace_ves` is taken as it is, with its exact timestamps. Any
other sample gives its id and the answer that a scorer extracted, else what the model wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.benches.logs.files import loose_object, open_zip, read_member
from trace_ves.benches.logs.reading import LoggedSample
from trace_ves.core.errors import FormatError, InputError
from trace_ves.records import Prediction
from trace_ves.records.base import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from trace_ves.benches.logs.reading import Fields

FILES = ("*.eval", "*.json")
STORE_KEYS: Final = ("trace_ves", "trace_ves:prediction")
"""Keys of a sample's store that hold a line of a run."""
MOST_JSON_BYTES: Final = 1024**3


def samples(path: Path, fields: Fields, on_progress: Callable[[int, int], None] | None) -> Iterator[LoggedSample]:
    """Every sample of a log, the first epoch of each."""
    for number, row in enumerate(_rows(path, on_progress), start=1):
        if row.get("epoch", 1) != 1:
            continue
        try:
            yield _sample(number, row, fields)
        except FieldError as error:
            raise FormatError(f"sample {str(row.get('id'))[:60]!r}: {error}.", path=path) from None


def _sample(number: int, row: Mapping[str, object], fields: Fields) -> LoggedSample:
    stored = row.get("store")
    store: Mapping[str, object] = stored if isinstance(stored, dict) else {}
    kept = next((store[key] for key in STORE_KEYS if key in store), None)
    prediction = None if kept is None else Prediction.from_json(kept)
    if prediction is not None:
        return LoggedSample(number, prediction.question_id, prediction.answer, prediction)
    scores, output = row.get("scores"), row.get("output")
    extracted = [
        {"pred": score.get("answer")}
        for score in (scores.values() if isinstance(scores, dict) else ())
        if isinstance(score, dict)
    ]
    name = fields.question_id(dict(row), [row.get("metadata"), row])
    response = fields.response(dict(row), extracted, _completion(output))
    error = row.get("error")
    message = str(error.get("message", "error"))[:500] if isinstance(error, dict) else None
    return LoggedSample(number, name, response or None, error=message)


def _completion(output: object) -> object:
    """What the model wrote: inspect_ai keeps it beside the choices, and in the message of the first of them."""
    if not isinstance(output, dict):
        return None
    if isinstance(output.get("completion"), str):
        return output["completion"]
    choices = output.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(text for text in texts if isinstance(text, str))
    return content


def _rows(path: Path, on_progress: Callable[[int, int], None] | None) -> Iterator[dict[str, object]]:
    if path.suffix.lower() == ".json":
        yield from _json_rows(path)
        return
    with open_zip(path) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json"))
        if not names:
            raise InputError(f"{path}: no samples in this log; did the evaluation end before the first?")
        for done, name in enumerate(names, start=1):
            yield loose_object(read_member(archive, archive.getinfo(name)), path=path)
            if on_progress is not None:
                on_progress(done, len(names))


def _json_rows(path: Path) -> list[dict[str, object]]:
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise InputError(f"{path}: larger than {MOST_JSON_BYTES} bytes; log to .eval, which is read in parts.")
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    rows = loose_object(raw, path=path).get("samples")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: no samples in this log; is it one of inspect_ai?")
    return rows
