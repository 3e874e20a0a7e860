"""What the symbols and words of the page mean: one table, behind every tooltip and the page's glossary."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Term:
    """A word or a symbol, in a sentence for its tooltip and in more of them for the glossary."""

    id: str
    """Its anchor in the glossary."""
    name: str
    group: str
    short: str
    more: str = ""


MEASURES, BUCKETS, SEARCH, ACTIONS, ENDINGS, READING, COSTS = (
    "Measures of the audit",
    "What an answer is worth",
    "TRACE's search",
    "What the reconciler decides",
    "How a search ended",
    "Signs in tables and timelines",
    "Costs",
)

_ALL: Final = (
    Term(
        "fr",
        "Fr",
        MEASURES,
        "Frames supplied to the model for one question, over all calls.",
        "A frame that is supplied again counts again. Decoding a frame without supplying it costs nothing and is not "
        "an observation.",
    ),
    Term("acc", "Acc", MEASURES, "Share of questions answered with the right option, in percent."),
    Term(
        "evidence",
        "evidence",
        MEASURES,
        "The intervals of the video that the right answer depends on, as annotators marked them.",
    ),
    Term(
        "ep",
        "EP",
        MEASURES,
        "Evidence precision: the share of the distinct frames supplied that lie inside the evidence.",
    ),
    Term(
        "ep-ref",
        "EP_ref",
        MEASURES,
        "The share of the video that is evidence: what looking at random would hit.",
    ),
    Term("ar", "AR", MEASURES, "Allocation ratio: EP divided by EP_ref. 1 is no better than looking at random."),
    Term(
        "k",
        "k",
        MEASURES,
        "How many distinct frames an evidence interval needs to count as observed.",
        "The headline is k = 2; tables show k = 1, 2 and 3.",
    ),
    Term("density", "density", MEASURES, "Distinct frames in the least observed evidence interval of a question."),
    Term(
        "cov", "Cov@k", MEASURES, "Share of questions whose every evidence interval holds at least k supplied frames."
    ),
    Term(
        "eca",
        "ECA@k",
        MEASURES,
        "Evidence-covered accuracy: the share of questions that are right and covered at k.",
        "An answer that is right without its evidence having been looked at does not count.",
    ),
    Term("sampler", "sampler", MEASURES, "A schedule of frames without a model: it has coverage, but no answers."),
    Term("bucket-covered", "●", BUCKETS, "Right, and every evidence interval holds at least k frames."),
    Term(
        "bucket-uncovered",
        "◐",
        BUCKETS,
        "Right, but some evidence interval holds fewer than k frames: a lucky guess or a shortcut.",
    ),
    Term("bucket-right", "● (no evidence)", BUCKETS, "Right; the bench does not say what the answer depends on."),
    Term("bucket-wrong", "✕", BUCKETS, "Wrong, or no answer."),
    Term("bucket-unscored", "?", BUCKETS, "Not scored: the bench does not know the question, or the line is damaged."),
    Term("bucket-open", "…", BUCKETS, "The run has no line for this question yet."),
    Term("storyboard", "storyboard", SEARCH, "A few frames spread evenly over the whole video, looked at first."),
    Term("candidate", "candidate", SEARCH, "A span that may hold evidence, proposed from the storyboard."),
    Term(
        "anchor",
        "anchor",
        SEARCH,
        "A span where something relevant was found, with the raw frames kept of it.",
        "Anchors are numbered in the order they were found: a1, a2, …",
    ),
    Term(
        "bundle",
        "bundle",
        SEARCH,
        "The first j anchors in order of priority, read together in one call.",
        "Bundles grow by one anchor; the answers to them, side by side, are the trajectory.",
    ),
    Term("claim", "claim", SEARCH, "Something that has to be settled before the question can be answered."),
    Term("fact", "✓", SEARCH, "The clips of this bundle settle the claim, as written."),
    Term("open-claim", "○ open", SEARCH, "The clips of this bundle do not settle the claim."),
    Term("answerable", "● answerable", SEARCH, "The model says that this bundle is enough to answer."),
    Term("insufficient", "○ insufficient", SEARCH, "The model says that something is still missing in this bundle."),
    Term("conflicted", "⚡ conflicted", SEARCH, "The model says that the clips of this bundle contradict one another."),
    Term("conflict", "⚡", SEARCH, "The newest anchor of this bundle unsettles what stood before it."),
    Term(
        "stable", "stable", SEARCH, "The earliest bundle whose answer nothing later changes, degrades or contradicts."
    ),
    Term(
        "replay",
        "replay",
        SEARCH,
        "The answer once more, from the raw clips of the stable bundle alone.",
        "It agrees where it gives the answer that the bundle's own reading gave; only then is the stop accepted.",
    ),
    Term(
        "forced",
        "forced answer",
        SEARCH,
        "The best-supported option, where no bundle was stable; not claimed to be sufficient.",
    ),
    Term("stop", "STOP", ACTIONS, "A bundle is stable: replay it."),
    Term("drop", "DROP", ACTIONS, "Take anchors out that mislead, and build the trajectory again."),
    Term("refine", "REFINE", ACTIONS, "Look at an anchor again, closer or otherwise."),
    Term("expand", "EXPAND", ACTIONS, "Look for candidates in spans that were not seen yet."),
    Term("end", "END", ACTIONS, "Nothing is left that could be done."),
    Term(
        "stable-prefix-found",
        "stable prefix found",
        ENDINGS,
        "The answer held while evidence grew, and a replay over the same clips agreed.",
    ),
    Term("no-stable-prefix", "no stable prefix", ENDINGS, "At best a forced answer, not claimed to be sufficient."),
    Term("single-pass", "single pass", ENDINGS, "One look; nothing is claimed about sufficiency."),
    Term("self-reported", "self reported", ENDINGS, "The model said itself that it had seen enough."),
    Term("exhausted", "exhausted", ENDINGS, "Rounds or frames ran out; nothing is claimed about sufficiency."),
    Term("covered", "covered", READING, "An evidence interval with at least k distinct frames: a full box."),
    Term("thin", "thin", READING, "An evidence interval with a frame, but fewer than k: a hatched box."),
    Term("missed", "missed", READING, "An evidence interval without a frame: an empty box."),
    Term(
        "times",
        "×n",  # noqa: RUF001  a count, as the page writes it
        READING,
        "n frames. In an evidence box: distinct frames inside it; behind a stage: frames supplied to it.",
    ),
    Term("better", "↑", READING, "More is better."),
    Term("best", "bold, underlined", READING, "The best value of a column is bold, the second best underlined."),
    Term("plus-minus", "±", READING, "Half of the 95% bootstrap interval."),
    Term("missing", "--", READING, "The number has no meaning for this run."),
    Term("p", "p", READING, "Two-sided p-value of the paired bootstrap, not corrected for many comparisons."),
    Term("tokens", "tokens", COSTS, "What the provider counted, and charges for; thinking counts as output."),
    Term(
        "cached",
        "cached",
        COSTS,
        "The share of the input tokens that the provider had in its own cache, which are cheaper.",
    ),
    Term("seconds", "seconds", COSTS, "Time of the calls, added up; calls that run side by side count each."),
    Term("faults", "faults", COSTS, "Replies that did not have the required form, not even after one repair."),
    Term("dollars", "dollars", COSTS, "Tokens at the list price of the model; ? where it has no price."),
)

GLOSSARY: Final = {term.id: term for term in _ALL}
GROUPS: Final = {
    group: tuple(term for term in _ALL if term.group == group)
    for group in (MEASURES, BUCKETS, SEARCH, ACTIONS, ENDINGS, READING, COSTS)
}
"""The terms by the heading that they stand under."""


def term_of(heading: str) -> str:
    """The term that a column's heading names, empty where it names none: `Cov@2 ↑` is `cov`."""
    name = re.sub(r"(@\S+)?( ↑)?$", "", heading).lower()
    return _HEADINGS.get(name, "")


_HEADINGS: Final = {
    "fr": "fr",
    "frames": "fr",
    "acc": "acc",
    "ep": "ep",
    "ar": "ar",
    "cov": "cov",
    "eca": "eca",
    "± by video": "plus-minus",
    "density": "density",
    "tokens": "tokens",
    "input": "tokens",
    "output": "tokens",
    "cached": "cached",
    "money": "dollars",
    "dollars": "dollars",
}
