"""Pages of the docs site that are made from the code when the site is built (a hook of MkDocs).

`commands.md` is what `--help` prints, `python.md` and `packages.md` are the docstrings of public names, and the page of
decisions lists its folder. Pages that mkdocs.yml does not place come last, so that a new one is never lost.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "records", "video", "backbone", "benches", "ves")
"""The packages that name what is public in them."""


def on_config(config: MkDocsConfig) -> None:
    placed = {page for section in config.nav or [] for pages in section.values() for page in pages}
    docs = Path(config.docs_dir)
    left = sorted(page.name for page in docs.glob("*.md") if page.name not in placed)
    if left:
        config.nav = [*(config.nav or []), {"More": left}]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, content in {"commands.md": commands(), "python.md": public_names(), "packages.md": packages()}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, **_: Any) -> str:
    if page.file.src_uri != "decisions/README.md":
        return markdown
    records = sorted((Path(config.docs_dir) / "decisions").glob("[0-9]*.md"))
    titles = [re.sub(r"^# ", "", record.read_text(encoding="utf-8").partition("\n")[0]) for record in records]
    return f"{markdown}\n" + "\n".join(f"- [{t}]({r.name})" for t, r in zip(titles, records, strict=True)) + "\n"


def commands() -> str:
    """Every command with its help, as a terminal shows it."""
    group = import_module("trace_ves.cli.main").group
    return "# Commands\n\n`trace-ves COMMAND --help` prints the same.\n" + "".join(_helps(group, "trace-ves"))


def _helps(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    yield f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None:
                yield from _helps(found, f"{name} {each}")


def public_names() -> str:
    """`trace_ves` itself, in the groups in which its `__all__` lists the names."""
    source = (ROOT / "src/trace_ves/__init__.py").read_text(encoding="utf-8")
    listed = re.search(r"^__all__ = \[.*?\n(.*?)^\]", source, re.DOTALL | re.MULTILINE)
    if listed is None:
        raise SystemExit("docs: trace_ves/__init__.py has no __all__")
    homes = import_module("trace_ves")._HOMES
    text = "# Python\n\n`from trace_ves import …`; everything is loaded when it is first used.\n"
    for line in listed[1].splitlines():
        if comment := re.fullmatch(r"\s*# (.+)", line):
            text += f"\n## {comment[1].capitalize()}\n"
        elif (name := line.strip().strip('",')) in homes and name != "R":
            home, attribute = homes[name]
            text += f"\n::: {home}.{attribute}\n    options: {{heading: {name}, toc_label: {name}}}\n"
    return text


def packages() -> str:
    """The packages below, each with the names that it exports."""
    text = "# Packages\n\nWhat packages export beside [`trace_ves`](python.md) itself, for those who extend them.\n"
    for package in PACKAGES:
        module = import_module(f"trace_ves.{package}")
        first, _, rest = (module.__doc__ or "").partition("\n")
        text += f"\n## trace_ves.{package}\n\n{first}\n{rest}\n"
        shown = {name for home, name in import_module("trace_ves")._HOMES.values() if home == module.__name__}
        text += "".join(f"\n::: trace_ves.{package}.{name}\n" for name in module.__all__ if name not in shown)
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Nothing that a page needs may come from elsewhere."""
    wanted = re.compile(
        r"""<(?:script|img|iframe|source)[^>]*\ssrc="?((?:https?:)?//[^\s">]+)|"""
        r"""<link[^>]*rel="?(?:stylesheet|preconnect|icon)[^>]*href="?((?:https?:)?//[^\s">]+)"""
    )
    for page in Path(config.site_dir).rglob("*.html"):
        if found := wanted.search(page.read_text(encoding="utf-8")):
            raise SystemExit(f"docs: {page.name} would fetch {found[1] or found[2]}")
