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


def run(command: list[str]) -> int:
    """The command's exit status. Ends what it leaves running if the parent process is gone."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  its whole purpose
    is_orphan = threading.Event()

    def watch_parent() -> None:
        sys.stdin.buffer.read()
        is_orphan.set()
        os.killpg(0, signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    threading.Thread(target=watch_parent, daemon=True).start()
    status = process.wait()
    if is_orphan.is_set():
        os.killpg(0, signal.SIGKILL)
    return status


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
