"""Constrains decoding to the JSON schema of the reply, with llguidance. See docs/local-models.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import llguidance
import llguidance.hf
import llguidance.numpy
import torch

from trace_ves.backbone.replies import ENFORCED_KEYWORDS, make_strict_schema
from trace_ves.core import BackboneError

if TYPE_CHECKING:
    from trace_ves.backbone.hf.combining_queue import LocalRequest
    from trace_ves.backbone.hf.decoder import Sampler

MAX_NEW_TOKENS: Final = 1024  # A longer reply is cut off

KEPT_KEYWORDS: Final = (*ENFORCED_KEYWORDS, "minLength", "maxLength")  # Enforced besides the shape
STYLE: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
"""White space is fixed, because a weak model could fill a whole reply with it."""
LARGEST_NUMBER: Final = 1_000_000_000  # The bound on numbers whose schema has none
_EVERY_TOKEN: Final = -1


def _bound_numbers(schema: Any) -> Any:
    """The schema with a bound on every number, because JSON allows numbers such as 1e999."""
    if isinstance(schema, list):
        return [_bound_numbers(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    bounds: dict[str, Any] = {}
    if schema.get("type") in ("integer", "number"):
        if "exclusiveMinimum" not in schema:
            bounds["minimum"] = -LARGEST_NUMBER
        if "exclusiveMaximum" not in schema:
            bounds["maximum"] = LARGEST_NUMBER
    return bounds | {key: _bound_numbers(value) for key, value in schema.items()}


@dataclass(slots=True)
class ReplyState:
    """The reply of one row so far."""

    matcher: Any
    temperature: float = 0.0
    random: torch.Generator | None = None  # The random generator of a sampled reply
    tokens: list[int] = field(default_factory=list)
    over: bool = False

    @classmethod
    def of(cls, request: LocalRequest, matcher: Any, device: torch.device) -> ReplyState:
        """The state before the first token, with a copy of the matcher."""
        random = torch.Generator(device).manual_seed(request.seed) if request.temperature else None
        return cls(matcher.deep_copy(), request.temperature, random)

    def take(self, token: int) -> bool:
        """Add the next token; True if the reply ends with it. Tokens after the end are ignored."""
        if self.over:
            return False
        self.matcher.consume_token(token)
        self.tokens.append(token)
        self.over = self.matcher.is_stopped()
        return self.over


class Grammars:
    """Makes matchers for one tokenizer."""

    def __init__(self, tokenizer: Any, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary)

    def matcher(self, schema: Mapping[str, Any]) -> Any:
        """A matcher for replies of this schema, which must have every field in order."""
        strict = make_strict_schema(schema, keep=KEPT_KEYWORDS) or dict(schema)
        grammar = llguidance.LLMatcher.grammar_from_json_schema(_bound_numbers(strict), overrides=STYLE)
        matcher = llguidance.LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            raise BackboneError(f"The reply's JSON schema cannot be compiled to a grammar: {matcher.get_error()}.")
        return matcher


class JsonGuide:
    """Guides all rows of a batch."""

    def __init__(
        self, replies: Sequence[ReplyState], vocabulary: int, *, end: Callable[[int], None] = lambda _: None
    ) -> None:
        self._replies = replies
        self._end = end  # Called with the number of a row when its reply is complete
        self._executor = llguidance.LLExecutor()
        bits = torch.from_numpy(llguidance.numpy.allocate_token_bitmask(len(replies), vocabulary))
        self._bits = bits.pin_memory() if torch.cuda.is_available() else bits  # pinned memory is copied without waiting

    def prepare(self, sampler: Sampler) -> None:
        """Allow the tokens with which each reply may continue. Complete replies are not constrained."""
        unfinished = [(row, reply) for row, reply in enumerate(self._replies) if not reply.over]
        self._bits.fill_(_EVERY_TOKEN)
        matchers = [(reply.matcher, row) for row, reply in unfinished]
        llguidance.numpy.fill_next_token_bitmask_par(self._executor, matchers, self._bits.numpy())
        sampler.allow(self._bits)
        for row, reply in unfinished:
            if reply.random is not None:
                sampler.add_noise(row, reply.temperature, reply.random)

    def take(self, tokens: Sequence[int]) -> bool:
        """Add the next token of each row; False if every reply is complete."""
        for row, (reply, token) in enumerate(zip(self._replies, tokens, strict=True)):
            if reply.take(token):
                self._end(row)
        return not all(reply.over for reply in self._replies)
