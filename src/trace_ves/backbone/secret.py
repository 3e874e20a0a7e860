"""API keys, and how they are masked, in whatever form, in everything that is shown or written."""

import base64
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from itertools import groupby
from typing import Final

from trace_ves.core import InputError
from trace_ves.core.files import config_dir, write_atomic

MASK: Final = "[key]"

_LONGEST_MESSAGE: Final = 4_000  # servers that quote the whole request name what they refuse late
_LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:sk-|AIza|ya29\.|Bearer )[\w*.\-]{6,}")
_WEB_PAGE: Final = re.compile(
    r"\s*<(?:!doctype html|html)\b(?:(?:(?!<title).){0,2000}<title[^>]*>([^<]{1,200}))?", re.IGNORECASE | re.DOTALL
)
_KEY_VARIABLES: Final = ("_API_KEY", "_AUTH_TOKEN")
LONGEST_MASKED: Final = 400_000  # twice the longest reply that is read; what lies beyond is dropped
_FRAGMENT_CHARS: Final = 8  # of a key in a row are masked; fewer, such as the last four, do not give it away


@dataclass(frozen=True, slots=True)
class Key:
    """An API key. Its `repr` does not show it."""

    variable: str  # the environment variable it came from
    secret: str = field(repr=False)

    def redact(self, message: object) -> str:
        """A service's message as one line of bounded length, without the key and what looks like one."""
        return redact(self.mask(str(message)[:LONGEST_MASKED]))

    def mask(self, text: str) -> str:
        """The text with every trace of the key masked: plain, reversed, escaped, encoded, split, in part."""
        if len(self.secret) < _FRAGMENT_CHARS:  # a placeholder for a server that takes none
            return text
        text, fragments = text.replace(self.secret, MASK), _fragments(self.secret)
        places, letters = _letters(text)
        covered: set[int] = set()
        for start in range(len(letters) - _FRAGMENT_CHARS + 1):
            if letters[start : start + _FRAGMENT_CHARS] in fragments:  # and what lies between them
                covered.update(range(places[start], places[start + _FRAGMENT_CHARS - 1] + 1))
        runs = groupby(enumerate(text), key=lambda numbered: numbered[0] in covered)
        return "".join(MASK if hidden else "".join(char for _, char in run) for hidden, run in runs)


def mask_known_keys(text: str) -> str:
    """A text that is kept, without keys of this environment, keys that were used, and what looks like a key."""
    for variable, secret in [*os.environ.items(), *_USED.items()]:
        if variable.endswith(_KEY_VARIABLES):
            text = Key(variable, secret.strip()).mask(text)
    return _LOOKS_LIKE_A_KEY.sub(MASK, text)


# Secrets from the store, by variable: they are masked like those of the environment.
_USED: Final[dict[str, str]] = {}
_SERVICE: Final = "trace-ves"


def host_variable(address: str) -> str:
    """The variable with the key of a server of the user's own: TRACE_VES_GPU_BOX_8000_API_KEY for `gpu-box:8000`."""
    return f"TRACE_VES_{re.sub(r'[^A-Za-z0-9]+', '_', address).strip('_').upper()}_API_KEY"


def find_secret(variable: str) -> str:
    """The secret of this name in the environment, else in the store; empty where there is none."""
    if secret := os.environ.get(variable, "").strip():
        return secret
    stored = stored_keys()
    if variable not in stored:
        return ""
    _USED[variable] = stored[variable] or _use_keyring("get_password", variable) or ""
    return _USED[variable]


def stored_keys() -> dict[str, str]:
    """What `trace-ves keys` stored, by variable; the secret is empty where the system keyring has it."""
    path = config_dir() / "keys.json"
    try:
        if path.stat().st_mode & 0o077:
            raise InputError(f"{path}: others can read this file of keys; run chmod 600 on it.")
        keys = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read as a file of keys: {error}; delete it and set the keys again."
        ) from None
    return {name: secret for name, secret in keys.items() if isinstance(secret, str)} if isinstance(keys, dict) else {}


