"""The JSON Schema of a record, with the docstrings of its fields as descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from trace_ves.records.prediction import Prediction
from trace_ves.records.record import Record
from trace_ves.records.search import TaggedSearch

if TYPE_CHECKING:
    from collections.abc import Iterator

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of what a file of this kind holds, or each of its lines."""
    for config in _configs():
        config["use_attribute_docstrings"] = True  # takes time, so that only the schemas pay for it
    schema: dict[str, Any] = TypeAdapter(kind).json_schema()
    if kind is Prediction:
        _add_searches(schema)
    return {"$schema": DIALECT, **schema}


def _configs() -> Iterator[Any]:
    kinds: list[Any] = [Record]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if "__pydantic_config__" in vars(kind):
            yield vars(kind)["__pydantic_config__"]


def _add_searches(schema: dict[str, Any]) -> None:
    """A run line's `trajectory` is one of the known searches, or the method's own record."""
    searches = TypeAdapter(TaggedSearch).json_schema()
    schema["$defs"] |= searches["$defs"]
    schema["properties"]["trajectory"] |= {"anyOf": [*searches["oneOf"], {"type": "object"}]}
    del schema["properties"]["trajectory"]["type"]
    schema["required"] += ["timestamps"]  # an answer without what was looked at cannot be audited
