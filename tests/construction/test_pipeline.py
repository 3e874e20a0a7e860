"""The stages with a model behind them: what is asked, what is kept, and that a stopped run goes on where it was."""

import json
import os
import re
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock, call

import pytest

from tests.agent.test_budget import ClockVideo
from tests.fake_models import StageModel
from trace_ves import video
from trace_ves.backbone.protocol import ModelFault, Request, ScriptedBackbone
from trace_ves.benches import load_bench
from trace_ves.construction import looking, probes
from trace_ves.construction.export import export_bench
from trace_ves.construction.judged_item import Evidence, Probe, Shortcut, judged_item
from trace_ves.construction.ledger import Change, Stage, StaleError
from trace_ves.construction.people import Role, authenticate, find_person, invite, list_people
from trace_ves.construction.probes import probe_leave_one_out, probe_shortcuts
from trace_ves.construction.project import BuildSettings, Project, create_project, open_project
from trace_ves.construction.proposal import SCHEMAS, caption_video, propose_items
from trace_ves.construction.store import Store
from trace_ves.core import InputError, Interval

from .histories import StorePen, proposal

NAME = "videos/a.mp4"
EVIDENCE = (Interval(3, 6), Interval(12, 15), Interval(22, 26))
DRAFT = {
    "question": "How many times?",
    "options": ["1", "2", "3", "4"],
    "answer": "B",
    "evidence": [[3, 6], [12, 15]],
    "rationales": ["once", "twice"],
}
REPLIES = {"dense_caption": {"caption": "a road"}, "item_proposal": {"items": [DRAFT]}}


def scripted(**replies: Any) -> StageModel:
    return StageModel({stage.replace("_", "-"): said for stage, said in (REPLIES | replies).items()})


def probe(project: Project, store: Store, model: StageModel) -> int:
    on_progress = Mock()
    found = probe_leave_one_out(project, store, ScriptedBackbone(model), on_progress=on_progress)
    assert on_progress.mock_calls == [call(1, 1)] * found
    return found


def shortcut(store: Store, model: StageModel) -> tuple[int, int]:
    on_progress = Mock()
    found = probe_shortcuts(store, ScriptedBackbone(model), ScriptedBackbone(model), on_progress=on_progress)
    assert on_progress.mock_calls == [call(1, 1)] * found[0]
    return found


def propose(store: Store, model: StageModel, progress: list[tuple[int, int]] | None = None) -> tuple[int, list[str]]:
    """Caption a film of 130 seconds, and draft items from the captions."""
    done = progress if progress is not None else []
    source = Mock(wraps=ClockVideo(130.0), duration=130.0)
    caption_video(store, NAME, source, ScriptedBackbone(model), on_progress=lambda *each: done.append(each))
    assert {each.kwargs["height"] for each in source.frames_at.call_args_list} <= {360}
    return propose_items(store, NAME, source.duration, "event-counting", ScriptedBackbone(model))


def written(store: Store) -> list[tuple[str, str, Any]]:
    return [(entry.subject, entry.slot, entry.after) for entry in store.ledger().entries]


WINDOWS = [(0, 30), (25, 55), (50, 80), (75, 105), (100, 130)]
FILM = f"video:{NAME}"
CAPTIONS = [(FILM, f"caption/{place}", {"caption": "a road"}) for place in range(5)]


def test_captions_then_items_and_nothing_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "0001")
    model = scripted(item_proposal={"items": [DRAFT, DRAFT | {"answer": "D"}]})
    refused, progress = "the right count is '4', but there are 2 intervals", []
    assert propose(store, model, progress) == (1, [refused])
    assert progress == [(4, 5), (5, 5)]
    *windows, whole, last = model.requests
    assert [request.variables for request in windows] == [{"start": f"{a}.0", "end": f"{b}.0"} for a, b in WINDOWS]
    assert [(request.stage, request.frames_supplied) for request in model.requests] == [
        *[("dense-caption", 30)] * 5,
        ("dense-caption", 16),
        ("item-proposal", 0),
    ]
    assert whole.variables == {"start": "0.0", "end": "130.0"}
    assert last.variables == {
        "captions": [{"start": a, "end": b, "caption": "a road"} for a, b in WINDOWS],
        "family": "event-counting",
        "schema": SCHEMAS["event-counting"],
        "duration": "130.0",
    }
    assert "$" not in last.text
    assert written(store) == [
        *CAPTIONS,
        (FILM, "gist", {"caption": "a road"}),
        ("c0001", "proposal", DRAFT | {"video": NAME, "duration": 130.0, "family": "event-counting"}),
        (FILM, "proposed/event-counting", {"items": ["c0001"], "refused": [refused]}),
    ]
    calls = [(each["backbone"], each["stage"]) for entry in store.ledger().entries for each in entry.calls]
    assert calls == [("scripted", request.stage) for request in model.requests]
    assert propose(store, model) == (0, [])
    assert len(model.requests) == 7
    with pytest.raises(StaleError, match="c0001"):  # an id that is taken
        propose_items(store, NAME, 130.0, "other", ScriptedBackbone(scripted()))


