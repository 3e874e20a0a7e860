"""Runs a command and ends its process group when it ends or standard input closes: `python keeper.py COMMAND…`.

Standard input is a pipe from the parent process. It closes even if the parent is killed, so no server stays on the GPU.
"""

import os
import signal
import subprocess
import sys
import threading
import time

_GRACE_SECONDS = 15.0


def run(command: list[str]) -> None:
    """Run the command. When it or the parent process ends, end the process group, including this process."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  the user's own command

    def watch_parent() -> None:
        sys.stdin.buffer.read()
        os.killpg(0, signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    threading.Thread(target=watch_parent, daemon=True).start()
    process.wait()
    os.killpg(0, signal.SIGKILL)  # processes that outlived the command


if __name__ == "__main__":
    run(sys.argv[1:])
