"""The software that made a release, as a bill of materials in CycloneDX JSON: this package and what it needs.

Follows https://cyclonedx.org/docs/1.6/json. It is read from the metadata of what is installed; nothing of the machine
itself is in it, and the same installation gives the same file.
"""

from __future__ import annotations

import json
import re
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, Final

from trace_ves._version import __version__

PACKAGE: Final = "trace-ves"
SPEC: Final = "1.6"
_NAMESPACE: Final = uuid.UUID("5f0a7d0e-6a1c-5c3b-9d55-0e8f2a6b7c41")
_REQUIREMENT: Final = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_MOST_LICENSE: Final = 200


def bill_of_materials() -> bytes:
    """The installed packages that this one can use, with versions, licences and what needs what."""
    needs = _reachable()
    components = [_component(name) for name in sorted(needs) if name != PACKAGE]
    root = {"type": "application", "bom-ref": _reference(PACKAGE), "name": PACKAGE, "version": __version__}
    body: dict[str, Any] = {
        "metadata": {"component": root | {"purl": _reference(PACKAGE)}},
        "components": components,
        "dependencies": [
            {"ref": _reference(name), "dependsOn": [_reference(other) for other in sorted(needs[name])]}
            for name in sorted(needs)
        ],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(body, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": SPEC, "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return (json.dumps(head | body, indent=2) + "\n").encode()


def _reachable() -> dict[str, set[str]]:
    """Every installed package that is needed, by whatever way, with those that it needs itself."""
    found: dict[str, set[str]] = {}
    waiting = [PACKAGE]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = {other for other in _requirements(name) if _installed(other) is not None} - {name}
            waiting += found[name]
    return found


def _requirements(name: str) -> set[str]:
    """What a package asks for: of our own extras all but the developers', of others none."""
    installed = _installed(name)
    wanted = set()
    for line in (installed.requires if installed is not None else None) or ():
        requirement, _, marker = line.partition(";")
        extra = _EXTRA.search(marker)
        match = _REQUIREMENT.match(requirement)
        if match and (extra is None or (name == PACKAGE and extra[1] != "dev")):
            wanted.add(_canonical(match[1]))
    return wanted


def _component(name: str) -> dict[str, Any]:
    metadata = _need(name).metadata.json
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(name),
        "name": name,
        "version": _version(name),
        "purl": _reference(name),
    }
    expression, text = metadata.get("license_expression"), str(metadata.get("license") or "").strip()
    if expression:
        made["licenses"] = [{"expression": expression}]
    elif text and "\n" not in text and len(text) <= _MOST_LICENSE:
        made["licenses"] = [{"license": {"name": text}}]
    return made


def _reference(name: str) -> str:
    return f"pkg:pypi/{name}@{_version(name)}"


def _version(name: str) -> str:
    return __version__ if name == PACKAGE else _need(name).version


def _need(name: str) -> Distribution:
    found = _installed(name)
    if found is None:
        raise PackageNotFoundError(name)
    return found


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
