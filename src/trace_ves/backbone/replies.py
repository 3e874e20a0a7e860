"""Reply types and their JSON schemas, and the parsing, validation and repair of a model's text."""

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
    """The reply type whose `answer` is a letter of this question, or free text if it is open, or null if not forced."""
    return restrict_answer(AnswerReply, question, forced=forced)


def restrict_answer(reply: type[AnswerT], question: Question, *, forced: bool = False) -> type[AnswerT]:
    """The reply type with its field `answer` restricted to the answers that this question allows."""
    return _restricted(reply, question.letters, question.options, forced)


def question_variables(question: Question) -> dict[str, Any]:
    """The variables of a question in every prompt: `question`, and `options` by letter."""
    return {"question": question.text, "options": dict(zip(question.letters, question.options, strict=True))}


def up_to(limit: int) -> BeforeValidator:
    """A validator that shortens a text or a list instead of refusing it."""
    return BeforeValidator(lambda value: value[:limit] if isinstance(value, (str, list)) else value)


def same_answer(one: str | None, other: str | None) -> bool:
    """Whether two answers are equal except for case, punctuation and articles. False if one is None."""
    return one is not None and other is not None and fold_words(one) == fold_words(other)


@lru_cache(maxsize=256)
def _restricted(
    reply: type[AnswerT], letters: tuple[str, ...], options: tuple[str, ...], forced: bool
) -> type[AnswerT]:
    one: Any = Literal[letters] if letters else str
    kind: Any = Annotated[
        one if forced else one | None,
        BeforeValidator(partial(_parse_letter, dict(zip(options, letters, strict=True))) if letters else _strip_words),
    ]
    meaning = "The letter of the right option" if letters else "The answer in a few words"
    default = ... if forced or reply.model_fields["answer"].is_required() else None
    field = Field(default, description=f"{meaning}{'.' if forced else ', or null where the evidence does not decide.'}")
    return create_model(reply.__name__, __base__=reply, __doc__=reply.__doc__, answer=(kind, field))


def _parse_letter(letters: Mapping[str, str], value: object) -> object:
    """The letter in `(b)`, `B.` and `B. a deer`, unless the text is that of another option."""
    if not isinstance(value, str):
        return value
    bare = value.strip().strip("().:*\"'").upper()
    match = _LETTER_AND_WORDS.match(value.strip())
    if bare in letters.values() or match is None:
        return bare
    by_text = {letter for option, letter in letters.items() if same_answer(option, value.strip()[match.end() :])}
    return match[1].upper() if by_text <= {match[1].upper()} else value


_LETTER_AND_WORDS: Final = re.compile(r"[(*]*(?:option\s+)?([A-Za-z])[)*]*[.:)]\**\s+", re.IGNORECASE)


