"""The rules by which each provider keeps the beginnings of prompts, as it publishes them.

Anthropic, https://platform.claude.com/docs/en/build-with-claude/prompt-caching and …/structured-outputs: entries are
written at marks alone, at most 4; each mark is looked up, and 19 positions before it; an entry is there once the first
response begins, for 5 minutes from its last use; another schema is another beginning.

OpenAI, https://developers.openai.com/api/docs/guides/prompt-caching: before GPT-5.6 the longest common beginning of
1,024 tokens or more, in steps of 128, under the same key, for 5 minutes; from GPT-5.6 on entries are written and found
at breakpoints alone, for 30 minutes, and a key is needed. The schema comes first.

Gemini, https://ai.google.dev/gemini-api/docs/caching: the longest common beginning, from the model's least tokens on.
No step and no lifetime is published, so there are none here; nor is where the schema stands: here it is the end.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Block(NamedTuple):
    """A piece of a prompt that is the same or not."""

    content: str
    tokens: int
    marked: bool = False


@dataclass(frozen=True)
class Prompt:
    """What a request asks a model to read, in the order in which the provider reads it."""

    blocks: tuple[Block, ...]
    words: str  # what stands after the last frame, by which the server knows what to answer
    key: str | None = None
    explicit: bool = False  # whether the latest message gets no mark of its own (OpenAI, from GPT-5.6 on)
    stream: bool = False

    @property
    def tokens(self) -> int:
        return sum(block.tokens for block in self.blocks)

    def beginnings(self) -> list[tuple[str, int]]:
        """The hash and the tokens of the beginning that ends with each block."""
        found, digest, tokens = [], hashlib.sha256(), 0
        for block in self.blocks:
            digest.update(f"{len(block.content)}:{block.content}".encode())
            tokens += block.tokens
            found.append((digest.hexdigest(), tokens))
        return found


class Counted(NamedTuple):
    """Tokens of a prompt that were read from the cache, and tokens that are written into it."""

    read: int = 0
    written: int = 0


@dataclass
class MarkedCache:
    """Anthropic's rules."""

    least_tokens: int = 1024
    lifetime_seconds: float = 300.0
    lookback: int = 20
    clock: Callable[[], float] = time.monotonic
    _expires: dict[str, float] = field(default_factory=dict)

    def _marks(self, prompt: Prompt) -> list[int]:
        marks = [place for place, block in enumerate(prompt.blocks) if block.marked]
        assert len(marks) <= 4, "the API refuses more than 4 marks"
        beginnings = prompt.beginnings()
        return [place for place in marks if beginnings[place][1] >= self.least_tokens]

    def look_up(self, prompt: Prompt) -> Counted:
        beginnings, read = prompt.beginnings(), 0
        marks = self._marks(prompt)
        for mark in marks:
            for place in range(mark, max(-1, mark - self.lookback), -1):
                digest, tokens = beginnings[place]
                if self._expires.get(digest, 0.0) > self.clock():
                    self._expires[digest] = self.clock() + self.lifetime_seconds
                    read = max(read, tokens)
                    break
        last = beginnings[marks[-1]][1] if marks else 0
        return Counted(read, max(0, last - read))

    def keep(self, prompt: Prompt) -> None:
        beginnings = prompt.beginnings()
        for mark in self._marks(prompt):
            self._expires[beginnings[mark][0]] = self.clock() + self.lifetime_seconds


@dataclass
class BreakpointCache:
    """OpenAI's rules from GPT-5.6 on."""

    least_tokens: int = 1024
    lifetime_seconds: float = 1800.0
    most_writes: int = 4
    most_reads: int = 80
    clock: Callable[[], float] = time.monotonic
    _expires: dict[tuple[str | None, str], float] = field(default_factory=dict)

    def _marks(self, prompt: Prompt, most: int) -> list[int]:
        explicit = [place for place, block in enumerate(prompt.blocks) if block.marked]
        implicit = [] if prompt.explicit else [len(prompt.blocks) - 1]
        marks = [*explicit[len(implicit) - most :], *implicit]
        beginnings = prompt.beginnings()
        return [place for place in marks if beginnings[place][1] >= self.least_tokens]

    def look_up(self, prompt: Prompt) -> Counted:
        beginnings, read = prompt.beginnings(), 0
        for mark in self._marks(prompt, self.most_reads):
            digest, tokens = beginnings[mark]
            if prompt.key is not None and self._expires.get((prompt.key, digest), 0.0) > self.clock():
                read = max(read, tokens)
        writes = self._marks(prompt, self.most_writes)
        return Counted(read, max(0, beginnings[writes[-1]][1] - read) if writes else 0)

    def keep(self, prompt: Prompt) -> None:
        beginnings = prompt.beginnings()
        for mark in self._marks(prompt, self.most_writes):
            self._expires[prompt.key, beginnings[mark][0]] = self.clock() + self.lifetime_seconds


@dataclass
class CommonBeginningCache:
    """OpenAI's rules before GPT-5.6, and Gemini's: nothing is marked, and writing costs nothing."""

    least_tokens: int = 1024
    step: int = 1
    lifetime_seconds: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    _kept: list[tuple[float, str | None, list[tuple[str, int]]]] = field(default_factory=list)

    def look_up(self, prompt: Prompt) -> Counted:
        mine, longest = prompt.beginnings(), 0
        for expires, key, kept in self._kept:
            if expires <= self.clock() or key != prompt.key:
                continue
            same = 0
            for (digest, tokens), (other, _) in zip(mine, kept, strict=False):
                if digest != other:
                    break
                same = tokens
            longest = max(longest, same)
        return Counted(longest // self.step * self.step if longest >= self.least_tokens else 0)

    def keep(self, prompt: Prompt) -> None:
        self._kept.append((self.clock() + self.lifetime_seconds, prompt.key, prompt.beginnings()))


CacheRules = MarkedCache | BreakpointCache | CommonBeginningCache
