"""Fill in the pages of the docs site that are generated from the code (an MkDocs hook).

`commands.md` gets what `--help` prints, `prompts.md` the prompt files, and `python.md` the docstrings of public names.
Pages that mkdocs.yml does not list come last, so that a new one is never lost.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "records", "video", "backbone", "benches", "ves")
"""The packages with a public `__all__`."""
PROMPTS = {"TRACE": "agent", "Baselines": "baselines", "Building a bench": "construction"}


def on_config(config: MkDocsConfig) -> None:
    listed = {page for section in config.nav or [] for pages in section.values() for page in pages}
    rest = sorted(page.name for page in Path(config.docs_dir).glob("*.md") if page.name not in listed)
    if rest:
        config.nav = [*(config.nav or []), {"More": rest}]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    generate = {"commands.md": commands, "prompts.md": prompts, "python.md": python}.get(page.file.src_uri)
    return f"{markdown}\n{generate()}" if generate else markdown


def commands() -> str:
    """Every command with its help, as a terminal shows it."""
    return "".join(_helps(import_module("trace_ves.cli.main").group, "trace-ves"))


def _helps(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100, show_default=True)
    yield f"\n## {name}\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            subcommand = command.get_command(context, each)
            if subcommand is not None:
                yield from _helps(subcommand, f"{name} {each}")


def prompts() -> str:
    """Every prompt file."""
    text = ""
    for title, package in PROMPTS.items():
        text += f"\n## {title}\n"
        for file in sorted((ROOT / "src/trace_ves" / package / "prompts").glob("*.md")):
            text += f"\n### {file.stem}\n\n```text\n{file.read_text(encoding='utf-8').rstrip()}\n```\n"
    return text


def python() -> str:
    """The names of `trace_ves` in the groups of its `__all__`, then what the packages below export."""
    source = (ROOT / "src/trace_ves/__init__.py").read_text(encoding="utf-8")
    exports = re.search(r"^__all__ = \[.*?\n(.*?)^\]", source, re.DOTALL | re.MULTILINE)
    if exports is None:
        raise SystemExit("docs: trace_ves/__init__.py has no __all__")
    homes = import_module("trace_ves")._HOMES
    text = ""
    for line in exports[1].splitlines():
        if comment := re.fullmatch(r"\s*# (.+)", line):
            text += f"\n## {comment[1].capitalize()}\n"
        elif (name := line.strip().strip('",')) in homes and name != "R":
            home, attribute = homes[name]
            text += f"\n::: {home}.{attribute}\n    options: {{heading: {name}, toc_label: {name}}}\n"
    return text + "".join(map(_package, PACKAGES))


def _package(package: str) -> str:
    module = import_module(f"trace_ves.{package}")
    shown = {name for home, name in import_module("trace_ves")._HOMES.values() if home == module.__name__}
    names = "".join(f"\n::: trace_ves.{package}.{name}\n" for name in module.__all__ if name not in shown)
    return f"\n## trace_ves.{package}\n\n{module.__doc__}\n{names}"


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a page would fetch anything from elsewhere."""
    external = re.compile(
        r"""<(?:script|img|iframe|source)[^>]*\ssrc="?((?:https?:)?//[^\s">]+)|"""
        r"""<link[^>]*rel="?(?:stylesheet|preconnect|icon)[^>]*href="?((?:https?:)?//[^\s">]+)"""
    )
    for page in Path(config.site_dir).rglob("*.html"):
        if match := external.search(page.read_text(encoding="utf-8")):
            raise SystemExit(f"docs: {page.name} would fetch {match[1] or match[2]}")
