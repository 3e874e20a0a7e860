"""The option that a model's free text names, or none: a guess is no answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trace_ves.core.question import Question

LONGEST_READ: Final = 20_000
"""Characters of a response that are looked at, from its end: an answer that follows a long thought stands there."""

_FORMS: Final = (
    r"\A\W*([A-Za-z])\W*\Z",  # B, (b), **B.**
    r"\A\W*([A-Z])\s*[.):\n]",  # B. the hunter
    r"(?i:\banswer\b)\W*(?:is\b)?\W*([A-Z])\b",  # The answer is (B).
    r"\\boxed\{\W*([A-Z])\W*\}",
)
"""The ways in which models name an option, the surest first."""


def letter_in(text: str, question: Question) -> str | None:
    """The letter of the option that a response names; None where it names none, or more than one."""
    response = text[-LONGEST_READ:].strip()
    for form in _FORMS:
        named: list[str] = [
            letter.upper() for letter in re.findall(form, response) if letter.upper() in question.letters
        ]
        if named:
            return named[-1]  # what is said last, after a thought, is the answer
    same = [
        letter
        for letter, option in zip(question.letters, question.options, strict=True)
        if _plain(option) and _plain(option) == _plain(response)
    ]
    if same:
        return same[0] if len(same) == 1 else None
    alone = {each for each in re.findall(r"(?<![\w'])([A-Z])(?![\w'])", response) if each in question.letters}
    return alone.pop() if len(alone) == 1 and "A" not in alone else None  # a lone A may be the article


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
