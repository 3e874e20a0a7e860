"""Types of replies, their JSON schemas, and how a model's text is parsed, validated and repaired once."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model

from trace_ves.backbone.protocol import Generation, ModelFault, R
from trace_ves.backbone.provider import Completion, FinishReason, RepairTurn, truncate
from trace_ves.core.jsonl import DECODER, StrictJsonError
from trace_ves.records import Usage
from trace_ves.records.transcript import ModelText

if TYPE_CHECKING:
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
    return _restricted(reply, question.letters, question.options, forced)


def question_variables(question: Question) -> dict[str, Any]:
    """The variables of a question in every prompt: `question`, and `options` by letter."""
    return {"question": question.text, "options": dict(zip(question.letters, question.options, strict=True))}


def up_to(limit: int) -> BeforeValidator:
    """A validator that cuts a text or a list to its beginning, instead of refusing what is too long."""
    return BeforeValidator(lambda said: said[:limit] if isinstance(said, (str, list)) else said)


def same_answer(one: str | None, other: str | None) -> bool:
    """Whether two answers are the same letter, or the same words except case, punctuation and articles; never None."""
    return one is not None and other is not None and folded(one) == folded(other)


@lru_cache(maxsize=256)
def _restricted(
    reply: type[AnswerT], letters: tuple[str, ...], options: tuple[str, ...], forced: bool
) -> type[AnswerT]:
    one: Any = Literal[letters] if letters else str
    kind: Any = Annotated[
        one if forced else one | None,
        BeforeValidator(partial(_bare_letter, dict(zip(options, letters, strict=True))) if letters else _bare_words),
    ]
    what = "The letter of the right option" if letters else "The answer in a few words"
    default = ... if forced or reply.model_fields["answer"].is_required() else None
    field = Field(default, description=f"{what}{'.' if forced else ', or null where the evidence does not decide.'}")
    return create_model(reply.__name__, __base__=reply, __doc__=reply.__doc__, answer=(kind, field))


def _bare_letter(letters: Mapping[str, str], value: object) -> object:
    """The letter in `(b)`, `B.` and `B. a deer`, unless the words are those of another option."""
    if not isinstance(value, str):
        return value
    bare = value.strip().strip("().:*\"'").upper()
    match = _LETTER_AND_WORDS.match(value.strip())
    if bare in letters.values() or match is None:
        return bare
    named = {letter for option, letter in letters.items() if same_answer(option, value.strip()[match.end() :])}
    return match[1].upper() if named <= {match[1].upper()} else value


_LETTER_AND_WORDS: Final = re.compile(r"[(*]*(?:option\s+)?([A-Za-z])[)*]*[.:)]\**\s+", re.IGNORECASE)


def _bare_words(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


_ARTICLES: Final = frozenset({"a", "an", "the"})


@lru_cache(maxsize=4096)
def folded(text: str) -> tuple[str, ...]:
    """The words of a text without case, punctuation and articles, to compare free text."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)  # a sign is not punctuation: -5 is not 5
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

    def __init__(self, message: str, *, breaks_off: bool = False) -> None:
        super().__init__(message)
        self.breaks_off = breaks_off  # only the same request, with its frames, can bring the rest


def strict_schema(schema: Mapping[str, Any], *, keep: Collection[str] = ()) -> dict[str, Any] | None:
    """The schema as strict modes want it; None where a part has no fixed shape: free keys, a tuple, anything at all."""
    try:
        return _closed(schema, _SHAPE_KEYWORDS | frozenset(keep))
    except _NoFixedShapeError:
        return None


class _NoFixedShapeError(Exception):
    """A part of a schema that strict modes cannot express."""


