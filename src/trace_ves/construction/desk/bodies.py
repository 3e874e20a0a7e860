"""The bodies of requests and responses, as the OpenAPI description shows them."""

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
    """A body without unknown keys."""

    model_config = ConfigDict(extra="forbid")


class SignIn(DeskBody):
    """A name and the token that `build invite` printed."""

    name: str = Field(min_length=1, max_length=64)
    token: str = Field(min_length=1, max_length=256)


Letter = Annotated[str, StringConstraints(pattern=r"^[A-Z]?$")]


class VerificationBody(DeskBody):
    """A verdict on the intervals; without `verdict`, a reason rejects and intervals without one accept."""

    item: Item
    revision: Count
    verdict: Literal["accept", "reject", "unsure"] | None = None
    evidence: Spans = []
    answer: Letter = ""  # the right option, if it is not the proposed one
    reason: Reason = ""
    comment: Reason = ""


class WatchedBody(DeskBody):
    """Spans that a player has played since its last report.

    For an item's video, in its seconds; for a clip of a partial set, `part` names it and 1 is its end.
    """

    item: Item
    part: Annotated[int, Field(ge=0, le=1000)] | None = None
    spans: Annotated[list[Span], Field(min_length=1, max_length=200)]


class Watched(BaseModel):
    """Everything that was played so far, in seconds of the video."""

    spans: list[list[float]]


class SkipBody(DeskBody):
    """An assignment to give back, and the reason."""

    item: Item
    reason: Reason


class AnswerBody(DeskBody):
    """An answer from the clips without one interval; null says that they do not decide."""

    item: Item
    revision: Count
    left_out: Count
    answer: Annotated[str, StringConstraints(pattern=r"^[A-Z]$")] | None


class SettlementBody(DeskBody):
    """The adjudicator's decision on a disagreement."""

    item: Item
    about: Annotated[list[Count], Field(max_length=1000)]
    """Numbers of the entries that disagree, as the page showed them."""
    keep: bool
    evidence: Spans = []
    answer: Letter = ""
    reason: Reason = ""


Name = Annotated[str, StringConstraints(min_length=1, max_length=40)]


class InviteBody(DeskBody):
    """An annotator to invite."""

    name: Name
    role: Literal["annotator", "adjudicator", "operator"]


class Invited(BaseModel):
    """The token of an invitation, which is shown once."""

    name: str
    token: str


class PersonBody(DeskBody):
    """An annotator whose access or sessions end."""

    name: Name


class ReleaseBody(DeskBody):
    """An assignment to give back to the queue."""

    who: Name
    item: Item


class AssignBody(DeskBody):
    """An item to assign to an annotator by name; `instead_of` holds it until then."""

    item: Item
    who: Name
    instead_of: Annotated[str, StringConstraints(max_length=40)] = ""


class UndoBody(DeskBody):
    """The item whose newest judgement by the caller is undone."""

    item: Item


class Done(BaseModel):
    """The page to go to next."""

    go: str


class Problem(BaseModel):
    """The reason of a refusal, in a sentence."""

    detail: str
