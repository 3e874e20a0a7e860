"""Types of replies, their JSON schemas, and how a model's text is parsed, validated and repaired once."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model

from trace_ves.backbone.protocol import ModelFault, R
from trace_ves.backbone.provider import Completion, FinishReason, RepairTurn, truncate
from trace_ves.core.jsonl import FINITE_DECODER, StrictJsonError
from trace_ves.records import Usage
from trace_ves.records.transcript import ModelText

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from trace_ves.core import Question


class AnswerReply(BaseModel):
    """What a model answers. Null says that the evidence does not decide."""

    answer: str | None = Field(description="The answer, or null where the evidence does not decide.")


AnswerT = TypeVar("AnswerT", bound=BaseModel)


def answer_reply(question: Question, *, forced: bool = False) -> type[AnswerReply]:
    """The reply whose `answer` is one of this question's letters, free words if it is open, or null if not forced."""
    return restrict_answer(AnswerReply, question, forced=forced)


def restrict_answer(reply: type[AnswerT], question: Question, *, forced: bool = False) -> type[AnswerT]:
    """A reply that has an `answer` among other fields, narrowed to what this question allows."""
    return _restricted(reply, question.letters, forced)


def question_variables(question: Question) -> dict[str, Any]:
    """The variables of a question in every prompt: `question`, and `options` by letter."""
    return {"question": question.text, "options": dict(zip(question.letters, question.options, strict=True))}


def up_to(limit: int) -> BeforeValidator:
    """A validator that cuts a text or a list to its beginning, instead of refusing what is too long."""
    return BeforeValidator(lambda said: said[:limit] if isinstance(said, (str, list)) else said)


def same_answer(one: str | None, other: str | None) -> bool:
    """Whether two answers are the same letter, or the same words but for case, punctuation and articles; never None."""
    return one is not None and other is not None and folded(one) == folded(other)


@lru_cache(maxsize=256)
def _restricted(reply: type[AnswerT], letters: tuple[str, ...], forced: bool) -> type[AnswerT]:
    one: Any = Literal[letters] if letters else str
    kind: Any = Annotated[one if forced else one | None, BeforeValidator(_bare_letter if letters else _bare_words)]
    what = "The letter of the right option" if letters else "The answer in a few words"
    default = ... if forced or reply.model_fields["answer"].is_required() else None
    field = Field(default, description=f"{what}{'.' if forced else ', or null where the evidence does not decide.'}")
    return create_model(reply.__name__, __base__=reply, __doc__=reply.__doc__, answer=(kind, field))


def _bare_letter(value: object) -> object:
    """Case and brackets are forgiven: `(b)` and `B.` are B."""
    return value.strip().strip("().:*\"'").upper() if isinstance(value, str) else value


