"""Attacks on the desk that once worked: memory, connections, guesses, scripts that judge without looking."""

import json
import math
import os
import random
import re
import signal
import socket
import stat
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.web.conftest import serving_app
from tests.web.desk.conftest import EVIDENCE, NAME, SPANS, Client, World, serving_process, wait_until
from trace_ves.construction import gold, looking
from trace_ves.construction.desk.app import create_desk
from trace_ves.construction.desk.sessions import MOST_FAILURES, WINDOW_SECONDS, Sessions, SignInAttempts
from trace_ves.construction.judged_item import judged_item
from trace_ves.construction.ledger import PROPOSAL_SLOT, Change
from trace_ves.construction.looking import length
from trace_ves.construction.people import Person, Role, invite
from trace_ves.construction.proposal import ItemDraft, check_draft, new_item_id
from trace_ves.web.guard import LOOPBACK_NAMES

# Sessions and sign-in


def test_looking_at_the_sign_in_page_signs_nobody_out(world: World) -> None:
    ann, stranger = world.client("ann"), world.client()
    for _ in range(20):
        stranger.http.cookies.clear()
        assert stranger.get("/sign-in").status_code == 200
    assert ann.get("/").status_code == 200
    sessions = Sessions()
    cookies = [sessions.start(Person(f"p{number}", Role.ANNOTATOR, "digest")) for number in range(100)]
    assert all(map(sessions.find, cookies))


def test_access_ends_when_it_is_taken(world: World) -> None:
    first, second, bob = world.client("ann"), world.client("ann"), world.client("bob")
    assert first.post("/api/sign-out-everywhere").is_success
    assert [client.get("/").status_code for client in (first, second, bob)] == [401, 401, 200]
    token = invite(world.store, "bob", Role.ANNOTATOR)  # ends the old one and its sessions
    assert bob.get("/").status_code == 401
    assert world.client().sign_in("bob", world.tokens["bob"]).status_code == 401
    assert bob.sign_in("bob", token).is_success
    assert world.client().sign_in("bob", "").status_code == 422


def test_guesses_are_limited_and_on_record_and_lock_nobody_out(world: World) -> None:
    guesser = world.client()
    guesser.csrf = guesser.csrf_of("/sign-in")
    for number in range(MOST_FAILURES["address"]):
        assert guesser.post("/api/sign-in", name="ann", token=f"{number:04}x").status_code == 401
    refused = guesser.sign_in("olga", "x")
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= WINDOW_SECONDS
    for name, token in world.tokens.items():
        assert world.client().sign_in(name, token).is_success, name  # a right token always works
    assert world.client().sign_in("ann", world.tokens["bob"]).status_code == 429
    events = [entry["event"] for entry in world.audit()]
    assert (events.count("sign-in-failed"), events.count("sign-in-limited")) == (MOST_FAILURES["address"], 2)
    attempts = SignInAttempts()
    waits = [attempts.note_failure(address, "same") for address in ["10.0.0.1"] * 6 + ["10.0.0.2"]]
    assert [wait > 0 for wait in waits] == [False] * 5 + [True, False]


def test_the_form_of_another_browser_does_not_sign_in(world: World) -> None:
    victim, attacker = world.client(), world.client()
    body = {"name": "ann", "token": world.tokens["ann"]}
    cross = {"X-CSRF-Token": victim.csrf_of("/sign-in"), "Sec-Fetch-Site": "cross-site"}
    for headers in (cross, {"X-CSRF-Token": attacker.csrf_of("/sign-in")}, {"X-CSRF-Token": ""}, {}):
        assert victim.http.post("/api/sign-in", json=body, headers=headers).status_code in {403, 422}


def test_cookies_over_tls_are_for_this_host_alone(world: World, tmp_path: Path) -> None:
    app = create_desk(world.project, world.store, scratch=tmp_path, hosts=None, token="t" * 20, secure=True)
    with serving_app(app) as address:
        [token] = httpx.get(f"{address}/sign-in?token={'t' * 20}").headers.get_list("set-cookie")
        page = httpx.get(f"{address}/sign-in", headers={"Cookie": token.split(";")[0]})
    for cookie in (token, *page.headers.get_list("set-cookie")):
        assert cookie.startswith("__Host-")
        assert {"Secure", "Path=/"} <= set(cookie.split("; "))
        assert "Domain" not in cookie


