"""The items of a bench, column by column: a million of them in a few hundred bytes each, without their words.

Everything an audit depends on is here. Questions and options are not; whoever shows them reads them from the bench.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, cast, overload

import numpy as np

from trace_ves.core.interval import Interval
from trace_ves.core.question import LETTERS, Question
from trace_ves.records.item import Item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Integers = NDArray[np.integer[Any]]
    Floats = NDArray[np.float64]

GROUP_KEYS: Final = ("duration_group", "domain", "category", "question_types")
"""Keys of a bench line whose values are words, or lists of words where a question stands in several groups."""
NO_ANSWER: Final = -1
"""Where the letter of an answer should be, for no answer."""
NO_LETTER: Final = -2
"""The same for an answer that is no letter of an option: nobody can give it."""


class Texts(Sequence[str]):
    """Many strings as one block of bytes."""

    __slots__ = ("_block", "_ends")

    def __init__(self, block: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._block = block
        self._ends = ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """These strings."""
        block, ends = bytearray(), array("q")
        for text in texts:
            block += text.encode("utf-8", "surrogatepass")
            ends.append(len(block))
        return cls(np.frombuffer(block, np.uint8), np.array(ends, np.int64))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        start = self._ends[place - 1] if place else 0
        return self._block[start : self._ends[place]].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        block, start = self._block.tobytes(), 0
        for end in self._ends.tolist():
            yield block[start:end].decode("utf-8", "surrogatepass")
            start = end

    def equal(self, places: NDArray[np.integer[Any]], texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether the string at each place is this text."""
        wanted = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = self._ends[places]
        starts = np.where(places > 0, self._ends[places - 1], 0)
        lengths = np.fromiter(map(len, wanted), np.int64, len(wanted))
        found: NDArray[np.bool_] = ends - starts == lengths
        first = np.cumsum(lengths) - lengths
        here = np.repeat(starts - first, lengths) + np.arange(lengths.sum())
        differs = self._block[np.minimum(here, len(self._block) - 1)] != np.frombuffer(b"".join(wanted), np.uint8)
        found[np.repeat(np.arange(len(wanted)), lengths)[differs]] = False
        return found

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes, and where each string ends."""
        return self._block, self._ends


@dataclass(frozen=True, slots=True, eq=False)
class ItemTable:
    """The items of a bench in order of their ids."""

    ids: Texts
    video: NDArray[np.int32]
    """The place of each item's video in `videos`."""
    videos: Texts
    family: NDArray[np.int32]
    """The place of each item's family in `families`."""
    families: tuple[str, ...]
    answer: NDArray[np.int32]
    """The place of each item's answer in `answers`."""
    answers: tuple[str | None, ...]
    options: NDArray[np.int32]
    """How many options each question has."""
    duration: Floats
    precision: Floats
    """Seconds by which each duration may be off."""
    slack: Floats
    """Seconds by which a moment may lie beyond the duration."""
    evidence_at: NDArray[np.int64]
    """Where the intervals of each item begin in `start` and `end`; one more for the end of the last."""
    start: Floats
    end: Floats
    evidence_seconds: Floats
    """The length of the union of each item's evidence."""
    groups: Mapping[str, Mapping[str, NDArray[np.int32]]] = field(default_factory=dict)
    """For each group key that the bench has and each of its values: the items that stand in the group."""

    @classmethod
    def of(cls, items: Iterable[Item]) -> ItemTable:
        """The table of these items."""
        builder = ItemTableBuilder()
        for item in items:
            builder.add(item)
        return builder.table()

    def __len__(self) -> int:
        return len(self.ids)

    def evidence(self, at: int) -> tuple[Interval, ...]:
        """The evidence of one item."""
        here = slice(self.evidence_at[at], self.evidence_at[at + 1])
        pairs = zip(self.start[here].tolist(), self.end[here].tolist(), strict=True)
        return tuple(Interval(start, end) for start, end in pairs)

    def bare_item(self, at: int) -> Item:
        """One item without its words: question and options are empty strings."""
        return Item(
            Question(
                self.ids[at],
                self.videos[int(self.video[at])],
                "",
                ("",) * int(self.options[at]),
                self.families[self.family[at]],
            ),
            cast("str", self.answers[self.answer[at]]),  # a caller's own item may have none
            self.evidence(at),
            float(self.duration[at]),
            duration_precision=float(self.precision[at]),
        )

    def bare_items(self) -> Iterator[Item]:
        """All of them, one after another."""
        return (self.bare_item(at) for at in range(len(self)))

    @property
    def intervals(self) -> NDArray[np.int64]:
        """How many evidence intervals each item has."""
        return np.diff(self.evidence_at)

    @property
    def letter(self) -> NDArray[np.int8]:
        """The right answer of each item as the place of its letter, `NO_ANSWER` or `NO_LETTER`."""
        return np.array([letter_place(answer) for answer in self.answers], np.int8)[self.answer]

    def save(self, folder: Path) -> None:
        """Write the columns to a folder, for `load`; the groups are left out."""
        for each in fields(self):
            value: Any = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                np.save(folder / f"{each.name}.npy", value)
            elif isinstance(value, Texts):
                block, ends = value.arrays
                np.save(folder / f"{each.name}.block.npy", block)
                np.save(folder / f"{each.name}.ends.npy", ends)
        words = {"families": self.families, "answers": self.answers}
        (folder / "words.json").write_text(json.dumps(words), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> ItemTable:
        """What `save` wrote; the columns stay on disk, and processes share the memory that holds them."""
        found: dict[str, Any] = json.loads((folder / "words.json").read_text(encoding="utf-8"))
        found = {key: tuple(value) for key, value in found.items()}
        for each in fields(cls):
            if each.name in {"ids", "videos"}:
                block, ends = (_mapped(folder / f"{each.name}.{part}.npy") for part in ("block", "ends"))
                found[each.name] = Texts(block, ends)
            elif each.name not in {*found, "groups"}:
                found[each.name] = _mapped(folder / f"{each.name}.npy")
        return cls(**found)


def _mapped(path: Path) -> NDArray[Any]:
    try:
        mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:  # nothing to map where an array is empty
        mapped = np.load(path, allow_pickle=False)
    return mapped


def letter_place(answer: str | None) -> int:
    """An answer as the place of its letter, from 0 for A."""
    if answer is None:
        return NO_ANSWER
    return LETTERS.index(answer) if len(answer) == 1 and answer in LETTERS else NO_LETTER


class ItemTableBuilder:
    """Takes items one at a time and keeps none of them."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._codes: dict[str, dict[Any, int]] = {"video": {}, "family": {}, "answer": {}}
        self._coded = {key: array("i") for key in self._codes}
        self._numbers = {key: array("d") for key in ("duration", "precision", "slack", "evidence_seconds")}
        self._options = array("i")
        self._intervals = array("q")
        self._ends = array("d"), array("d")
        self._groups: dict[str, dict[str, array[int]]] = {}

    def add(self, item: Item) -> None:
        """Take one more item."""
        question, at = item.question, len(self._ids)
        self._ids.append(question.id)
        for key, value in (("video", question.video), ("family", question.family), ("answer", item.answer)):
            codes = self._codes[key]
            self._coded[key].append(codes.setdefault(value, len(codes)))
        numbers = self._numbers
        numbers["duration"].append(item.duration)
        numbers["precision"].append(item.duration_precision)
        numbers["slack"].append(item.slack_seconds)
        numbers["evidence_seconds"].append(_union_seconds(item.evidence))
        self._options.append(len(question.options))
        self._intervals.append(len(item.evidence))
        for interval in item.evidence:
            self._ends[0].append(interval.start)
            self._ends[1].append(interval.end)
        if item.extra:
            for key in GROUP_KEYS:
                for word in _words(item.extra.get(key)):
                    self._groups.setdefault(key, {}).setdefault(word, array("i")).append(at)

    def table(self) -> ItemTable:
        """The items that were taken, in order of their ids."""
        order = np.array(sorted(range(len(self._ids)), key=self._ids.__getitem__), np.int64)
        intervals = np.array(self._intervals, np.int64)
        first = np.concatenate([[0], np.cumsum(intervals)])
        evidence_at = np.concatenate([[0], np.cumsum(intervals[order])])
        place = np.repeat(first[order] - evidence_at[:-1], intervals[order]) + np.arange(evidence_at[-1])
        columns: dict[str, Any] = {key: np.array(values)[order] for key, values in self._numbers.items()}
        columns |= {key: np.array(values, np.int32)[order] for key, values in self._coded.items()}
        return ItemTable(
            ids=Texts.of(self._ids[at] for at in order.tolist()),
            videos=Texts.of(self._codes["video"]),
            families=tuple(self._codes["family"]),
            answers=tuple(self._codes["answer"]),
            options=np.array(self._options, np.int32)[order],
            evidence_at=evidence_at,
            start=np.array(self._ends[0])[place],
            end=np.array(self._ends[1])[place],
            groups=self._ordered_groups(order),
            **columns,
        )

    def _ordered_groups(self, order: NDArray[np.int64]) -> dict[str, dict[str, NDArray[np.int32]]]:
        """The groups with their items in order, the key that comes first in front."""
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        found = {
            key: {word: np.sort(rank[np.array(at, np.int32)]) for word, at in words.items()}
            for key, words in self._groups.items()
        }
        first = {key: min(at[0] for at in words.values()) for key, words in found.items()}
        return {key: found[key] for key in sorted(found, key=lambda key: (first[key], GROUP_KEYS.index(key)))}


def _words(value: object) -> list[str]:
    """The groups that a value names; what is no word or whole number names none."""
    values = value if isinstance(value, list) else [value]
    return [str(each) for each in values if isinstance(each, (str, int)) and not isinstance(each, bool) and each != ""]


def _union_seconds(evidence: Sequence[Interval]) -> float:
    """`union_length` without making intervals: this runs for every question of a large bench."""
    lengths: list[float] = []
    first = last = -1.0
    for start, end in sorted((interval.start, interval.end) for interval in evidence):
        if start <= last:
            last = max(last, end)
            continue
        lengths.append(last - first)
        first, last = start, end
    return math.fsum([*lengths, last - first])
