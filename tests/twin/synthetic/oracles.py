"""What oracles of a world of actors share: where actors are, and the option that a guess speaks for."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from trace_ves.twin.synthetic.vocabulary import vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from trace_ves.records import Item
    from trace_ves.twin.synthetic.bench import TwinVideo

SEEDS: Final = (500, 501, 502)
"""Three worlds, so that chance is at most a point and a half of standard deviation in each family."""
CHANCE, NEAR = 25.0, 4.0

Span = tuple[int, int]


def presences(video: TwinVideo, number: int) -> dict[str, list[Span]]:
    """When each actor of a question is there, whatever it does."""
    return {
        event.sprite: sorted((each.first, each.last) for each in video.world.tracks if each.sprite == event.sprite)
        for event in video.world.asked[number]
    }


def offered_orders(item: Item, sprites: Sequence[str]) -> list[list[str]]:
    """The sprites of each option, in its order."""
    nouns = {noun: name for name in sprites for noun in vocabulary().events[name].nouns}
    doing = "|".join(act.doing for act in vocabulary().acts.values())
    return [
        [nouns[re.sub(rf"^the ({doing}) ", "", part)] for part in re.split(" → |, then ", option)]
        for option in item.question.options
    ]


def nearest(item: Item, guess: float, rng: np.random.Generator) -> int:
    away = [abs(int(option) - guess) for option in item.question.options]
    return int(rng.choice([place for place, each in enumerate(away) if each == min(away)]))


def fitting(item: Item, times: dict[str, float], rng: np.random.Generator) -> int:
    wrong = [
        sum(times[one] > times[other] for one, other in itertools.combinations(order, 2))
        for order in offered_orders(item, list(times))
    ]
    return int(rng.choice([place for place, each in enumerate(wrong) if each == min(wrong)]))
