"""The shape of an answer: one of the question's own letters, free words for an open question, or null where allowed.

Knows questions, not methods. A letter that the question does not have never validates, so it can never be scored.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, create_model

if TYPE_CHECKING:
    from trace_ves.core import Question


class AnswerReply(BaseModel):
    """What a model answers. Null says that the evidence does not decide."""

    answer: str | None = Field(description="The answer, or null where the evidence does not decide.")


AnswerT = TypeVar("AnswerT", bound=BaseModel)


def answer_reply(question: Question, *, forced: bool = False) -> type[AnswerReply]:
    """The reply whose `answer` can only be one of this question's letters; free words if it is open.

    Null is an answer too, unless one is forced.
    """
    return restrict_answer(AnswerReply, question, forced=forced)


def restrict_answer(reply: type[AnswerT], question: Question, *, forced: bool = False) -> type[AnswerT]:
    """A reply that has an `answer` among other fields, narrowed to what this question allows."""
    return _restricted(reply, question.letters, forced)


def question_variables(question: Question) -> dict[str, Any]:
    """How a question enters every prompt: under the names `question` and `options`, a mapping of letters to words."""
    return {"question": question.text, "options": dict(zip(question.letters, question.options, strict=True))}


def letter_type(letters: tuple[str, ...], *, forced: bool = False) -> Any:
    """The type of one of these letters, or null. Case and brackets are forgiven: `(b)` and `B.` are B."""
    letter: Any = Literal[letters]
    return Annotated[letter if forced else letter | None, BeforeValidator(_bare_letter)]


def up_to(limit: int) -> BeforeValidator:
    """Of a text or a list, keep the beginning: a model that says too much has not said nothing."""
    return BeforeValidator(lambda said: said[:limit] if isinstance(said, (str, list)) else said)


def same_answer(one: str | None, other: str | None) -> bool:
    """Whether two answers say the same: the same letter, or the same words but for case, punctuation and articles.

    No answer is the same as nothing, not even as no answer.
    """
    return one is not None and other is not None and folded(one) == folded(other)


@lru_cache(maxsize=256)
def _restricted(reply: type[AnswerT], letters: tuple[str, ...], forced: bool) -> type[AnswerT]:
    words: Any = _SOME_WORDS if forced else _WORDS
    kind: Any = letter_type(letters, forced=forced) if letters else words
    what = "The letter of the right option" if letters else "The answer in a few words"
    default = ... if forced or reply.model_fields["answer"].is_required() else None
    field = Field(default, description=f"{what}{'.' if forced else ', or null where the evidence does not decide.'}")
    return create_model(reply.__name__, __base__=reply, __doc__=reply.__doc__, answer=(kind, field))


def _bare_letter(value: object) -> object:
    return value.strip().strip("().:*\"'").upper() if isinstance(value, str) else value


def _bare_words(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


_WORDS: Final = Annotated[str | None, BeforeValidator(_bare_words)]
_SOME_WORDS: Final = Annotated[str, BeforeValidator(_bare_words)]
_ARTICLES: Final = frozenset({"a", "an", "the"})


@lru_cache(maxsize=4096)
def folded(text: str) -> tuple[str, ...]:
    """The words of a text but for case, punctuation and articles: what is compared where words may be chosen freely."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)  # a sign is no punctuation: -5 is not 5
    text = re.sub(r"['\N{RIGHT SINGLE QUOTATION MARK}]", "", text)
    spaced = "".join(" " if unicodedata.category(char).startswith("P") else char for char in text)
    words = tuple(spaced.split())
    return tuple(word for word in words if word not in _ARTICLES) or words or (text.strip(),)