def store_key(variable: str, secret: str | None, *, keyring: bool = False) -> None:
    """Store a secret in a file that only its owner can read, or in the system keyring; None removes it."""
    keys = stored_keys()
    if secret is not None and keyring:
        _use_keyring("set_password", variable, secret)
        if _use_keyring("get_password", variable) != secret:
            raise InputError(f"The system keyring did not keep the key. {_WITHOUT_KEYRING}.")
    elif keys.get(variable) == "" and _use_keyring("get_password", variable):
        _use_keyring("delete_password", variable)
    keys.pop(variable, None)
    if secret is not None:
        keys[variable] = "" if keyring else secret
    write_atomic(config_dir() / "keys.json", json.dumps(keys, indent=1), private=True)


def _use_keyring(action: str, *arguments: str) -> str | None:
    """Call a function of the package keyring; its backends raise errors of many kinds."""
    try:
        keyring = import_module("keyring")
    except ImportError:
        raise InputError("The system keyring needs the package keyring: pip install keyring.") from None
    try:
        found: str | None = getattr(keyring, action)(_SERVICE, *arguments)
    except Exception as error:  # noqa: BLE001  a backend may raise anything
        raise InputError(f"The system keyring cannot be used: {redact(error)} {_WITHOUT_KEYRING}.") from None
    return found


_WITHOUT_KEYRING: Final = "Set the key in the environment, or store it without --keyring"


def redact(message: object) -> str:
    """A service's message as one line of bounded length, without what looks like a key; of a web page, its title."""
    text = str(message)
    if page := _WEB_PAGE.match(text):
        text = f"a web page, {page[1].strip()!r}" if page[1] else "a web page"
    line = _LOOKS_LIKE_A_KEY.sub(MASK, " ".join(text.split()))
    return line if len(line) <= _LONGEST_MESSAGE else line[:_LONGEST_MESSAGE] + "…"


def _letters(text: str) -> tuple[list[int], str]:
    """The letters and digits of a text in lower case, with their places: without what splits or quotes."""
    found = [(place, char.lower()) for place, char in enumerate(text) if char.isascii() and char.isalnum()]
    return [place for place, _ in found], "".join(char for _, char in found)


@lru_cache(maxsize=16)
def _fragments(secret: str) -> frozenset[str]:
    """Every run of `_FRAGMENT_CHARS` letters and digits in any form of the secret."""
    forms = [_letters(form)[1] for form in _forms(secret)]
    return frozenset(
        form[start : start + _FRAGMENT_CHARS] for form in forms for start in range(len(form) - _FRAGMENT_CHARS + 1)
    )


def _forms(secret: str) -> Iterator[str]:
    """The ways in which a service may write a secret. Quotes, percent signs and line breaks do not matter here."""
    data = secret.encode()
    yield secret
    yield secret[::-1]
    for numeral in ("{:02x}", "x{:02x}", "{:d}"):  # \\x2b, &#x2b;, &#43;
        yield "".join(numeral.format(ord(char)) for char in secret)
        yield "".join(char if char.isascii() and char.isalnum() else numeral.format(ord(char)) for char in secret)
    for offset in range(5):  # base32 of something that the secret is a part of
        yield base64.b32encode(bytes(offset) + data).decode().rstrip("=")[-(-8 * offset // 5) : -1]
    yield data.hex()  # also where every character is percent-encoded
    yield json.dumps(secret)
    yield "".join(f"u{ord(char):04x}" for char in secret)
    for offset in range(3):  # base64 of something that the secret is a part of, such as user:secret
        encoded = base64.b64encode(bytes(offset) + data).decode()
        inner = slice(2 if offset else 0, len(encoded) - 4 if len(bytes(offset) + data) % 3 else None)
        yield encoded[inner][(2 if offset == 2 else 0) :]
