"""Who may judge: annotators and adjudicators, each with a token of their own. Only its digest is ever stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from trace_ves.construction.ledger import Change
from trace_ves.construction.visual_verification import AGREEING_IOU, mean_iou
from trace_ves.core import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trace_ves.construction.judged_item import IndexedItem, JudgedItem, Standing
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.looking import Looking
    from trace_ves.construction.project import BuildSettings
    from trace_ves.construction.store import Store

PERSON_SLOT: Final = "person"
SIGN_OUT_SLOT: Final = "signed-out"
TOKEN_BYTES: Final = 24
_NAME: Final = re.compile(r"[^\W_][\w.-]{0,39}")
_NOBODY: Final = hashlib.sha256(b"nobody").hexdigest()


class Role(StrEnum):
    """What a person does."""

    ANNOTATOR = "annotator"
    ADJUDICATOR = "adjudicator"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may sign in."""

    name: str
    role: Role
    token_sha256: str
    """Empty for somebody whose access was revoked."""
    signed_out_at: float = 0.0
    """Sessions that began before this moment have ended."""


def invite(store: Store, name: str, role: Role) -> str:
    """Let a person sign in, and give their token; a person who was invited before gets a new one."""
    if _NAME.fullmatch(name) is None:
        raise InputError(
            f"{name!r} is not a valid name: use up to 40 letters, digits, dots and dashes, starting with a letter."
        )
    token = secrets.token_urlsafe(TOKEN_BYTES)
    before = person(store.ledger(), name)
    if before is not None and before.role is not role:
        raise InputError(f"{name} is {before.role} here; choose another name for an {role}.")
    after = {"role": role.value, "token_sha256": _digest(token)}
    store.append([Change(_subject(name), PERSON_SLOT, "build", after)])
    return token


def person(ledger: Ledger, name: str) -> Person | None:
    """The person of this name."""
    found = ledger.value(_subject(name), PERSON_SLOT)
    if found is None:
        return None
    ended = ledger.slot(_subject(name), SIGN_OUT_SLOT).standing
    return Person(name, Role(found["role"]), str(found["token_sha256"]), ended[-1].at if ended else 0.0)


def people(ledger: Ledger) -> list[Person]:
    """Everybody who was invited, those included whose access was revoked."""
    names = [subject.removeprefix("person:") for subject in ledger.subjects(PERSON_SLOT)]
    return [found for name in names if (found := person(ledger, name))]


def active(ledger: Ledger, role: Role) -> list[str]:
    """Names of those who may sign in with this role."""
    return [each.name for each in people(ledger) if each.role is role and each.token_sha256]


def revoke(store: Store, name: str) -> None:
    """End a person's access: token and sessions. What they judged stays."""
    found = _known(store, name)
    after = {"role": found.role.value, "token_sha256": ""}
    store.append([Change(_subject(name), PERSON_SLOT, "build", after)])


def sign_out_everywhere(store: Store, name: str, by: str) -> None:
    """End all sessions of a person, on whichever server; their token stays."""
    _known(store, name)
    store.append([Change(_subject(name), SIGN_OUT_SLOT, by, {})])


def _known(store: Store, name: str) -> Person:
    found = person(store.ledger(), name)
    if found is None:
        raise InputError(f"{name} was never invited to this build.")
    return found


def signed_in(ledger: Ledger, name: str, token: str) -> Person | None:
    """The person whose name and token these are. A wrong name takes as long as a wrong token."""
    found = person(ledger, name)
    right = hmac.compare_digest(_digest(token), (found.token_sha256 if found else "") or _NOBODY)
    return found if right else None


def _subject(name: str) -> str:
    return f"person:{name}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


NO_RECORD: Final = "no record of what was played"
NOT_PLAYED: Final = "an interval was not played"
TOO_FAST: Final = "judged faster than the clips are long"
GOLD_FAILED: Final = "an annotator got too many gold items wrong"


