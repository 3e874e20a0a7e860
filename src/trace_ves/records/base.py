"""Base types of all file formats: one type writes, checks and reads each record.

A record is a frozen dataclass. The program's own values are trusted; what a file holds is validated by pydantic: a
value of the wrong type is refused, never converted, and the refusal is one clause that names the key.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticKnownError

from trace_ves.core.interval import Interval
from trace_ves.core.jsonl import json_type

T = TypeVar("T")

LONGEST_SHOWN: Final = 60


class FieldError(ValueError):
    """A value of a record breaks its format; the message is a clause without file or line."""


def shown(value: object) -> str:
    """A value for an error message: short, on one line."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


# --- the types of fields ------------------------------------------------------------------------


def _whole(value: object) -> object:
    """A float without a fraction is the whole number that another program meant."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _span(value: object) -> Interval:
    if isinstance(value, Interval):
        return value
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not {*map(type, value)} <= {int, float}:
        raise ValueError("must be two numbers, start and end")
    try:
        return Interval(float(value[0]), float(value[1]))
    except OverflowError:
        raise ValueError("must be two finite numbers") from None


def _json_object(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise PydanticKnownError("dict_type")
    return value


def _not_empty(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


Name = Annotated[str, AfterValidator(_not_empty)]  # A string with something in it
Number = Annotated[float, Strict()]  # A finite number, not a boolean
Numbers = Annotated[tuple[Number, ...], FailFast()]
Count = Annotated[int, Strict(), Field(ge=0), BeforeValidator(_whole)]  # A whole number from 0 up
Counts = Annotated[tuple[Annotated[int, Strict(), Field(ge=0)], ...], FailFast()]
Flag = Annotated[bool, Strict()]
Names = Annotated[frozenset[str], PlainSerializer(sorted, return_type=list[str])]
"""A set of strings; in a file, an array in order."""
Span = Annotated[
    Interval,
    PlainValidator(_span),
    PlainSerializer(lambda span: [span.start, span.end], return_type=list[float]),
    WithJsonSchema({"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2, "maxItems": 2}),
]
"""A stretch of video time; in a file, the pair of its ends in seconds."""
JsonObject = Annotated[
    Mapping[str, object],
    PlainValidator(_json_object),
    PlainSerializer(dict, return_type=dict[str, Any]),
    WithJsonSchema({"type": "object"}),
]
"""Any JSON object, kept as it is."""


# --- the base -----------------------------------------------------------------------------------


def described(schema: dict[str, Any], kind: type) -> None:
    """Have the docstring of a record in its JSON Schema, whatever the version of pydantic."""
    schema["description"] = inspect.cleandoc(kind.__doc__ or "")


class Record:
    """A value stored as a JSON object. Unknown keys are ignored when it is read."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(allow_inf_nan=False, json_schema_extra=described)

    def to_json(self) -> dict[str, object]:
        """The record as written to a file."""
        written: dict[str, object] = _adapter(type(self)).dump_python(self, mode="json", by_alias=True)
        return written

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The record that `to_json` wrote; what is wrong with any other value is a `FieldError`."""
        return validated(cls, value)


class SparseRecord(Record):
    """A record whose absent values are left out of the file."""

    __slots__ = ()

    @model_serializer(mode="wrap")
    def _without_nulls(self, write: Callable[[Self], dict[str, object]]) -> dict[str, object]:
        return {key: value for key, value in write(self).items() if value is not None}


def without_extra(schema: dict[str, Any], kind: type) -> None:
    """The schema of a record that keeps unknown keys: in a file they are beside the others."""
    described(schema, kind)
    del schema["properties"]["extra"]
    schema["additionalProperties"] = True


class OpenRecord(Record):
    """A record that keeps the keys it does not know, in its field `extra`; absent values are left out of the file."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(allow_inf_nan=False, json_schema_extra=without_extra)

    extra: JsonObject
    nulls: ClassVar[frozenset[str]] = frozenset()
    """Keys that a file has even where they are null."""

    @model_validator(mode="before")
    @classmethod
    def _gather_extra(cls, value: Any) -> Any:
        return with_extra(cls, value) if isinstance(value, dict) else value

    @model_serializer(mode="wrap")
    def _spread_extra(self, write: Callable[[Self], dict[str, object]]) -> dict[str, object]:
        written = {key: value for key, value in write(self).items() if value is not None or key in self.nulls}
        return {key: value for key, value in written.items() if key != "extra"} | dict(self.extra)


