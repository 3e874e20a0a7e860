"""The shape of an answer: one of the question's own letters, free words for an open question, or null.

Knows questions, not methods. A letter that the question does not have never validates, so it can never be scored.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, create_model

if TYPE_CHECKING:
    from trace_ves.core import Question


class AnswerReply(BaseModel):
    """What a model answers. Null says that the evidence does not decide."""

    answer: str | None = Field(description="The answer, or null where the frames do not decide.")


def answer_reply(question: Question) -> type[AnswerReply]:
    """The reply whose `answer` can only be one of this question's letters, or null; free words if it is open."""
    return _words_reply() if question.is_open else _letter_reply(question.letters)


def letter_type(letters: tuple[str, ...]) -> Any:
    """The type of one of these letters, or null. Case and brackets are forgiven: `(b)` and `B.` are B."""
    return Annotated[Literal[letters] | None, BeforeValidator(_bare_letter)]


def same_answer(one: str | None, other: str | None) -> bool:
    """Whether two answers say the same: the same letter, or the same words but for case, punctuation and articles.

    No answer is the same as nothing, not even as no answer.
    """
    return one is not None and other is not None and _folded(one) == _folded(other)


@lru_cache(maxsize=64)
def _letter_reply(letters: tuple[str, ...]) -> type[AnswerReply]:
    field = Field(description="The letter of the right option, or null where the frames do not decide.")
    return create_model("AnswerReply", __base__=AnswerReply, answer=(letter_type(letters), field))


@lru_cache(maxsize=1)
def _words_reply() -> type[AnswerReply]:
    field = Field(description="The answer in a few words, or null where the frames do not decide.")
    return create_model(
        "AnswerReply", __base__=AnswerReply, answer=(Annotated[str | None, BeforeValidator(_bare_words)], field)
    )


def _bare_letter(value: object) -> object:
    return value.strip().strip("().:*\"'").upper() if isinstance(value, str) else value


def _bare_words(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


_ARTICLES: Final = frozenset({"a", "an", "the"})


@lru_cache(maxsize=4096)
def _folded(text: str) -> tuple[str, ...]:
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)  # a sign is no punctuation: -5 is not 5
    text = re.sub(r"['\N{RIGHT SINGLE QUOTATION MARK}]", "", text)
    spaced = "".join(" " if unicodedata.category(char).startswith("P") else char for char in text)
    words = tuple(spaced.split())
    return tuple(word for word in words if word not in _ARTICLES) or words or (text.strip(),)
