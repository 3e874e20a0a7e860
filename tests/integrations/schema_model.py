"""A model without a mind: it fills whatever schema it is given, and the same words always get the same reply.

One function answers for inspect_ai's mock model and for our own remote machinery: both must come to the same numbers.
"""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

from trace_ves.backbone.content import TextPart
from trace_ves.backbone.model_settings import RequestLimits
from trace_ves.backbone.provider import Completion, CompletionRequest
from trace_ves.integrations.inspect.schema import inline_schema
from trace_ves.records import Usage

TOKENS = Usage(100, 20, 7)


def reply(texts: list[str], schema: dict[str, Any]) -> str:
    """The reply to these texts, whatever frames come with them."""
    seed = hashlib.sha256("\0".join(texts).encode()).digest()
    return json.dumps(fill(schema, random.Random(seed)))


def fill(schema: dict[str, Any], dice: random.Random) -> Any:
    """Some value that a schema without references allows."""
    if "anyOf" in schema:
        return fill(dice.choice(schema["anyOf"]), dice)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    made = {
        "object": lambda: {name: fill(part, dice) for name, part in schema["properties"].items()},
        "array": lambda: [fill(schema["items"], dice) for _ in range(dice.randint(1, 3))],
        "number": lambda: round(dice.uniform(0, 60), 1),
        "integer": lambda: dice.randint(1, 4),
        "string": lambda: dice.choice(["a red door", "c1", "c2", "e1"]),
        "boolean": lambda: dice.random() < 0.5,
        "null": lambda: None,
    }
    return made[schema["type"]]()


class SchemaProvider:
    """The same model behind our own remote machinery."""

    name = "schema"
    key_hint = "no key"
    optional: dict[str, Any] = {}  # noqa: RUF012  the protocol has a mapping
    default_temperature = None
    limits = RequestLimits()
    identity: dict[str, object] = {}  # noqa: RUF012  as above

    def complete(self, call: CompletionRequest, *, features: frozenset[str], timeout_seconds: float) -> Completion:
        texts = [part.text for part in call.parts if isinstance(part, TextPart)]
        texts += [turn.instruction for turn in call.repairs]
        inlined = inline_schema(call.schema)
        assert inlined is not None
        return Completion(reply(texts, inlined[0]), TOKENS)