@dataclass
class AnnotatorRecord:
    """One annotator's work in numbers."""

    shares: list[float] = field(default_factory=list)
    hurried: int = 0
    """Judgements that took less time than the clips are long."""
    not_blind: int = 0
    gold_right: int = 0
    gold_judged: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Time spent, by item."""

    @property
    def watched_share(self) -> float | None:
        """Mean share of the intervals that were played before a judgement."""
        return fmean(self.shares) if self.shares else None

    @property
    def gold_accuracy(self) -> float | None:
        """Share of the gold items that were judged right."""
        return self.gold_right / self.gold_judged if self.gold_judged else None

    @property
    def minutes_per_item(self) -> float | None:
        """Mean time on an item."""
        return fmean(self.seconds.values()) / 60 if self.seconds else None

    def to_json(self) -> dict[str, Any]:
        """The numbers, without a name."""
        return {
            "judgements": len(self.shares),
            "watched_share": _rounded(self.watched_share),
            "gold_accuracy": _rounded(self.gold_accuracy),
            "gold_judged": self.gold_judged,
            "minutes_per_item": _rounded(self.minutes_per_item),
            "hurried": self.hurried,
            "not_blind": self.not_blind,
        }


def annotator_records(ledger: Ledger, indexed: Iterable[IndexedItem]) -> dict[str, AnnotatorRecord]:
    """Every annotator's numbers, by name."""
    found: dict[str, AnnotatorRecord] = defaultdict(AnnotatorRecord)
    for judged, _ in indexed:
        for who, looking in _lookings(judged):
            if looking is not None:
                record = found[who]
                record.shares.append(looking.watched_share)
                record.hurried += looking.pace < 1
                record.not_blind += not looking.is_blind
        for who, is_right in gold_results(judged):
            found[who].gold_judged += 1
            found[who].gold_right += is_right
    for entry in ledger.entries:
        if entry.slot.startswith(("verification/", "without/")) and entry.undoes is None:
            found[entry.who].seconds[entry.subject] += entry.seconds
    return dict(found)


def gold_results(judged: JudgedItem) -> Iterator[tuple[str, bool]]:
    """Who judged a gold item, and whether they were right."""
    gold = judged.gold
    if gold is None:
        return
    for who, (verdict, _) in judged.verifications.items():
        is_right = verdict.accepted == gold.accept and not verdict.is_unsure
        if is_right and gold.accept:
            is_right = not verdict.answer and mean_iou(verdict.evidence, judged.proposal.evidence) >= AGREEING_IOU
        yield who, is_right
    for who, answers in judged.answers.items():
        for left_out, (answer, _) in answers.items():
            if left_out in gold.without:
                yield who, answer.answer == gold.without[left_out]


def why_unproven(
    judged: JudgedItem, standing: Standing, annotators: Mapping[str, AnnotatorRecord], settings: BuildSettings
) -> str:
    """Why it is not known that people looked at an accepted item; empty where it is."""
    behind = [(who, verdict.looking) for who, (verdict, _) in judged.verifications.items() if verdict.accepted]
    for who, answers in judged.answered(standing.evidence).items():
        behind += [(who, answer.looking) for answer in answers.values()]
    for who, looking in behind:
        if looking is None:
            return NO_RECORD
        if looking.watched_share < settings.watched_share:
            return NOT_PLAYED
        if looking.pace < settings.least_pace:
            return TOO_FAST
        accuracy = annotators[who].gold_accuracy if who in annotators else None
        if accuracy is not None and accuracy < settings.gold_accuracy:
            return GOLD_FAILED
    return ""


def _lookings(judged: JudgedItem) -> Iterator[tuple[str, Looking | None]]:
    for who, (verdict, _) in judged.verifications.items():
        yield who, verdict.looking
    for who, answers in judged.answers.items():
        for answer, _ in answers.values():
            yield who, answer.looking


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
