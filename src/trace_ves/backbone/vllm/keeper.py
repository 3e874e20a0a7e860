"""Runs a command, and ends its whole process group when standard input closes: `python keeper.py COMMAND…`.

The pipe closes when the process at its other end ends, even by `kill -9`, so that no server is left on the GPU.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

_GRACE_SECONDS = 15.0


class Keeper:
    """Holds one command."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  its whole purpose
        self._is_orphan = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._process.terminate())
        threading.Thread(target=self._watch_parent, daemon=True).start()

    def wait(self) -> int:
        """The command's exit status. Ends what it leaves running where the parent process is gone."""
        status = self._process.wait()
        if self._is_orphan.is_set():
            os.killpg(0, signal.SIGKILL)
        return status

    def _watch_parent(self) -> None:
        sys.stdin.buffer.read()
        self._is_orphan.set()
        os.killpg(0, signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(Keeper(sys.argv[1:]).wait())