def test_a_stopped_run_goes_on_where_it_was(store: Store) -> None:
    def stops(request: Request[Any]) -> Any:
        if request.variables["start"] == "100.0":
            raise KeyboardInterrupt
        return {"caption": "a road"}

    with pytest.raises(KeyboardInterrupt):
        propose(store, scripted(dense_caption=stops))
    assert written(store) == CAPTIONS[:4]
    progress: list[tuple[int, int]] = []
    second = scripted()
    assert propose(store, second, progress) == (1, [])
    assert [request.stage for request in second.requests] == ["dense-caption", "dense-caption", "item-proposal"]
    assert progress == [(5, 5)]


def test_a_fault_is_on_record_and_asked_again(store: Store) -> None:
    broken = scripted(dense_caption=ModelFault("no words"), item_proposal=ModelFault("no items"))
    assert propose(store, broken) == (0, ["no items"])
    slots = [*(slot for _, slot, _ in CAPTIONS), "gist"]
    assert written(store) == [
        *((FILM, slot, {"fault": "no words"}) for slot in slots),
        (FILM, "proposed/event-counting", {"fault": "no items"}),
    ]
    assert len(broken.requests) == sum(len(entry.calls) for entry in store.ledger().entries) == 7
    assert broken.requests[-1].variables["captions"] == []
    mended = scripted()
    assert propose(store, mended) == (1, [])
    assert len(mended.requests) == 7


def accepted_by_people(store: Store, evidence: Evidence = EVIDENCE) -> None:
    """An item that two people verified and found closed."""
    pen = StorePen(store).propose("c0001", proposal(NAME, evidence))
    for who in ("ann", "bob"):
        pen.verify("c0001", who, evidence, seconds=60)
        pen.answer("c0001", who, [None] * 3, evidence, seconds=30)


