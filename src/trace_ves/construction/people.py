"""Who may judge: annotators and adjudicators, each with a token of their own. Only its digest is ever stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trace_ves.construction.ledger import Change
from trace_ves.core import InputError

if TYPE_CHECKING:
    from trace_ves.construction.ledger import Ledger
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
