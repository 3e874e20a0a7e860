"""`build serve` killed while people judge: what the browser was told is saved, is."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import httpx

from tests.web.desk.conftest import Client

if TYPE_CHECKING:
    from tests.web.desk.conftest import World

KILLS = 4


def serve(world: World) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "trace_ves", "build", "serve", str(world.project.folder), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip().rstrip("/")


def judge_until_it_ends(client: Client, saved: list[str]) -> None:
    """Reject one item after the other, and note what was said to be saved."""
    try:
        while client.post("/api/next").json()["go"] == "/task":
            item = re.search(r"<title>(\S+)", client.get("/task").text)
            assert item is not None
            if client.post("/api/verification", item=item[1], revision=0, reason="no").is_success:
                saved.append(item[1])
    except httpx.TransportError:
        return


def test_a_killed_desk_loses_no_judgement(world: World) -> None:
    for number in range(2, 400):
        world.propose(f"c{number:04}")
    chance = random.Random(3)
    saved: dict[str, list[str]] = {"ann": [], "bob": []}
    for _ in range(KILLS):
        process, address = serve(world)
        clients = {name: Client(address) for name in saved}
        for name, client in clients.items():
            assert client.sign_in(name, world.tokens[name]).is_success
        threads = [threading.Thread(target=judge_until_it_ends, args=(clients[name], saved[name])) for name in saved]
        for thread in threads:
            thread.start()
        threads[0].join(chance.uniform(0.1, 0.6))
        process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join(30)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
        for client in clients.values():
            client.http.close()
    ledger = world.store.ledger()
    for name, items in saved.items():
        written = [entry.subject for entry in ledger.entries if entry.slot == f"verification/{name}"]
        assert len(items) == len(set(items)) > 0
        assert set(items) <= set(written)
        assert len(written) == len(set(written)) <= len(items) + KILLS  # written, but the answer was cut off
