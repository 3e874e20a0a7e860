"""Pages of a day's work: what waits, what was done, the guidelines; and the operator's page, for nobody else."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.construction.histories import StorePen
from tests.web.desk.conftest import EVIDENCE, SPANS, XSS, World
from trace_ves.construction.assignments import AssignmentQueue
from trace_ves.construction.people import revoke


def test_the_first_page_tells_what_waits_and_what_was_done(world: World) -> None:
    world.propose("c0002", "c0003", "c0004")
    ann = world.client("ann")
    assert '<dd id="left">4 items</dd>' in ann.get("/").text
    ann.post("/api/next")
    page = ann.get("/").text
    assert '<dd id="left">4 items</dd>' in page
    assert "It stays assigned to you, with your edits, for 24 hours" in page
    ann.accept()
    page = ann.get("/").text
    assert '<dd id="left">3 items</dd>' in page
    assert '<dd id="today">1</dd>' in page
    assert "accepted with 3 intervals" in page
    assert "accepted with 3 intervals" in ann.get("/judgements").text
    assert "c0001" not in world.client("bob").get("/judgements").text


def test_guidelines_are_the_projects_own_and_run_nothing(world: World) -> None:
    ann = world.client("ann")
    assert "Leave-one-out" in ann.get("/guidelines").text
    text = f"# Ours\n\n{XSS}\n\n[a](javascript:alert(1))\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    (world.project.folder / "guidelines.md").write_text(text)
    page = ann.get("/guidelines").text
    assert "<h1>Ours</h1>" in page
    assert "<td>1</td>" in page
    assert "<img src=x" not in page
    assert 'href="javascript' not in page
    (world.project.folder / "guidelines.md").unlink()
    assert "Visual verification" in ann.get("/guidelines").text
    assert world.client().get("/guidelines").status_code == 401


def test_sign_in_speaks_to_annotators(world: World) -> None:
    page = world.client().get("/sign-in").text
    assert "build invite" not in page
    assert "that the operator of this desk sent you" in page


def test_a_partial_set_can_be_skipped(world: World) -> None:
    cat, _ = world.to_leave_one_out()
    assert cat.post("/api/skip", item="c0001", reason="").status_code == 422
    assert cat.post("/api/skip", item="c0001", reason="the clips do not play").json() == {"go": "/"}
    assert world.client("dan").post("/api/next").json() == {"go": "/task"}


WRITES = {
    "/api/invite": {"name": "eve", "role": "annotator"},
    "/api/revoke": {"name": "ann"},
    "/api/end-sessions": {"name": "ann"},
    "/api/release": {"who": "ann", "item": "c0001"},
    "/api/assign": {"who": "ann", "item": "c0001"},
}


@pytest.mark.parametrize("name", ["ann", "dora"])
def test_only_an_operator_operates(world: World, name: str) -> None:
    client = world.client(name)
    before = len(world.store.ledger().entries)
    for path, body in WRITES.items():
        assert client.post(path, **body).status_code == 403
    assert client.get("/export").status_code == 403
    assert client.get("/status").status_code == 403  # it would tell what others judged
    assert len(world.store.ledger().entries) == before
    assert "People" not in client.get("/").text


def test_people_are_invited_signed_out_and_revoked(world: World) -> None:
    olga, ann = world.client("olga"), world.client("ann")
    token = olga.post("/api/invite", name="eve", role="annotator").json()["token"]
    eve = world.client()
    assert eve.sign_in("eve", token).is_success
    assert token not in olga.get("/").text
    assert olga.post("/api/invite", name="eve", role="adjudicator").status_code == 422
    assert olga.post("/api/invite", name="<b>", role="annotator").status_code == 422
    world.clock.added += 1
    assert olga.post("/api/end-sessions", name="ann").is_success
    assert ann.get("/").status_code == 401
    assert olga.post("/api/revoke", name="eve").is_success
    assert eve.get("/").status_code == 401
    assert eve.sign_in("eve", token).status_code == 401
    assert olga.post("/api/revoke", name="nobody").status_code == 404
    assert "annotator (revoked)" in olga.get("/").text
    noted = [each for each in world.audit() if each["event"] in {"invite", "access-ended"}]
    assert [list(each.values())[1:] for each in noted] == [
        ["invite", "olga", "eve", "annotator"],
        ["access-ended", "olga", "ann"],
        ["access-ended", "olga", "eve"],
    ]


def test_an_assignment_is_given_back(world: World) -> None:
    olga, ann = world.client("olga"), world.with_task("ann")
    assert "c0001 since" in olga.get("/").text
    assert olga.post("/api/release", who="ann", item="c0001").is_success
    assert olga.post("/api/release", who="ann", item="c0001").status_code == 409
    assert ann.get("/task", headers={"Accept": "text/html"}).status_code == 303


def test_an_item_is_assigned_by_name(world: World) -> None:
    olga, ann, bob = world.client("olga"), world.client("ann"), world.client("bob")
    assert olga.post("/api/assign", item="c0001", who="bob").is_success
    assert bob.task()["item"] == "c0001"
    [noted] = [each for each in world.audit() if each["event"] == "assign"]
    assert list(noted.values())[1:] == ["assign", "olga", "bob", "c0001", ""]
    assert olga.post("/api/assign", item="c0001", who="ann", instead_of="bob").is_success
    assert bob.get("/task", headers={"Accept": "text/html"}).status_code == 303
    assert ann.task()["item"] == "c0001"
    refused = olga.post("/api/assign", item="c0001", who="ann")
    assert refused.status_code == 403
    assert refused.json()["detail"] == "ann holds c0001; one assignment at a time: give that back first."
    page = olga.get("/").text
    assert '<option value="c0001">' in page
    assert ">ann</option></select></label>\n    <button" in page


def test_the_page_tells_what_is_stuck_and_what_to_do(world: World) -> None:
    olga = world.client("olga")
    assert "Let annotators judge 1 item:" in olga.get("/").text
    world.to_leave_one_out()
    page = olga.get("/").text
    assert "Ask a vision model about 1 item:" in page
    assert "Nothing. Idle assignments" in page
    for name in ("cat", "dan"):
        revoke(world.store, name)
    page = olga.get("/").text
    assert "Invite 6 more annotators, who have seen nothing of videos/a.mp4 (for c0001)" in page
    queue = AssignmentQueue(world.store, world.project.settings)
    assert queue.release(queue.current("cat"), "cat", by="build", reason="revoked")  # no one holds the item now
    assert "c0001 (leave one out)" in olga.get("/").text


def test_accepted_items_can_be_fetched(world: World) -> None:
    olga = world.client("olga")
    assert olga.get("/export").text == ""
    pen = StorePen(world.store)
    for verifier, other in (("ann", "cat"), ("bob", "dan")):
        pen.verify("c0001", verifier, EVIDENCE)
        pen.answer("c0001", other, [None] * 3, EVIDENCE)
    pen.probe("c0001", [False] * 3, EVIDENCE)
    pen.shortcut("c0001")
    [line] = olga.get("/export").text.splitlines()
    assert json.loads(line)["evidence"] == SPANS
    assert "Export the bench" in olga.get("/").text


def test_an_invitation_in_the_browser(new_page: Callable[..., Any], world: World) -> None:
    assert world.with_task("ann").accept().is_success
    page = new_page()
    world.sign_in(page, "olga")
    page.wait_for_selector("#people")
    assert "100 %" in page.locator("#people tbody tr").first.inner_text()
    page.locator("#invite input[name=name]").fill("gus")
    page.locator("#invite button").click()
    page.get_by_text("gus signs in with the token").wait_for()
    page.reload()
    assert "gus" in page.locator("#people").inner_text()
