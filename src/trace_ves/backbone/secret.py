"""API keys: where they are stored, and how they are masked in everything that is shown or written."""

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

_LONGEST_MESSAGE: Final = 4_000  # Some servers quote the whole request before they name the problem
_LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:sk-|AIza|ya29\.|Bearer )[\w*.\-]{6,}")
_WEB_PAGE: Final = re.compile(
    r"\s*<(?:!doctype html|html)\b(?:(?:(?!<title).){0,2000}<title[^>]*>([^<]{1,200}))?", re.IGNORECASE | re.DOTALL
)
_KEY_VARIABLES: Final = ("_API_KEY", "_AUTH_TOKEN")
LONGEST_MASKED: Final = 400_000  # Twice the longest reply that is read; the rest is dropped
_FRAGMENT_CHARS: Final = 8  # Shorter parts of a key, such as its last four characters, are not masked


@dataclass(frozen=True, slots=True)
class Key:
    """An API key. Its `repr` does not show it."""

    variable: str  # Its environment variable
    secret: str = field(repr=False)

    def redact(self, message: object) -> str:
        """A service's message on one line, shortened, without this key or anything that looks like one."""
        return redact(self.mask(str(message)[:LONGEST_MASKED]))

    def mask(self, text: str) -> str:
        """Mask the key in a text, also reversed, escaped, encoded, split or in part."""
        if len(self.secret) < _FRAGMENT_CHARS:  # a placeholder for a server without keys
            return text
        text, fragments = text.replace(self.secret, MASK), _fragments(self.secret)
        places, letters = _letters(text)
        covered: set[int] = set()
        for start in range(len(letters) - _FRAGMENT_CHARS + 1):
            if letters[start : start + _FRAGMENT_CHARS] in fragments:  # mask the characters between them too
                covered.update(range(places[start], places[start + _FRAGMENT_CHARS - 1] + 1))
        runs = groupby(enumerate(text), key=lambda numbered: numbered[0] in covered)
        return "".join(MASK if is_covered else "".join(char for _, char in run) for is_covered, run in runs)


def mask_known_keys(text: str) -> str:
    """Mask the keys of the environment, the stored keys that were used, and anything that looks like a key."""
    for variable, secret in [*os.environ.items(), *_STORED_SECRETS.items()]:
        if variable.endswith(_KEY_VARIABLES):
            text = Key(variable, secret.strip()).mask(text)
    return _LOOKS_LIKE_A_KEY.sub(MASK, text)


_STORED_SECRETS: Final[dict[str, str]] = {}  # Secrets that were read from the store, by variable
_SERVICE: Final = "trace-ves"


def host_variable(address: str) -> str:
    """The key variable of a self-hosted server: TRACE_VES_GPU_BOX_8000_API_KEY for `gpu-box:8000`."""
    return f"TRACE_VES_{re.sub(r'[^A-Za-z0-9]+', '_', address).strip('_').upper()}_API_KEY"


def find_secret(variable: str) -> str:
    """The secret of this name in the environment, else in the store; empty if there is none."""
    if secret := os.environ.get(variable, "").strip():
        return secret
    keys = read_stored_keys()
    if variable not in keys:
        return ""
    _STORED_SECRETS[variable] = keys[variable] or _use_keyring("get_password", variable) or ""
    return _STORED_SECRETS[variable]


def read_stored_keys() -> dict[str, str]:
    """The keys that `trace-ves keys` stored, by variable; the value is empty if the system keyring has the key."""
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
    keys = read_stored_keys()
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
    """Call a function of the package keyring. Raises `InputError`."""
    try:
        keyring = import_module("keyring")
    except ImportError:
        raise InputError("The system keyring needs the package keyring: pip install keyring.") from None
    try:
        password: str | None = getattr(keyring, action)(_SERVICE, *arguments)
    except Exception as error:  # noqa: BLE001  a backend may raise anything
        raise InputError(f"The system keyring cannot be used: {redact(error)} {_WITHOUT_KEYRING}.") from None
    return password


_WITHOUT_KEYRING: Final = "Set the key in the environment, or store it without --keyring"


def redact(message: object) -> str:
    """A service's message on one line, shortened, without anything that looks like a key; for a web page, its title."""
    text = str(message)
    if page := _WEB_PAGE.match(text):
        text = f"a web page, {page[1].strip()!r}" if page[1] else "a web page"
    line = _LOOKS_LIKE_A_KEY.sub(MASK, " ".join(text.split()))
    return line if len(line) <= _LONGEST_MESSAGE else line[:_LONGEST_MESSAGE] + "…"


def _letters(text: str) -> tuple[list[int], str]:
    """The positions of the letters and digits of a text, and these characters in lower case."""
    letters = [(place, char.lower()) for place, char in enumerate(text) if char.isascii() and char.isalnum()]
    return [place for place, _ in letters], "".join(char for _, char in letters)


@lru_cache(maxsize=16)
def _fragments(secret: str) -> frozenset[str]:
    """Every sequence of `_FRAGMENT_CHARS` letters and digits in any form of the secret."""
    forms = [_letters(form)[1] for form in _forms(secret)]
    return frozenset(
        form[start : start + _FRAGMENT_CHARS] for form in forms for start in range(len(form) - _FRAGMENT_CHARS + 1)
    )


def _forms(secret: str) -> Iterator[str]:
    """The encodings in which a service may repeat a secret. Only letters and digits matter."""
    data = secret.encode()
    yield secret
    yield secret[::-1]
    for numeral in ("{:02x}", "x{:02x}", "{:d}"):  # \\x2b, &#x2b;, &#43;
        yield "".join(numeral.format(ord(char)) for char in secret)
        yield "".join(char if char.isascii() and char.isalnum() else numeral.format(ord(char)) for char in secret)
    for offset in range(5):  # base32 of a text that contains the secret
        yield base64.b32encode(bytes(offset) + data).decode().rstrip("=")[-(-8 * offset // 5) : -1]
    yield data.hex()  # also where every character is percent-encoded
    yield json.dumps(secret)
    yield "".join(f"u{ord(char):04x}" for char in secret)
    for offset in range(3):  # base64 of a text that contains the secret, such as user:secret
        encoded = base64.b64encode(bytes(offset) + data).decode()
        inner = slice(2 if offset else 0, len(encoded) - 4 if len(bytes(offset) + data) % 3 else None)
        yield encoded[inner][(2 if offset == 2 else 0) :]
