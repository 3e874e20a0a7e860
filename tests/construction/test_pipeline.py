"""The stages with a model behind them: what is asked, what is kept, and that a stopped run goes on where it was."""

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.fake_models import StageModel
from tests.web.web_bench import number_in
from trace_ves import video
from trace_ves.backbone.protocol import ModelFault, Request, ScriptedBackbone
from trace_ves.benches import load_bench
from trace_ves.construction import looking
from trace_ves.construction.export import export_bench
from trace_ves.construction.judged_item import judged_item
from trace_ves.construction.ledger import PROPOSAL_SLOT, Change, Stage
from trace_ves.construction.looking import cut_clip
from trace_ves.construction.people import Role, authenticate, find_person, invite, list_people
from trace_ves.construction.probes import probe_leave_one_out, probe_shortcuts
from trace_ves.construction.project import BuildSettings, Project, create_project, open_project
from trace_ves.construction.proposal import caption_video, propose_items
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


def quiet(_done: int, _total: int) -> None:
    pass


def probe(project: Project, store: Store, model: StageModel) -> int:
    return probe_leave_one_out(project, store, ScriptedBackbone(model), on_progress=quiet)


def shortcut(store: Store, model: StageModel) -> tuple[int, int]:
    return probe_shortcuts(store, ScriptedBackbone(model), ScriptedBackbone(model), on_progress=quiet)


def propose(project: Project, store: Store, model: StageModel) -> tuple[int, list[str]]:
    with video.open(project.need_path(NAME)) as source:
        caption_video(store, NAME, source, ScriptedBackbone(model), on_progress=quiet)
        return propose_items(store, NAME, source.duration, "event-counting", ScriptedBackbone(model))


def test_captions_then_items_and_nothing_twice(project: Project, store: Store) -> None:
    model = scripted(item_proposal={"items": [DRAFT, DRAFT | {"answer": "D"}]})
    taken, refused = propose(project, store, model)
    assert (taken, len(refused)) == (1, 1)
    stages = [request.stage for request in model.requests]
    assert stages == ["dense-caption"] * 3 + ["item-proposal"]  # 0-30, 25-32, and 16 frames of the whole
    assert [request.frames_supplied for request in model.requests] == [30, 7, 16, 0]
    captions = model.requests[-1].variables["captions"]
    assert [(each["start"], each["end"]) for each in captions] == [(0, 30), (25, 32)]
    assert "$" not in model.requests[-1].text
    assert propose(project, store, model) == (0, [])
    assert len(model.requests) == 4
    [item] = [entry.subject for entry in store.ledger().entries if entry.slot == PROPOSAL_SLOT]
    assert judged_item(store.ledger(), item).proposal.evidence == (Interval(3, 6), Interval(12, 15))
    assert store.ledger().caption(NAME) == "a road"
    assert [call["stage"] for entry in store.ledger().entries for call in entry.calls] == stages


def test_a_stopped_run_goes_on_where_it_was(project: Project, store: Store) -> None:
    class StoppedError(Exception):
        pass

    def stops(request: Request[Any]) -> Any:
        if request.frames_supplied == 16:
            raise StoppedError
        return {"caption": "a road"}

    first = scripted(dense_caption=stops)
    with pytest.raises(StoppedError):
        propose(project, store, first)
    second = scripted()
    assert propose(project, store, second) == (1, [])
    assert [request.stage for request in second.requests] == ["dense-caption", "item-proposal"]


def test_a_fault_is_on_record_and_asked_again(project: Project, store: Store) -> None:
    broken = scripted(dense_caption=ModelFault("no words"), item_proposal=ModelFault("no items"))
    assert propose(project, store, broken) == (0, ["no items"])
    faults = [entry.after for entry in store.ledger().entries]
    assert {"fault": "no words"} in faults
    mended = scripted()
    assert propose(project, store, mended) == (1, [])
    assert len(mended.requests) == 4


def accepted_by_people(store: Store) -> None:
    """An item that two people verified and found closed."""
    pen = StorePen(store).propose("c0001", proposal(NAME, EVIDENCE))
    for who in ("ann", "bob"):
        pen.verify("c0001", who, EVIDENCE, seconds=60)
        pen.answer("c0001", who, [None] * 3, EVIDENCE, seconds=30)


