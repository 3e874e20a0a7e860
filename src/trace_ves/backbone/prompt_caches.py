"""What each paid provider keeps of the prompts it has read, by model. docs/backbones.md has the rules and their pages.

Anthropic  https://platform.claude.com/docs/en/build-with-claude/prompt-caching, "Cache limitations"
OpenAI     https://developers.openai.com/api/docs/guides/prompt-caching
Gemini     https://ai.google.dev/gemini-api/docs/caching
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

P = TypeVar("P")  # a part of a request: anything that can be compared
MOST_ENDS: Final = 4  # shared beginnings that are marked in one request: what Anthropic and OpenAI allow


class SendOrder(StrEnum):
    """How the requests of a batch are sent to a service."""

    TOGETHER = "together"  # at once: the service caches nothing, or finds out by itself who shares what
    LONGEST_FIRST = "longest-first"  # the longest of those that begin alike, and the others once its response has begun
    GROWING = "growing"  # one after the other, the shortest first: the service keeps only what it read last


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """What a service does with the beginning of a request that it has read before."""

    order: SendOrder = SendOrder.TOGETHER
    least_tokens: int = 0  # shorter beginnings are not kept
    marked: bool = False  # whether only what is marked is kept, and charged for as written
    parallel: int | None = None  # the most requests that the service should work on at once


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a batch, as it is sent."""

    place: int  # in the batch
    after: int | None = None  # the place of the request whose response must have begun before
    leads: bool = False  # whether others wait for it
    shared_ends: tuple[int, ...] = ()  # after how many parts a beginning ends that another request shares


def plan(batch: Sequence[tuple[P, ...]], cache: PrefixCache, count_tokens: Callable[[Sequence[P]], int]) -> list[Step]:
    """The requests of a batch that is not sent together, given by their parts, in the order in which they are sent."""
    everyone = range(len(batch))
    if cache.order is SendOrder.GROWING:
        return [Step(place) for place in sorted(everyone, key=lambda place: len(batch[place]))]
    followers: dict[int, list[int]] = {}
    for place in sorted(everyone, key=lambda place: -len(batch[place])):
        frames = batch[place][:-1]  # all parts but its text; a request follows a longer one that begins with them
        leader = next((other for other in followers if frames == batch[other][: len(frames)]), None)
        if leader is None or not frames or count_tokens(frames) < cache.least_tokens:
            followers[place] = []
        else:
            followers[leader].append(place)
    leading, following = [], []
    for leader, group in followers.items():
        ends = sorted({len(batch[place]) - 1 for place in group})[-MOST_ENDS:]
        leading.append(Step(leader, leads=bool(group), shared_ends=tuple(ends)))
        for place in group:
            own = tuple(end for end in ends if end < len(batch[place]))
            following.append(Step(place, after=leader, shared_ends=own))
    return [*leading, *following]


_LEAST_TOKENS: Final = (
    (re.compile(r"anthropic:claude-(?:opus-5|sonnet-5-5|fable|mythos)"), 512),
    (re.compile(r"anthropic:claude-opus-4-7"), 2048),
    (re.compile(r"anthropic:claude-(?:opus-4-[56]|haiku-4-5)"), 4096),
    (re.compile(r"(?:gemini|vertex):gemini-[12]\."), 2048),
    (re.compile(r"(?:gemini|vertex):"), 4096),
    (re.compile(r"(?:anthropic|openai):"), 1024),
)
_MARKED: Final = re.compile(r"anthropic:|openai:gpt-(?:5\.[6-9]|[6-9]|\d\d)")


def prompt_cache(spec: str) -> PrefixCache:
    """The prompt cache of the provider that a spec names; none for a self-hosted server."""
    least = next((tokens for named, tokens in _LEAST_TOKENS if named.match(spec)), None)
    if least is None or "@" in spec:
        return PrefixCache()
    return PrefixCache(SendOrder.LONGEST_FIRST, least_tokens=least, marked=bool(_MARKED.match(spec)))
