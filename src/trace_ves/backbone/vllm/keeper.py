"""Runs a command, and ends its whole process group when it ends or standard input closes: `python keeper.py COMMAND…`.

The pipe closes when the process at its other end ends, even by `kill -9`, so that no server is left on the GPU.
"""

import os
import signal
import subprocess
import sys
import threading
import time

_GRACE_SECONDS = 15.0


def run(command: list[str]) -> None:
    """Run the command. When it ends, or the parent process has, end the process group, this process included."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  its whole purpose

    def watch_parent() -> None:
        sys.stdin.buffer.read()
        os.killpg(0, signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    threading.Thread(target=watch_parent, daemon=True).start()
    process.wait()
    os.killpg(0, signal.SIGKILL)  # what outlived the command


if __name__ == "__main__":
    run(sys.argv[1:])
