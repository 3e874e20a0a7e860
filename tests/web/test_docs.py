"""docs/view.md lists the keys that the page has, and the options that the command has."""

import re
from pathlib import Path

from trace_ves.cli.pages import view_command
from trace_ves.web.views import static_text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/view.md").read_text(encoding="utf-8")
TEMPLATES = ROOT / "src/trace_ves/web/templates"


def test_every_key_of_a_question_and_of_lists_is_listed() -> None:
    table = PAGE.partition("## Keys")[2].partition("## ")[0]
    listed = set(re.findall(r"`(\S+?)`", table)) | {"?"}
    names = {"ArrowLeft": "←", "ArrowRight": "→", "Space": "space"}
    markup = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.html"))
    keys = {names.get(key, key) for key in re.findall(r'data-key="(.*?)"', markup)} | {"j", "k"}
    minor = {"c", "g", "o", "n", "p"}  # they stand in the help of their own page
    assert listed == keys - minor
    assert "data-key" in static_text("keys.js")


def test_options_in_the_text_exist() -> None:
    options = {option for parameter in view_command.params for option in parameter.opts}
    others = {"--method", "--backbone", "--out", "--view", "--save"}  # of run and ask
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) <= options | others
