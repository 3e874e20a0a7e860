"""Find the option that a free-text response names.

All letters are treated alike: a capital is an option unless a lower-case word follows it ("A man", "I pick").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from trace_ves.core.subtitles import split_words

if TYPE_CHECKING:
    from trace_ves.core.question import Question

Rule = Literal["single letter", "statement", "first letter", "option text", "only letter", "not read"]
LONGEST_READ: Final = 20_000  # characters read from the end of a response, where the answer is

_THOUGHT: Final = r"(?:think|thinking|thought|reasoning|analysis)"
_REASONING: Final = re.compile(
    rf"(?is)<{_THOUGHT}>.*?(?:</{_THOUGHT}>|\Z)|◁think▷.*?(?:◁/think▷|\Z)|\A.*(?:</{_THOUGHT}>|◁/think▷)"
)
# A capital before a lower-case word is an article or a pronoun, unless the word continues a sentence about the option.
_NEXT: Final = (
    r"(?![\w'\u2019])(?!\s+(?!(?:or|and|because|since|as|is|was|which|based|but|due|for|with|would|seems|appears)\b)"
    r"[a-z])"
)
_LETTER: Final = rf"(?<![\w'\u2019])([A-Z]){_NEXT}"
_OPTION: Final = r"(?:(?:the|option|choice|answer|letter)\s+){0,4}"
_DENIED: Final = re.compile(
    rf"(?i:\b(?:not|n't|n\u2019t|neither|nor|except|than|instead of|rules? out|eliminates?|exclude)\s+{_OPTION})"
    rf"[\W_]{{0,3}}{_LETTER}"
    rf"|(?i:\b{_OPTION})[\W_]{{0,3}}{_LETTER}[\W_]{{0,3}}\s*(?i:(?:is|was|are|seems|would be|can|could|does|do)"
    r"(?:\s+\w+)?(?:\s*(?:not|n't|n\u2019t)\b|cannot\b|\s+(?:wrong|incorrect|false|untrue|impossible|unlikely)\b))"
)
_FILLER: Final = (
    r"(?:[\W_]*\b(?:is|was|be|would|should|must|will|to|the|my|a|an|most|likely|probably|clearly|therefore|thus|so|"
    r"correct|right|best|final|option|choice|answer|letter|with|for)\b){0,6}[\W_]*"
)
_STATEMENT: Final = re.compile(
    r"(?i:\b(?:answers?|final|conclusion|(?:correct|right|best) (?:option|choice|one)|choose|pick|select|go with"
    r"|opt for|answered|boxed|text)\b)"
    rf"(?i:{_FILLER}){_LETTER}"
    rf"|{_LETTER}[\W_]{{0,3}}\s*(?i:(?:is|was|would be|must be)(?:\s+\w+)?\s+(?:correct|right|best|true|answer)\b)"
)
_FIRST: Final = re.compile(
    r"(?m)^(?:[^\w\n]|_)*(?:(?i:option|choice|letter)\s+[(\[*]{0,2})?([A-Z])"
    r"(?:\s*[.):\n]|\s+[-\u2013\u2014(]|,(?!\s*(?:and|or)?\s*[A-Z]\b))"
)
"""A line that begins with a letter: "B. the hunter", "Option B: …", "B, the hunter", but not "A, B"."""


class LetterReading(NamedTuple):
    """The option of a response, or None if it names none or several, and the rule that found it."""

    letter: str | None
    rule: Rule


def read_letter(text: str, question: Question) -> LetterReading:
    """Find the option that a response names: by the last explicit statement, else by an option's text."""
    response = _REASONING.sub(" ", text[-LONGEST_READ:]).strip()
    if tags := re.findall(r"(?is)<answer>(.*?)(?:</answer>|\Z)", response):
        response = tags[-1].strip()
    letters = question.letters

    def option_letters(matches: Iterable[re.Match[str]]) -> list[str]:
        groups = (next((group for group in match.groups() if group), "") for match in matches)
        return [group for group in groups if group in letters]

    if (single := re.fullmatch(r"[\W_]*([A-Za-z])[\W_]*", response)) and single[1].upper() in letters:
        return LetterReading(single[1].upper(), "single letter")
    # (b) and "answer: b" are letters too; a denied letter ("not A", "A is wrong") does not count.
    response = re.sub(r"(?<!\w)([({\[*])([a-z])(?=[)}\]*])", lambda match: match[1] + match[2].upper(), response)
    response = re.sub(
        r"(?i:\b(?:answer|option|choice)(?:\s+is)?[\s:]+)[a-z](?=\s*[.,;)]|\s*\Z)",
        lambda match: match[0][:-1] + match[0][-1].upper(),
        response,
    )
    claims = _DENIED.sub(" ", response).lstrip()
    if statements := option_letters(_STATEMENT.finditer(claims)):
        return LetterReading(statements[-1], "statement")
    first = option_letters(_FIRST.finditer(claims))
    if len(set(first)) == 1 and (opening := _FIRST.match(claims)) and opening[1] == first[0]:
        return LetterReading(first[0], "first letter")
    if (option := _find_option(response, question)) is not None:
        return LetterReading(option, "option text")
    mentioned = set(option_letters(re.finditer(_LETTER, claims)))
    return LetterReading(mentioned.pop(), "only letter") if len(mentioned) == 1 else LetterReading(None, "not read")


def _find_option(response: str, question: Question) -> str | None:
    """The only option that equals the response, else the only one that a short response contains."""
    for letter, text in zip(question.letters, question.options, strict=True):  # "C red car"
        if split_words(text) and split_words(response) == [letter.casefold(), *split_words(text)]:
            return letter
    options = {letter: _plain(text) for letter, text in zip(question.letters, question.options, strict=True)}
    words = _plain(response)
    same = [letter for letter, option in options.items() if option and option == words]
    if same or len(words) > 2 * sum(map(len, options.values())):
        return same[0] if len(same) == 1 else None
    inside = {letter: option for letter, option in options.items() if option and f" {option} " in f" {words} "}
    longest = [
        letter
        for letter, option in inside.items()
        if not any(option != other and f" {option} " in f" {other} " for other in inside.values())
    ]
    return longest[0] if len(longest) == 1 else None


def _plain(text: str) -> str:
    """The words without their articles."""
    return " ".join(word for word in split_words(text) if word not in {"a", "an", "the"})