def _closed(schema: Mapping[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    """The schema with every property required, no others, and only the allowed keywords."""
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
        first, *others = schema.get("prefixItems") or [closed.get("items")]
        if first is None or any(other != first for other in others):
            raise _NoFixedShapeError
        closed["items"] = _closed(first, allowed)  # a pair of numbers is a list of two, for OpenAI's strict mode
    elif not closed.keys() & {"type", "enum", "const"}:
        raise _NoFixedShapeError
    return closed


def parse_reply(text: str, reply: type[R]) -> R:
    """The reply in a model's text, which may have a fence or prose around it. Raises `InvalidReplyError`.

    Only whole, outermost objects count. Of several that validate the last is taken: models think first and answer last.
    """
    return _parse(text, reply)[-1]


def _parse(text: str, reply: type[R]) -> list[R]:
    """Every object of the text that validates, in order; at least one."""
    text = text.rpartition("</think>")[2].strip()  # a model that lost its way may end in thousands of line breaks
    if len(text) > LONGEST_REPLY_CHARS:
        raise InvalidReplyError(f"the reply has {len(text)} characters, more than {LONGEST_REPLY_CHARS}")
    schema = reply.model_json_schema()
    problem, usable = InvalidReplyError("the reply has no JSON object in it"), []
    for value in _objects(text, schema.get("properties", {})):
        try:
            if isinstance(value, InvalidReplyError):
                raise value
            # Through JSON again, so that the reply's own rules for JSON hold; lone surrogates are refused here too.
            parsed = reply.model_validate_json(json.dumps(_adapt(value, schema, schema.get("$defs", {}))))
            if not parsed.model_fields_set:
                raise InvalidReplyError(f"the reply has none of the fields {', '.join(reply.model_fields)}")
            usable.append(parsed)
        except ValidationError as error:
            problem = InvalidReplyError(_complaint(error))
        except RecursionError:
            problem = InvalidReplyError(_TOO_DEEP)
        except InvalidReplyError as error:
            problem = error
            if error.breaks_off:
                raise
    if not usable:
        raise problem
    return usable


def _objects(text: str, properties: Mapping[str, Any]) -> Iterator[dict[str, Any] | InvalidReplyError]:
    """The outermost JSON objects of a text, in order, and what was wrong where one could not be read."""
    fence = _FENCED.fullmatch(text)
    with suppress(ValueError, RecursionError):
        whole = DECODER.decode(fence[1] if fence else text)
        if isinstance(whole, list) and [part.get("type") for part in properties.values()] == ["array"]:
            yield {next(iter(properties)): whole}  # a bare list is the reply's only field
            return
        if isinstance(whole, list) and len(whole) != 1:
            return
    end = 0
    for _ in range(_MOST_OBJECTS):
        if (opening := _OPENING.search(text, end)) is None:
            return
        start = opening.start()
        try:
            value, end = DECODER.raw_decode(text, start)
            yield value
        except json.JSONDecodeError as error:
            problem = f"the reply is not valid JSON: {error.msg} at character {error.pos}"
            if (end := _closing(text, start)) < 0:
                yield InvalidReplyError(f"{problem}; it breaks off", breaks_off=True)
                return
            try:
                yield DECODER.decode(_TRAILING_COMMA.sub(r"\1", text[start:end]))
            except (ValueError, RecursionError):
                yield InvalidReplyError(problem)
        except (ValueError, RecursionError) as error:
            too_long = "the reply has a number that is too long"  # an integer of thousands of digits
            problem = f"the reply has {error}" if isinstance(error, StrictJsonError) else too_long
            yield InvalidReplyError(_TOO_DEEP if isinstance(error, RecursionError) else problem)
            return


_FENCED: Final = re.compile(r"```\w*\s(.*?)\s*```", re.DOTALL)
_OPENING: Final = re.compile(r"""\{(?=\s*(?:["'}]|\w+\s*:|$))""")  # of an object; other braces are prose
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_BRACES: Final = re.compile(rf'{_STRING}|["{{}}]', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def _closing(text: str, start: int) -> int:
    """Where the object that opens at `start` ends, after its brace; -1 where it breaks off."""
    depth = 0
    for token in _BRACES.finditer(text, start):
        if token[0] == '"':  # a string that does not end
            return -1
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0 and token[0] == "}":
            return token.end()
    return -1


def _adapt(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """The value in the form that the schema asks for, where a model wrote it in another natural one."""
    schema = definitions.get(str(schema.get("$ref")).rpartition("/")[2], schema)
    branches = [branch for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
    if len(branches) == 1:  # something or null
        return _adapt(value, branches[0], definitions)
    kind = schema.get("type")
    if kind == "array" and isinstance(value, dict) and schema.get("minItems") == 2 and value.keys() == {"start", "end"}:
        value = [value["start"], value["end"]]
    if kind == "array" and isinstance(value, list):
        parts = schema.get("prefixItems") or [schema.get("items", {})] * len(value)
        if len(parts) == len(value):
            value = [_adapt(*pair, definitions) for pair in zip(value, parts, strict=True)]
    elif kind == "object" and isinstance(value, dict):
        properties = schema.get("properties", {})
        value = {name: _adapt(part, properties.get(name, {}), definitions) for name, part in value.items()}
    elif isinstance(value, str) and "enum" in schema:
        bare = value.strip(" .*\"'").casefold()
        value = next((one for one in schema["enum"] if str(one).casefold() == bare), value)
    elif isinstance(value, str) and kind in {"number", "integer"}:
        value = _number(value)
    elif kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value).removesuffix(".0")
    return value


_MEASURE: Final = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*(?:s|secs?|seconds?)?\.?", re.IGNORECASE)
_CLOCK: Final = re.compile(r"(?:(\d{1,3}):)?(\d{1,3}):(\d{2}(?:\.\d+)?)")


def _number(said: str) -> Any:
    """The number in `113.5 s` or, in seconds, in `2:35` and `1:02:35`; what was said where it is neither."""
    if match := _MEASURE.fullmatch(said.strip()):
        return float(match[1])
    if match := _CLOCK.fullmatch(said.strip()):
        return 3600 * int(match[1] or 0) + 60 * int(match[2]) + float(match[3])
    return said


def _complaint(error: ValidationError) -> str:
    """What a reply got wrong, field by field."""
    lines = [f"{'.'.join(map(str, detail['loc'])) or 'reply'}: {detail['msg']}" for detail in error.errors()[:10]]
    return truncate("; ".join(lines), _LONGEST_COMPLAINT_CHARS)


def complete_with_repair(
    reply: type[R],
    complete: Callable[[tuple[RepairTurn, ...]], Completion],
    *,
    said: list[ModelText] | None = None,
) -> tuple[R | ModelFault, Usage]:
    """Ask, validate, and ask again where the reply does not validate.

    `complete` asks the model, given the replies that went wrong before; none are given where a reply was empty or broke
    off, which is asked for again as it was. Each attempt's text goes to `said`.
    """
    said = [] if said is None else said
    usage, repairs, is_repeated = Usage(), tuple[RepairTurn, ...](), False
    while True:
        completion = complete(repairs)
        usage += completion.usage
        parsed, problem = _read(completion, reply)
        said.append(ModelText(completion.text, problem))
        if not isinstance(parsed, InvalidReplyError):
            return parsed, usage
        if is_repeated:
            reason = f"The reply is not a valid {reply.__name__}, even after one repair: {parsed}."
            return ModelFault(reason, truncate(completion.text, _LONGEST_RAW_CHARS)), usage
        is_repeated = True
        if not parsed.breaks_off:
            repairs = (RepairTurn(truncate(completion.text, _LONGEST_SHOWN_CHARS), str(parsed)),)


def validate_first(
    reply: type[R],
    first: tuple[Completion, float],
    ask_again: Callable[[tuple[RepairTurn, ...]], tuple[Completion, float]],
) -> Generation[R]:
    """The generation of a completion that a batch brought; a repair is one more call. Both come with their seconds."""
    seconds, said = [first[1]], list[ModelText]()

    def complete(repairs: tuple[RepairTurn, ...]) -> Completion:
        if not repairs:
            return first[0]
        completion, taken = ask_again(repairs)
        seconds.append(taken)
        return completion

    parsed, usage = complete_with_repair(reply, complete, said=said)
    return Generation(parsed, usage, sum(seconds), said=tuple(said))


def _read(completion: Completion, reply: type[R]) -> tuple[R | ModelFault | InvalidReplyError, str | None]:
    """The reply, a fault, or a problem that asking again may solve; and what is wrong with the text, if anything."""
    text, finish, fault = completion.text, completion.finish, ""
    if finish in _WITHHELD:
        fault = f"{_WITHHELD[finish]}{f' ({completion.note})' if completion.note else ''}."
    elif finish is FinishReason.LENGTH and not text.rstrip("`\n ").endswith(("}", "]")):
        fault = CUT_OFF if text.strip() else USED_UP
    else:
        try:
            if not text.strip():
                raise InvalidReplyError("it is empty", breaks_off=True)
            *others, parsed = _parse(text, reply)
        except InvalidReplyError as problem:
            if finish is not FinishReason.LENGTH:
                return problem, str(problem)
            fault = CUT_OFF
        else:
            guess = LAST_WORDS if finish is FinishReason.LENGTH else None
            return parsed, SEVERAL if any(other != parsed for other in others) else guess
    return ModelFault(fault, truncate(text, _LONGEST_RAW_CHARS)), fault


USED_UP: Final = "The model used up its output without a word; raise --max-output-tokens."
CUT_OFF: Final = "The reply was cut off at the limit of the model's output; raise --max-output-tokens."
LAST_WORDS: Final = "the model ran out of output right after this reply"
SEVERAL: Final = "the text holds several replies that differ; the last one was taken"
_WITHHELD: Final = {
    FinishReason.REFUSED: "The model refused to answer",
    FinishReason.BLOCKED: "A filter of the provider blocked the answer",
}