def _strip_words(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


_ARTICLES: Final = frozenset({"a", "an", "the"})


@lru_cache(maxsize=4096)
def fold_words(text: str) -> tuple[str, ...]:
    """The words of a text without case, punctuation and articles, to compare free text."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)  # a minus sign is not punctuation: -5 differs from 5
    text = re.sub(r"['\N{RIGHT SINGLE QUOTATION MARK}]", "", text)
    spaced = "".join(" " if unicodedata.category(char).startswith("P") else char for char in text)
    words = tuple(spaced.split())
    return tuple(word for word in words if word not in _ARTICLES) or words or (text.strip(),)


LONGEST_REPLY_CHARS: Final = 200_000  # A longer reply is a fault: no stage needs as much
_LONGEST_RAW_CHARS: Final = 2_000
_LONGEST_QUOTE_CHARS: Final = 20_000
_LONGEST_COMPLAINT_CHARS: Final = 1_500
_MOST_OBJECTS: Final = 32
_TOO_DEEP: Final = "the reply is nested too deeply"
_SHAPE_KEYWORDS: Final = frozenset(
    {"$defs", "$ref", "anyOf", "const", "description", "enum", "items", "properties", "required", "title", "type"}
)
ENFORCED_KEYWORDS: Final = (  # Keywords that strict modes enforce besides those of shape
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minItems", "maxItems", "pattern"),
)


class InvalidReplyError(ValueError):
    """A model's text is not a valid reply. The model sees the message."""

    def __init__(self, message: str, *, breaks_off: bool = False) -> None:
        super().__init__(message)
        self.breaks_off = breaks_off  # The text is incomplete, so the request is sent again with its frames


def make_strict_schema(schema: Mapping[str, Any], *, keep: Collection[str] = ()) -> dict[str, Any] | None:
    """The schema in the form that strict modes require; None if a part has no fixed shape, such as free keys."""
    try:
        return _close_schema(schema, _SHAPE_KEYWORDS | frozenset(keep))
    except _NoFixedShapeError:
        return None


class _NoFixedShapeError(Exception):
    """A part of a schema that strict modes cannot express."""


def _close_schema(schema: Mapping[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    """The schema with every property required, no other properties, and only the allowed keywords."""
    closed = {keyword: value for keyword, value in schema.items() if keyword in allowed}
    if "oneOf" in schema:
        closed["anyOf"] = schema["oneOf"]
    if definitions := closed.pop("$defs", None):
        closed["$defs"] = {name: _close_schema(part, allowed) for name, part in definitions.items()}
    if "$ref" in closed:  # strict modes allow no keyword beside a reference
        return {keyword: value for keyword, value in closed.items() if keyword in {"$ref", "$defs"}}
    if "anyOf" in closed:
        closed["anyOf"] = [_close_schema(part, allowed) for part in closed["anyOf"]]
    elif closed.get("type") == "object":
        if "properties" not in closed or schema.get("additionalProperties"):
            raise _NoFixedShapeError
        properties = {name: _close_schema(part, allowed) for name, part in closed["properties"].items()}
        closed |= {"properties": properties, "required": list(properties), "additionalProperties": False}
    elif closed.get("type") == "array":
        first, *others = schema.get("prefixItems") or [closed.get("items")]
        if first is None or any(other != first for other in others):
            raise _NoFixedShapeError
        closed["items"] = _close_schema(first, allowed)  # for OpenAI's strict mode, a pair of numbers is a list
    elif not closed.keys() & {"type", "enum", "const"}:
        raise _NoFixedShapeError
    return closed


def parse_reply(text: str, reply: type[R]) -> R:
    """Parse a model's text, which may have a fence or prose around the reply. Raises `InvalidReplyError`.

    Only complete, outermost objects count. The last valid one is the reply: models think first and answer last.
    """
    return _parse(text, reply)[-1]


def _parse(text: str, reply: type[R]) -> list[R]:
    """Every valid reply in the text, in order; at least one."""
    text = text.rpartition("</think>")[2].strip()  # a failing model may end in thousands of line breaks
    if len(text) > LONGEST_REPLY_CHARS:
        raise InvalidReplyError(f"the reply has {len(text)} characters, more than {LONGEST_REPLY_CHARS}")
    schema = reply.model_json_schema()
    problem, replies = InvalidReplyError("the reply has no JSON object in it"), []
    for value in _objects(text, schema.get("properties", {})):
        try:
            if isinstance(value, InvalidReplyError):
                raise value
            # as JSON, so that pydantic's rules for JSON apply; this also refuses lone surrogates
            parsed = reply.model_validate_json(json.dumps(_adapt(value, schema, schema.get("$defs", {}))))
            if not parsed.model_fields_set:
                raise InvalidReplyError(f"the reply has none of the fields {', '.join(reply.model_fields)}")
            replies.append(parsed)
        except ValidationError as error:
            problem = InvalidReplyError(_describe_errors(error))
        except RecursionError:
            problem = InvalidReplyError(_TOO_DEEP)
        except InvalidReplyError as error:
            problem = error
            if error.breaks_off:
                raise
    if not replies:
        raise problem
    return replies


def _objects(text: str, properties: Mapping[str, Any]) -> Iterator[dict[str, Any] | InvalidReplyError]:
    """The outermost JSON objects of a text in order, or an error for one that cannot be parsed."""
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
            if (end := _find_end(text, start)) < 0:
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
_OPENING: Final = re.compile(r"""\{(?=\s*(?:["'}]|\w+\s*:|$))""")  # Of an object; other braces are prose
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_BRACES: Final = re.compile(rf'{_STRING}|["{{}}]', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def _find_end(text: str, start: int) -> int:
    """The index after the closing brace of the object that starts here; -1 if the text is incomplete."""
    depth = 0
    for token in _BRACES.finditer(text, start):
        if token[0] == '"':  # a string that does not end
            return -1
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0 and token[0] == "}":
            return token.end()
    return -1


def _adapt(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """Convert other natural forms of a value, such as `"2:35"` for seconds, to the type in the schema."""
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
        value = _parse_number(value)
    elif kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value).removesuffix(".0")
    return value


_MEASURE: Final = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*(?:s|secs?|seconds?)?\.?", re.IGNORECASE)
_CLOCK: Final = re.compile(r"(?:(\d{1,3}):)?(\d{1,3}):(\d{2}(?:\.\d+)?)")


def _parse_number(text: str) -> Any:
    """The number in `113.5 s`, or the seconds of `2:35` and `1:02:35`; any other text unchanged."""
    if match := _MEASURE.fullmatch(text.strip()):
        return float(match[1])
    if match := _CLOCK.fullmatch(text.strip()):
        return 3600 * int(match[1] or 0) + 60 * int(match[2]) + float(match[3])
    return text


def _describe_errors(error: ValidationError) -> str:
    """The errors of a reply, field by field."""
    lines = [f"{'.'.join(map(str, detail['loc'])) or 'reply'}: {detail['msg']}" for detail in error.errors()[:10]]
    return truncate("; ".join(lines), _LONGEST_COMPLAINT_CHARS)


def complete_with_repair(
    reply: type[R], complete: Callable[[tuple[RepairTurn, ...]], Completion], *, texts: list[ModelText] | None = None
) -> tuple[R | ModelFault, Usage]:
    """Ask for a reply, validate it, and ask again if it is invalid.

    `complete` sends the request with the invalid reply, or without it if the reply was empty or incomplete. The text of
    each attempt is appended to `texts`.
    """
    texts = [] if texts is None else texts
    usage, repairs, is_repeated = Usage(), tuple[RepairTurn, ...](), False
    while True:
        completion = complete(repairs)
        usage += completion.usage
        parsed, problem = _read_completion(completion, reply)
        texts.append(ModelText(completion.text, problem))
        if not isinstance(parsed, InvalidReplyError):
            return parsed, usage
        if is_repeated:
            reason = f"The reply is not a valid {reply.__name__}, even after one repair: {parsed}."
            return ModelFault(reason, truncate(completion.text, _LONGEST_RAW_CHARS)), usage
        is_repeated = True
        if not parsed.breaks_off:
            repairs = (RepairTurn(truncate(completion.text, _LONGEST_QUOTE_CHARS), str(parsed)),)


def validate_completion(
    reply: type[R],
    first: tuple[Completion, float],
    ask_again: Callable[[tuple[RepairTurn, ...]], tuple[Completion, float]],
) -> Generation[R]:
    """Validate a completion of a batch; repair it with one more call. Completions come with their seconds."""
    seconds, texts = [first[1]], list[ModelText]()

    def complete(repairs: tuple[RepairTurn, ...]) -> Completion:
        if not repairs:
            return first[0]
        completion, duration = ask_again(repairs)
        seconds.append(duration)
        return completion

    parsed, usage = complete_with_repair(reply, complete, texts=texts)
    return Generation(parsed, usage, sum(seconds), texts=tuple(texts))


def _read_completion(completion: Completion, reply: type[R]) -> tuple[R | ModelFault | InvalidReplyError, str | None]:
    """The reply, a fault, or an error that a repair may solve; and the problem with the text, if any."""
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
