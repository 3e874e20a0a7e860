"""The history of a build, and the state that follows from it. Pure: knows no database and no meaning of the values.

A history is a list of entries. Each sets one slot of one subject; an undo is a further entry, never an erasure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trace_ves.core import TraceVesError

if TYPE_CHECKING:
    from collections.abc import Iterable

Value = Mapping[str, Any] | None
"""What stands in a slot, ready for JSON; None where nothing stands there."""


class StaleError(TraceVesError):
    """Somebody else changed the same thing first; nothing was written."""


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody wants to write."""

    subject: str
    slot: str
    who: str
    after: Value
    expected: int | None = None
    """The revision that the writer saw; another one refuses the change. None writes whatever stands there."""
    seconds: float = 0.0
    """Time that a person spent on it."""
    calls: tuple[Mapping[str, Any], ...] = ()
    """The model calls behind it, each with the spec of its backbone."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history: who, when, what, before and after."""

    number: int
    at: float
    """Seconds since 1970, UTC."""
    who: str
    subject: str
    slot: str
    revision: int
    """Counts the entries of this slot from 1."""
    before: Value
    after: Value
    undoes: int | None = None
    """The revision that this entry takes back."""
    seconds: float = 0.0
    calls: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """What stands in one slot of a subject."""

    revision: int = 0
    standing: tuple[Entry, ...] = ()
    """Entries that were not taken back, the newest last."""

    @property
    def value(self) -> Value:
        """What stands there now."""
        return self.standing[-1].after if self.standing else None

    def with_entry(self, entry: Entry) -> Slot:
        """The slot after one more entry."""
        kept = (*self.standing, entry) if entry.undoes is None else self.standing[:-1]
        return Slot(entry.revision, kept)


class Ledger:
    """All entries in the order they were written, and what stands after them."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = []
        self._slots: dict[str, dict[str, Slot]] = defaultdict(dict)
        self._counts: dict[str, int] = defaultdict(int)
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Take in one more entry."""
        self.entries.append(entry)
        slots = self._slots[entry.subject]
        slots[entry.slot] = slots.get(entry.slot, Slot()).with_entry(entry)
        self._counts[entry.subject] += 1

    @property
    def last_number(self) -> int:
        """The number of the newest entry."""
        return self.entries[-1].number if self.entries else 0

    def subjects(self, slot: str) -> list[str]:
        """Subjects in which this slot was ever written, in the order they came."""
        return [subject for subject, slots in list(self._slots.items()) if slot in slots]

    def slot(self, subject: str, slot: str) -> Slot:
        """A slot, empty where nothing was ever written."""
        return self._slots.get(subject, {}).get(slot, Slot())

    def value(self, subject: str, slot: str) -> Value:
        """What stands in a slot."""
        return self.slot(subject, slot).value

    def standing(self, subject: str, prefix: str) -> dict[str, Entry]:
        """The newest standing entry of every slot `prefix/…` of a subject, by what follows the prefix."""
        return {
            name.removeprefix(prefix + "/"): slot.standing[-1]
            for name, slot in list(self._slots.get(subject, {}).items())
            if name.startswith(prefix + "/") and slot.standing
        }

    def count(self, subject: str) -> int:
        """Entries of a subject; grows with every change of it."""
        return self._counts.get(subject, 0)

    def next_entry(self, change: Change, *, number: int, at: float) -> Entry:
        """The entry that a change becomes; a `StaleError` where somebody was faster."""
        slot = self.slot(change.subject, change.slot)
        self._need(slot, change.subject, change.expected)
        return Entry(
            number=number,
            at=at,
            who=change.who,
            subject=change.subject,
            slot=change.slot,
            revision=slot.revision + 1,
            before=slot.value,
            after=change.after,
            seconds=change.seconds,
            calls=change.calls,
        )

    def undo_entry(self, subject: str, name: str, who: str, *, number: int, at: float) -> Entry:
        """The entry that takes back the newest standing one, which must be of the same person."""
        slot = self.slot(subject, name)
        if not slot.standing:
            raise StaleError(f"{subject}: there is nothing to undo.")
        newest = slot.standing[-1]
        if newest.who != who:
            raise StaleError(f"{subject}: the newest judgement is of somebody else, and only they can undo it.")
        before_it = slot.standing[-2].after if len(slot.standing) > 1 else None
        return Entry(number, at, who, subject, name, slot.revision + 1, newest.after, before_it, newest.revision)

    def _need(self, slot: Slot, subject: str, expected: int | None) -> None:
        if expected is not None and expected != slot.revision:
            raise StaleError(f"{subject}: somebody changed this since it was shown; look at it again.")
