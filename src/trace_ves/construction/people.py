"""Who may judge: annotators, adjudicators and operators, each with a token. Only its digest is stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trace_ves.construction.ledger import MACHINE, Change, Ledger
from trace_ves.core import InputError, TraceVesError

if TYPE_CHECKING:
    from trace_ves.construction.store import Store

PERSON_SLOT: Final = "person"
SIGN_OUT_SLOT: Final = "signed-out"
_NAME: Final = re.compile(r"[^\W_][\w.-]{0,39}")
_NO_DIGEST: Final = hashlib.sha256(b"nobody").hexdigest()


class RefusedError(TraceVesError):
    """The caller is not allowed to do or see this."""


class Role(StrEnum):
    """What someone may do in a build."""

    ANNOTATOR = "annotator"
    ADJUDICATOR = "adjudicator"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Person:
    """Someone who was invited."""

    name: str
    role: Role
    token_sha256: str  # empty after the access was revoked
    signed_out_at: float = 0.0  # sessions that began before this moment have ended

    def require(self, role: Role) -> None:
        """Refuse callers with another role."""
        if self.role is not role:
            raise RefusedError(f"Only an {role.value} may do this.")


def invite(store: Store, name: str, role: Role) -> str:
    """Invite someone; returns a new token, which ends the previous one."""
    if _NAME.fullmatch(name) is None:
        raise InputError(
            f"{name!r} is not a valid name: use up to 40 letters, digits, dots and dashes, starting with a letter."
        )
    token = new_secret()
    before = find_person(store.ledger(), name)
    if before is not None and before.role is not role:
        raise InputError(f"{name} is {before.role} here; choose another name for an {role}.")
    after = {"role": role.value, "token_sha256": digest_secret(token)}
    store.append([Change(_subject(name), PERSON_SLOT, MACHINE, after)])
    return token


def find_person(ledger: Ledger, name: str) -> Person | None:
    """The person of this name."""
    value = ledger.value(_subject(name), PERSON_SLOT)
    if value is None:
        return None
    ended = ledger.slot(_subject(name), SIGN_OUT_SLOT).entries
    return Person(name, Role(value["role"]), str(value["token_sha256"]), ended[-1].at if ended else 0.0)


def list_people(ledger: Ledger) -> list[Person]:
    """Everyone who was invited, those without access included."""
    names = [subject.removeprefix("person:") for subject in ledger.subjects(PERSON_SLOT)]
    return [person for name in names if (person := find_person(ledger, name))]


def active_names(ledger: Ledger, role: Role) -> list[str]:
    """Names of the people with this role who may sign in."""
    return [each.name for each in list_people(ledger) if each.role is role and each.token_sha256]


def revoke(store: Store, name: str) -> None:
    """End someone's access: token and sessions. Their judgements stay."""
    after = {"role": _require_person(store, name).role.value, "token_sha256": ""}
    store.append([Change(_subject(name), PERSON_SLOT, MACHINE, after)])


def sign_out_everywhere(store: Store, name: str, by: str) -> None:
    """End all of someone's sessions, on every server; their token stays."""
    _require_person(store, name)
    store.append([Change(_subject(name), SIGN_OUT_SLOT, by, {})])


def _require_person(store: Store, name: str) -> Person:
    person = find_person(store.ledger(), name)
    if person is None:
        raise InputError(f"{name} was never invited to this build.")
    return person


def authenticate(ledger: Ledger, name: str, token: str) -> Person | None:
    """The person with this name and token. A wrong name takes as long as a wrong token."""
    person = find_person(ledger, name)
    right = hmac.compare_digest(digest_secret(token), (person.token_sha256 if person else "") or _NO_DIGEST)
    return person if right else None


def _subject(name: str) -> str:
    return f"person:{name}"


def new_secret() -> str:
    """A random token or cookie of 192 bits."""
    return secrets.token_urlsafe(24)


def digest_secret(secret: str) -> str:
    """What is stored and looked up instead of a token or a cookie."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