def test_parallel_requests_for_one_clip_block_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a clip is cut, more requests than there are threads wait for it; everybody else is answered."""
    cat, left_out = world.to_leave_one_out()
    started, go_on = threading.Event(), threading.Event()
    cuts: list[object] = []
    cut_clip = looking.cut_clip

    def slow_cut(path: Path, span: object) -> bytes:
        cuts.append(span)
        started.set()
        assert go_on.wait(120)
        return cut_clip(path, EVIDENCE[0])

    monkeypatch.setattr(looking, "cut_clip", slow_cut)
    os.utime(world.project.need_path(NAME))  # the clips that were cut ahead of time are of another file now
    part = (left_out + 1) % 3
    url = f"/clip?id=c0001&left_out={left_out}&part={part}"
    with ThreadPoolExecutor(60) as pool:
        answers = [pool.submit(cat.get, url, timeout=120) for _ in range(60)]
        assert started.wait(60)
        assert world.client("bob").get("/").status_code == 200
        go_on.set()
        assert [answer.result().status_code for answer in answers] == [200] * 60
    assert cuts.count(EVIDENCE[part]) == 1


# Gold items


def guessed(seen: list[str], is_gold: list[bool]) -> float:
    """How well a naive Bayes classifier tells gold items, trained on every other page: the AUC on the others."""
    words = [set(re.findall(r"[a-z]+|\d", page.lower())) | {page[:n] for n in range(1, 8)} for page in seen]
    counts = {label: Counter[str]() for label in (True, False)}
    for word, label in list(zip(words, is_gold, strict=True))[::2]:
        counts[label].update(word)
    totals = {label: is_gold[::2].count(label) + 2 for label in (True, False)}

    def score(word: str) -> float:
        return math.log((counts[True][word] + 1) / totals[True]) - math.log((counts[False][word] + 1) / totals[False])

    scores = [(sum(map(score, word)), label) for word, label in list(zip(words, is_gold, strict=True))[1::2]]
    gold, others = ([value for value, label in scores if label is wanted] for wanted in (True, False))
    wins = sum((one > other) + (one == other) / 2 for one in gold for other in others)
    return wins / (len(gold) * len(others))


def test_gold_items_cannot_be_told_apart(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An annotator judges 60 gold items among 240, and a classifier sees every page, its order and what is left."""
    chance = random.Random(5)
    monkeypatch.setattr(gold, "_CHANCE", chance)
    monkeypatch.setattr("secrets.token_hex", lambda size: chance.randbytes(size).hex())

    def draw() -> dict[str, Any]:
        starts = sorted(chance.sample(range(0, 300, 50), 2))
        spans = [[start / 10, start / 10 + chance.randint(10, 20) / 10] for start in starts]
        order = chance.sample(["the fox", "the dog", "a red car", "two men", "the child"], 4)
        options = [" ".join(order[turn:] + order[:turn]) for turn in range(4)]
        rationales = [f"{chance.choice(order)} is at the {chance.choice(['door', 'gate'])}" for _ in spans]
        words = {"video": "videos/a.mp4", "question": f"In which order, from {order[0]} on?", "rationales": rationales}
        return words | {"options": options, "answer": chance.choice("ABCD"), "evidence": spans}

    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(draw()) + "\n" for _ in range(60)))
    drafts = [ItemDraft.model_validate(draw()) for _ in range(180)]
    items = [check_draft(each, video=NAME, duration=32.0, family="") for each in drafts]
    world.store.append([Change(new_item_id(), PROPOSAL_SLOT, "build", made.to_json()) for made in items])
    right, wrong = gold.add_gold(world.project, world.store, tmp_path / "gold.jsonl")
    assert min(right, wrong) > 15
    project = replace(world.project, settings=world.project.settings.model_copy(update={"gold_share": 0.25}))
    judged_items, pages, homes = [], [], []
    app = create_desk(project, world.store, scratch=tmp_path, hosts=LOOPBACK_NAMES)
    with serving_app(app) as world.address:
        ann = world.client("ann")
        go = ann.post("/api/next").json()["go"]
        while go == "/task":
            if len(homes) < 80:
                homes.append(re.search(r'id="left">(\d+)', ann.get("/").text)[1])
            pages.append(ann.get("/task").text)
            item = re.search(r"<title>(\S+)", pages[-1])[1]
            judged_items.append(judged_item(world.store.ledger(), item))
            go = ann.post("/api/verification", item=item, revision=0, reason="no").json()["go"]
    is_gold = [judged.gold is not None for judged in judged_items]
    assert is_gold.count(True) >= 58
    assert [int(here) - int(after) for here, after in pairwise(homes)] == [1] * (len(homes) - 1)
    shown = [re.search(r"<main.*</main>", page, re.DOTALL)[0] for page in pages]
    order = [
        f"{judged.id} {place % 4} {page}" for place, (judged, page) in enumerate(zip(judged_items, shown, strict=True))
    ]
    assert abs(guessed(order, is_gold) - 0.5) < 0.15
    broken = [(page, not judged.gold.accept) for judged, page in zip(judged_items, order, strict=True) if judged.gold]
    assert abs(guessed(*map(list, zip(*broken, strict=True))) - 0.5) < 0.2
    stock = [page + " stock" * gold for page, gold in zip(order, is_gold, strict=True)]
    assert guessed(stock, is_gold) > 0.9  # the classifier finds what there is to find


