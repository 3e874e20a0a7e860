"""What the page caches for its next start: the same pages without reading the files, which are read again in doubt."""

import os
import shutil
from pathlib import Path

import pytest

from trace_ves.core.files import cache_dir
from trace_ves.records import disk_cache
from trace_ves.records.run_index import RunIndex
from trace_ves.web import library
from trace_ves.web.library import Library
from trace_ves.web.listing import Filters
from trace_ves.web.open_library import open_library
from trace_ves.web.views import run_page, runs_page

RUN = "trace@scripted"


@pytest.fixture
def folder(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and a bench of which everything is cached, however small."""
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "WORTH_CACHING", 0)
    shutil.copytree(world, tmp_path / "world")
    return tmp_path / "world"


def opened(folder: Path) -> Library:
    found = open_library(folder / "runs", bench=folder / "bench")
    found.audit()
    return found


def pages(found: Library) -> list[str]:
    lists = [run_page(found, RUN, filters, 1) for filters in (Filters(), Filters(text="the"), Filters(sort="question"))]
    return [runs_page(found, common=False), runs_page(found, common=True), *lists]


def cache_files() -> list[Path]:
    """The index of each run, the questions, the audit."""
    found = sorted((cache_dir() / "pages").iterdir())
    assert len(found) > 3
    return found


def test_a_second_start_reads_no_line_and_shows_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(folder)
    shown = pages(first)
    with monkeypatch.context() as patched:
        patched.setattr(RunIndex, "_take", None)
        patched.setattr(library, "audit", None)
        patched.setattr("trace_ves.web.open_library.load_bench", None)
        second = opened(folder)
        assert runs_page(second, common=False) == shown[0]
        assert {**second.questions} == first.questions
        assert {**second.listed(RUN)} == {**first.listed(RUN)}
    assert pages(second) == shown
    name = next(iter(second.questions))
    assert second.runs[RUN].read(name) == first.runs[RUN].read(name)


@pytest.mark.parametrize("changed", ["runs/trace@scripted.jsonl", "bench/questions.jsonl"])
def test_a_changed_file_is_read_again(folder: Path, changed: str) -> None:
    opened(folder)
    path = folder / changed
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    again = opened(folder)
    shutil.rmtree(cache_dir())
    fresh = opened(folder)
    assert pages(again) == pages(fresh)
    assert {**again.questions} == {**fresh.questions}


def test_a_run_that_grows_on_an_open_page_is_followed(folder: Path) -> None:
    path = folder / "runs" / f"{RUN}.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    opened(folder)
    second = opened(folder)
    before = len(second.runs[RUN].entries)
    with path.open("ab") as file:
        file.write(whole.splitlines(keepends=True)[-1])
    second.refresh(now=True)
    assert len(second.runs[RUN].entries) == before + 1
    fresh = opened(folder)
    assert {**second.listed(RUN)} == {**fresh.listed(RUN)}
    after, expected = second.audit().report, fresh.audit().report
    assert [run.metrics for run in after.runs] == [run.metrics for run in expected.runs]


def test_a_damaged_file_is_made_again(folder: Path) -> None:
    shown = pages(opened(folder))
    contents = [path.read_bytes() for path in cache_files()]
    for at, path in enumerate(cache_files()):
        path.write_bytes([b"", b"no index", contents[at][:-40]][at % 3])
    assert pages(opened(folder)) == shown
    assert [path.read_bytes() for path in cache_files()] == contents


def test_a_cache_folder_that_cannot_be_written_keeps_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    opened(folder)
    assert (tmp_path / "cache").read_text() == "in the way"


def test_the_oldest_are_dropped_where_all_take_too_much_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(folder)
    old = cache_files()[0]
    os.utime(old, (0, 0))
    monkeypatch.setattr(disk_cache, "MOST_BYTES", sum(path.stat().st_size for path in cache_files()))
    facts = disk_cache.Facts({"a": [1, "é"]})
    disk_cache.save_facts("pages", "one more", facts)
    assert not old.exists()
    assert disk_cache.load_facts("pages", "one more") == facts
    assert disk_cache.load_facts("pages", "another") is None


def test_small_folders_leave_nothing_behind(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    opened(world)
    assert not os.path.lexists(tmp_path / "cache")
