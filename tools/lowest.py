"""Print a constraints file with the lowest version that pyproject.toml allows of everything it names.

`tools/test_lowest.sh` installs those and runs tests on them, so that no lower bound is a guess. Local models, Ray
and what lives inside other tools have separate environments and are left out.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

LEFT_OUT = {"all", "dev", "hf", "inspect", "mcp", "ray"}
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?>=(?P<version>[0-9.]+)")


def main() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (listed for extra, listed in project["optional-dependencies"].items() if extra not in LEFT_OUT)
    lowest: dict[str, str] = {}
    for requirement in [*project["dependencies"], *(each for listed in extras for each in listed)]:
        found = REQUIREMENT.match(requirement)
        if found is None:
            raise SystemExit(f"lowest: {requirement!r} states no lower bound")
        name, version = found["name"], found["version"]
        if lowest.setdefault(name, version) != version:
            raise SystemExit(f"lowest: {name} has two lower bounds, {lowest[name]} and {version}")
    for name, version in sorted(lowest.items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
