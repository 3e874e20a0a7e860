"""The schema of a reply in the words of inspect_ai's `JSONSchema`, which knows no `$ref`, `const` or `prefixItems`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.structured import strict_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEEPEST: Final = 32
"""A reply that refers to itself has no end once it is spelled out."""
_REPLACED: Final = frozenset({"$defs", "const", "oneOf", "prefixItems", "title"})


def inline_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool] | None:
    """A reply's schema with every reference spelled out, and whether a model may be held to it strictly.

    A tuple becomes a list of its parts, which validation narrows again. None where the schema refers to itself: the
    model is then told it in words alone.
    """
    strict = strict_schema(schema)
    told = schema if strict is None else strict
    try:
        return _inlined(told, told.get("$defs", {}), _DEEPEST), strict is not None
    except RecursionError:
        return None


def _inlined(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if depth == 0:
        raise RecursionError

    def inner(part: Mapping[str, Any]) -> dict[str, Any]:
        return _inlined(part, definitions, depth - 1)

    if "$ref" in schema:
        return inner(definitions[schema["$ref"].removeprefix("#/$defs/")])
    found = {keyword: value for keyword, value in schema.items() if keyword not in _REPLACED}
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if choices := schema.get("anyOf", schema.get("oneOf")):
        found["anyOf"] = [inner(part) for part in choices]
    if "prefixItems" in schema:
        parts = [inner(part) for part in schema["prefixItems"]]
        distinct = [part for place, part in enumerate(parts) if part not in parts[:place]]
        found["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    elif "items" in schema:
        found["items"] = inner(schema["items"])
    if "properties" in schema:
        found["properties"] = {name: inner(part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = inner(schema["additionalProperties"])
    return found
