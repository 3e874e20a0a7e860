"""The prompt caches of paid providers, by model, and the order in which to send a batch. See docs/backbones.md.

Anthropic  https://platform.claude.com/docs/en/build-with-claude/prompt-caching, "Cache limitations"
OpenAI     https://developers.openai.com/api/docs/guides/prompt-caching
Gemini     https://ai.google.dev/gemini-api/docs/caching
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

P = TypeVar("P")  # A part of a request: anything that can be compared
MOST_ENDS: Final = 4  # Cache marks in one request that Anthropic and OpenAI allow


class SendOrder(StrEnum):
    """How the requests of a batch are sent to a service."""

    TOGETHER = "together"  # all at once: the service has no cache, or finds shared prefixes itself
    LONGEST_FIRST = "longest-first"  # of each shared prefix the longest request, the others once its response begins
    GROWING = "growing"  # one by one, the shortest first: the service caches only the last prompt


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """How a service caches the prefixes of prompts."""

    order: SendOrder = SendOrder.TOGETHER
    least_tokens: int = 0  # Shorter prefixes are not cached
    marked: bool = False  # Whether only marked prefixes are cached, and writing them is charged
    parallel: int | None = None  # The most requests that the service should work on at once


@dataclass(frozen=True, slots=True)
class Step:
    """The sending of one request of a batch."""

    place: int  # Its index in the batch
    after: int | None = None  # The index of the request whose response must have begun before
    leads: bool = False  # Whether others wait for it
    shared_ends: tuple[int, ...] = ()  # The lengths, in parts, of the prefixes that other requests share


def plan(batch: Sequence[tuple[P, ...]], cache: PrefixCache, count_tokens: Callable[[Sequence[P]], int]) -> list[Step]:
    """The order in which to send the requests of a batch, each a tuple of parts, if they are not sent together."""
    places = range(len(batch))
    if cache.order is SendOrder.GROWING:
        return [Step(place) for place in sorted(places, key=lambda place: len(batch[place]))]
    followers: dict[int, list[int]] = {}
    for place in sorted(places, key=lambda place: -len(batch[place])):
        frames = batch[place][:-1]  # all parts but the text; a request follows a longer one that begins with them
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
            inner_ends = tuple(end for end in ends if end < len(batch[place]))
            following.append(Step(place, after=leader, shared_ends=inner_ends))
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
    """The prompt cache of a spec's provider; for a self-hosted server, one that sends requests together."""
    least = next((tokens for pattern, tokens in _LEAST_TOKENS if pattern.match(spec)), None)
    if least is None or "@" in spec:
        return PrefixCache()
    return PrefixCache(SendOrder.LONGEST_FIRST, least_tokens=least, marked=bool(_MARKED.match(spec)))