def _bare_words(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


_ARTICLES: Final = frozenset({"a", "an", "the"})


@lru_cache(maxsize=4096)
def folded(text: str) -> tuple[str, ...]:
    """The words of a text without case, punctuation and articles, to compare free text."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)  # a sign is no punctuation: -5 is not 5
    text = re.sub(r"['\N{RIGHT SINGLE QUOTATION MARK}]", "", text)
    spaced = "".join(" " if unicodedata.category(char).startswith("P") else char for char in text)
    words = tuple(spaced.split())
    return tuple(word for word in words if word not in _ARTICLES) or words or (text.strip(),)


LONGEST_REPLY_CHARS: Final = 200_000  # a longer reply is a fault: no stage asks for as much
_LONGEST_RAW_CHARS: Final = 2_000
_LONGEST_SHOWN_CHARS: Final = 20_000
_LONGEST_COMPLAINT_CHARS: Final = 1_500
_MOST_OBJECTS: Final = 32
_TOO_DEEP: Final = "the reply is nested too deeply"
_SHAPE_KEYWORDS: Final = frozenset(
    {"$defs", "$ref", "anyOf", "const", "description", "enum", "items", "properties", "required", "title", "type"}
)
ENFORCED_KEYWORDS: Final = (  # keywords that strict modes enforce besides those of shape
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minItems", "maxItems", "pattern"),
)


class InvalidReplyError(ValueError):
    """A model's text is not the reply that was asked for; the message is shown to the model."""


def reply_schema(reply: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a reply, as pydantic gives it."""
    return reply.model_json_schema()


def strict_schema(schema: Mapping[str, Any], *, keep: Collection[str] = ()) -> dict[str, Any] | None:
    """The schema as strict modes want it: every property required, no others, and only keywords of shape and in `keep`.

    None where a part of the reply has no fixed shape (a mapping with free keys, a tuple, anything at all).
    """
    try:
        return _closed(schema, _SHAPE_KEYWORDS | frozenset(keep))
    except _NoFixedShapeError:
        return None


class _NoFixedShapeError(Exception):
    """A part of a schema that strict modes cannot express."""


def _closed(schema: Mapping[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    closed = {keyword: value for keyword, value in schema.items() if keyword in allowed}
    if "oneOf" in schema:
        closed["anyOf"] = schema["oneOf"]
    if definitions := closed.pop("$defs", None):
        closed["$defs"] = {name: _closed(part, allowed) for name, part in definitions.items()}
    if "$ref" in closed:  # strict modes allow no keyword beside a reference
        return {keyword: value for keyword, value in closed.items() if keyword in {"$ref", "$defs"}}
    if "anyOf" in closed:
        closed["anyOf"] = [_closed(part, allowed) for part in closed["anyOf"]]
    elif closed.get("type") == "object":
        if "properties" not in closed or schema.get("additionalProperties"):
            raise _NoFixedShapeError
        properties = {name: _closed(part, allowed) for name, part in closed["properties"].items()}
        closed |= {"properties": properties, "required": list(properties), "additionalProperties": False}
    elif closed.get("type") == "array":
        if "items" not in closed:
            raise _NoFixedShapeError
        closed["items"] = _closed(closed["items"], allowed)
    elif not closed.keys() & {"type", "enum", "const"}:
        raise _NoFixedShapeError
    return closed


def parse_reply(text: str, reply: type[R]) -> R:
    """The reply in a model's text, which may have a fence or prose around it. Raises `InvalidReplyError`.

    Where the text holds several objects, the last that validates is taken: models think first and answer last.
    """
    text = text.strip()  # a model that lost its way may end in thousands of line breaks
    if len(text) > LONGEST_REPLY_CHARS:
        raise InvalidReplyError(f"the reply has {len(text)} characters, more than {LONGEST_REPLY_CHARS}")
    problem = InvalidReplyError("the reply has no JSON object in it")
    for value in reversed(list(_objects(text))):
        if isinstance(value, InvalidReplyError):
            problem = value
            continue
        try:
            # Through JSON again, so that the reply's own rules for JSON hold; lone surrogates are refused here too.
            return reply.model_validate_json(json.dumps(value))
        except ValidationError as error:
            problem = InvalidReplyError(_complaint(error))
        except RecursionError:
            problem = InvalidReplyError(_TOO_DEEP)
    raise problem


def _objects(text: str) -> Iterator[dict[str, Any] | InvalidReplyError]:
    """The outermost JSON objects of a text, in order, and what was wrong where one could not be read."""
    start = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            return
        try:
            value, end = FINITE_DECODER.raw_decode(text, start)
            yield value
        except StrictJsonError as error:
            yield InvalidReplyError(f"the reply has {error}")
            return
        except json.JSONDecodeError as error:
            yield InvalidReplyError(f"the reply is not valid JSON: {error.msg} at character {error.pos}")
            end = start + 1
        except RecursionError:
            yield InvalidReplyError(_TOO_DEEP)
            return
        except ValueError:  # an integer of thousands of digits
            yield InvalidReplyError("the reply has a number that is too long")
            return
        start = text.find("{", end)


def _complaint(error: ValidationError) -> str:
    """What a reply got wrong, field by field."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, detail['loc'])) or 'reply'}: {detail['msg']}" for detail in details[:10]]
    return truncate("; ".join(lines), _LONGEST_COMPLAINT_CHARS)


def complete_with_repair(
    reply: type[R],
    complete: Callable[[tuple[RepairTurn, ...]], Completion],
    *,
    said: list[ModelText] | None = None,
) -> tuple[R | ModelFault, Usage]:
    """Ask, validate, and ask once more with the complaint where the reply does not validate.

    `complete` asks the model, given the repairs that went wrong before. Each attempt's text goes to `said`.
    """
    said = [] if said is None else said
    usage, repairs = Usage(), tuple[RepairTurn, ...]()
    while True:
        completion = complete(repairs)
        usage += completion.usage
        parsed = _read(completion, reply)
        said.append(_text(completion, parsed))
        if not isinstance(parsed, InvalidReplyError):
            return parsed, usage
        if repairs:
            reason = f"The reply is no {reply.__name__}, not even after one repair: {parsed}."
            return ModelFault(reason, truncate(completion.text, _LONGEST_RAW_CHARS)), usage
        repairs = (RepairTurn(truncate(completion.text, _LONGEST_SHOWN_CHARS), str(parsed)),)


def _text(completion: Completion, parsed: object) -> ModelText:
    problem = parsed.reason if isinstance(parsed, ModelFault) else str(parsed)
    return ModelText(completion.text, problem if isinstance(parsed, ModelFault | InvalidReplyError) else None)


def _read(completion: Completion, reply: type[R]) -> R | ModelFault | InvalidReplyError:
    """The reply, a fault, or a problem that asking again may solve."""
    if completion.finish in _WITHHELD:
        note = f" ({completion.note})" if completion.note else ""
        return ModelFault(f"{_WITHHELD[completion.finish]}{note}.", truncate(completion.text, _LONGEST_RAW_CHARS))
    if not completion.text.strip():
        reason = (
            "used up its output without a word" if completion.finish is FinishReason.LENGTH else "gave an empty reply"
        )
        return ModelFault(f"The model {reason}.")
    try:
        return parse_reply(completion.text, reply)
    except InvalidReplyError as problem:
        if completion.finish is FinishReason.LENGTH:
            return ModelFault(
                "The reply was cut off at the limit of the model's output.",
                truncate(completion.text, _LONGEST_RAW_CHARS),
            )
        return problem


_WITHHELD: Final = {
    FinishReason.REFUSED: "The model refused to answer",
    FinishReason.BLOCKED: "A filter of the provider blocked the answer",
}
