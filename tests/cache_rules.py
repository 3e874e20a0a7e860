"""The rules by which each provider keeps the beginnings of prompts, as it publishes them.

Anthropic, https://platform.claude.com/docs/en/build-with-claude/prompt-caching and …/structured-outputs: entries are
written at marks alone, at most 4; each mark is looked up, and 19 positions before it; an entry is there once the first
response begins, for 5 minutes from its last use; another schema is another beginning.

OpenAI, https://developers.openai.com/api/docs/guides/prompt-caching: before GPT-5.6 the longest common beginning of
1,024 tokens or more, in steps of 128, under the same key, for 5 minutes; from GPT-5.6 on entries are written and found
at breakpoints alone, for 30 minutes, and a key is needed. The schema comes first.

Gemini, https://ai.google.dev/gemini-api/docs/caching: the longest common beginning, from the model's least tokens on.
No step and no lifetime is published; nor is where the schema stands: here it is the end.

Nothing expires here, because no test lasts five minutes.
"""

import hashlib
from dataclasses import dataclass, field
from typing import NamedTuple

LEAST_TOKENS = 1024
"""The shortest beginning that Anthropic and OpenAI keep."""


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

    def marks(self) -> list[int]:
        """The places of the blocks that are marked."""
        return [place for place, block in enumerate(self.blocks) if block.marked]

    def long_beginnings(self, places: list[int]) -> list[tuple[str, int]]:
        """The beginnings that end at these places and are long enough to be kept."""
        beginnings = self.beginnings()
        return [beginnings[place] for place in places if beginnings[place][1] >= LEAST_TOKENS]


class Counted(NamedTuple):
    """Tokens of a prompt that were read from the cache, and tokens that are written into it."""

    read: int = 0
    written: int = 0


@dataclass
class MarkedCache:
    """Anthropic's rules."""

    _kept: set[str] = field(default_factory=set)

    def look_up(self, prompt: Prompt) -> Counted:
        marks = prompt.marks()
        assert len(marks) <= 4, "the API refuses more than 4 marks"
        near = [place for mark in marks for place in range(max(0, mark - 19), mark + 1)]
        read = max((tokens for digest, tokens in prompt.long_beginnings(near) if digest in self._kept), default=0)
        last = max((tokens for _, tokens in prompt.long_beginnings(marks)), default=0)
        return Counted(read, max(0, last - read))

    def keep(self, prompt: Prompt) -> None:
        self._kept |= {digest for digest, _ in prompt.long_beginnings(prompt.marks())}


@dataclass
class BreakpointCache:
    """OpenAI's rules from GPT-5.6 on."""

    _kept: set[tuple[str | None, str]] = field(default_factory=set)

    def _marked(self, prompt: Prompt, most: int) -> list[tuple[str, int]]:
        implicit = [] if prompt.explicit else [len(prompt.blocks) - 1]
        return prompt.long_beginnings([*prompt.marks()[len(implicit) - most :], *implicit])

    def look_up(self, prompt: Prompt) -> Counted:
        found = self._marked(prompt, 80) if prompt.key is not None else []
        read = max((tokens for digest, tokens in found if (prompt.key, digest) in self._kept), default=0)
        last = max((tokens for _, tokens in self._marked(prompt, 4)), default=0)
        return Counted(read, max(0, last - read))

    def keep(self, prompt: Prompt) -> None:
        self._kept |= {(prompt.key, digest) for digest, _ in self._marked(prompt, 4)}


@dataclass
class CommonBeginningCache:
    """OpenAI's rules before GPT-5.6, and Gemini's: nothing is marked, and writing costs nothing."""

    least_tokens: int
    step: int = 1
    _kept: set[tuple[str | None, str]] = field(default_factory=set)

    def look_up(self, prompt: Prompt) -> Counted:
        kept = (tokens for digest, tokens in prompt.beginnings() if (prompt.key, digest) in self._kept)
        longest = max(kept, default=0)
        return Counted(longest // self.step * self.step if longest >= self.least_tokens else 0)

    def keep(self, prompt: Prompt) -> None:
        self._kept |= {(prompt.key, digest) for digest, _ in prompt.beginnings()}


CacheRules = MarkedCache | BreakpointCache | CommonBeginningCache