def test_the_probe_sees_the_partial_set_and_nothing_else(
    project: Project, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two frames a second with 360 rows, and at most 24 of an interval."""
    film, opened = Mock(wraps=ClockVideo(120.0), duration=120.0), MagicMock()
    opened.return_value.__enter__.return_value = film
    monkeypatch.setattr(probes, "open_video", opened)
    evidence = (Interval(3, 6), Interval(12, 14), Interval(22, 36))
    accepted_by_people(store, evidence)
    model = scripted()
    assert probe(project, store, model) == 1
    opened.assert_called_once_with(project.need_path(NAME))
    assert {each.kwargs["height"] for each in film.frames_at.call_args_list} == {360}
    supplied = list(zip(evidence, (6, 4, 24), strict=True))
    assert len(model.requests) == 9  # three partial sets, three draws each
    for place, request in enumerate(model.requests):
        kept = [pair for n, pair in enumerate(supplied) if n != place // 3]
        assert [(clip.span, len(clip.frames)) for clip in request.clips] == kept
        assert next(iter(request.variables["options"].values())) == proposal().options[place % 3]
    assert [request.sample for request in model.requests] == [0, 1, 2] * 3
    assert probe(project, store, model) == 0
    assert judged_item(store.ledger(), "c0001").state.waits_at is Stage.SHORTCUT


def knows(request: Request[Any]) -> dict[str, str]:
    """Finds the right option wherever it stands."""
    return {"answer": next(k for k, words in request.variables["options"].items() if words == "dog, cat, fox")}


def test_a_model_that_always_finds_the_option_opens_the_item(project: Project, store: Store) -> None:
    accepted_by_people(store)
    probe(project, store, scripted(leave_one_out_probe=knows))
    assert judged_item(store.ledger(), "c0001").probes[2] == Probe(EVIDENCE, ("B", "B", "B"), determines=True)
    assert judged_item(store.ledger(), "c0001").state.rejected_at is Stage.LEAVE_ONE_OUT


def test_a_liking_for_a_letter_is_no_knowledge(project: Project, store: Store) -> None:
    """B is the right letter of the question itself, and the wrong one of its other turns."""
    accepted_by_people(store)
    stages = ("leave_one_out_probe", "language_only_probe", "gist_probe")
    likes_b = scripted(**{stage: {"answer": "B"} for stage in stages})
    probe(project, store, likes_b)
    store.append([Change(FILM, "gist", "build", {"caption": "a film"})])
    assert shortcut(store, likes_b) == (1, 0)
    found = judged_item(store.ledger(), "c0001")
    assert found.state.accepted
    assert found.probes[0] == Probe(EVIDENCE, ("B", "C", "D"), determines=False)
    assert found.language == found.gist == Shortcut("B", ("C", "D", "A", "B"), solves=False)


@pytest.mark.parametrize("which", ["language_only_probe", "gist_probe"])
def test_a_shortcut_that_holds_on_the_repeat_rejects(project: Project, store: Store, which: str) -> None:
    accepted_by_people(store)
    probe(project, store, scripted())
    model = scripted(**{which: knows})
    assert shortcut(store, model) == (1, 1)  # no summary yet
    asked = len(model.requests)
    store.append([Change(FILM, "gist", "build", {"caption": "a film with a fox"})])
    shortcut(store, model)
    found = judged_item(store.ledger(), "c0001")
    assert found.state.rejected_at is Stage.SHORTCUT
    solved = found.language if which == "language_only_probe" else found.gist
    assert solved == Shortcut("B", ("B",) * 4, solves=True)
    assert {request.stage for request in model.requests[asked:]} <= {"gist-probe"}  # what is known is not asked again
    assert all("a film with a fox" in request.text for request in model.requests[asked:])
    assert all(not request.clips for request in model.requests)


@pytest.mark.parametrize("right", [0, 1])
def test_a_probe_that_fails_judges_nothing(project: Project, store: Store, right: int) -> None:
    accepted_by_people(store)
    probe(project, store, scripted(leave_one_out_probe=ModelFault("down")))
    assert judged_item(store.ledger(), "c0001").state.waits_at is Stage.LEAVE_ONE_OUT
    assert written(store)[-3:] == [("c0001", f"fault/probe/{place}", {"fault": "down"}) for place in range(3)]
    assert [len(entry.calls) for entry in store.ledger().entries[-3:]] == [3, 3, 3]
    probe(project, store, scripted())
    replies = iter([{"answer": "B"}] * right + [ModelFault("down")] * 4)
    shortcut(store, scripted(language_only_probe=lambda _: next(replies)))
    assert written(store)[-1] == ("c0001", "fault/shortcut/language-only", {"fault": "down"})
    assert judged_item(store.ledger(), "c0001").state.waits_at is Stage.SHORTCUT


def test_a_cut_that_failed_is_tried_again_and_one_that_succeeded_is_kept(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = Mock(side_effect=[OSError("full"), b"first", b"second", b"third"])
    monkeypatch.setattr(looking, "cut_clip", cuts)
    clips = looking.ClipCache(tmp_path)
    with pytest.raises(OSError, match="full"):
        clips.clip(footage, Interval(1, 2)).result(30)
    for end, content in ((2, b"first"), (2, b"first"), (3, b"second")):
        assert clips.clip(footage, Interval(1, end)).result(30).read_bytes() == content
    os.utime(footage, (1, 1))
    assert clips.clip(footage, Interval(1, 2)).result(30).read_bytes() == b"third"


def accepted_by_all(project: Project, store: Store) -> None:
    """Bring the item through every stage."""
    accepted_by_people(store)
    probe(project, store, scripted())
    store.append([Change(FILM, "gist", "build", {"caption": "a film"})])
    shortcut(store, scripted())


def test_export_is_a_bench_without_rationales(project: Project, store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no item is accepted"):
        export_bench(project, store.ledger(), tmp_path / "out")
    accepted_by_all(project, store)
    assert export_bench(project, store.ledger(), tmp_path / "out") == 1
    [item] = load_bench(tmp_path / "out", strict=True).items
    assert (item.question.id, item.answer, item.evidence) == ("c0001", "B", EVIDENCE)
    assert "fact 0" not in (tmp_path / "out" / "questions.jsonl").read_text()
    with video.open(tmp_path / "out" / item.question.video) as exported:
        assert exported.frame_count == 320
    told = json.loads((tmp_path / "out" / "construction.json").read_text())
    assert (told["accepted"], told["minutes_per_item"]) == (1, 2.5)
    assert told["backbones"]["gist-probe"] == ["scripted"]
    assert "1 of 1 proposed" in (tmp_path / "out" / "CLOSURE.md").read_text()
    with pytest.raises(InputError, match="exists already"):
        export_bench(project, store.ledger(), tmp_path / "out")
    assert export_bench(project, store.ledger(), tmp_path / "out", force=True) == 1


def test_an_export_never_replaces_a_part_of_its_build(project: Project, store: Store, tmp_path: Path) -> None:
    accepted_by_all(project, store)
    film = project.need_path(NAME)
    places = [project.folder, tmp_path / "same-build"]
    places[1].symlink_to(project.folder, target_is_directory=True)
    for name in ("construction.json", "CLOSURE.md", "questions.jsonl"):
        places.append(tmp_path / f"with-{len(places)}")
        places[-1].mkdir()
        (places[-1] / name).hardlink_to(film)
    before = {path: path.read_bytes() for path in [film, *project.files()] if path.exists()}
    for out in places:
        with pytest.raises(InputError, match=r"(is|contains) an input of this command"):
            export_bench(project, store.ledger(), out, force=True)
    assert {path: path.read_bytes() for path in before} == before
    assert not (project.folder / "questions.jsonl").exists()


def test_people_have_tokens_that_end(store: Store) -> None:
    token = invite(store, "ann", Role.ANNOTATOR)
    ann = find_person(store.ledger(), "ann")
    pairs = [("ann", token), ("ann", token + "x"), ("bob", token)]
    assert [authenticate(store.ledger(), *pair) for pair in pairs] == [ann, None, None]
    assert token not in json.dumps(written(store))
    newer = invite(store, "ann", Role.ANNOTATOR)
    assert [authenticate(store.ledger(), "ann", each) is None for each in (token, newer)] == [True, False]
    with pytest.raises(InputError, match="ann is annotator here"):
        invite(store, "ann", Role.ADJUDICATOR)
    for name in ("", "a/b", "x" * 41, "../x", "a\nb", "<b>"):
        with pytest.raises(InputError, match="not a valid name"):
            invite(store, name, Role.ANNOTATOR)
    assert [each.name for each in list_people(store.ledger())] == ["ann"]


def test_footage_outside_of_the_folder_is_not_seen(project: Project, tmp_path: Path, footage: Path) -> None:
    (project.folder / "videos" / "out.mp4").symlink_to(footage)
    (tmp_path / "b" / "beside.mp4").hardlink_to(footage)
    assert project.videos() == [NAME]
    for name in ("videos/out.mp4", "../b/beside.mp4", "beside.mp4", "videos/../beside.mp4", "/etc/passwd", "a\0b", ""):
        assert project.path_of(name) is None
    with pytest.raises(InputError, match="exists already"):
        create_project(project.folder)


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("id", ["", "0123456789abcdef"], ["0123456789abcde", "0123456789abcdeg"]),
        ("gold_share", [0, 0.5], [-0.01, 0.51]),
        ("gold_accuracy", [0, 1], [-0.01, 1.01]),
        ("watched_share", [0.01, 1], [0, 1.01]),
        ("least_pace", [0, 9], [-0.01]),
        ("seat_hours", [0.01, 999], [0]),
        ("more", [], [1]),
    ],
)
def test_settings_have_limits(folder: Path, name: str, allowed: list[Any], refused: list[Any]) -> None:
    for value in (*allowed, *refused):
        (folder / "build.toml").write_text(f"{name} = {json.dumps(value)}\n")
        with pytest.raises(InputError, match=rf"build\.toml: {name}: ") if value in refused else nullcontext():
            assert getattr(open_project(folder).settings, name) == value


def test_settings_are_written_as_they_are_read(project: Project) -> None:
    text = (
        f'id = "{project.settings.id}"\ndatabase = ""\naudited = []\ngold_share = 0.0\ngold_accuracy = 0.8\n'
        "watched_share = 0.95\nleast_pace = 0.5\nallow_not_blind = false\nseat_hours = 24.0\n"
    )
    assert project.settings.to_toml() == (project.folder / "build.toml").read_text() == text
    assert re.fullmatch("[0-9a-f]{16}", project.settings.id)
    assert open_project(project.folder) == project
    assert (project.folder / "build.toml").stat().st_mode & 0o777 == 0o600


def test_a_build_lives_on_either_database(folder: Path, url: str) -> None:
    create_project(folder, BuildSettings(database=url, audited=("glance",)))
    for database in ("", f"{url}x"):
        with pytest.raises(InputError, match=r"this build names the database .* --database"):
            open_project(folder, database=database)
    found = open_project(folder, database=url)
    assert (found.url, found.settings.audited) == (url, ("glance",))
    with closing(found.open_store()) as first, closing(found.open_store()) as second:
        token = invite(first, "ann", Role.ANNOTATOR)
        accepted_by_people(first)
        assert authenticate(second.ledger(), "ann", token) is not None
        assert judged_item(second.ledger(), "c0001").state.waits_at is Stage.LEAVE_ONE_OUT