# Looking


def test_a_script_that_plays_nothing_accepts_nothing(world: World) -> None:
    """Neither one byte, nor a download that is broken off, nor small pictures prove that an annotator looked."""
    ann = world.with_task("ann")
    verdict = {"item": "c0001", "revision": 0, "evidence": SPANS}
    report = {"item": "c0001", "spans": SPANS}
    world.clock.added += 300
    assert ann.post("/api/verification", **verdict).status_code == 422
    assert ann.post("/api/watched", **report).status_code == 403  # it was never sent
    size = world.project.need_path(NAME).stat().st_size
    for wanted in ("bytes=0-0", f"bytes={size - 1}-", "bytes=0-0,-1"):
        assert ann.get("/video?id=c0001", headers={"Range": wanted}).status_code == 206
    ann.http.head("/video?id=c0001")
    ann.get("/frame?id=c0001&t=4&height=24")
    ann.get("/strip?id=c0001&start=0&end=32&count=60")
    with socket.create_connection(("127.0.0.1", int(world.address.rpartition(":")[2]))) as hurried:
        # The request leaves together with the end of the connection: else the server may send the whole film before it.
        hurried.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        hurried.sendall(ann.raw_get("/video?id=c0001"))
    served = ("served", "GET")  # the sixth is the one that was broken off
    wait_until(lambda: [(line["event"], line.get("method")) for line in world.audit()].count(served) == 6)
    world.clock.added += 300
    assert ann.post("/api/watched", **report).status_code in {200, 403}
    assert length(ann.task()["watched"]) < 1
    ann.get("/video?id=c0001", headers={"Range": f"bytes=0-{size // 2}"})  # the first half of the film
    world.clock.added += 300
    assert ann.post("/api/watched", **report).json()["spans"][-1][1] < 18
    assert ann.post("/api/verification", **verdict).status_code == 422
    ann.get("/video?id=c0001")
    world.clock.added += 20
    assert ann.post("/api/watched", **report).is_success
    assert ann.post("/api/verification", **verdict | {"seconds": 9000}).status_code == 422  # the server measures
    assert ann.post("/api/verification", **verdict).is_success
    entry = world.written("verification/ann")
    assert entry.seconds == pytest.approx(120 + 20, abs=15)  # of 15 minutes without a report, two count


def test_a_script_that_plays_no_clip_answers_nothing(world: World) -> None:
    cat, left_out = world.to_leave_one_out()
    answer = {"item": "c0001", "revision": 0, "left_out": left_out, "answer": None}
    assert cat.post("/api/answer", **answer).status_code == 422
    parts = [part for part in range(3) if part != left_out]
    for part in parts:
        assert cat.post("/api/watched", item="c0001", part=part, spans=[[0, 1]]).status_code == 403
    assert cat.post("/api/watched", item="c0001", part=left_out, spans=[[0, 1]]).status_code == 403
    assert cat.post("/api/watched", item="c0001", spans=SPANS).status_code == 403  # the whole video was not sent
    assert cat.post("/api/answer", **answer).status_code == 422
    assert cat.post("/api/answer", **cat.play_clips(), answer=None).is_success


def test_no_playing_for_others_or_of_other_items(world: World) -> None:
    world.propose("c0002")
    ann, bob = world.with_task("ann"), world.with_task("bob")
    ann.play("c0001")
    assert bob.post("/api/watched", item="c0001", spans=SPANS).status_code == 403
    assert ann.post("/api/watched", item="c0002", spans=SPANS).status_code == 403
    assert ann.post("/api/watched", item="nothing", spans=SPANS).status_code == 403
    for spans in ([], [[0]], [[-1, 2]], [[0, "x"]], [[0, 1]] * 201):
        assert ann.post("/api/watched", item="c0001", spans=spans).status_code == 422


def test_what_was_served_to_whom_is_on_record(world: World) -> None:
    ann = world.with_task("ann")
    ann.get("/video?id=c0001", headers={"Range": "bytes=0-9"})
    ann.get("/frame?id=c0001&t=3")
    world.client("bob").get("/video?id=c0001")
    lines = world.audit()
    served = [line for line in lines if line["event"] == "served"]
    assert {(line["who"], line["path"]) for line in served} == {("ann", "/video"), ("ann", "/frame")}
    assert served[0]["range"] == "bytes=0-9"
    [refused] = [line for line in lines if line["event"] == "refused"]
    assert (refused["who"], refused["path"], refused["status"]) == ("bob", "/video", 403)
    assert [line["who"] for line in lines if line["event"] == "sign-in"] == ["ann", "bob"]
    text = (world.project.folder / "desk-audit.jsonl").read_text()
    assert not any(token in text for token in world.tokens.values())


