"""The shape of an answer: one of the question's own letters, free words for an open question, or null.

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


AnswerT = TypeVar("AnswerT", bound=AnswerReply)


def answer_reply(question: Question) -> type[AnswerReply]:
    """The reply whose `answer` can only be one of this question's letters, or null; free words if it is open."""
    return restrict_answer(AnswerReply, question)


def restrict_answer(reply: type[AnswerT], question: Question) -> type[AnswerT]:
    """A reply that has an `answer` among other fields, narrowed to what this question allows."""
    return _restricted(reply, question.letters)


def question_variables(question: Question) -> dict[str, Any]:
    """How a question enters every prompt: under the names `question` and `options`, a mapping of letters to words."""
    return {"question": question.text, "options": dict(zip(question.letters, question.options, strict=True))}


def letter_type(letters: tuple[str, ...]) -> Any:
    """The type of one of these letters, or null. Case and brackets are forgiven: `(b)` and `B.` are B."""
    return Annotated[Literal[letters] | None, BeforeValidator(_bare_letter)]


def same_answer(one: str | None, other: str | None) -> bool:
    """Whether two answers say the same: the same letter, or the same words but for case, punctuation and articles.

    No answer is the same as nothing, not even as no answer.
    """
    return one is not None and other is not None and _folded(one) == _folded(other)


@lru_cache(maxsize=256)
def _restricted(reply: type[AnswerT], letters: tuple[str, ...]) -> type[AnswerT]:
    kind: Any = letter_type(letters) if letters else _WORDS
    what = "The letter of the right option" if letters else "The answer in a few words"
    default = ... if reply.model_fields["answer"].is_required() else None
    field = Field(default, description=f"{what}, or null where the evidence does not decide.")
    return create_model(reply.__name__, __base__=reply, __doc__=reply.__doc__, answer=(kind, field))


def _bare_letter(value: object) -> object:
    return value.strip().strip("().:*\"'").upper() if isinstance(value, str) else value


def _bare_words(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


_WORDS: Final = Annotated[str | None, BeforeValidator(_bare_words)]
_ARTICLES: Final = frozenset({"a", "an", "the"})


@lru_cache(maxsize=4096)
def _folded(text: str) -> tuple[str, ...]:
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)  # a sign is no punctuation: -5 is not 5
    text = re.sub(r"['\N{RIGHT SINGLE QUOTATION MARK}]", "", text)
    spaced = "".join(" " if unicodedata.category(char).startswith("P") else char for char in text)
    words = tuple(spaced.split())
    return tuple(word for word in words if word not in _ARTICLES) or words or (text.strip(),)
