"""A run file may be a stranger's: it never chooses code, or an address to which a key is sent."""

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests import program
from tests.fakes import Server
from trace_ves.backbone.registry import is_own_code, may_open_unasked


def check(folder: Path, bench: Path, backbone: str) -> subprocess.CompletedProcess[str]:
    line = {"question_id": "q00", "answer": "A", "timestamps": [6.0, 7.0, 31.0, 32.0], "backbone": backbone}
    (folder / "run.jsonl").write_text(json.dumps(line) + "\n")
    return program.run("counterfactual", bench, "run.jsonl", OPENAI_API_KEY="the-reader's-key")


def test_a_run_cannot_send_the_readers_key_anywhere(workplace: Path, bench_folder: Path) -> None:
    with closing(Server()) as server:
        done = check(workplace, bench_folder, f"openai:x@{server.url}/v1")
    assert done.returncode == 2
    assert (server.received, server.got) == ([], [])
    assert "which a file may not choose" in done.stderr
    assert f"--backbone openai:x@{server.url}/v1" in done.stderr


def test_a_run_cannot_import_code(workplace: Path, bench_folder: Path) -> None:
    (workplace / "evil.py").write_text("from pathlib import Path\nPath('taken').touch()\ndef main():\n    pass\n")
    done = check(workplace, bench_folder, "evil:main")
    assert done.returncode == 2
    assert not (workplace / "taken").exists()
    assert "which a file may not choose" in done.stderr


@pytest.mark.parametrize(
    ("spec", "may"),
    [
        *(
            (spec, True)
            for spec in ("glance", "glance:64", "gemini:gemini-3-flash-preview", "openai:gpt-4o", "vertex:m")
        ),
        *((spec, False) for spec in ("openai:m@http://host/v1", "openai:m@https://host", "openai:@http://host")),
        *((spec, False) for spec in ("gemini:m@http://host", "hf:./folder", "hf:somebody/model")),
        *((spec, False) for spec in ("vllm:somebody/model", "evil:main", "package.module:callable")),
        *((spec, False) for spec in ("openai.evil:main", "", "nothing")),
    ],
)
def test_only_built_in_backbones_without_an_address_may_be_opened(spec: str, may: bool) -> None:
    assert may_open_unasked(spec) == may


def test_a_backbone_of_ours_is_never_taken_for_code() -> None:
    assert not is_own_code("openai:gpt4")
    assert not is_own_code("hf:model")
    assert is_own_code("models:Steady")
