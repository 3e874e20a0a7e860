"""`lab`: glance's rules over simulated eyes, on twins that were never drawn. For policy work.

A simulation throughout: what it answers says how a policy spends its frames, and nothing about seeing.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.glance.rules import RuleBackbone
from trace_ves.backbone.lab.eyes import SimulatedEyes
from trace_ves.backbone.lab.video import WorldVideo
from trace_ves.core import InputError
from trace_ves.synthetic.truth import WORLD_FILE, read_truth

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.synthetic.truth import VideoTruth

MOST_WORLDS: Final = 4
"""World files that are kept in memory."""


class Lab(RuleBackbone):
    """Glance with its eyes exchanged. It brings its own videos (`protocol.OpensVideos`)."""

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__("lab" if not seed else f"lab:{seed}", SimulatedEyes(seed))
        self._worlds: dict[Path, dict[str, VideoTruth]] = {}
        self._lock = threading.Lock()

    def open_video(self, path: Path) -> WorldVideo:
        """The video that a twin's world describes under this path, whether or not it was drawn."""
        folder = path.absolute().parents[1]
        name = path.absolute().relative_to(folder).as_posix()
        truth = self._world(folder / WORLD_FILE).get(name)
        if truth is None:
            raise InputError(
                f"{folder / WORLD_FILE}: there is no video {name}; lab answers questions about twins alone."
            )
        return WorldVideo(truth)

    def _world(self, path: Path) -> dict[str, VideoTruth]:
        with self._lock:
            if path not in self._worlds:
                if not path.is_file():
                    raise InputError(
                        f"{path} is missing: lab answers questions about twins alone; trace-ves synth makes one."
                    )
                while len(self._worlds) >= MOST_WORLDS:
                    self._worlds.pop(next(iter(self._worlds)))
                self._worlds[path] = read_truth(path)
            return self._worlds[path]
