"""The environment of these tests is the one that is pinned, so that a newer release of a package breaks nothing."""

from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="needs the environment of tools/test_integrations.sh")

PINS = Path(__file__).parents[2] / "constraints-integrations.txt"


def test_what_is_installed_is_what_is_pinned() -> None:
    pins = dict(line.split("==") for line in PINS.read_text(encoding="utf-8").splitlines() if "==" in line)
    packages = ("inspect-ai", "mcp", "nbclient", "pydantic", "av")
    assert {package: version(package) for package in packages} == {package: pins[package] for package in packages}
