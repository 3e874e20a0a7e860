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
TOKEN_BYTES: Final = 24
_NAME: Final = re.compile(r"[^\W_][\w.-]{0,39}")
_NOBODY: Final = hashlib.sha256(b"nobody").hexdigest()


class Role(StrEnum):
    """What a person does."""

    ANNOTATOR = "annotator"
    ADJUDICATOR = "adjudicator"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may sign in."""

    name: str
    role: Role
    token_sha256: str


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
    return None if found is None else Person(name, Role(found["role"]), str(found["token_sha256"]))


def people(ledger: Ledger) -> list[Person]:
    """Everybody who was invited."""
    names = [subject.removeprefix("person:") for subject in ledger.subjects(PERSON_SLOT)]
    return [found for name in names if (found := person(ledger, name))]


def signed_in(ledger: Ledger, name: str, token: str) -> Person | None:
    """The person whose name and token these are. A wrong name takes as long as a wrong token."""
    found = person(ledger, name)
    right = hmac.compare_digest(_digest(token), found.token_sha256 if found else _NOBODY)
    return found if right else None


def _subject(name: str) -> str:
    return f"person:{name}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
