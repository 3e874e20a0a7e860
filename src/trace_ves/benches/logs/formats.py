"""Readers of the logs of lmms-eval, VLMEvalKit and inspect_ai, which need not be installed."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from trace_ves.benches.importing import parse_places, read_json, read_json_rows
from trace_ves.core.errors import FormatError, InputError, MissingExtraError, wrap_os_errors
from trace_ves.core.files import read_csv
from trace_ves.core.jsonl import parse_loose_object, read_jsonl
from trace_ves.records import Prediction
from trace_ves.records.base import FieldError, get_text, get_value, quote

Progress = Callable[[int, int], None] | None

ID_KEYS: Final = ("question_id", "qid", "uid", "id")
"""Keys that may hold the id of a question, in order of preference."""
ANSWER_KEYS: Final = ("pred_answer", "parsed_pred", "pred", "prediction", "model_answer")
"""Keys that may hold the model's answer; in all tools, `answer` is the right answer."""


@dataclass(frozen=True, slots=True)
class LoggedSample:
    """One sample of a log."""

    number: int  # its line, row or position in the file, from 1
    question_id: str | None  # None if the log has no ids; the question is then found by `prompt`
    response: str | None
    """The answer that the tool extracted, else what the model wrote."""
    raw: str | None = None  # what the model wrote
    prediction: Prediction | None = None
    """The run line, if the log contains one."""
    error: str | None = None
    target: str | None = None  # the right answer according to the log
    groups: Mapping[str, object] = field(default_factory=dict)
    """Group keys in the log, such as the duration class."""
    prompt: str | None = None  # the text sent to the model


@dataclass(frozen=True, slots=True)
class Fields:
    """The paths of the id and the answer from `--fields`: `id=doc.qid,answer=scores.mcq.answer`."""

    paths: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> Fields:
        """Parse `--fields`."""
        return cls(parse_places("--fields", text, {"id", "answer"}, "id=PATH,answer=PATH, such as id=doc.qid"))

    def question_id(self, row: Mapping[str, object], places: Sequence[object]) -> str:
        """The id of a row: at the path of --fields, else under the first of `ID_KEYS` in these places."""
        if path := self.paths.get("id"):
            return get_text(row, path)
        value = first_of(places, ID_KEYS)
        if value is None:
            raise FieldError("it has no question id; give its path with --fields id=PATH")
        return get_text({"id": value}, "id")

    def response(self, row: Mapping[str, object], places: Sequence[object], default: object) -> str | None:
        """The answer of a row: at the path of --fields, else under one of `ANSWER_KEYS`, else `default`."""
        path = self.paths.get("answer")
        value = get_value(row, path) if path else first_of(places, ANSWER_KEYS)
        return _first_text(default if value is None else value)


def first_of(places: Sequence[object], keys: Sequence[str]) -> object:
    """The first value under one of these keys in one of these objects that is not null, else None."""
    for key in keys:
        for place in places:
            if isinstance(place, dict) and place.get(key) is not None:
                return place[key]
    return None


def _first_text(value: object) -> str | None:
    """The text of a response; of several responses the first, which lmms-eval scores."""
    while isinstance(value, list) and value and isinstance(value[0], (str, list)):
        value = value[0]
    if value is None or value == []:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise FieldError(f"the answer must be text, found {quote(value)}")
    return str(value)


