"""Write docs/prompts.md from the prompt files, so that the page cannot say anything else than the code does."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "prompts.md"
FOLDERS = {
    "TRACE": "src/trace_ves/agent/prompts",
    "Baselines": "src/trace_ves/baselines/prompts",
    "Building a bench": "src/trace_ves/construction/prompts",
}
HEAD = """# Prompts

Every prompt, as it is sent after the frames. `$variables` are filled in; what is not text becomes JSON. This page is
written by `python tools/prompts_page.py`, and a test holds it to the files.
"""


def page() -> str:
    """The text of the page."""
    sections = (f"\n## {title}\n{_prompts(ROOT / folder)}" for title, folder in FOLDERS.items())
    return HEAD + "".join(sections)


def _prompts(folder: Path) -> str:
    files = sorted(folder.glob("*.md"))
    return "".join(f"\n### {f.stem}\n\n```text\n{f.read_text(encoding='utf-8').rstrip()}\n```\n" for f in files)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
