"""The history of a build in memory: entries, and the slots and values derived from them.

An undo is another entry. Subjects are items (`c3b16ee91`), videos (`video:…`) and people (`person:…`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from trace_ves.core import TraceVesError
from trace_ves.records import Call

T = TypeVar("T")
Value = Mapping[str, Any] | None  # the JSON value of a slot; None if it is empty

MACHINE: Final = "build"  # the author of entries written by commands


class Stage(StrEnum):
    """The paper's stages, in their order."""

    PROPOSAL = "proposal"
    VERIFICATION = "visual-verification"
    LEAVE_ONE_OUT = "leave-one-out"
    SHORTCUT = "shortcut-probe"
    ADJUDICATION = "adjudication"


PROPOSAL_SLOT: Final = "proposal"
LANGUAGE_SLOT: Final = "shortcut/language-only"
GIST_SLOT: Final = "shortcut/gist"
GOLD_SLOT: Final = "gold"
EVERYTHING: Final = ""  # the subject of values derived from all entries
SUMMARY_SLOT: Final = "gist"  # the caption of a whole video
# Judgements by people: verification/WHO, without/WHO/INTERVAL, settlement/KIND, skip/WHO. The model's are in
# probe/INTERVAL, and seat/ASSIGNMENT/NUMBER says who holds an assignment.
JUDGEMENT_SLOTS: Final = ("verification/", "without/", "settlement/", "skip/")


def video_subject(video: str) -> str:
    """The subject of a video."""
    return f"video:{video}"


class StaleError(TraceVesError):
    """Another writer has changed the slot; nothing was written."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change to write."""

    subject: str
    slot: str
    who: str
    after: Value
    expected: int | None = None  # the revision that the writer saw; the change is refused if it has changed
    seconds: float = 0.0  # time that the author spent on it
    calls: tuple[Mapping[str, Any], ...] = ()  # the model calls behind it, each with the spec of its backbone


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One entry of the history: who changed what, when, from and to which value."""

    number: int
    at: float  # seconds since 1970, UTC
    who: str
    subject: str
    slot: str
    revision: int  # number of this entry in its slot, from 1
    before: Value
    after: Value
    undoes: int | None = None  # the revision that this entry undoes
    seconds: float = 0.0
    calls: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a subject."""

    revision: int = 0
    entries: tuple[LedgerEntry, ...] = ()  # entries that were not undone, the newest last

    @property
    def value(self) -> Value:
        """The current value."""
        return self.entries[-1].after if self.entries else None


class Ledger:
    """All entries in order, and the current slots."""

    def __init__(self) -> None:
        self.entries: list[LedgerEntry] = []
        self._slots: dict[str, dict[str, Slot]] = defaultdict(dict)
        self._changed: dict[str, int] = {}  # the number of each subject's newest entry
        self._derived: dict[str, tuple[int | None, Any]] = {}

    def add(self, entry: LedgerEntry) -> None:
        """Append one entry."""
        self.entries.append(entry)
        before = self.slot(entry.subject, entry.slot).entries
        entries = (*before, entry) if entry.undoes is None else before[:-1]
        self._slots[entry.subject][entry.slot] = Slot(entry.revision, entries)
        self._changed[entry.subject] = self._changed[EVERYTHING] = entry.number

    @property
    def last_number(self) -> int:
        """The number of the newest entry."""
        return self.entries[-1].number if self.entries else 0

    def subjects(self, slot: str) -> list[str]:
        """Subjects with this slot, in the order of their first entries."""
        return [subject for subject, slots in list(self._slots.items()) if slot in slots]

    def slot(self, subject: str, slot: str) -> Slot:
        """A slot, empty if it was never written."""
        return self._slots.get(subject, {}).get(slot, Slot())

    def value(self, subject: str, slot: str) -> Value:
        """The current value of a slot."""
        return self.slot(subject, slot).value

    def current(self, subject: str, prefix: str) -> dict[str, LedgerEntry]:
        """The current entry of each slot `prefix/…` of a subject, by the rest of the slot's name."""
        return {
            name.removeprefix(prefix + "/"): slot.entries[-1]
            for name, slot in list(self._slots.get(subject, {}).items())
            if name.startswith(prefix + "/") and slot.entries
        }

    def holders(self, item: str, assignment: str) -> dict[str, str]:
        """The holders of an assignment of an item, each with the number of their slot."""
        seats = self.current(item, f"seat/{assignment}").items()
        return {str(entry.after["who"]): number for number, entry in seats if entry.after and "who" in entry.after}

    def caption(self, video: str, slot: str = SUMMARY_SLOT) -> str | None:
        """A caption of a video, by default its summary; None if it is missing."""
        value = self.value(video_subject(video), slot)
        return None if value is None else value.get("caption")

    def derive(self, subject: str, make: Callable[[Ledger, str], T]) -> T:
        """The cached result of `make` for a subject, computed again after its entries change; one value per subject."""
        changed = self._changed.get(subject)
        known = self._derived.get(subject)
        if known is None or known[0] != changed:
            known = self._derived[subject] = changed, make(self, subject)
        value: T = known[1]
        return value

    def judgements(self, item: str, who: str | None = None) -> list[LedgerEntry]:
        """The current judgements of an item, by one person or by all."""
        return [
            entry
            for prefix in JUDGEMENT_SLOTS
            for entry in self.current(item, prefix.rstrip("/")).values()
            if who is None or entry.who == who
        ]

    def calls(self) -> Iterator[tuple[str, Call]]:
        """Every model call, with its backbone."""
        for entry in self.entries:
            for call in entry.calls:
                yield str(call["backbone"]), Call.from_json(call)

    def next_entry(self, change: Change, *, number: int, at: float) -> LedgerEntry:
        """The entry for a change; a `StaleError` if the slot has another revision than expected."""
        slot = self.slot(change.subject, change.slot)
        if change.expected is not None and change.expected != slot.revision:
            raise StaleError(f"{change.subject}: this has changed since you opened it; look at it again.")
        revision, seconds, calls = slot.revision + 1, change.seconds, change.calls
        fields = change.who, change.subject, change.slot, revision
        return LedgerEntry(number, at, *fields, slot.value, change.after, seconds=seconds, calls=calls)

    def undo_entry(self, subject: str, name: str, who: str, *, number: int, at: float) -> LedgerEntry:
        """The entry that undoes the newest entry of a slot; only its author may undo it."""
        slot = self.slot(subject, name)
        if not slot.entries:
            raise StaleError(f"{subject}: there is nothing to undo.")
        newest = slot.entries[-1]
        if newest.who != who:
            raise StaleError(f"{subject}: the newest judgement is by another annotator, and only they can undo it.")
        previous = slot.entries[-2].after if len(slot.entries) > 1 else None
        return LedgerEntry(number, at, who, subject, name, slot.revision + 1, newest.after, previous, newest.revision)