def _text(value: object) -> str | None:
    """A text, which may be nested in lists of length one; None for anything else."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else None


_GROUPS: Final = {"duration_group": ("duration_group", "duration"), "category": ("category", "domain")}
"""Group keys of a bench, and their keys in the logs of lmms-eval."""
_LMMS_EVAL_KEYS = frozenset({"doc", "arguments", "resps", "filtered_resps", "token_counts", "input_media", "target"})


def lmms_eval_samples(path: Path, fields: Fields, on_progress: Progress) -> Iterator[LoggedSample]:
    """lmms-eval: the lines of a `*_samples_TASK.jsonl`; the metrics contain what the task returned, often the id."""
    for number, row in read_jsonl(path, parse=parse_loose_object, on_progress=on_progress):
        metrics = [value for key, value in row.items() if key not in _LMMS_EVAL_KEYS and isinstance(value, dict)]
        places, prompt = [*metrics, row.get("doc"), row], _text(row.get("input"))
        has_id = "id" in fields.paths or first_of(places, ID_KEYS) is not None or prompt is None
        try:
            name = fields.question_id(row, places) if has_id else None
            raw = row.get("filtered_resps", row.get("resps"))
            response = fields.response(row, metrics, raw)
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=number) from None
        groups = {key: first_of(places[:-1], names) for key, names in _GROUPS.items()}
        yield LoggedSample(
            number,
            name,
            response,
            _text(row.get("resps", raw)),
            target=_text(row.get("target")),
            groups={key: value for key, value in groups.items() if isinstance(value, str)},
            prompt=prompt,
        )


FAILURE: Final = "Failed to obtain answer"
"""What VLMEvalKit writes instead of an answer if a model call failed."""
MOST_TABLE_BYTES: Final = 1024**3


def vlmevalkit_samples(path: Path, fields: Fields, on_progress: Progress) -> Iterator[LoggedSample]:
    """VLMEvalKit: the rows of a table of predictions. Its column `index` is a row number, not a question id."""
    reader = _TABLE_READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: must end with {', '.join(_TABLE_READERS)}; a .pkl file could run code.")
    for number, row in enumerate(rows := reader(path), start=2):  # line 1 has the names of the columns
        try:
            name = fields.question_id(row, [row])
            response = fields.response(row, [{"prediction": row.get("prediction")}], None)
        except FieldError as error:
            raise FormatError(f"{error}.", path=path, line=number) from None
        failed = response is not None and response.startswith(FAILURE)
        answer = None if failed else response
        yield LoggedSample(number, name, answer, answer, error=response if failed else None)
        if on_progress is not None:
            on_progress(number - 1, len(rows))


def _vlmevalkit_xlsx(path: Path) -> list[dict[str, object]]:
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]  # an optional part
    except ImportError:
        raise MissingExtraError("Reading .xlsx tables", "logs") from None
    refuse_large(path, MOST_TABLE_BYTES)
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        lines = [list(line) for line in book.worksheets[0].iter_rows(values_only=True)]
        book.close()
    except Exception as error:  # noqa: BLE001  openpyxl raises many kinds of errors for a damaged file
        raise InputError(f"{path}: cannot be read as .xlsx: {str(error) or type(error).__name__}.") from None
    if not lines:
        raise InputError(f"{path}: the first sheet is empty.")
    head = [str(name) for name in lines[0]]
    return [dict(zip(head, line, strict=False)) for line in lines[1:] if any(cell is not None for cell in line)]


_TABLE_READERS: Final[dict[str, Callable[[Path], list[dict[str, object]]]]] = {
    ".xlsx": _vlmevalkit_xlsx,
    ".tsv": partial(read_csv, delimiter="\t"),
    ".csv": partial(read_csv, delimiter=","),
    ".json": read_json_rows,
}


STORE_KEY: Final = "trace_ves:prediction"  # the key of a run line in a sample's store


def inspect_samples(path: Path, fields: Fields, on_progress: Progress) -> Iterator[LoggedSample]:
    """inspect_ai: the samples of the first epoch of a `.eval` or `.json` log; our own run lines are used unchanged."""
    for number, row in enumerate(_inspect_rows(path, on_progress), start=1):
        if row.get("epoch", 1) != 1:
            continue
        try:
            yield _inspect_sample(number, row, fields)
        except FieldError as error:
            raise FormatError(f"sample {str(row.get('id'))[:60]!r}: {error}.", path=path) from None


def _inspect_sample(number: int, row: Mapping[str, object], fields: Fields) -> LoggedSample:
    if (stored := first_of([row.get("store")], [STORE_KEY])) is not None:
        prediction = Prediction.from_json(stored)
        return LoggedSample(number, prediction.question_id, prediction.answer, prediction=prediction)
    scores = row.get("scores")
    answers = [first_of([score], ["answer"]) for score in (scores.values() if isinstance(scores, dict) else ())]
    name = fields.question_id(row, [row.get("metadata"), row])
    completion = first_of([row.get("output")], ["completion"])
    response = fields.response(row, [{"pred": answer} for answer in answers], completion)
    error = row.get("error")
    message = str(error.get("message", "error"))[:500] if isinstance(error, dict) else None
    return LoggedSample(number, name, response or None, _text(completion), error=message)


def _inspect_rows(path: Path, on_progress: Progress) -> Iterator[dict[str, object]]:
    if path.suffix.lower() == ".json":
        content = read_json(path)
        rows = content.get("samples") if isinstance(content, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError(f"{path}: no samples in this log; is it one of inspect_ai?")
        yield from rows
        return
    with open_zip(path) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json"))
        if not names:
            raise InputError(f"{path}: no samples in this log; did the evaluation end before the first?")
        for done, name in enumerate(names, start=1):
            try:
                yield parse_loose_object(read_member(archive, archive.getinfo(name)))
            except ValueError as error:
                raise FormatError(f"{error}.", path=path) from None
            if on_progress is not None:
                on_progress(done, len(names))


MOST_MEMBER_BYTES: Final = 256 * 1024 * 1024
ZSTANDARD: Final = 93  # the number of this compression in the zip format; Python supports it from version 3.14


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip file; an `InputError` if it is none."""
    try:
        with wrap_os_errors(path, "read"):
            return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError) as error:
        raise InputError(f"{path}: not a zip file: {error}.") from None