# Files and processes


def test_what_is_private_is_the_owners_alone(world: World) -> None:
    assert world.with_task("ann").accept().is_success
    for name in ("build.toml", "build.sqlite", "build.sqlite-wal", "desk-audit.jsonl"):
        assert stat.S_IMODE((world.project.folder / name).stat().st_mode) == 0o600, name


@pytest.mark.allow_hosts(["127.0.0.1", "127.0.0.2", "::1"])
@pytest.mark.parametrize(("host", "kind"), [("127.0.0.2", signal.SIGTERM), ("localhost", signal.SIGINT)])
def test_the_printed_address_works_and_the_scratch_folder_goes_however_the_desk_ends(
    world: World, tmp_path: Path, host: str, kind: signal.Signals
) -> None:
    scratch = tmp_path / "scratch-home"
    scratch.mkdir()
    with serving_process(world.project.folder, "--host", host, TMPDIR=str(scratch)) as (address, process):
        assert httpx.get(address, follow_redirects=True, headers={"Accept": "text/html"}).status_code == 200
        [folder] = scratch.glob("trace-ves-clips-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        process.send_signal(kind)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert list(scratch.iterdir()) == []


def test_a_desk_that_ends_while_a_clip_is_cut_prints_no_traceback(world: World, tmp_path: Path) -> None:
    _, left_out = world.to_leave_one_out()
    (tmp_path / "sitecustomize.py").write_text(
        "import time\nfrom pathlib import Path\nfrom trace_ves.construction import looking\n"
        f"looking.cut_clip = lambda *_: Path({str(tmp_path / 'cutting')!r}).touch() or time.sleep(2) or b''\n"
    )
    with serving_process(world.project.folder, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}") as serving:
        address, process = serving
        cat = world.client("cat", address)
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as waiting:
            waiting.sendall(cat.raw_get(f"/clip?id=c0001&left_out={left_out}&part={(left_out + 1) % 3}"))
            wait_until((tmp_path / "cutting").exists)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


@pytest.mark.allow_hosts(["127.0.0.1", "127.0.0.2"])
def test_a_client_that_holds_connections_blocks_nobody(world: World) -> None:
    """560 bodies that never end, and heads and responses that stay open: another address is served meanwhile."""
    with serving_process(world.project.folder) as (address, _), ExitStack() as stack:
        port = int(address.rpartition(":")[2])
        heads = [b"POST /api/next HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{", b"GET / HT"]
        held = []
        for number in range(560):
            connection = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0))
            held.append(stack.enter_context(connection))
            with suppress(OSError):
                connection.sendall(heads[number % 2])
        world.with_task("ann", address)
        for connection in held:  # each is closed, at once or when its time is over
            with suppress(ConnectionError):
                while connection.recv(4096):
                    pass
        again = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0))
        stack.enter_context(again).sendall(b"GET /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert again.recv(12) == b"HTTP/1.1 200"


KILLS = 2


def judge_until_it_ends(client: Client, saved: list[str]) -> None:
    """Reject one item after the other, and note what was said to be saved."""
    try:
        while client.post("/api/next").json()["go"] == "/task":
            item = re.search(r"<title>(\S+)", client.get("/task").text)[1]
            if client.post("/api/verification", item=item, revision=0, reason="no").is_success:
                saved.append(item)
    except httpx.TransportError:
        return


def test_a_killed_desk_loses_no_judgement(world: World) -> None:
    world.propose(*(f"c{number:04}" for number in range(2, 200)))
    chance = random.Random(3)
    saved: dict[str, list[str]] = {"ann": [], "bob": []}
    for turn in range(KILLS):
        with serving_process(world.project.folder) as (address, process):
            jobs = [(world.client(name, address), items) for name, items in saved.items()]
            threads = [threading.Thread(target=judge_until_it_ends, args=job) for job in jobs]
            for thread in threads:
                thread.start()
            wait_until(lambda enough=turn + 1: min(map(len, saved.values())) >= enough)
            threads[0].join(chance.uniform(0.02, 0.4))
            process.kill()
            for thread in threads:
                thread.join(30)
    ledger = world.store.ledger()
    for name, items in saved.items():
        written = [entry.subject for entry in ledger.entries if entry.slot == f"verification/{name}"]
        assert len(items) == len(set(items)) > 0
        assert set(items) <= set(written)
        assert len(written) == len(set(written)) <= len(items) + KILLS  # written, but the answer was cut off