def with_extra(kind: Any, value: dict[str, object]) -> dict[str, object]:
    """The object as the record's own keys, and `extra` with all others."""
    known = _keys(kind)
    own = {key: entry for key, entry in value.items() if key in known}
    return own | {"extra": {key: entry for key, entry in value.items() if key not in known}}


@cache
def _keys(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind)) - {"extra"}


_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)


def validated(kind: type[T], value: object, key: str = "") -> T:
    """A value of JSON as a value of this type; a `FieldError` says what is wrong with it, under which key."""
    try:
        found: T = _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise FieldError(_clause(error, (key,) if key else ())) from None
    return found


# --- what was wrong, in words -------------------------------------------------------------------

_WANTED: Final = {
    "string_type": "a string",
    "float_type": "a number",
    "int_type": "a whole number from 0 up",
    "greater_than_equal": "a whole number from 0 up",
    "greater_than": "more than 0",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "list_type": "an array",
    "frozen_set_type": "an array",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
"""What a value should have been, by the name that pydantic gives the fault."""


def _clause(error: ValidationError, keys: tuple[str, ...]) -> str:
    """The first fault of a validation as a clause without file or line."""
    fault = error.errors()[0]
    place, found = _place((*keys, *fault["loc"])), fault["input"]
    if fault["type"] == "missing":
        holder = _place((*keys, *fault["loc"][:-1]))
        return f"the key {str(fault['loc'][-1])!r} is missing" + (f" in {holder}" if holder else "")
    if fault["type"] == "finite_number" or (
        fault["type"] == "float_type" and type(found) is int
    ):  # 10**400 is not finite
        return f"{place!r} must be a finite number, found {shown(found)}"
    if fault["type"] in _WANTED:
        wanted = f"must be {_WANTED[fault['type']]}, found {json_type(found)} {shown(found)}"
        return f"{place!r} {wanted}" if place else f"the value {wanted}"
    if fault["type"] == "value_error":
        return f"{place!r} {fault['ctx']['error']}" if place else str(fault["ctx"]["error"])
    return f"{place!r}: {fault['msg']}, found {shown(found)}" if place else fault["msg"]


def _place(location: tuple[int | str, ...]) -> str:
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return words.removeprefix(".")


_HOLE: Final = re.compile(r"\{([^{}]+)\}")


def value_at(record: object, path: str) -> object:
    """The value at a path of keys and positions, or under a key that has dots itself; a `FieldError` if none is."""
    found = record
    for key in [path] if isinstance(record, dict) and path in record else path.split("."):
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            keys = [str(name)[:40] for name in record] if isinstance(record, dict) else []
            offered = f"; it has {', '.join(keys[:8])}{', …' if len(keys) > 8 else ''}" if keys else ""
            raise FieldError(f"there is no {path!r} in this row{offered}")
    return found


def text_at(record: object, path: str) -> str:
    """The value at a path as text; a path with braces is a template whose holes are filled with such values."""
    if not _HOLE.search(path):
        return _text(value_at(record, path), path)
    return _HOLE.sub(lambda hole: _text(value_at(record, hole[1]), hole[1]), path)


def _text(value: object, path: str) -> str:
    """Text unchanged and whole numbers as digits; anything else could be written in several ways and is refused."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise FieldError(f"{path!r} must be text or a whole number, found {shown(value)}")
    return str(value)
