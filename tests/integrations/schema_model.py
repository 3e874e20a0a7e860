"""A model without a mind: it fills whatever schema it is given, and the same words always get the same reply.

One function answers for inspect_ai's mock model and as a backbone of our own: both must come to the same numbers.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from typing import Any

from trace_ves.backbone.protocol import Generation, R, Request
from trace_ves.backbone.provider import Completion, RepairTurn, TextPart, request_parts
from trace_ves.backbone.replies import complete_with_repair
from trace_ves.integrations.inspect.backbone import inline_schema
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


class SchemaBackbone:
    """The same model as a backbone of our own."""

    name = "schema"

    def generate(self, batch: Sequence[Request[R]]) -> list[Generation[R]]:
        return [self._answer(request) for request in batch]

    def _answer(self, request: Request[R]) -> Generation[R]:
        texts = [part.text for part in request_parts(request) if isinstance(part, TextPart)]
        inlined = inline_schema(request.reply.model_json_schema())
        assert inlined is not None

        def complete(repairs: tuple[RepairTurn, ...]) -> Completion:
            return Completion(reply([*texts, *(turn.instruction for turn in repairs)], inlined[0]), TOKENS)

        return Generation(*complete_with_repair(request.reply, complete))