def test_the_probe_sees_the_partial_set_and_nothing_else(project: Project, store: Store) -> None:
    accepted_by_people(store)
    model = scripted()
    assert probe(project, store, model) == 1
    assert len(model.requests) == 9  # three partial sets, three draws each
    for place, request in enumerate(model.requests):
        kept = [span for n, span in enumerate(EVIDENCE) if n != place // 3]
        assert [clip.span for clip in request.clips] == kept
        assert all(any(frame.seconds in span for span in kept) for clip in request.clips for frame in clip.frames)
    assert len({json.dumps(request.variables["options"]) for request in model.requests[:3]}) == 3
    assert probe(project, store, model) == 0
    assert judged_item(store.ledger(), "c0001").state.waits_at is Stage.SHORTCUT


def knows(request: Request[Any]) -> dict[str, str]:
    """Finds the right option wherever it stands."""
    return {"answer": next(k for k, words in request.variables["options"].items() if words == "dog, cat, fox")}


def test_a_model_that_always_finds_the_option_opens_the_item(project: Project, store: Store) -> None:
    accepted_by_people(store)
    probe(project, store, scripted(leave_one_out_probe=knows))
    assert judged_item(store.ledger(), "c0001").state.rejected_at is Stage.LEAVE_ONE_OUT


def test_a_liking_for_a_letter_is_no_knowledge(project: Project, store: Store) -> None:
    """B is the right letter of the question itself, and the wrong one of its other turns."""
    accepted_by_people(store)
    likes_b = scripted(
        leave_one_out_probe={"answer": "B"}, language_only_probe={"answer": "B"}, gist_probe={"answer": "B"}
    )
    probe(project, store, likes_b)
    store.append([Change(f"video:{NAME}", "gist", "build", {"caption": "a film"})])
    assert shortcut(store, likes_b) == (1, 0)
    found = judged_item(store.ledger(), "c0001")
    assert found.state.accepted
    assert (found.language.first, sorted(map(str, found.language.repeat))) == ("B", ["A", "B", "C", "D"])


@pytest.mark.parametrize("which", ["language_only_probe", "gist_probe"])
def test_a_shortcut_that_holds_on_the_repeat_rejects(project: Project, store: Store, which: str) -> None:
    accepted_by_people(store)
    probe(project, store, scripted())
    model = scripted(**{which: knows})
    assert shortcut(store, model) == (1, 1)  # no summary yet
    store.append([Change(f"video:{NAME}", "gist", "build", {"caption": "a film with a fox"})])
    shortcut(store, model)
    assert judged_item(store.ledger(), "c0001").state.rejected_at is Stage.SHORTCUT
    gists = [request for request in model.requests if request.stage == "gist-probe"]
    assert all("a film with a fox" in request.text for request in gists)
    assert all(not request.clips for request in model.requests)


def test_a_probe_that_fails_judges_nothing(project: Project, store: Store) -> None:
    accepted_by_people(store)
    probe(project, store, scripted(leave_one_out_probe=ModelFault("down")))
    assert judged_item(store.ledger(), "c0001").state.waits_at is Stage.LEAVE_ONE_OUT
    assert any(entry.slot == "fault/probe/0" and entry.calls for entry in store.ledger().entries)


def test_a_clip_holds_the_frames_of_its_interval_alone(footage: Path, tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(cut_clip(footage, Interval(3.05, 6)))
    with video.open(tmp_path / "clip.mp4") as clip:
        frames = clip.frames_at(list(clip.timestamps))
        numbers = [number_in(frame.rgb()) for frame in frames]
    assert numbers == list(range(31, 60))
    assert clip.duration == pytest.approx(3.0, abs=0.2)


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
    store.append([Change(f"video:{NAME}", "gist", "build", {"caption": "a film"})])
    shortcut(store, scripted())


def test_export_is_a_bench_without_rationales(project: Project, store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no item is accepted"):
        export_bench(project, store.ledger(), tmp_path / "out")
    accepted_by_all(project, store)
    assert export_bench(project, store.ledger(), tmp_path / "out") == 1
    bench = load_bench(tmp_path / "out", strict=True)
    [item] = bench.items
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
        with pytest.raises(InputError, match="is an input of this command"):
            export_bench(project, store.ledger(), out, force=True)
    assert {path: path.read_bytes() for path in before} == before
    assert not (project.folder / "questions.jsonl").exists()


def test_people_have_tokens_that_end(store: Store) -> None:
    token = invite(store, "ann", Role.ANNOTATOR)
    assert authenticate(store.ledger(), "ann", token) == find_person(store.ledger(), "ann")
    assert authenticate(store.ledger(), "ann", token + "x") is None
    assert authenticate(store.ledger(), "bob", token) is None
    assert token not in json.dumps([entry.after for entry in store.ledger().entries])
    newer = invite(store, "ann", Role.ANNOTATOR)
    assert authenticate(store.ledger(), "ann", token) is None
    assert authenticate(store.ledger(), "ann", newer) is not None
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
    (project.folder / "build.toml").write_text("audited = 3")
    with pytest.raises(InputError, match=r"build\.toml"):
        open_project(project.folder)


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
