"""The bodies of requests and responses. The OpenAPI description includes their docstrings."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_INTERVALS: Final = 64

Item = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9_-]+$")]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)]
Edge = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]
Span = Annotated[list[Edge], Field(min_length=2, max_length=2)]
Spans = Annotated[list[Span], Field(max_length=MOST_INTERVALS)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class DeskBody(BaseModel):
    """A request body; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class ItemBody(DeskBody):
    """An item; to undo, the caller's newest judgement of it."""

    item: Item


class SignIn(DeskBody):
    """A name and the token that `build invite` printed."""

    name: str = Field(min_length=1, max_length=64)
    token: str = Field(min_length=1, max_length=256)


Letter = Annotated[str, StringConstraints(pattern=r"^[A-Z]?$")]


class VerificationBody(ItemBody):
    """A verdict on the intervals. Without `verdict`, a body with a reason rejects the item, else it accepts."""

    revision: Count
    verdict: Literal["accept", "reject", "unsure"] | None = None
    evidence: Spans = []
    answer: Letter = ""  # the right option, if it is not the proposed one
    reason: Reason = ""
    comment: Reason = ""


class WatchedBody(ItemBody):
    """Spans that a player has played since its last report.

    For an item's video, in seconds; for a clip of a partial set, `part` is its number and 1 is its end.
    """

    part: Annotated[int, Field(ge=0, le=1000)] | None = None
    spans: Annotated[list[Span], Field(min_length=1, max_length=200)]


class Watched(BaseModel):
    """All spans played so far, in seconds of the video."""

    spans: list[list[float]]


class SkipBody(ItemBody):
    """An assignment to give back, and the reason."""

    reason: Reason


class AnswerBody(ItemBody):
    """An answer from a partial set; null if its clips do not decide."""

    revision: Count
    left_out: Count
    answer: Annotated[str, StringConstraints(pattern=r"^[A-Z]$")] | None


class SettlementBody(ItemBody):
    """The adjudicator's decision on a disagreement."""

    about: Annotated[list[Count], Field(max_length=1000)]
    """Numbers of the entries that disagree, from the page."""
    keep: bool
    evidence: Spans = []
    answer: Letter = ""
    reason: Reason = ""


Name = Annotated[str, StringConstraints(min_length=1, max_length=40)]


class PersonBody(DeskBody):
    """An annotator, by name."""

    name: Name


class InviteBody(PersonBody):
    """An annotator to invite."""

    role: Literal["annotator", "adjudicator", "operator"]


class Invited(BaseModel):
    """The token of an invitation; it is shown only once."""

    name: str
    token: str


class ReleaseBody(ItemBody):
    """An assignment to give back to the queue."""

    who: Name


class AssignBody(ItemBody):
    """An item to assign to an annotator; `instead_of` is its current holder, if any."""

    who: Name
    instead_of: Annotated[str, StringConstraints(max_length=40)] = ""


class Done(BaseModel):
    """The page to go to next."""

    go: str


class Problem(BaseModel):
    """The reason for a refusal, as a sentence."""

    detail: str
