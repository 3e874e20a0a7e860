"""Base types of all file formats.

A record is a frozen dataclass. Pydantic validates what is read from a file: a value of the wrong type is an error and
never converted. The error is one clause that names the key.
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

_LONGEST_VALUE: Final = 60


class FieldError(ValueError):
    """A value of a record breaks its format; the message is a clause without file or line."""


def quote(value: object) -> str:
    """A value for an error message: short, on one line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


# --- the types of fields ------------------------------------------------------------------------


def _float_to_int(value: object) -> object:
    """The integer for a float such as 3.0, as some programs write counts; any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse_span(value: object) -> Interval:
    if isinstance(value, Interval):
        return value
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not {*map(type, value)} <= {int, float}:
        raise ValueError("must be two numbers, start and end")
    try:
        return Interval(float(value[0]), float(value[1]))
    except OverflowError:
        raise ValueError("must be two finite numbers") from None


def _require_mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise PydanticKnownError("dict_type")
    return value


def _require_text(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


Name = Annotated[str, AfterValidator(_require_text)]  # Not empty
Number = Annotated[float, Strict()]  # A finite number, not a boolean
Numbers = Annotated[tuple[Number, ...], FailFast()]
Count = Annotated[int, Strict(), Field(ge=0), BeforeValidator(_float_to_int)]  # A whole number from 0 up
Counts = Annotated[tuple[Annotated[int, Strict(), Field(ge=0)], ...], FailFast()]
Flag = Annotated[bool, Strict()]
Names = Annotated[frozenset[str], PlainSerializer(sorted, return_type=list[str])]
"""A set of strings; in a file, a sorted array."""
Span = Annotated[
    Interval,
    PlainValidator(_parse_span),
    PlainSerializer(lambda span: [span.start, span.end], return_type=list[float]),
    WithJsonSchema({"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2, "maxItems": 2}),
]
"""A span of video time; in a file, its start and end in seconds."""
JsonObject = Annotated[
    Mapping[str, object],
    PlainValidator(_require_mapping),
    PlainSerializer(dict, return_type=dict[str, Any]),
    WithJsonSchema({"type": "object"}),
]
"""Any JSON object, unchanged."""


# --- the base -----------------------------------------------------------------------------------


def add_description(schema: dict[str, Any], kind: type) -> None:
    """Put the docstring of a record into its JSON Schema: not every version of pydantic does."""
    schema["description"] = inspect.cleandoc(kind.__doc__ or "")


class Record:
    """A value stored as a JSON object. Reading ignores unknown keys."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(allow_inf_nan=False, json_schema_extra=add_description)

    def to_json(self) -> dict[str, object]:
        """The record as written to a file."""
        line: dict[str, object] = _adapter(type(self)).dump_python(self, mode="json", by_alias=True)
        return line

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The record in a JSON value. Raises `FieldError`."""
        return validate(cls, value)


class SparseRecord(Record):
    """A record that is written without its null values."""

    __slots__ = ()

    @model_serializer(mode="wrap")
    def _without_nulls(self, write: Callable[[Self], dict[str, object]]) -> dict[str, object]:
        return {key: value for key, value in write(self).items() if value is not None}


def hide_extra(schema: dict[str, Any], kind: type) -> None:
    """Remove `extra` from the schema of a record that keeps unknown keys: a file has them next to the others."""
    add_description(schema, kind)
    del schema["properties"]["extra"]
    schema["additionalProperties"] = True


class OpenRecord(Record):
    """A record that keeps unknown keys in its field `extra`, and is written without its null values."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(allow_inf_nan=False, json_schema_extra=hide_extra)

    extra: JsonObject
    nulls: ClassVar[frozenset[str]] = frozenset()
    """Keys that are written even if they are null."""

    @model_validator(mode="before")
    @classmethod
    def _gather_extra(cls, value: Any) -> Any:
        return gather_extra(cls, value) if isinstance(value, dict) else value

    @model_serializer(mode="wrap")
    def _spread_extra(self, write: Callable[[Self], dict[str, object]]) -> dict[str, object]:
        line = {key: value for key, value in write(self).items() if value is not None or key in self.nulls}
        return {key: value for key, value in line.items() if key != "extra"} | dict(self.extra)


def gather_extra(kind: Any, value: dict[str, object]) -> dict[str, object]:
    """Move the keys that a record does not know into `extra`."""
    names = _field_names(kind)
    if value.keys() <= names:
        return value
    fields_of_record = {key: entry for key, entry in value.items() if key in names}
    return fields_of_record | {"extra": {key: entry for key, entry in value.items() if key not in names}}


@cache
def _field_names(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind)) - {"extra"}


_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)


def validate(kind: type[T], value: object, key: str = "") -> T:
    """Convert a JSON value to this type. Raises `FieldError`, which names the key."""
    try:
        result: T = _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise FieldError(_describe_fault(error, (key,) if key else ())) from None
    return result


# --- error messages -----------------------------------------------------------------------------

_EXPECTED: Final = {
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
"""The expected kind of value, by pydantic's error type."""


def _describe_fault(error: ValidationError, keys: tuple[str, ...]) -> str:
    """The first fault of a validation as a clause without file or line."""
    fault = error.errors(include_url=False)[0]
    place, value = _format_location((*keys, *fault["loc"])), fault["input"]
    if fault["type"] == "missing":
        holder = _format_location((*keys, *fault["loc"][:-1]))
        return f"the key {str(fault['loc'][-1])!r} is missing" + (f" in {holder}" if holder else "")
    is_too_large = fault["type"] == "float_type" and type(value) is int  # such as 10**400
    if fault["type"] == "finite_number" or is_too_large:
        return f"{place!r} must be a finite number, found {quote(value)}"
    if fault["type"] in _EXPECTED:
        problem = f"must be {_EXPECTED[fault['type']]}, found {json_type(value)} {quote(value)}"
        return f"{place!r} {problem}" if place else f"the value {problem}"
    if fault["type"] == "value_error":
        return f"{place!r} {fault['ctx']['error']}" if place else str(fault["ctx"]["error"])
    return f"{place!r}: {fault['msg']}, found {quote(value)}" if place else fault["msg"]


def _format_location(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".")


_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")


def get_value(record: object, path: str) -> object:
    """The value at a path of keys and indexes, or under a key that contains dots. Raises `FieldError`."""
    value = record
    for key in [path] if isinstance(record, dict) and path in record else path.split("."):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            keys = [str(name)[:40] for name in record] if isinstance(record, dict) else []
            hint = f"; it has {', '.join(keys[:8])}{', …' if len(keys) > 8 else ''}" if keys else ""
            raise FieldError(f"there is no {path!r} in this row{hint}")
    return value


def get_text(record: object, path: str) -> str:
    """The value at a path as text. A path with braces is a template; its placeholders are such paths."""
    if not _PLACEHOLDER.search(path):
        return _to_text(get_value(record, path), path)
    return _PLACEHOLDER.sub(lambda match: _to_text(get_value(record, match[1]), match[1]), path)


def _to_text(value: object, path: str) -> str:
    """Text unchanged and whole numbers as digits. Other values have no single spelling and are refused."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise FieldError(f"{path!r} must be text or a whole number, found {quote(value)}")
    return str(value)
