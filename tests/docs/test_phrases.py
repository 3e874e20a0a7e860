"""Phrases that we do not use, with better ones, in docs, help texts, messages, templates, docstrings and comments.

To add one, add a line to PHRASES: a regular expression, in which a space matches any white space, and what to write.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs import ROOT

PHRASES = {
    r"a person": "you, a user, an annotator",
    r"(some|no|any|every)body": "name who: you, users, annotators, no one, everyone",
    r"who(m)?ever": "anyone who, the caller, the reader",
    r"strangers?('s)?": "someone else's, untrusted",
    r"stands?(?! (for|alone|out)\b|-)": "is, appears, is listed",
    r"told": "shown, printed, described, distinguished",
    r"mend(s|ed|ing)?": "fix, repair",
    r"rest(s|ed|ing)? (up)?on": "is supported by, depends on",
    r"of (its|their|his|her|one's) own": "its own X, a separate X",
    r"(is|are|was|were) to be": "will be, must be, should be",
    r"said to be": "is, is called",
    r"so much": "this much, a lot",
    r"as many as": "up to, the number of",
    r"by the clock": "elapsed",
    r"go(es|ing)? on(?! the)": "continue",
    r"anew": "again",
    r"once more": "again",
    r"as ever": "as before, as usual",
    r"at hand(?!\?)": "current, available",
    r"but for": "except, apart from",
    r"(knows?|says?|tells?|sees?|and) nothing of": "nothing about",
    r"for (want|lack) of": "without",
    r"in peace": "undisturbed",
    r"shall": "will, must",
    r"by lot": "at random",
    r"earned (stop|its)|stop was earned": "the evidence settled",
    r"beside other work": "(leave it out; figures belong on the page of measurements)",
    r"drawn world": "synthetic world, synthetic video",
    r"questions of (long|your) videos?": "questions about videos",
    r"(cannot|can) tell of|of anything else it": "it cannot recognise",
    r"looks? well": "(say what to do)",
    r"paid for before": "cached",
    r"ha(s|ve) no say": "does not count",
    r"answers? in words|in free words": "free-text answer, free text",
    r"ask no more": "stop",
    r"(ends it|takes a free one)": "press Ctrl-C to stop, 0 picks a free port",
    r"nowhere new": "no new segments",
    r"(its|the whole) story": "details, the search",
    r"hold(s)? no (assignment|seat)|a free seat": "no item open, unassigned",
    r"(?<!here\s)(is|are|was|were) no (?!(long|farth|furth|larg|lat)er|more|less|such)\w+": "is not a, has no",
    r"alone": "only X, by itself",
    r"cannot be (kept|told|had)": "say what is missing, and what to do",
    r"pass(ed|es)? over": "skip",
    r"(is|are) wanted": "is needed, is requested",
    r"in the making": "(say what happens)",
    r"under way": "running, in progress",
}

ALLOWED = {
    ("docs/ask.md", "alone"),
    ("src/trace_ves/agent/comparison.py", "nobody"),  # a list of words that negate
    ("src/trace_ves/web/search_view.py", "told"),  # what answers begin with
    ("src/trace_ves/twin/synthetic/scenery.py", "stand"),  # feet do
    ("src/trace_ves/twin/synthetic/drawing.py", "stands"),
    ("src/trace_ves/twin/synthetic/tracks.py", "stand"),
}
"""Places where a phrase is right."""

ALTERNATIVES = "|".join(f"(?P<p{n}>{each})" for n, each in enumerate(PHRASES))
ANY = re.compile(rf"\b(?:{ALTERNATIVES})\b".replace(" ", r"\s+"), re.IGNORECASE)


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """What a reader may see of a file, each part with its first line; of code its strings and comments."""
    content = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield 1, content
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for number, line in enumerate(content.splitlines(), 1):
        if "# " in line:
            yield number, line.partition("# ")[2]


def files() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "mkdocs.yml", "Makefile"))
    for folder in ("docs", "src", "tools", "perf"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".md", ".html", ".js", ".ipynb"} and not {"prompts", "images"} & {*file.parts}:
                yield file


def odd_phrases(file: Path) -> Iterator[str]:
    """Where the file has a phrase of the list, and what to write instead."""
    place = file.relative_to(ROOT).as_posix()
    better = list(PHRASES.values())
    for line, text in texts(file):
        for match in ANY.finditer(text):
            pattern = int((match.lastgroup or "p0")[1:])
            if (place, match[0].lower()) not in ALLOWED:
                number = line + text.count("\n", 0, match.start())
                yield f"{place}:{number}: {' '.join(match[0].split())!r}; write: {better[pattern]}"


def test_no_odd_phrases() -> None:
    found = sorted(each for file in files() for each in odd_phrases(file))
    assert not found, f"{len(found)} phrases to replace:\n" + "\n".join(found)


def test_phrases_are_found() -> None:
    assert ANY.search("Questions that nobody\n asked")
    assert ANY.search('"""It goes\n    on."""')
    assert ANY.search("What is no\n interval")
    assert not ANY.search("There is no interval, and it is no longer than that")
    assert not ANY.search("The standard understanding withstands a commendable stand-in")