def refuse_large(path: Path, most_bytes: int) -> None:
    """Refuse an archive whose total unpacked size exceeds this limit."""
    with open_zip(path) as archive:
        total = sum(member.file_size for member in archive.infolist())
    if total > most_bytes:
        raise InputError(f"{path}: it would unpack to {total} bytes; the limit is {most_bytes}.")


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Read one member of at most `MOST_MEMBER_BYTES`."""
    where = f"{archive.filename}, {member.filename}"
    if member.file_size > MOST_MEMBER_BYTES:
        raise InputError(f"{where}: it would unpack to {member.file_size} bytes; the limit is {MOST_MEMBER_BYTES}.")
    try:
        return _decompress(archive, member, where) if member.compress_type == ZSTANDARD else archive.read(member)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise InputError(f"{where}: cannot be unpacked: {error}.") from None


def _decompress(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> bytes:
    """Decompress a member with Zstandard, which Python's zipfile can only return as stored."""
    try:
        import zstandard  # an optional part
    except ImportError:
        raise MissingExtraError(f"{where}: reading logs with Zstandard compression", "logs") from None
    stored = copy(member)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, member.compress_size
    del stored.CRC  # the checksum of the unpacked content
    try:
        with zstandard.ZstdDecompressor().stream_reader(archive.read(stored), read_across_frames=True) as stream:
            content = stream.read(member.file_size + 1)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    if len(content) != member.file_size:
        raise ValueError("its size differs from the size in the archive")
    return content


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The reader of one tool's logs."""

    patterns: tuple[str, ...]  # files to read in a folder: those of the first pattern with a match
    samples: Callable[[Path, Fields, Progress], Iterator[LoggedSample]]


LOG_FORMATS: Final = {
    "lmms-eval": LogFormat(("*samples_*.jsonl", "*samples_*.jsonl.gz", "*.jsonl"), lmms_eval_samples),
    "vlmevalkit": LogFormat(("*.xlsx", "*.tsv", "*.csv", "*.json"), vlmevalkit_samples),
    "inspect": LogFormat(("*.eval", "*.json"), inspect_samples),
}
"""The formats of `trace-ves audit --format`."""
