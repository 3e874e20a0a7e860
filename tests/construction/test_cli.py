"""`trace-ves build` as a person runs it: sentences for mistakes, warnings, costs, and the page that describes it."""

import html
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.fakes import DIALECTS, Response, Server
from tests.web.web_bench import write_video
from trace_ves.cli.build import COMMANDS
from trace_ves.cli.build import build_command as command
from trace_ves.cli.main import SETTINGS
from trace_ves.construction.project import open_project
from trace_ves.core import Interval

from .histories import StorePen, proposal

PAGE = (Path(__file__).parents[2] / "docs" / "build.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A film with a single window of captions."""
    path = tmp_path_factory.mktemp("short") / "a.mp4"
    write_video(path, seconds=3)
    return path


def build(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments], **SETTINGS)


@pytest.fixture
def model() -> Iterator[Server]:
    """A model that fits every stage, at 10 cents a call."""
    made = Server()
    reply = json.dumps({"caption": "a dog", "items": [], "answer": "A"})
    made.respond(Response(body=DIALECTS["openai"].ok(reply, read=100_000, output=0)))
    yield made
    made.close()


def test_a_stage_stops_at_its_spending_limit_and_goes_on_later(folder: Path, tmp_path: Path, model: Server) -> None:
    build("init", folder)
    spec = f"openai:m@{model.url}/v1"
    (tmp_path / "prices.toml").write_text(f'["{spec}"]\ninput = 1\ncached = 1\noutput = 1\ndate = 2026-05-01\n')
    evidence = (Interval(0.2, 0.8), Interval(1, 1.6), Interval(2, 2.6))
    with closing(open_project(folder).open_store()) as store:
        pen = StorePen(store).propose("c1", proposal(evidence=evidence))
        pen.verify("c1", "ann", evidence).verify("c1", "bob", evidence)
    money = ("--prices", tmp_path / "prices.toml", "--no-cache", "--max-cost")
    # The caption of the only window, then that of the whole video, then the drafts of two families.
    propose = ("propose", folder, "--captioner", spec, "--proposer", spec, *money)
    # Three questions, in other orders of options, without each of three intervals.
    probe = ("probe", folder, "--backbone", spec, *money)
    for stage, limit, calls, rest in ((propose, 0.15, 2, 2), (probe, 0.55, 6, 3)):
        model.received.clear()
        stopped = build(*stage, limit)
        assert stopped.exit_code == 3, stopped.output
        cost = f"have cost ${calls / 10:.4f} (list prices of 2026-05-01), and --max-cost is ${limit:g}"
        assert cost in stopped.output
        assert "Replies so far are kept." in stopped.output
        assert len(model.received) == calls
        assert build(*stage, 9).exit_code == 0
        assert len(model.received) == calls + rest  # what was paid for is not asked again
    refused = build("probe", folder, "--backbone", spec, "--max-cost", 1)
    assert f"needs a price for {spec}" in str(refused.exception)


def test_every_command_stands_on_the_page() -> None:
    assert set(re.findall(r"^\$ trace-ves build (\S+)", PAGE, re.MULTILINE)) == set(COMMANDS)


def test_the_page_says_the_keys_that_are_there() -> None:
    templates = Path(__file__).parents[2] / "src" / "trace_ves" / "web" / "templates" / "desk"
    pages = "".join(page.read_text(encoding="utf-8") for page in templates.glob("*.html"))
    keys = {html.unescape(key) for key in re.findall(r'data-key="([^"{]+)"', pages)} - {"s", "u"}
    table = PAGE[PAGE.index("| Key |") : PAGE.index("In stage 3")]
    assert keys <= set(re.findall(r"`([^`]+)`", table))
