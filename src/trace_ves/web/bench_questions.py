"""The questions of a large bench, each read from its line when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from trace_ves.core import InputError
from trace_ves.core.jsonl import parse_object
from trace_ves.records import Item
from trace_ves.records.item_table import Texts
from trace_ves.records.kept import Kept
from trace_ves.records.run_index import BYTE_ORDER_MARK
from trace_ves.web.listing import QuestionColumns, QuestionInfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_REMEMBERED: Final = 4096
"""Questions that stay in memory once they were read."""


class BenchQuestions(Mapping[str, QuestionInfo]):
    """The usable questions of a bench file that does not change."""

    def __init__(self, path: Path, kept: Kept) -> None:
        """`kept` is what `kept_questions` made of the same file; a `ValueError` where it cannot be that."""
        self._path = path
        self._offset, self._length = (kept.column(name, np.int64) for name in ("offset", "length"))
        self._ids = kept.texts("ids")
        self._places = dict(zip(self._ids, range(len(self._ids)), strict=True))
        family, families = kept.column("family", np.int64), kept.facts["families"]
        has_evidence = kept.column("has_evidence", np.bool_)
        count = len(self._ids)
        if (
            {len(self._places), len(self._offset), len(self._length), len(family), len(has_evidence)} != {count}
            or not all(isinstance(word, str) for word in families)
            or np.any((family < 0) | (family >= len(families)))
            or np.any(self._offset < 0)
            or np.any((self._length < 0) | (self._length > path.stat().st_size))
        ):
            raise ValueError("not the questions of a bench")
        self.columns: Final = QuestionColumns(
            self,
            self._ids,
            has_item=np.ones(count, np.bool_),
            has_evidence=has_evidence,
            families=[families[code] for code in family.tolist()],
        )
        self._read = lru_cache(MOST_REMEMBERED)(self._read_line)

    def __getitem__(self, question_id: str) -> QuestionInfo:
        return self._read(self._places[question_id])

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def _read_line(self, at: int) -> QuestionInfo:
        try:
            with self._path.open("rb") as file:
                file.seek(int(self._offset[at]))
                item = Item.from_json(parse_object(file.read(int(self._length[at]))))
        except (OSError, ValueError):
            item = None
        if item is None or item.question.id != self._ids[at]:
            raise InputError(f"{self._path}: the bench was changed while its page was open; start the page again.")
        return QuestionInfo.of_item(item)


def kept_questions(path: Path, infos: Mapping[str, QuestionInfo]) -> Kept:
    """What is kept of a bench file whose usable questions are these."""
    names, offsets, lengths, offset = [], [], [], 0
    with path.open("rb") as file:
        for raw in file:
            text = raw if offset else raw.removeprefix(BYTE_ORDER_MARK)
            name = "" if text.isspace() else str(parse_object(text)["id"])
            if name in infos:
                names.append(name)
                offsets.append(offset + len(raw) - len(text))
                lengths.append(len(text))
            offset += len(raw)
    families: dict[str, int] = {}
    codes = [families.setdefault(infos[name].question.family, len(families)) for name in names]
    block, ends = Texts.of(names).arrays
    return Kept(
        {"families": list(families)},
        {
            "ids.block": block,
            "ids.ends": ends,
            "offset": np.array(offsets, np.int64),
            "length": np.array(lengths, np.int64),
            "family": np.array(codes, np.int64),
            "has_evidence": np.array([bool(infos[name].evidence) for name in names], np.bool_),
        },
    )
