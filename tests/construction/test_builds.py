"""Builds side by side on one database, private files, and a build that moves as one archive."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest

from trace_ves.construction.export import pack, unpack
from trace_ves.construction.ledger import PROPOSAL_SLOT, Change, Stage, StaleError
from trace_ves.construction.people import Role, authenticate, find_person, invite
from trace_ves.construction.project import create_project
from trace_ves.construction.store import Store, StoreError
from trace_ves.core import InputError

from .histories import proposal

if TYPE_CHECKING:
    from pathlib import Path


def test_two_builds_on_one_database_do_not_mix(url: str) -> None:
    one, other = "0123456789abcdef", "fedcba9876543210"
    first = Store(url, one)
    invite(first, "ann", Role.ANNOTATOR)
    if url.startswith("sqlite"):
        with pytest.raises(StoreError, match="belongs to another build"):
            Store(url, other)
    else:
        second = Store(url, other)
        assert second.ledger().entries == []
        invite(second, "bob", Role.ANNOTATOR)
        assert find_person(first.ledger(), "bob") is None
        second.close()
    again = Store(url, one)
    assert find_person(again.ledger(), "ann") is not None
    again.close()
    first.close()


def test_a_database_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store(f"sqlite:///{tmp_path / 'build.sqlite'}")
        store.append([Change("c1", "s", "ann", {})])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert "build.sqlite-wal" in modes


def test_a_build_moves_as_one_archive(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "here"
    (folder / "videos").mkdir(parents=True)
    (folder / "videos" / "a.mp4").write_bytes(b"not a film, but a file")
    project = create_project(folder, gold_share=0.2)
    store = project.open_store()
    token = invite(store, "ann", Role.ANNOTATOR)
    store.append([Change("c1", PROPOSAL_SLOT, "build", proposal().to_json())])
    assert store.claim("c1", Stage.VERIFICATION, "ann")
    (folder / "guidelines.md").write_text("# Ours")
    assert pack(project, store, tmp_path / "b.tar", on_progress=lambda _done, _total: None) == 3
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    database = "" if url.startswith("sqlite") else url
    moved = unpack(tmp_path / "b.tar", tmp_path / "there", database=database)
    assert (moved.settings.gold_share, moved.settings.id) == (0.2, project.settings.id)
    assert moved.guidelines() == "# Ours"
    assert (tmp_path / "there" / "videos" / "a.mp4").read_bytes() == b"not a film, but a file"
    again = moved.open_store()
    assert [entry.number for entry in again.ledger().entries] == [entry.number for entry in store.ledger().entries]
    assert authenticate(again.ledger(), "ann", token) is not None
    assert not again.claim("c1", Stage.VERIFICATION, "ann")
    with pytest.raises(StaleError, match="history in this database already"):
        again.copy_from(store)
    for each in (again, store):
        each.close()
    with pytest.raises(InputError, match="exists already"):
        unpack(tmp_path / "b.tar", tmp_path / "there")
    with pytest.raises(InputError, match="exists already"):
        pack(moved, store, tmp_path / "b.tar", on_progress=lambda _done, _total: None)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "videos/../../evil", "evil.py", "videos"])
def test_an_archive_of_a_stranger_writes_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        made = tarfile.TarInfo(name)
        made.size = 4
        archive.addfile(made, io.BytesIO(b"evil"))
    with pytest.raises(InputError, match="is no part of a build"):
        unpack(tmp_path / "x.tar", tmp_path / "new")
    link = tarfile.TarInfo("videos/a.mp4")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "y.tar", "w") as archive:
        archive.addfile(link)
    with pytest.raises(InputError, match="is no part of a build"):
        unpack(tmp_path / "y.tar", tmp_path / "new")
    (tmp_path / "z.tar").write_bytes(b"no archive")
    with pytest.raises(InputError, match="not an archive of a build"):
        unpack(tmp_path / "z.tar", tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tar", "y.tar", "z.tar"]
