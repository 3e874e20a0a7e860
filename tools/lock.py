"""Print every package that an installation needs with its version and the hash of its file, for this platform.

    python tools/lock.py video web build > requirements.lock
    pip install --require-hashes -r requirements.lock && pip install --no-deps .

The extras are given by name. Versions are those of constraints.txt; hashes come from the index that pip is set up for,
and no address is printed. Docs: docs/decisions/0054-hashes.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = "trace-ves"


def main() -> None:
    extras = ",".join(sys.argv[1:])
    wanted = f"{ROOT}[{extras}]" if extras else str(ROOT)
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-", "--constraint", ROOT / "constraints.txt"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *map(str, options), wanted], stdout=subprocess.PIPE, check=True
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines(json.loads(done.stdout))))


def lines(report: dict[str, Any]) -> list[str]:
    """A requirement with its hash for each package of pip's report but our own."""
    found = []
    for each in report["install"]:
        name = re.sub(r"[-_.]+", "-", each["metadata"]["name"]).lower()
        if name == PACKAGE:
            continue
        digest = each["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is None:
            raise SystemExit(f"lock: the index gives no SHA-256 of {name}.")
        found.append(f"{name}=={each['metadata']['version']} --hash=sha256:{digest}")
    return sorted(found)


if __name__ == "__main__":
    main()
