"""Which requests of a batch can be answered from one prefill: rows whose frames begin another row's, token for token.

Knows tokens and the names of frames. Knows nothing of torch: a plan is made of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Row:
    """One request as the model reads it."""

    ids: tuple[int, ...]
    """All tokens of the prompt; a frame takes as many as the model gives it."""
    frames: tuple[str, ...]
    """What identifies the picture of each frame, in order."""
    prefix_tokens: int
    """Tokens up to the end of the last frame; what follows is words alone. 0 for a request without frames."""

    def __post_init__(self) -> None:
        if not 0 <= self.prefix_tokens < len(self.ids):
            raise ValueError(f"a row of {len(self.ids)} tokens cannot have a prefix of {self.prefix_tokens}")

    @property
    def own_ids(self) -> tuple[int, ...]:
        """The words after the last frame."""
        return self.ids[self.prefix_tokens :]

    def begins(self, other: Row) -> bool:
        """Whether everything up to the last frame of this row is the beginning of the other's."""
        return (
            self.prefix_tokens <= other.prefix_tokens
            and self.frames == other.frames[: len(self.frames)]
            and self.ids[: self.prefix_tokens] == other.ids[: self.prefix_tokens]
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where the prefix of a row lies in the store in which every distinct prefix stands once."""

    leader: int
    """The row whose prefill this row is answered from; its own number where it is prefilled itself."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Forest:
    """Rows that are decoded together, and where the prefix of each is found."""

    rows: tuple[Row, ...]
    places: tuple[Place, ...]

    @property
    def leaders(self) -> tuple[int, ...]:
        """The rows that are prefilled, in the order in which their prefixes are stored."""
        found = {place.leader for place in self.places}
        return tuple(sorted(found, key=lambda row: self.places[row].start))

    @property
    def prefix_tokens(self) -> int:
        """Length of the store."""
        return max((place.end for place in self.places), default=0)


def plant(rows: Sequence[Row]) -> Forest:
    """The plan for a batch: the longest rows lead, and each other row follows the first leader that it begins."""
    leaders: list[int] = []
    leader_of: dict[int, int] = {}
    for number in sorted(range(len(rows)), key=lambda number: -rows[number].prefix_tokens):
        leader_of[number] = next((leader for leader in leaders if rows[number].begins(rows[leader])), number)
        if leader_of[number] == number:
            leaders.append(number)
    starts: dict[int, int] = {}
    stored = 0
    for leader in leaders:
        starts[leader] = stored
        stored += rows[leader].prefix_tokens
    places = (
        Place(leader, starts[leader], starts[leader] + row.prefix_tokens)
        for row, leader in ((rows[number], leader_of[number]) for number in range(len(rows)))
    )
    return Forest(tuple(rows), tuple(places))


def waves(rows: Sequence[Row], *, max_rows: int, max_prefix_tokens: int) -> Iterator[tuple[int, ...]]:
    """Row numbers in portions that fit: rows of one prefill stay together where they can.

    A row that is too long on its own still gets a portion, for whoever owns the memory to refuse.
    """
    forest = plant(rows)
    wave: list[int] = []
    for number in sorted(
        range(len(rows)), key=lambda number: (forest.places[number].start, -rows[number].prefix_tokens)
    ):
        grown = [*wave, number]
        fits = len(grown) <= max_rows and plant([rows[i] for i in grown]).prefix_tokens <= max_prefix_tokens
        if wave and not fits:
            yield tuple(wave)
            grown = [number]
        wave = grown
    if wave:
        yield tuple(wave)
