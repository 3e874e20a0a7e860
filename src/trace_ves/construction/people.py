"""The people of a build: annotators, adjudicators and operators. Each has a token, of which only a digest is stored."""

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
    """The role of someone in a build."""

    ANNOTATOR = "annotator"
    ADJUDICATOR = "adjudicator"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Person:
    """Someone who was invited to the build."""

    name: str
    role: Role
    token_sha256: str  # empty after access was revoked
    signed_out_at: float = 0.0  # earlier sessions have ended

    def require(self, role: Role) -> None:
        """Raise a `RefusedError` for another role."""
        if self.role is not role:
            raise RefusedError(f"Only an {role.value} may do this.")


def invite(store: Store, name: str, role: Role) -> str:
    """Invite someone; returns a new token, which replaces the previous one."""
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
    """Everyone who was invited, including those whose access was revoked."""
    names = [subject.removeprefix("person:") for subject in ledger.subjects(PERSON_SLOT)]
    return [person for name in names if (person := find_person(ledger, name))]


def active_names(ledger: Ledger, role: Role) -> list[str]:
    """Names of the people with this role who may sign in."""
    return [each.name for each in list_people(ledger) if each.role is role and each.token_sha256]


def revoke(store: Store, name: str) -> None:
    """Revoke the token and end the sessions of someone. Their judgements stay."""
    after = {"role": require_person(store, name).role.value, "token_sha256": ""}
    store.append([Change(_subject(name), PERSON_SLOT, MACHINE, after)])


def sign_out_everywhere(store: Store, name: str, by: str) -> None:
    """End all sessions of someone, on every server. Their token stays valid."""
    require_person(store, name)
    store.append([Change(_subject(name), SIGN_OUT_SLOT, by, {})])


def require_person(store: Store, name: str) -> Person:
    """The person of this name; an `InputError` if this name was never invited."""
    person = find_person(store.ledger(), name)
    if person is None:
        raise InputError(f"{name} was never invited to this build.")
    return person


def authenticate(ledger: Ledger, name: str, token: str) -> Person | None:
    """The person with this name and token. The time does not reveal whether the name exists."""
    person = find_person(ledger, name)
    is_right = hmac.compare_digest(digest_secret(token), (person.token_sha256 if person else "") or _NO_DIGEST)
    return person if is_right else None


def _subject(name: str) -> str:
    return f"person:{name}"


def new_secret() -> str:
    """A random token or cookie of 192 bits."""
    return secrets.token_urlsafe(24)


def digest_secret(secret: str) -> str:
    """The digest that is stored instead of a token or a cookie."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
