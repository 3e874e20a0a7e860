"""Paths of this machine, taken out of what is released: error texts and methods' records quote them."""

from __future__ import annotations

import re
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ELLIPSIS: Final = "…"

_ABSOLUTE: Final = re.compile(
    r"(?<![\w.:/\\~@…])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\:;,'\"<>|()]+[/\\])+(?=[^\s/\\:;,'\"<>|()])"
)
"""The folders of an absolute path, on any system, that stand in a text; a lone `/x` and a URL are none."""


class Scrubber:
    """Replaces this machine's folders in texts by an ellipsis, so that the file's name stays."""

    def __init__(self, folders: Iterable[Path]) -> None:
        ours = [
            Path.cwd(),
            Path.home(),
            Path(tempfile.gettempdir()),
            Path(sys.prefix),
            Path(sysconfig.get_path("purelib")),
        ]
        known = {str(each) for folder in (*folders, *ours) for each in (folder.absolute(), folder.resolve())}
        longest_first = sorted(known - {"/"}, key=len, reverse=True)
        self._folders = re.compile("|".join(rf"{re.escape(name)}(?![\w.-])" for name in longest_first))

    def text(self, text: str, *, quoted: bool = False) -> str:
        """A text without the folders known here; with `quoted`, without those of any absolute path."""
        found = self._folders.sub(ELLIPSIS, text)
        return _ABSOLUTE.sub(f"{ELLIPSIS}/", found) if quoted else found

    def record(self, record: Mapping[str, object]) -> dict[str, object]:
        """The same for a JSON object; what stands under `error` or `fault` quotes paths of any machine."""
        return {name: self._value(value, name) for name, value in record.items()}

    def _value(self, value: object, key: str) -> object:
        if isinstance(value, str):
            return self.text(value, quoted=key in QUOTING)
        if isinstance(value, dict):
            return self.record(value)
        if isinstance(value, list):
            return [self._value(each, key) for each in value]
        return value


QUOTING: Final = frozenset({"error", "fault", "exception", "traceback", "message", "reason"})
"""Keys whose texts quote other programs, and so the paths of whatever machine they ran on."""
