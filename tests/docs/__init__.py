"""What the tests of pages share."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def read(path: str) -> str:
    """A file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code in a language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
