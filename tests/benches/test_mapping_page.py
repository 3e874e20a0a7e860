"""The commands about mapping files print what the page of formats shows, and it shows the example mappings."""

import re
import shlex
from pathlib import Path

import pytest

from trace_ves.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)[1:]
REAL_FILES = ("cgbench_mini.json", "avp_eval_lvbench.json")


def test_the_commands_print_what_the_page_says(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for name in REAL_FILES:
        (tmp_path / name).symlink_to(shared / "annotations" / name)
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) == 4
    for block in BLOCKS:
        [(command, redirected, expected)] = re.findall(r"\A\$ (.*?)( 2> .*?)?\n(.*)\Z", block, flags=re.DOTALL)
        with pytest.raises(SystemExit):
            main(shlex.split(command)[1:])
        out, err = capsys.readouterr()
        assert out + ("" if redirected else err) == expected


@pytest.mark.parametrize("name", ["cg-bench", "lvbench", "moments"])
def test_the_page_shows_the_mappings_as_they_are(name: str) -> None:
    text = (ROOT / "docs" / "examples" / "mapping" / f"{name}.toml").read_text(encoding="utf-8")
    _, mapping = text.split("\n", 1)  # the first line says what it is
    assert f"```toml\n{mapping}```" in PAGE
